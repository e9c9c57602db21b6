//! Stops one thread of another process, reads and writes its registers, and lets it go on.
//!
//! A thread is seized: it gets no signal by that, and its process does not see it. [`Tracee`] belongs to the thread of this process that
//! seized, as the kernel wants it. Dropping it lets the thread go on without us, as the kernel does itself when this process dies; a signal that it
//! was about to get it gets. A thread that does not stop within 0.1 s, since it waits in the kernel, is let go when the thread of this process ends.
//! The end of a child of this process is told and left to whom waits for it ([`crate::child`]); of other processes it is passed on to
//! their parents.
//! Nothing here waits: [`Tracee::stop`] tells what has happened. The callers decide what a stop means, how long they wait, and what they
//! write.
//!
//! Only for x86-64: registers of other machines have other names.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

/// The general registers of a thread, as the kernel gives them.
pub type Registers = libc::user_regs_struct;

/// The register set of the vector state with all extensions.
const NT_X86_XSTATE: usize = 0x202;
/// More than any processor has: with matrix registers it is 11 KiB.
const MAX_VECTOR_STATE: usize = 64 << 10;
const SIGTRAP: i32 = libc::SIGTRAP;
const EVENT_STOP: i32 = libc::PTRACE_EVENT_STOP;

/// What a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It stands where [`Tracee::interrupt`] has stopped it.
    Interrupted,
    /// It stands because its whole process was stopped by a signal.
    Group,
    /// It stands at the begin or at the end of a system call.
    SystemCall,
    /// It stands where it is about to get this signal.
    Signal(i32),
    /// It stands after it has executed another program.
    Exec,
    /// It has ended.
    Ended,
}

/// How a thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Until something else stops it.
    Anything,
    /// Until the next begin or end of a system call.
    SystemCall,
}

/// A seized thread. It must be used by the thread that has seized it.
#[derive(Debug)]
pub struct Tracee {
    /// The thread; after it has executed another program, the process.
    tid: libc::pid_t,
    pid: libc::pid_t,
    ended: bool,
    /// The stop in which it stands, once that was told.
    standing: Cell<Option<Stop>>,
    _of_this_thread: PhantomData<*const ()>,
}

impl Tracee {
    /// Seizes a thread of a process, which goes on meanwhile.
    ///
    /// # Errors
    /// The errno of `ptrace(2)`: `EPERM` without the right or if another process traces it, `ESRCH` if it has ended.
    pub fn seize(pid: u32, tid: u32) -> io::Result<Self> {
        let number = |id| libc::pid_t::try_from(id).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH));
        let (pid, tid) = (number(pid)?, number(tid)?);
        let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACEEXEC;
        request(libc::PTRACE_SEIZE, tid, 0, options as usize)?;
        Ok(Self { tid, pid, ended: false, standing: Cell::new(None), _of_this_thread: PhantomData })
    }

    /// Asks it to stop. A system call that waits is interrupted; it goes on with the thread as if nothing had happened, unless registers
    /// are written or the call is one of the few that end with `EINTR`.
    ///
    /// # Errors
    /// `ESRCH`: it has ended.
    pub fn interrupt(&self) -> io::Result<()> {
        request(libc::PTRACE_INTERRUPT, self.tid, 0, 0)
    }

    /// How it stands, if it has stopped since it was last let go on. Does not wait.
    ///
    /// # Errors
    /// The errno of `waitid(2)`.
    pub fn stop(&mut self) -> io::Result<Option<Stop>> {
        let stop = self.look_for_stop()?;
        if stop.is_some() {
            self.standing.set(stop);
        }
        Ok(stop)
    }

    fn look_for_stop(&mut self) -> io::Result<Option<Stop>> {
        loop {
            match look(self.tid, libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT)? {
                Look::Nothing => return Ok(None),
                Look::Stopped(status) => match stop_of(status) {
                    // A thread whose stop was taken would lose its signal if we die now.
                    stop @ Stop::Signal(_) => return Ok(Some(stop)),
                    stop => {
                        // The kernel wants it for the execution of a program. Without `WEXITED`: it may have been killed since.
                        if let Look::Stopped(_) = look(self.tid, libc::WSTOPPED)? {
                            return Ok(Some(stop));
                        }
                    }
                },
                Look::Ended => {
                    if !self.is_own_child() {
                        look(self.tid, libc::WEXITED)?;
                    }
                    self.ended = true;
                    return Ok(Some(Stop::Ended));
                }
                // A thread that executes a program gets the number of its process.
                Look::Gone if self.tid != self.pid && is_traced_by_this_thread(self.pid) => {
                    self.tid = self.pid;
                }
                Look::Gone => {
                    self.ended = true;
                    return Ok(Some(Stop::Ended));
                }
            }
        }
    }

    /// Whether its end is the end of a child of this process, which somebody in this process waits for.
    fn is_own_child(&self) -> bool {
        self.tid == self.pid && number_in_status(self.pid, "PPid:") == Some(std::process::id())
    }

    /// Whether the signal it is about to get was sent by a process, rather than made by one of its own instructions.
    ///
    /// # Errors
    /// It does not stand before a signal.
    pub fn signal_was_sent(&self) -> io::Result<bool> {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        request(libc::PTRACE_GETSIGINFO, self.tid, 0, info.as_mut_ptr().addr())?;
        // SAFETY: all zeros is a valid value, and the kernel has written one.
        Ok(unsafe { info.assume_init() }.si_code <= 0)
    }

    /// Lets it go on. `signal`: one that it gets, 0 for none; only where it stands before a signal.
    ///
    /// # Errors
    /// `ESRCH`: it does not stand, or has ended.
    pub fn resume(&self, until: Until, signal: i32) -> io::Result<()> {
        let how = match until {
            Until::Anything => libc::PTRACE_CONT,
            Until::SystemCall => libc::PTRACE_SYSCALL,
        };
        request(how, self.tid, 0, signal.unsigned_abs() as usize)?;
        self.standing.set(None);
        Ok(())
    }

    /// Its general registers.
    ///
    /// # Errors
    /// `ESRCH`: it does not stand, or has ended.
    pub fn registers(&self) -> io::Result<Registers> {
        let mut registers = MaybeUninit::<Registers>::zeroed();
        request(libc::PTRACE_GETREGS, self.tid, 0, registers.as_mut_ptr().addr())?;
        // SAFETY: the type consists of numbers, all of which are written.
        Ok(unsafe { registers.assume_init() })
    }

    /// Writes its general registers.
    ///
    /// # Errors
    /// `ESRCH`: it does not stand, or has ended. `EIO`: a value that the kernel refuses.
    pub fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        request(libc::PTRACE_SETREGS, self.tid, 0, ptr::from_ref(registers).addr())
    }

    /// Floating-point and vector registers, with the processor's extensions, in the layout of `XSAVE`.
    ///
    /// # Errors
    /// `ESRCH`: it does not stand, or has ended. `ENODEV`: this processor has no such layout.
    pub fn vector_state(&self) -> io::Result<Vec<u8>> {
        let mut state = vec![0_u8; MAX_VECTOR_STATE];
        let mut place = libc::iovec { iov_base: state.as_mut_ptr().cast(), iov_len: state.len() };
        request(libc::PTRACE_GETREGSET, self.tid, NT_X86_XSTATE, (&raw mut place).addr())?;
        state.truncate(place.iov_len);
        Ok(state)
    }

    /// Writes what [`Self::vector_state`] gave.
    ///
    /// # Errors
    /// `ESRCH`: it does not stand, or has ended. `EINVAL`, `EFAULT`: bytes that no processor has written.
    pub fn set_vector_state(&self, state: &[u8]) -> io::Result<()> {
        let mut state = state.to_vec();
        let mut place = libc::iovec { iov_base: state.as_mut_ptr().cast(), iov_len: state.len() };
        request(libc::PTRACE_SETREGSET, self.tid, NT_X86_XSTATE, (&raw mut place).addr())
    }

    /// The signals that it blocks: signal 1 is bit 0.
    ///
    /// # Errors
    /// `ESRCH`: it does not stand, or has ended.
    pub fn signal_mask(&self) -> io::Result<u64> {
        let mut mask = 0_u64;
        request(libc::PTRACE_GETSIGMASK, self.tid, size_of::<u64>(), (&raw mut mask).addr())?;
        Ok(mask)
    }

    /// Writes the signals that it blocks.
    ///
    /// # Errors
    /// `ESRCH`: it does not stand, or has ended.
    pub fn set_signal_mask(&self, mask: u64) -> io::Result<()> {
        request(libc::PTRACE_SETSIGMASK, self.tid, size_of::<u64>(), (&raw const mask).addr())
    }

    /// Lets it go on without us. It must stand. `signal`: as for [`Self::resume`].
    ///
    /// # Errors
    /// `ESRCH`: it does not stand, or has ended.
    pub fn detach(mut self, signal: i32) -> io::Result<()> {
        let detached = request(libc::PTRACE_DETACH, self.tid, 0, signal.unsigned_abs() as usize);
        self.ended |= detached.is_ok();
        detached
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // A thread that runs must stop once more before it can be let go.
        for _ in 0..1000 {
            match self.standing.get() {
                Some(Stop::Ended) => return,
                Some(stop) => {
                    // What it was about to get it gets.
                    let signal = if let Stop::Signal(signal) = stop { signal.unsigned_abs() } else { 0 };
                    if request(libc::PTRACE_DETACH, self.tid, 0, signal as usize).is_ok() {
                        return;
                    }
                }
                None if self.interrupt().is_err() => return,
                None => {}
            }
            std::thread::sleep(std::time::Duration::from_micros(100));
            if self.stop().is_err() {
                return;
            }
        }
    }
}

/// What is known of a tracee of this thread.
enum Look {
    Nothing,
    /// Signal and event, as the kernel has them.
    Stopped(i32),
    Ended,
    /// There is no such tracee.
    Gone,
}

/// Does not wait.
fn look(tid: libc::pid_t, what: i32) -> io::Result<Look> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = what | libc::__WALL | libc::__WNOTHREAD | libc::WNOHANG;
    // SAFETY: writes one value of that type.
    let result = unsafe { libc::waitid(libc::P_PID, tid.unsigned_abs(), info.as_mut_ptr(), options) };
    if result < 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ECHILD) { Ok(Look::Gone) } else { Err(error) };
    }
    // SAFETY: all zeros is a valid value; the kernel has written the fields of a child, or left zeros.
    let (pid, code, status) = unsafe {
        let info = info.assume_init();
        (info.si_pid(), info.si_code, info.si_status())
    };
    Ok(match code {
        _ if pid == 0 => Look::Nothing,
        libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED => Look::Ended,
        _ => Look::Stopped(status),
    })
}

fn stop_of(status: i32) -> Stop {
    let signal = status & 0xff;
    match status >> 8 {
        EVENT_STOP if signal == SIGTRAP => Stop::Interrupted,
        EVENT_STOP => Stop::Group,
        libc::PTRACE_EVENT_EXEC => Stop::Exec,
        _ if signal == SIGTRAP | 0x80 => Stop::SystemCall,
        _ => Stop::Signal(signal),
    }
}

fn is_traced_by_this_thread(pid: libc::pid_t) -> bool {
    // SAFETY: takes and changes nothing.
    let own = unsafe { libc::gettid() };
    number_in_status(pid, "TracerPid:") == Some(own.unsigned_abs())
}

fn number_in_status(pid: libc::pid_t, field: &str) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(field))?.trim().parse().ok()
}

/// Bytes of a vector state that a signal frame may have: without matrix registers, which a program must ask for, unless they are in use.
#[must_use]
pub fn vector_state_in_frame(state: &[u8]) -> usize {
    const HEADER: usize = 512;
    const LEAST: usize = 576;
    const MATRICES: u32 = 18;
    let word = |at: usize| {
        state.get(at..at + 8).and_then(|bytes| bytes.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b))
    };
    let (enabled, used) = (word(464), word(HEADER));
    if used >> MATRICES & 1 != 0 {
        return state.len();
    }
    let of_feature = |feature: u32| {
        // One leaf of the processor's description.
        #[allow(unused_unsafe, reason = "the function is safe in some versions of the compiler")]
        // SAFETY: all processors with `XSAVE` have it, and there is no vector state without.
        let leaf = unsafe { std::arch::x86_64::__cpuid_count(0xd, feature) };
        leaf.ebx as usize + leaf.eax as usize
    };
    let features = (2..63).filter(|feature| *feature != MATRICES && enabled >> feature & 1 != 0);
    features.map(of_feature).fold(LEAST, usize::max).min(state.len())
}

/// Sends a signal to one thread.
///
/// # Errors
/// `ESRCH`: it has ended.
pub fn send_signal(pid: u32, tid: u32, signal: i32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, signal) };
    if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `address` and `data` must be what the request wants: a number, or the address of a place that the kernel may use.
fn request(request: libc::c_uint, tid: libc::pid_t, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: the callers in this file give places that are as large as the request says, or numbers. What is written changes another
    // thread's state, never that of this program: a thread cannot trace its own process.
    let result = unsafe {
        libc::ptrace(
            request,
            tid,
            ptr::without_provenance_mut::<libc::c_void>(address),
            ptr::with_exposed_provenance_mut::<libc::c_void>(data),
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};

    fn stopped(tracee: &mut Tracee) -> Stop {
        let mut stop = None;
        testkit::until("it stands", || {
            stop = tracee.stop().unwrap();
            stop.is_some()
        });
        stop.unwrap()
    }

    fn state(pid: u32) -> String {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().unwrap_or_default().chars().take(1).collect()
    }

    #[test]
    fn a_sleeping_program_is_stopped_read_and_sleeps_on() {
        let mut target =
            testkit::Process::start(Command::new("sleep").arg("1000").stdin(Stdio::null())).unwrap();
        let pid = target.pid();
        // After an interruption the call is `restart_syscall`.
        let in_call = |numbers: [&str; 2]| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap();
            numbers.contains(&text.split(' ').next().unwrap_or_default())
        };
        testkit::until("it sleeps", || in_call(["230", "35"]));
        let mut tracee = Tracee::seize(pid, pid).unwrap();
        assert!(Tracee::seize(pid, pid).is_err(), "it has one tracer");
        assert_eq!(tracee.stop().unwrap(), None);
        tracee.interrupt().unwrap();
        assert_eq!(stopped(&mut tracee), Stop::Interrupted);
        let registers = tracee.registers().unwrap();
        assert!([230, 35].contains(&registers.orig_rax), "a sleep");
        tracee.set_registers(&registers).unwrap();
        let vector = tracee.vector_state().unwrap();
        assert!(vector.len() >= 576 && vector.len() < MAX_VECTOR_STATE);
        tracee.set_vector_state(&vector).unwrap();
        assert_eq!(tracee.vector_state().unwrap(), vector);
        let mask = tracee.signal_mask().unwrap();
        tracee.set_signal_mask(mask | 1 << 9).unwrap();
        assert_eq!(tracee.signal_mask().unwrap(), mask | 1 << 9);
        tracee.set_signal_mask(mask).unwrap();
        tracee.detach(0).unwrap();
        testkit::until("it sleeps again", || in_call(["230", "219"]));
        assert!(target.try_wait().unwrap().is_none());
    }

    #[test]
    fn what_is_dropped_goes_on_and_gets_its_signal() {
        let mut target = testkit::Process::start(Command::new("sleep").arg("1000")).unwrap();
        let pid = target.pid();
        let tracee = Tracee::seize(pid, pid).unwrap();
        drop(tracee);
        testkit::until("it goes on", || state(pid) == "S");
        let mut tracee = Tracee::seize(pid, pid).unwrap();
        send_signal(pid, pid, libc::SIGTERM).unwrap();
        assert_eq!(stopped(&mut tracee), Stop::Signal(libc::SIGTERM));
        assert!(tracee.signal_was_sent().unwrap());
        tracee.resume(Until::Anything, libc::SIGTERM).unwrap();
        assert_eq!(stopped(&mut tracee), Stop::Ended);
        drop(tracee);
        testkit::until("it has ended", || target.try_wait().map_or(true, |status| status.is_some()));
    }

    /// A program that stands where it is about to get SIGTERM.
    fn about_to_get_sigterm() -> (testkit::Process, Tracee) {
        let target = testkit::Process::start(Command::new("sleep").arg("1000")).unwrap();
        let tracee = Tracee::seize(target.pid(), target.pid()).unwrap();
        send_signal(target.pid(), target.pid(), libc::SIGTERM).unwrap();
        testkit::until("it stands", || state(target.pid()) == "t");
        (target, tracee)
    }

    fn is_ended_by_sigterm(mut target: testkit::Process) {
        let mut ended = None;
        testkit::until("it gets its signal", || {
            ended = target.try_wait().unwrap();
            ended.is_some()
        });
        assert_eq!(ended.and_then(|status| status.signal()), Some(libc::SIGTERM));
    }

    #[test]
    fn a_signal_that_nobody_has_seen_is_not_lost() {
        let (target, tracee) = about_to_get_sigterm();
        drop(tracee);
        is_ended_by_sigterm(target);
    }

    #[test]
    fn a_signal_is_not_lost_if_its_tracer_ends() {
        // The kernel detaches from the targets of a thread that ends as it does from those of a process that is killed.
        let tracer = std::thread::spawn(|| {
            let (target, mut tracee) = about_to_get_sigterm();
            let mut stop = stopped(&mut tracee);
            // Its exec may have been about to end when it was seized.
            if stop == Stop::Exec {
                tracee.resume(Until::Anything, 0).unwrap();
                stop = stopped(&mut tracee);
            }
            assert_eq!(stop, Stop::Signal(libc::SIGTERM));
            std::mem::forget(tracee);
            target
        });
        is_ended_by_sigterm(tracer.join().unwrap());
    }

    /// A child that waits for a line.
    fn reader() -> std::process::Child {
        let mut command = Command::new("sh");
        let child = command.args(["-c", "read line; exit 3"]).stdin(Stdio::piped()).spawn().unwrap();
        let call = format!("/proc/{}/syscall", child.id());
        testkit::until("it waits for a line", || std::fs::read_to_string(&call).unwrap().starts_with("0 "));
        child
    }

    #[test]
    fn whoever_waits_for_a_child_gets_its_end_and_whoever_traces_it_its_stops() {
        let mut child = reader();
        let pid = child.id();
        let mut tracee = Tracee::seize(pid, pid).unwrap();
        tracee.interrupt().unwrap();
        testkit::until("it stands", || state(pid) == "t");
        assert!(crate::child::try_wait(&mut child).unwrap().is_none());
        assert_eq!(stopped(&mut tracee), Stop::Interrupted);
        tracee.resume(Until::Anything, 0).unwrap();
        drop(child.stdin.take());
        assert_eq!(stopped(&mut tracee), Stop::Ended);
        drop(tracee);
        assert_eq!(crate::child::try_wait(&mut child).unwrap().and_then(|status| status.code()), Some(3));
    }

    #[test]
    fn a_wait_for_the_end_lasts_through_stops() {
        let mut child = reader();
        let (pid, stdin) = (child.id(), child.stdin.take());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| crate::child::wait(&mut child).unwrap().code());
            scope.spawn(move || {
                let mut tracee = Tracee::seize(pid, pid).unwrap();
                for _ in 0..20 {
                    tracee.interrupt().unwrap();
                    assert_eq!(stopped(&mut tracee), Stop::Interrupted);
                    tracee.resume(Until::Anything, 0).unwrap();
                }
                drop(tracee);
                drop(stdin);
            });
            assert_eq!(waiter.join().unwrap(), Some(3));
        });
    }

    #[test]
    fn a_thread_that_executes_a_program_is_let_go() {
        let python = testkit::need!("python3");
        let script = "import os, sys, threading\n\
            def run():\n    sys.stdin.read()\n    os.execvp('sleep', ['sleep', '1000'])\n\
            threading.Thread(target=run).start()\n\
            print('ready', flush=True)\n\
            threading.Event().wait()\n";
        let mut command = Command::new(python);
        let mut child = testkit::Process::start(
            command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()),
        )
        .unwrap();
        let pid = child.pid();
        let threads = || {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
            tasks.filter_map(|task| task.unwrap().file_name().into_string().unwrap().parse::<u32>().ok())
        };
        testkit::until("it has its thread", || threads().count() == 2);
        let tid = threads().find(|tid| *tid != pid).unwrap();
        let mut tracee = Tracee::seize(pid, tid).unwrap();
        drop(child.stdin.take());
        assert_eq!(stopped(&mut tracee), Stop::Exec);
        drop(tracee);
        testkit::until("it goes on", || {
            state(pid) == "S" && std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap() == "sleep\n"
        });
        assert!(child.try_wait().unwrap().is_none());
    }
}

//! Calls of functions in a stopped thread, and putting back everything afterwards.

use std::fs;
use std::time::{Duration, Instant};

use sys::ptrace::{self, Registers, Stop, Until};

use crate::block::{self, Block, Parts, WayBack};
use crate::code::{Code, WayBackCode};
use crate::error::CallError;
use crate::gadgets::Store;
use crate::stopped::{Stopped, wait};

/// Stack that must remain for functions.
const STACK_OF_FUNCTIONS: u64 = 64 << 10;
const RT_SIGRETURN: u64 = 15;
/// How long it may take from one stop to the next where nothing waits.
const AT_ONCE: Duration = Duration::from_secs(1);
/// SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS: if they are blocked, the kernel takes the program's handlers away.
const FAULTS: [i32; 6] = [4, 5, 7, 8, 11, 31];
const SIGSTOP: i32 = 19;

/// Signals that came while functions ran and could not wait in the kernel. Dropping them sends them again.
#[derive(Debug)]
struct KeptSignals {
    pid: u32,
    tid: u32,
    signals: Vec<i32>,
}

impl Drop for KeptSignals {
    fn drop(&mut self) {
        for signal in &self.signals {
            let _ = ptrace::send_signal(self.pid, self.tid, *signal);
        }
    }
}

/// A stopped thread in which functions can be called. [`Calls::finish`] puts everything back; without it, and after a call that was late, the
/// thread finds its way back alone.
#[derive(Debug)]
pub struct Calls {
    stopped: Stopped,
    before: Registers,
    vector: Vec<u8>,
    mask: u64,
    blocked: u64,
    block: Block,
    store: Store,
    /// Address of the code that makes that system call.
    sigreturn: u64,
    /// The bytes that were where the block is.
    covered: Vec<u8>,
    /// Where `errno` of the thread is, and its value.
    errno: Option<(u64, [u8; 4])>,
    way: WayBack,
    was_called: bool,
    /// Whether the kernel may be told to make no system call. A filter of system calls would see one with the number -1.
    skips: bool,
    /// After `stopped`: they are sent again when the thread has been let go.
    kept: KeptSignals,
    /// A system call of a function was interrupted, and the kernel remembers that one instead of the thread's.
    restarts_another: bool,
    /// It runs a function that was late.
    is_away: bool,
}

impl Calls {
    /// Prepares calls. `data` is copied into the target; [`Self::data`] is where. Whether the thread stands at a place that is good for it, the
    /// caller has seen.
    ///
    /// # Errors
    /// The target lacks something that is needed. It goes on as it was.
    pub fn new(stopped: Stopped, code: &Code, data: &[u8]) -> Result<Self, CallError> {
        let before = *stopped.registers();
        let vector = stopped.tracee.vector_state().map_err(CallError::io("read vector registers"))?;
        let mask = stopped.tracee.signal_mask().map_err(CallError::io("read the signal mask"))?;
        let WayBackCode { store_at, store, sigreturn, errno_location } = code.way_back()?;
        let parts = Parts {
            registers: &before,
            vector: &vector,
            vector_in_frame: ptrace::vector_state_in_frame(&vector),
            mask,
            store: (store_at, store),
            sigreturn,
            data,
        };
        let block = Block::new(&parts)?;
        let status = fs::read_to_string(format!("/proc/{}/status", stopped.tid)).unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        if field("x86_Thread_features:").contains("shstk") {
            return Err(CallError::Unfit("its processor checks return addresses by a shadow stack"));
        }
        check_stack(stopped.pid, &before, &block)?;
        let mut covered = vec![0; block.bytes.len()];
        let read = sys::memory::read(stopped.pid, block.start, &mut covered);
        if read.map_err(CallError::io("read the stack"))? != covered.len() {
            return Err(CallError::Unfit("its stack is too small"));
        }
        sys::memory::write(stopped.pid, block.start, &block.bytes)
            .map_err(CallError::io("write the stack"))?;
        let blocked = FAULTS.iter().fold(u64::MAX, |blocked, signal| blocked & !(1 << (signal - 1))) | mask;
        let skips = field("Seccomp:").trim() == "0";
        let way = block.lower;
        let kept = KeptSignals { pid: stopped.pid, tid: stopped.tid, signals: Vec::new() };
        let mut calls = Self {
            stopped,
            before,
            vector,
            mask,
            blocked,
            block,
            store,
            sigreturn,
            covered,
            errno: None,
            way,
            was_called: false,
            skips,
            kept,
            restarts_another: false,
            is_away: false,
        };
        let place = calls.call(errno_location, &[], AT_ONCE)?;
        let mut value = [0; 4];
        let read = sys::memory::read(calls.stopped.pid, place, &mut value);
        read.map_err(CallError::io("read errno"))?;
        calls.errno = Some((place, value));
        Ok(calls)
    }

    /// Where the data are in the target.
    #[must_use]
    pub fn data(&self) -> u64 {
        self.block.data
    }

    /// From here on the thread calls this function before it goes on by itself, if it has to.
    ///
    /// # Errors
    /// The target has ended.
    pub fn set_way_out(&mut self, function: u64, argument: u64) -> Result<(), CallError> {
        let Block { upper, lower, result, .. } = self.block;
        if self.was_called && self.skips {
            // It must not stand before the frame that is written now.
            self.stand_before(upper)?;
        }
        let called = block::entering(&self.before, function, &[argument], upper.entry, &self.store, result);
        let frame = self.block.frame(&called, self.blocked);
        sys::memory::write(self.stopped.pid, lower.frame, &frame).map_err(CallError::io("write the stack"))
    }

    /// There is nothing more to give back: the next call leads back directly. A way out cannot be set again.
    pub fn clear_way_out(&mut self) {
        // Functions that begin there overwrite the lower way.
        self.way = self.block.upper;
    }

    /// Calls a function with up to six arguments and gives what it returns.
    ///
    /// # Errors
    /// The function did not return in time; it runs on, and then the thread goes its way, so no other call can be made. Or it ran into a
    /// fault, which ends it; others can be called.
    pub fn call(&mut self, function: u64, arguments: &[u64], patience: Duration) -> Result<u64, CallError> {
        if self.is_away {
            return Err(CallError::Late("an earlier function did not return"));
        }
        let deadline = Instant::now() + patience;
        let way = self.way;
        self.was_called = true;
        let registers =
            block::entering(&self.before, function, arguments, way.entry, &self.store, self.block.result);
        let tracee = &self.stopped.tracee;
        // If we die between the two, the way back restores the mask.
        tracee.set_registers(&registers).map_err(CallError::io("write registers"))?;
        tracee.set_signal_mask(self.blocked).map_err(CallError::io("write the signal mask"))?;
        let returned = self.until_returned(way, deadline);
        if matches!(returned, Err(CallError::Late(_) | CallError::Io { .. })) {
            self.is_away = true;
        }
        returned?;
        let mut result = [0; 8];
        let read = sys::memory::read(self.stopped.pid, self.block.result, &mut result);
        read.map_err(CallError::io("read a result"))?;
        Ok(u64::from_le_bytes(result))
    }

    fn until_returned(&mut self, way: WayBack, deadline: Instant) -> Result<(), CallError> {
        let resume = |calls: &Self, signal| {
            let resumed = calls.stopped.tracee.resume(Until::SystemCall, signal);
            resumed.map_err(CallError::io("let a thread go on"))
        };
        resume(self, 0)?;
        loop {
            match wait(&mut self.stopped.tracee, deadline, "a function did not return")? {
                Stop::SystemCall => {
                    let tracee = &self.stopped.tracee;
                    let now = tracee.registers().map_err(CallError::io("read registers"))?;
                    if now.orig_rax == RT_SIGRETURN && now.rsp == way.frame {
                        if self.skips {
                            self.stand_before(way)?;
                        }
                        return self.stopped.stop_at_end_of_call(Instant::now() + AT_ONCE);
                    }
                    self.restarts_another |= block::is_restarted(&now);
                    resume(self, 0)?;
                }
                Stop::Signal(SIGSTOP) => resume(self, SIGSTOP)?,
                Stop::Signal(signal) => {
                    let was_sent = self.stopped.tracee.signal_was_sent().unwrap_or(true);
                    if !was_sent {
                        self.stand_before(way)?;
                        self.stopped.stop_at_end_of_call(Instant::now() + AT_ONCE)?;
                        return Err(CallError::Fault(signal));
                    }
                    self.kept.signals.push(signal);
                    resume(self, 0)?;
                }
                Stop::Interrupted | Stop::Group => resume(self, 0)?,
                Stop::Exec | Stop::Ended => return Err(CallError::Ended),
            }
        }
    }

    /// Puts the thread before the system call that leads back. It does not make it as long as it stands.
    fn stand_before(&self, way: WayBack) -> Result<(), CallError> {
        let mut registers = self.before;
        (registers.rip, registers.rsp, registers.orig_rax) = (self.sigreturn, way.frame, u64::MAX);
        self.stopped.tracee.set_registers(&registers).map_err(CallError::io("write registers"))
    }

    /// Memory of the target, as far as it is readable.
    #[must_use]
    pub fn read(&self, address: u64, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        let read = sys::memory::read(self.stopped.pid, address, &mut bytes).unwrap_or(0);
        bytes.truncate(read);
        bytes
    }

    /// Puts everything back and lets the thread go on.
    ///
    /// # Errors
    /// The target has ended. Or a function was late: the thread goes its way alone.
    pub fn finish(self) -> Result<(), CallError> {
        self.put_back()?.release()
    }

    /// Puts everything back. The thread stands as it stood before.
    ///
    /// # Errors
    /// As for [`Self::finish`].
    pub fn put_back(self) -> Result<Stopped, CallError> {
        let Self { stopped, mut before, vector, mask, block, covered, errno, kept, is_away, .. } = self;
        if self.restarts_another && block::is_restarted(&before) {
            before = block::resumed(&before);
            before.orig_rax = u64::MAX;
        }
        if is_away {
            return Err(CallError::Late("a function did not return"));
        }
        let (pid, tracee) = (stopped.pid, &stopped.tracee);
        if let Some((place, value)) = errno {
            sys::memory::write(pid, place, &value).map_err(CallError::io("write errno"))?;
        }
        tracee.set_vector_state(&vector).map_err(CallError::io("write vector registers"))?;
        tracee.set_signal_mask(mask).map_err(CallError::io("write the signal mask"))?;
        tracee.set_registers(&before).map_err(CallError::io("write registers"))?;
        // The thread leads no longer through the block.
        sys::memory::write(pid, block.start, &covered).map_err(CallError::io("write the stack"))?;
        drop(kept);
        Ok(stopped.with_registers(before))
    }
}

/// Whether the block fits on the stack, and functions besides.
fn check_stack(pid: u32, registers: &Registers, block: &Block) -> Result<(), CallError> {
    let room = crate::code::stack_room(pid, registers.rsp)?;
    let below_block = registers.rsp - block.start;
    if room.mapped < below_block || room.growing < below_block + STACK_OF_FUNCTIONS {
        return Err(CallError::Unfit("its stack is too small"));
    }
    Ok(())
}

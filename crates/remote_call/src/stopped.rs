//! One thread of another process that stands still, and letting it run on until something happens.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use sys::ptrace::{Registers, Stop, Tracee, Until};

use crate::error::CallError;

/// Most stops come within microseconds, and a thread that gets many signals stops often: at first there is no pause between two looks.
const NO_PAUSE: Duration = Duration::from_micros(100);
/// Pauses between two looks after that.
const FIRST_PAUSE: Duration = Duration::from_micros(10);
const LAST_PAUSE: Duration = Duration::from_millis(1);
const EPERM: i32 = 1;

/// A thread that stands where an interrupt has stopped it. Dropping it lets it go on.
#[derive(Debug)]
pub struct Stopped {
    pub(crate) tracee: Tracee,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    registers: Registers,
}

impl Stopped {
    /// Stops a thread. Signals that come before are delivered.
    ///
    /// # Errors
    /// It has ended, may not be traced, is stopped by a signal, or does not stop in time: it waits in the kernel.
    pub fn new(pid: u32, tid: u32, deadline: Instant) -> Result<Self, CallError> {
        let mut tracee = Tracee::seize(pid, tid).map_err(|error| denied(tid, error))?;
        tracee.interrupt().map_err(CallError::io("stop a thread"))?;
        if until_stopped(&mut tracee, deadline)? == Stop::Group {
            return Err(CallError::Unfit("it is stopped by a signal"));
        }
        let registers = tracee.registers().map_err(CallError::io("read registers"))?;
        Ok(Self { tracee, pid, tid, registers })
    }

    /// Its registers.
    #[must_use]
    pub fn registers(&self) -> &Registers {
        &self.registers
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The system call in which it was interrupted, and its second argument.
    #[must_use]
    pub fn system_call(&self) -> Option<(u64, u64)> {
        let number = self.registers.orig_rax;
        (number.cast_signed() >= 0).then_some((number, self.registers.rsi))
    }

    /// Lets it run until it makes a system call with this number and first argument, and stops it again at the end of that call.
    ///
    /// # Errors
    /// It has ended, or does not make that call in time.
    pub fn run_until_call(&mut self, number: u64, argument: u64, deadline: Instant) -> Result<(), CallError> {
        let resume = |tracee: &Tracee, signal| {
            tracee.resume(Until::SystemCall, signal).map_err(CallError::io("let a thread go on"))
        };
        resume(&self.tracee, 0)?;
        loop {
            let stop = wait(&mut self.tracee, deadline, "a thread did not come to a safe point")?;
            match stop {
                Stop::SystemCall => {
                    let registers = self.tracee.registers().map_err(CallError::io("read registers"))?;
                    if registers.orig_rax == number && registers.rdi == argument {
                        break;
                    }
                    resume(&self.tracee, 0)?;
                }
                Stop::Signal(signal) => resume(&self.tracee, signal)?,
                Stop::Interrupted => resume(&self.tracee, 0)?,
                Stop::Group => return Err(CallError::Unfit("it is stopped by a signal")),
                Stop::Exec | Stop::Ended => return Err(CallError::Ended),
            }
        }
        self.stop_at_end_of_call(deadline)
    }

    /// From a stop at a system call to one at its end, where registers can be written as after an interrupt.
    pub(crate) fn stop_at_end_of_call(&mut self, deadline: Instant) -> Result<(), CallError> {
        self.tracee.interrupt().map_err(CallError::io("stop a thread"))?;
        self.tracee.resume(Until::Anything, 0).map_err(CallError::io("let a thread go on"))?;
        // If a signal stops the process meanwhile, the thread stands all the same.
        until_stopped(&mut self.tracee, deadline)?;
        self.registers = self.tracee.registers().map_err(CallError::io("read registers"))?;
        Ok(())
    }

    /// It stands with these registers, which have been written.
    pub(crate) fn with_registers(self, registers: Registers) -> Self {
        Self { registers, ..self }
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// It has ended.
    pub fn release(self) -> Result<(), CallError> {
        self.tracee.detach(0).map_err(CallError::io("let a thread go on"))
    }
}

/// Waits until it stands because of an interrupt, or because its whole process was stopped.
///
/// Any other stop that comes first may have used the interrupt up: for the signal of a timer, the kernel looks for interrupts, lets others run, and
/// then stops the thread before the signal, which counts as the stop that was asked for. So the interrupt is made again, while the thread stands.
fn until_stopped(tracee: &mut Tracee, deadline: Instant) -> Result<Stop, CallError> {
    let resume = |tracee: &Tracee, signal| {
        tracee.interrupt().map_err(CallError::io("stop a thread"))?;
        tracee.resume(Until::Anything, signal).map_err(CallError::io("let a thread go on"))
    };
    loop {
        match wait(tracee, deadline, "a thread did not stop")? {
            stop @ (Stop::Interrupted | Stop::Group) => return Ok(stop),
            // It gets what it would have got, and stops behind it.
            Stop::Signal(signal) => resume(tracee, signal)?,
            Stop::SystemCall => resume(tracee, 0)?,
            Stop::Exec | Stop::Ended => return Err(CallError::Ended),
        }
    }
}

/// The next stop.
pub(crate) fn wait(tracee: &mut Tracee, deadline: Instant, what: &'static str) -> Result<Stop, CallError> {
    let begun = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(stop) = tracee.stop().map_err(CallError::io("wait for a thread"))? {
            return Ok(stop);
        }
        let now = Instant::now();
        if now >= deadline {
            return Err(CallError::Late(what));
        }
        if now.duration_since(begun) < NO_PAUSE {
            std::thread::yield_now();
            continue;
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(LAST_PAUSE);
    }
}

/// With the cause, as far as it can be told.
fn denied(tid: u32, error: io::Error) -> CallError {
    if error.raw_os_error() != Some(EPERM) {
        return CallError::io("stop a thread")(error);
    }
    let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    // Of a process that is ending there is nothing left to trace.
    if status.is_empty() || status.contains("\nState:\tZ") || status.contains("\nState:\tX") {
        return CallError::Ended;
    }
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:")).unwrap_or("0").trim();
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    CallError::Denied(if tracer != "0" {
        // The kernel tells the thread.
        let process = tracer.parse().ok().and_then(|tid| process::task::tgid_of(tid).ok());
        format!("process {} traces it", process.map_or(tracer.to_owned(), |pid| pid.to_string()))
    } else if scope.trim() == "3" {
        "kernel.yama.ptrace_scope is 3, which forbids it to everybody".to_owned()
    } else if !scope.trim().is_empty() && scope.trim() != "0" {
        format!("cap_sys_ptrace is missing, and kernel.yama.ptrace_scope is {}", scope.trim())
    } else {
        "cap_sys_ptrace is missing".to_owned()
    })
}

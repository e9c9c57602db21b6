//! Programs that take turns on one CPU.

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// How often each is measured.
pub(super) const TURNS: u32 = 4;

/// The last of the CPUs that this process may use: the first has most of the machine's interrupts.
///
/// # Errors
/// If the kernel refuses the answer.
pub(crate) fn last_cpu() -> Result<usize> {
    let allowed = sched_getaffinity(None).context("ask for the CPUs of this process")?;
    (0..CpuSet::MAX_CPU).rfind(|&cpu| allowed.is_set(cpu)).context("no CPU is allowed")
}

/// Lets a process run on one CPU only.
///
/// # Errors
/// If it is gone.
pub(crate) fn bind(pid: u32, cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(Some(process(pid)?), &set).with_context(|| format!("bind process {pid} to CPU {cpu}"))
}

pub(super) fn stop(pid: u32) -> Result<()> {
    kill_process(process(pid)?, Signal::STOP).with_context(|| format!("stop process {pid}"))
}

pub(super) fn go_on(pid: u32) -> Result<()> {
    kill_process(process(pid)?, Signal::CONT).with_context(|| format!("let process {pid} go on"))
}

fn process(pid: u32) -> Result<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw).context("a process number out of range")
}

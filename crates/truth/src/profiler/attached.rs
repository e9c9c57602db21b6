//! Finds out from outside whether perf-agent captures already.

use std::fs;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::leftovers::BpfObjects;

/// Waits until perf-agent captures, or has ended. When it captures, its programs are attached, and its first thread sleeps
/// for a short time again and again. During the start this thread waits only once, for the start to end.
pub(crate) fn until_attached(agent: &mut Child) -> Result<()> {
    let (begun, pid) = (Instant::now(), agent.id());
    let mut waits_before = None;
    loop {
        if agent.try_wait().context("wait for perf-agent")?.is_some() {
            return Ok(());
        }
        if waits_before.is_none() && !BpfObjects::held_by(pid).links.is_empty() {
            waits_before = waits_of_first_thread(pid);
        }
        // One wait may be that for the start.
        if waits_before.zip(waits_of_first_thread(pid)).is_some_and(|(before, now)| now >= before + 2) {
            return Ok(());
        }
        ensure!(begun.elapsed() < Duration::from_secs(60), "perf-agent attached nothing within a minute");
        thread::sleep(Duration::from_millis(10));
    }
}

fn waits_of_first_thread(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/task/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())
}

//! How other tools are ended.

use std::process::Child;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

/// Ends a tool as Ctrl+C would, so that it writes its results, and waits for it.
///
/// # Errors
/// If the process has ended already.
pub(crate) fn interrupt(child: &mut Child, name: &str) -> Result<()> {
    let pid = Pid::from_raw(i32::try_from(child.id())?).context("no process")?;
    kill_process(pid, Signal::INT).with_context(|| format!("stop {name}"))?;
    child.wait().with_context(|| format!("wait for {name}"))?;
    Ok(())
}

//! Whether a process has ended, as /proc tells it.

/// Whether nothing of a process runs any more: it is gone, or a zombie without other threads.
pub(crate) fn has_ended(pid: u32) -> bool {
    let zombie = |state: char| matches!(state, 'Z' | 'X');
    match process::task::stat(pid) {
        Ok(stat) => {
            zombie(stat.state) && process::task::threads(pid).map_or(true, |threads| threads.len() <= 1)
        }
        Err(error) => matches!(error, process::Error::Gone { .. }),
    }
}

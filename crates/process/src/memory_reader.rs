//! Reads memory of targets on worker threads.
//!
//! A page that is not in memory is read from the file behind it, whose file system may not answer; user space may have to provide it, too
//! (`userfaultfd`). So a target can let each read of its memory wait, also where a stack or code made at run time is expected.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::pool::WorkerPool;

/// A read that takes longer is given up. Reading memory takes microseconds.
const PATIENCE: Duration = Duration::from_millis(150);

/// Reads memory, a process at a time.
pub(crate) struct MemoryReader {
    workers: Mutex<WorkerPool<Vec<Vec<u8>>>>,
    unanswered: AtomicU64,
}

impl Default for MemoryReader {
    fn default() -> Self {
        let spawn = |body| sys::thread::spawn_quiet_thread("read", body).map(drop);
        let workers = Mutex::new(WorkerPool::new(Box::new(spawn), PATIENCE));
        Self { workers, unanswered: AtomicU64::new(0) }
    }
}

impl fmt::Debug for MemoryReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryReader").field("unanswered", &self.unanswered()).finish_non_exhaustive()
    }
}

impl MemoryReader {
    /// Reads parts of the memory of a process, given as address and length; each as far as it is readable. `None`: a page does not come.
    /// Until it does, further reads of this process are refused at once.
    pub(crate) fn read(&self, pid: u32, parts: Vec<(u64, usize)>) -> Option<Vec<Vec<u8>>> {
        self.read_with(pid, move || parts.into_iter().map(|(address, len)| read(pid, address, len)).collect())
    }

    fn read_with(
        &self,
        pid: u32,
        read: impl FnOnce() -> Vec<Vec<u8>> + Send + 'static,
    ) -> Option<Vec<Vec<u8>>> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        // Each process may have a page that does not come: it counts as a device.
        let ticket = (!workers.is_exhausted()).then(|| workers.ask((u32::MAX, pid), read));
        let found = ticket.and_then(|ticket| {
            while begun.elapsed() < 2 * PATIENCE {
                let taken = workers.take(PATIENCE);
                if let Some((_, read)) = taken.finished.into_iter().find(|(other, _)| *other == ticket) {
                    return Some(read);
                }
                if taken.given_up.contains(&ticket) {
                    return None;
                }
            }
            None
        });
        if found.is_none() {
            self.unanswered.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    /// Reads that were given up or refused.
    pub(crate) fn unanswered(&self) -> u64 {
        self.unanswered.load(Ordering::Relaxed)
    }
}

/// Up to `len` bytes from `address` on. A read ends in front of a page that is not readable.
fn read(pid: u32, address: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let read = sys::memory::read(pid, address, &mut bytes).unwrap_or(0);
    bytes.truncate(read);
    bytes
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::pool::MAX_WORKERS;

    #[test]
    fn memory_is_read_in_parts() {
        let reader = MemoryReader::default();
        let text = *b"a text in memory";
        let address = text.as_ptr() as u64;
        let read = reader.read(std::process::id(), vec![(address, 6), (8, 4), (address + 2, 4)]).unwrap();
        assert_eq!(read, [b"a text".to_vec(), Vec::new(), b"text".to_vec()]);
        assert_eq!(reader.unanswered(), 0);
    }

    #[test]
    fn a_page_that_does_not_come_holds_nothing_up_but_its_process() {
        let reader = MemoryReader::default();
        let mut held = Vec::new();
        let mut block = |pid| {
            let (hold, wait) = channel::<()>();
            held.push(hold);
            reader.read_with(pid, move || wait.recv().map(|()| Vec::new()).unwrap_or_default())
        };
        let begun = Instant::now();
        assert_eq!(block(1), None);
        assert!(begun.elapsed() < 4 * PATIENCE, "{:?}", begun.elapsed());
        let begun = Instant::now();
        assert_eq!(block(1), None);
        assert!(begun.elapsed() < PATIENCE / 2, "refused at once: {:?}", begun.elapsed());
        assert_eq!(reader.read_with(2, || vec![vec![2]]), Some(vec![vec![2]]));
        (3..3 + MAX_WORKERS as u32).for_each(|pid| assert_eq!(block(pid), None));
        let begun = Instant::now();
        assert_eq!(reader.read_with(99, Vec::new), None);
        assert!(begun.elapsed() < PATIENCE / 2, "nobody is left to read it: {:?}", begun.elapsed());
        assert_eq!(reader.unanswered(), 3 + MAX_WORKERS as u64);
        drop(held);
        while reader.read_with(1, Vec::new).is_none() {
            assert!(begun.elapsed() < Duration::from_secs(60));
        }
    }
}

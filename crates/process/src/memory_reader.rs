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
    patience: Duration,
    unanswered: AtomicU64,
}

impl Default for MemoryReader {
    fn default() -> Self {
        Self::with_patience(PATIENCE)
    }
}

impl fmt::Debug for MemoryReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryReader").field("unanswered", &self.unanswered()).finish_non_exhaustive()
    }
}

impl MemoryReader {
    fn with_patience(patience: Duration) -> Self {
        let spawn = |body| sys::thread::spawn_quiet_thread("read", body).map(drop);
        let workers = Mutex::new(WorkerPool::new(Box::new(spawn), patience));
        Self { workers, patience, unanswered: AtomicU64::new(0) }
    }

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
            while begun.elapsed() < 2 * self.patience {
                let taken = workers.take(self.patience);
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

    /// More than a busy machine takes for a read that is answered.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn memory_is_read_in_parts() {
        let reader = MemoryReader::with_patience(LONG);
        let text = *b"a text in memory";
        let address = text.as_ptr() as u64;
        let read = reader.read(std::process::id(), vec![(address, 6), (8, 4), (address + 2, 4)]).unwrap();
        assert_eq!(read, [b"a text".to_vec(), Vec::new(), b"text".to_vec()]);
        assert_eq!(reader.unanswered(), 0);
    }

    fn set_patience(reader: &mut MemoryReader, patience: Duration) {
        reader.patience = patience;
        reader.workers.get_mut().unwrap().set_patience(patience);
    }

    #[test]
    fn a_page_that_does_not_come_holds_nothing_up_but_its_process() {
        let mut reader = MemoryReader::default();
        let (mut held, mut asked) = (Vec::new(), 0);
        let mut block = |reader: &MemoryReader, pid| {
            let (hold, wait) = channel::<()>();
            held.push(hold);
            asked += 1;
            reader.read_with(pid, move || wait.recv().map(|()| Vec::new()).unwrap_or_default())
        };
        // On a busy machine a read may be given up before a worker takes it.
        while reader.workers.get_mut().unwrap().is_idle() {
            assert_eq!(block(&reader, 1), None);
        }
        set_patience(&mut reader, LONG);
        let begun = Instant::now();
        assert_eq!(block(&reader, 1), None);
        assert!(begun.elapsed() < LONG, "refused at once");
        assert_eq!(reader.read_with(2, || vec![vec![2]]), Some(vec![vec![2]]));
        set_patience(&mut reader, PATIENCE);
        for pid in 3.. {
            if reader.workers.get_mut().unwrap().is_exhausted() {
                break;
            }
            assert_eq!(block(&reader, pid), None);
        }
        set_patience(&mut reader, LONG);
        let begun = Instant::now();
        assert_eq!(block(&reader, 99), None);
        assert!(begun.elapsed() < LONG, "nobody is left to read it");
        assert_eq!(reader.unanswered(), asked);
        drop(held);
        testkit::until("the first page is read", || reader.read_with(1, Vec::new).is_some());
    }
}

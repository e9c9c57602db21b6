//! Closes files whose file system may not answer: closing a file can be a request to its file system (`FUSE_FLUSH`).

use std::fs::File;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};

/// A thread that closes files. It starts with the first file.
#[derive(Debug, Default)]
pub(crate) struct Closer(OnceLock<Option<Sender<Arc<File>>>>);

impl Closer {
    /// Files are sent here instead of being closed. `None`: the thread could not be started.
    pub(crate) fn get(&self) -> Option<Sender<Arc<File>>> {
        let start = || {
            let (sender, files) = channel();
            let close = move || files.into_iter().for_each(drop);
            sys::thread::spawn_quiet_thread("close", close).ok().map(|_| sender)
        };
        self.0.get_or_init(start).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reference_is_dropped_on_the_thread() {
        let closer = Closer::default();
        let file = Arc::new(tempfile::tempfile().unwrap());
        let watched = Arc::downgrade(&file);
        closer.get().unwrap().send(file).unwrap();
        testkit::until("the file is closed", || watched.upgrade().is_none());
    }
}

//! The content of a mapped file, and the descriptor or memory that keeps it readable.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use sys::filemap::FileMap;

use crate::open_failure::OpenFailure;

#[derive(Debug)]
pub(super) enum Held {
    Pinned(Pin),
    /// Not kept open, because there were too few descriptors. It can be opened again by its path while that leads to the same
    /// file.
    Reopen(PathBuf),
    Memory(Arc<[u8]>),
    /// It could not be opened when it was first mapped.
    Unreadable(OpenFailure),
}

/// An open file, counted for a budget.
#[derive(Debug)]
pub(super) struct Pin {
    pub(super) file: Arc<File>,
    count: Arc<AtomicUsize>,
    /// Who closes it, if that may block.
    closer: Option<Sender<Arc<File>>>,
}

impl Pin {
    pub(super) fn new(file: File, count: &Arc<AtomicUsize>, closer: Option<Sender<Arc<File>>>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self { file: Arc::new(file), count: Arc::clone(count), closer }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        if let Some(closer) = &self.closer {
            // The thread ends after all that send to it.
            let _ = closer.send(Arc::clone(&self.file));
        }
    }
}

/// Where the content of a file is.
#[derive(Debug)]
pub enum Content {
    /// In a file.
    File(OpenFile),
    /// In memory only: the vDSO.
    Memory(Arc<[u8]>),
}

/// An open file.
#[derive(Debug)]
pub struct OpenFile(Arc<File>);

impl From<Arc<File>> for OpenFile {
    fn from(file: Arc<File>) -> Self {
        Self(file)
    }
}

impl OpenFile {
    /// A path that opens exactly this file, in this process and for as long as `self` lives.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    /// Another descriptor of the open file.
    ///
    /// # Errors
    /// The errno of duplicating the descriptor.
    pub fn try_clone(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    /// The whole content, mapped.
    ///
    /// # Errors
    /// The errno of mapping it.
    pub fn bytes(&self) -> io::Result<Bytes> {
        Ok(Bytes(BytesOf::File(FileMap::new(&self.0)?)))
    }
}

/// The content of a file, as a slice of bytes. If the file is truncated later, the missing part reads as zeros.
#[derive(Debug)]
pub struct Bytes(BytesOf);

#[derive(Debug)]
enum BytesOf {
    File(FileMap),
    Memory(Arc<[u8]>),
}

impl From<Arc<[u8]>> for Bytes {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self(BytesOf::Memory(bytes))
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            BytesOf::File(map) => map,
            BytesOf::Memory(bytes) => bytes,
        }
    }
}

impl Bytes {
    /// Frees the memory of the bytes that were read so far. They are read from the file again when they are needed.
    pub fn release(&self) {
        if let BytesOf::File(map) = &self.0 {
            map.release();
        }
    }
}

//! A file whose table is requested, and its bytes.

use std::io;

use crate::key::Stamp;

/// Major and minor number.
pub type Device = (u32, u32);

/// The bytes of an ELF file, owned or mapped.
pub trait Content {
    /// All bytes.
    fn bytes(&self) -> &[u8];

    /// Releases the memory of the bytes read so far, if they can be read again.
    fn release(&self) {}

    /// Whether all bytes read so far are the file's: no unreadable part was replaced.
    fn is_whole(&self) -> bool {
        true
    }
}

impl Content for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// A file whose table is requested.
pub trait Input: Send {
    /// Identifies its current content; none if unknown.
    fn stamp(&self) -> Option<Stamp>;

    /// Approximate size in bytes.
    fn size(&self) -> u64;

    /// The device that it lies on, if its file system may not answer. `None`: it always answers.
    fn doubtful_device(&self) -> Option<Device> {
        None
    }

    /// The content. A worker calls this only if the cache does not have the table.
    ///
    /// # Errors
    /// The file cannot be read.
    fn read(&self) -> io::Result<Box<dyn Content>>;
}

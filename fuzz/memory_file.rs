//! Files in memory, for parsers that read from an open file or a path.

use std::fs::File;

/// An empty file without a name.
pub fn new() -> File {
    File::from(rustix::fs::memfd_create("input", rustix::fs::MemfdFlags::CLOEXEC).expect("a file in memory"))
}

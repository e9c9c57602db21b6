//! A mapped file, as callers describe it.

use std::path::PathBuf;
use std::sync::Arc;

use profile::BuildId;

/// Where the bytes of an object file are.
#[derive(Clone, Debug)]
pub enum ObjectSource {
    /// A path that opens the mapped file itself, such as `/proc/self/fd/N` of a descriptor that is kept open.
    Path(PathBuf),
    /// The bytes, if there is no file (the vdso).
    Bytes(Arc<[u8]>),
}

/// A mapped file.
#[derive(Clone, Debug)]
pub struct ObjectFile {
    /// Its content.
    pub source: ObjectSource,
    /// Its path in the view of the process that maps it. Separate debug files are searched relative to this path.
    pub display_path: String,
    /// Root directory of a process that maps it (`/proc/PID/root`). Debug files are searched there before our own root.
    pub root: Option<PathBuf>,
    /// Its build-id, if known; read from the file otherwise.
    pub build_id: Option<BuildId>,
}

//! Settings of a [`Symbolizer`](crate::Symbolizer).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::record_store::RecordStore;

/// Settings of a [`Symbolizer`](crate::Symbolizer).
#[derive(Clone, Debug)]
pub struct Options {
    /// Directories with separate debug files, searched in each root.
    pub debug_dirs: Vec<PathBuf>,
    /// Directories in our own root with debug files by name: that of the file with `.debug` behind it, or that of its link. Such a file is used only if
    /// it has the build-id.
    pub named_dirs: Vec<PathBuf>,
    /// Directories in our own root with supplementary files (made by `dwz`) by build-id, laid out as `debug_dirs` are.
    pub supplementary_dirs: Vec<PathBuf>,
    /// Bytes of heap for cached files, without the file that was used last.
    pub cache_bytes: usize,
    /// What was learned of files by earlier runs, and is kept for later ones; none: nothing is kept.
    pub records: Option<Arc<RecordStore>>,
    /// The kernel's symbols.
    pub kallsyms: PathBuf,
    /// The notes of the running kernel, for its build-id.
    pub kernel_notes: PathBuf,
    /// Paths where the debug information of the running kernel may be. A file is used if its build-id matches.
    pub kernel_images: Vec<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            debug_dirs: vec!["/usr/lib/debug".into()],
            named_dirs: Vec::new(),
            supplementary_dirs: Vec::new(),
            cache_bytes: 64 << 20,
            records: None,
            kallsyms: "/proc/kallsyms".into(),
            kernel_notes: "/sys/kernel/notes".into(),
            kernel_images: usual_places(),
        }
    }
}

/// Where distributions put the debug information of the running kernel.
fn usual_places() -> Vec<PathBuf> {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy().into_owned();
    if release.contains('/') {
        return Vec::new();
    }
    [
        format!("/usr/lib/debug/boot/vmlinux-{release}"),
        format!("/usr/lib/debug/lib/modules/{release}/vmlinux"),
        format!("/usr/lib/debug/boot/vmlinux-{release}.debug"),
        format!("/lib/modules/{release}/build/vmlinux"),
        format!("/boot/vmlinux-{release}"),
    ]
    .iter()
    .map(|path| Path::new(path).to_owned())
    .collect()
}

//! Settings.

use std::path::PathBuf;
use std::sync::Arc;

use debuginfod::Fetcher;

/// Heap that files not in use at the moment may keep.
const KEPT_BYTES: usize = 32 << 20;
/// Places whose names are kept for later intervals.
const CACHED_PLACES: usize = 1 << 17;

/// Fetching of debug files.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// What fetches.
    pub fetcher: Arc<Fetcher>,
    /// Frames in a file whose debug file is wanted and does not come have no names from anywhere else.
    pub fail_closed: bool,
}

/// Files that stand for the running kernel where a recording or a written profile is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelFiles {
    /// The kernel's ELF file, with a symbol table and perhaps debug information.
    pub vmlinux: Option<PathBuf>,
    /// A list of its symbols: a `System.map`, or a copy of `/proc/kallsyms`.
    pub system_map: Option<PathBuf>,
}

/// Settings of symbolization.
#[derive(Clone, Debug)]
pub struct Options {
    /// How files and the kernel are read.
    pub symbols: symbols::Options,
    /// Directories with files and debug files of other machines, which are found by build-id: for recordings and written profiles.
    pub symbol_dirs: Vec<PathBuf>,
    /// Files of the kernel of recordings and written profiles.
    pub kernel_files: KernelFiles,
    /// The number of this start of the machine.
    pub boot_id: PathBuf,
    /// The directory with a directory for each loaded module of the kernel.
    pub kernel_modules: PathBuf,
    /// Where debug files come from that this machine does not have; none: nothing is fetched.
    pub fetch: Option<Fetch>,
    /// Places whose names are kept for later intervals at most; 0 where there is one interval only.
    pub cached_places: usize,
}

impl Default for Options {
    fn default() -> Self {
        let symbols = symbols::Options { cache_bytes: KEPT_BYTES, ..symbols::Options::default() };
        Self {
            symbols,
            symbol_dirs: Vec::new(),
            kernel_files: KernelFiles::default(),
            boot_id: "/proc/sys/kernel/random/boot_id".into(),
            kernel_modules: "/sys/module".into(),
            fetch: None,
            cached_places: CACHED_PLACES,
        }
    }
}

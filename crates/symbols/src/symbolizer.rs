//! The entry point: names for addresses of files and of the kernel, with a bounded cache of files that were read.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use profile::Svma;

use crate::debug_file::open_regular;
use crate::kernel::{Kernel, KernelNames};
use crate::kernel_image::KernelImage;
use crate::object::Object;
use crate::object_file::{ObjectFile, ObjectSource};
use crate::options::Options;
use crate::source_line::SourceLine;
use crate::stats::Stats;

/// The identity of a file. A cached file is held open, so its inode number is not used for another file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    File {
        device: u64,
        inode: u64,
        size: u64,
        modified_s: i64,
        modified_ns: i64,
    },
    /// Address and length.
    Memory(usize, usize),
}

struct Cached {
    identity: Identity,
    /// Holds the inode.
    _file: Option<File>,
    /// For memory: holds the address.
    _bytes: Option<Arc<[u8]>>,
    /// `None` if the file is unreadable, so that it is not read again and again.
    object: Option<Object>,
}

/// Finds names for addresses. Not `Send`: it stays on the thread that made it.
pub struct Symbolizer {
    options: Options,
    /// Most recently used last.
    cache: Vec<Cached>,
    kernel: Option<Kernel>,
    kernel_image: Option<KernelImage>,
    stats: Stats,
}

/// Descriptors that the cache may hold.
const MAX_CACHED_FILES: usize = 256;

impl Symbolizer {
    /// Reads nothing yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        if let Err(error) = sys::filemap::guard_against_truncation() {
            tracing::warn!("guard against files that shrink while they are read: {error}");
        }
        Self { options, cache: Vec::new(), kernel: None, kernel_image: None, stats: Stats::default() }
    }

    /// Names link-time addresses of a file, in the given order. Innermost inlined function first; empty for unknown
    /// addresses. Large batches are cheaper than many small ones. For callers, pass the address of the call instruction
    /// (return address − 1).
    pub fn object(&mut self, file: &ObjectFile, svmas: &[Svma]) -> Vec<Vec<SourceLine>> {
        self.stats.addresses += svmas.len() as u64;
        let addresses: Vec<u64> = svmas.iter().map(|a| a.0).collect();
        let mut stats = self.stats;
        let names = match self.cached(file).and_then(|cached| cached.object.as_mut()) {
            Some(object) => object.lookup(&addresses, &mut stats),
            None => vec![Vec::new(); svmas.len()],
        };
        self.stats.panics = stats.panics;
        self.stats.unnamed += names.iter().filter(|n| n.is_empty()).count() as u64;
        self.evict();
        names
    }

    /// Names kernel addresses, in the given order; `[MODULE]` follows the names of modules and BPF programs. All are empty if
    /// the kernel hides its addresses: see [`Self::kernel_names`]. Files, lines and inlined functions are known if the debug
    /// information of the running kernel is installed.
    pub fn kernel(&mut self, addresses: &[u64]) -> Vec<Vec<SourceLine>> {
        let kernel = self.load_kernel();
        let mut names: Vec<Vec<SourceLine>> =
            addresses.iter().map(|a| kernel.find(*a).into_iter().collect()).collect();
        let Some(image) = self.kernel_image.clone() else { return names };
        let is_own = |lines: &Vec<SourceLine>| lines.first().is_some_and(|l| l.name == l.system_name);
        let own: Vec<usize> = (0..names.len()).filter(|i| is_own(&names[*i])).collect();
        let svmas: Vec<Svma> = own.iter().map(|i| Svma(image.svma(addresses[*i]))).collect();
        let path = image.path;
        let display_path = path.to_string_lossy().into_owned();
        let file = ObjectFile { source: ObjectSource::Path(path), display_path, root: None, build_id: None };
        for (index, lines) in own.into_iter().zip(self.object(&file, &svmas)) {
            if lines.iter().any(|l| l.line != 0) {
                names[index] = lines;
            }
        }
        names
    }

    /// Whether kernel addresses can be named, and why not.
    pub fn kernel_names(&mut self) -> KernelNames {
        self.load_kernel().names()
    }

    /// Frees the debug information and the pages of the file that was looked up last. Its symbol tables stay in the cache;
    /// the rest is read again when it is needed.
    pub fn release_last(&mut self) {
        if let Some(object) = self.cache.last_mut().and_then(|cached| cached.object.as_mut()) {
            object.release();
        }
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    fn load_kernel(&mut self) -> &Kernel {
        self.kernel.get_or_insert_with(|| {
            let kernel = Kernel::read(&self.options.kallsyms);
            self.kernel_image = kernel.text_start().and_then(|text| KernelImage::find(&self.options, text));
            kernel
        })
    }

    /// The cache entry of a file, which is made if there is none and becomes the last one.
    fn cached(&mut self, object: &ObjectFile) -> Option<&mut Cached> {
        let (identity, file) = match &object.source {
            ObjectSource::Bytes(bytes) => (Identity::Memory(bytes.as_ptr().addr(), bytes.len()), None),
            ObjectSource::Path(path) => match open_regular(path).and_then(|f| Some((identity(&f)?, f))) {
                Some((identity, file)) => (identity, Some(file)),
                None => {
                    self.stats.unreadable_files += 1;
                    return None;
                }
            },
        };
        if let Some(index) = self.cache.iter().position(|c| c.identity == identity) {
            let mut cached = self.cache.remove(index);
            if let Some(known) = &mut cached.object {
                known.restore(object, file, &self.options, &mut self.stats);
            }
            self.cache.push(cached);
        } else {
            let held = file.as_ref().and_then(|f| f.try_clone().ok());
            let opened = Object::open(object, file, &self.options, &mut self.stats);
            self.stats.files += 1;
            self.stats.unreadable_files += u64::from(opened.is_none());
            self.stats.nameless_files += u64::from(opened.as_ref().is_some_and(Object::is_nameless));
            let bytes = match &object.source {
                ObjectSource::Bytes(bytes) => Some(Arc::clone(bytes)),
                ObjectSource::Path(_) => None,
            };
            self.cache.push(Cached { identity, _file: held, _bytes: bytes, object: opened });
        }
        self.cache.last_mut()
    }

    /// Drops the least recently used files until the rest is small enough. The file that was used last stays.
    fn evict(&mut self) {
        let size = |cached: &Cached| cached.object.as_ref().map_or(0, Object::heap_bytes);
        let Some((_, others)) = self.cache.split_last() else { return };
        let mut total: usize = others.iter().map(size).sum();
        let mut drop = 0;
        for cached in others {
            if total <= self.options.cache_bytes && others.len() - drop < MAX_CACHED_FILES {
                break;
            }
            total -= size(cached);
            drop += 1;
        }
        self.stats.evicted += drop as u64;
        self.cache.drain(..drop);
    }
}

fn identity(file: &File) -> Option<Identity> {
    let meta = file.metadata().ok()?;
    Some(Identity::File {
        device: meta.dev(),
        inode: meta.ino(),
        size: meta.size(),
        modified_s: meta.mtime(),
        modified_ns: meta.mtime_nsec(),
    })
}

//! Files that were read, kept for the next look-up within a bound.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;

use crate::debug_file::open_regular;
use crate::object::Object;
use crate::object_file::{ObjectFile, ObjectSource};
use crate::options::Options;
use crate::stats::Stats;

/// Files that are kept at most: each holds descriptors.
const MAX_FILES: usize = 256;

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
    /// What was asked for. For memory, it holds the address.
    asked: ObjectFile,
    /// `None` if the file is unreadable, so that it is not read again and again.
    object: Option<Object>,
}

/// Files that were read, the most recently used last.
#[derive(Default)]
pub(crate) struct ObjectCache(Vec<Cached>);

impl ObjectCache {
    /// The entry of a file, which is made if there is none and becomes the last one. It is empty if the file is no object file. `None` if
    /// the file cannot be opened.
    pub fn entry(&mut self, object: &ObjectFile, stats: &mut Stats) -> Option<&mut Option<Object>> {
        let (identity, file) = match &object.source {
            ObjectSource::Bytes(bytes) => (Identity::Memory(bytes.as_ptr().addr(), bytes.len()), None),
            ObjectSource::Path(path) => {
                let file = open_regular(path)?;
                (identity(&file)?, Some(file))
            }
        };
        if let Some(index) = self.0.iter().position(|cached| cached.identity == identity) {
            let cached = self.0.remove(index);
            self.0.push(cached);
        } else {
            let held = file.as_ref().and_then(|f| f.try_clone().ok());
            let opened = Object::open(object, file);
            stats.files += 1;
            stats.unreadable_files += u64::from(opened.is_none());
            self.0.push(Cached { identity, _file: held, asked: object.clone(), object: opened });
        }
        self.0.last_mut().map(|cached| &mut cached.object)
    }

    /// Frees the debug information and the pages of the file that was used last.
    pub fn release_last(&mut self) {
        if let Some(object) = self.0.last_mut().and_then(|cached| cached.object.as_mut()) {
            object.release();
        }
    }

    /// Keeps what was learned of all files for later runs.
    pub fn save(&mut self, options: &Options) {
        self.0.iter_mut().for_each(|cached| cached.save(options));
    }

    /// Drops the least recently used files until the rest has at most as many bytes as the options say. The file that was used last stays.
    pub fn evict(&mut self, options: &Options, stats: &mut Stats) {
        let max_bytes = options.cache_bytes;
        let size = |cached: &Cached| cached.object.as_ref().map_or(0, Object::heap_bytes);
        let Some((_, others)) = self.0.split_last() else { return };
        let mut total: usize = others.iter().map(size).sum();
        let mut drop = 0;
        for cached in others {
            if total <= max_bytes && others.len() - drop < MAX_FILES {
                break;
            }
            total -= size(cached);
            drop += 1;
        }
        stats.evicted += drop as u64;
        self.0.drain(..drop).for_each(|mut cached| cached.save(options));
    }
}

impl Cached {
    fn save(&mut self, options: &Options) {
        let saved = self.object.as_mut().map(|object| object.save(&self.asked, options));
        if let Some(Err(error)) = saved {
            tracing::debug!("{error}");
        }
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

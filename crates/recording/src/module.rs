//! Files with code.

use profile::{BuildId, FileOffset, Mapping, Svma};
use serde::{Deserialize, Serialize};

/// Index of a [`Module`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ModuleId(pub u32);

/// Index of a [`CodeMapping`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CodeMappingId(pub u32);

/// What a module is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ModuleKind {
    /// An ELF file.
    Elf,
    /// Any other file, or one that could not be read: addresses in it are file offsets.
    NotElf,
    /// An ELF image without a file: the vDSO, or trampolines that a runtime made.
    InMemory,
}

/// Which file it was on the machine of the capture. All fields are zero if it could not be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Major number of the device.
    pub dev_major: u32,
    /// Minor number of the device.
    pub dev_minor: u32,
    /// Inode.
    pub inode: u64,
    /// Last modification, ns since the epoch.
    pub mtime_ns: i64,
    /// Bytes of content.
    pub size: u64,
}

/// A file with code that stacks go through.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Module {
    /// The path under which a process mapped it.
    pub path: String,
    /// GNU build-id, if it has one.
    pub build_id: Option<BuildId>,
    /// What it is.
    pub kind: ModuleKind,
    /// Which file it was.
    pub identity: FileIdentity,
}

impl Module {
    /// Whether the file could not be opened at the capture, so that nothing is known of it but its path.
    #[must_use]
    pub fn is_unread(&self) -> bool {
        self.kind == ModuleKind::NotElf && self.identity == FileIdentity::default()
    }
}

/// A range of link-time addresses of a module that is loaded as one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CodeMapping {
    /// The module.
    pub module: ModuleId,
    /// First link-time address.
    pub start: Svma,
    /// First link-time address behind it.
    pub limit: Svma,
    /// Position of `start` in the file.
    pub file_offset: FileOffset,
}

impl CodeMapping {
    /// The mapping as profiles have it; `module` is the one that it names.
    #[must_use]
    pub fn of(&self, module: &Module) -> Mapping {
        Mapping {
            start: self.start,
            limit: self.limit,
            file_offset: self.file_offset,
            filename: module.path.clone(),
            build_id: module.build_id.clone(),
        }
    }
}

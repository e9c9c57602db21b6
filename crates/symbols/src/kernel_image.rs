//! The kernel's own ELF file, `vmlinux`: which kernel it is, where it was linked, and lines of kernel code.
//!
//! The kernel may be loaded at another address than it was linked for: the distance is the difference between the two addresses of
//! `_text`.

use std::path::{Path, PathBuf};

use object::LittleEndian;
use object::elf::{SHT_SYMTAB, Sym64};
use profile::BuildId;

use crate::debug_file::{load, open_regular};
use crate::elf_file::ElfFile;
use crate::kernel_text::KernelText;
use crate::options::Options;
use crate::symtab::{entries, name_at};

/// What a `vmlinux` tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFile {
    /// Its build-id.
    pub build_id: Option<BuildId>,
    /// Where it was linked.
    pub text: KernelText,
    has_dwarf: bool,
}

impl KernelFile {
    /// Reads an ELF file with a symbol table. `None` if it is no such file, or has none of the kernel's marks.
    #[must_use]
    pub fn read(path: &Path) -> Option<Self> {
        let file = load(&open_regular(path)?)?;
        let this = Self { build_id: file.build_id(), text: marks(&file)?, has_dwarf: file.has_dwarf() };
        file.release();
        (this.text != KernelText::default()).then_some(this)
    }
}

/// The running kernel's own ELF file.
#[derive(Clone, Debug)]
pub(crate) struct KernelImage {
    pub path: PathBuf,
    /// The difference between run-time and link-time addresses.
    slide: u64,
}

impl KernelImage {
    /// The first of the usual files that has the build-id of the running kernel and debug information. `text` is the address of `_text` in
    /// the running kernel.
    pub fn find(options: &Options, text: u64) -> Option<Self> {
        let running = elf::gnu_build_id(&std::fs::read(&options.kernel_notes).ok()?, 4)?;
        options.kernel_images.iter().find_map(|path| {
            let file = KernelFile::read(path)?;
            if file.build_id.as_ref() != Some(&running) || !file.has_dwarf {
                return None;
            }
            Some(Self { path: path.clone(), slide: text.wrapping_sub(file.text.text?.0) })
        })
    }

    /// The link-time address of a kernel address.
    pub fn svma(&self, address: u64) -> u64 {
        address.wrapping_sub(self.slide)
    }
}

/// The marks in a symbol table.
fn marks(file: &ElfFile) -> Option<KernelText> {
    let section = file.sections().iter().find(|s| s.kind == SHT_SYMTAB)?;
    let names = file.data(file.sections().get(section.link as usize)?);
    let symbols: &[Sym64<LittleEndian>] = entries(file.data(section))?;
    let mut marks = KernelText::default();
    for symbol in symbols {
        if let Some(name) = name_at(names, symbol.st_name.get(LittleEndian)) {
            marks.note(name, symbol.st_value.get(LittleEndian));
        }
    }
    Some(marks)
}

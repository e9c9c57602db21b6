//! Lines of kernel code, if the debug information of the running kernel is on this machine.
//!
//! The `vmlinux` must have the build-id of the running kernel. The kernel may be loaded at another address than it was linked
//! for: the distance is the difference between the two addresses of `_text`.

use std::path::PathBuf;

use object::LittleEndian;
use object::elf::{SHT_SYMTAB, Sym64};

use crate::debug_file::{load, open_regular};
use crate::elf_file::ElfFile;
use crate::options::Options;
use crate::symtab::{entries, name_at};

/// The running kernel's own ELF file.
#[derive(Clone, Debug)]
pub(crate) struct KernelImage {
    pub path: PathBuf,
    /// The difference between run-time and link-time addresses.
    slide: u64,
}

impl KernelImage {
    /// `text` is the address of `_text` in the running kernel.
    pub fn find(options: &Options, text: u64) -> Option<Self> {
        let running = elf::gnu_build_id(&std::fs::read(&options.kernel_notes).ok()?, 4)?;
        options.kernel_images.iter().find_map(|path| {
            let file = load(&open_regular(path)?)?;
            if file.build_id().as_ref() != Some(&running) || !file.has_dwarf() {
                return None;
            }
            Some(Self { path: path.clone(), slide: text.wrapping_sub(address_of(&file, b"_text")?) })
        })
    }

    /// The link-time address of a kernel address.
    pub fn svma(&self, address: u64) -> u64 {
        address.wrapping_sub(self.slide)
    }
}

fn address_of(file: &ElfFile, name: &[u8]) -> Option<u64> {
    let section = file.sections().iter().find(|s| s.kind == SHT_SYMTAB)?;
    let names = file.data(file.sections().get(section.link as usize)?);
    let symbols: &[Sym64<LittleEndian>] = entries(file.data(section))?;
    let found = symbols.iter().find(|s| name_at(names, s.st_name.get(LittleEndian)) == Some(name))?;
    Some(found.st_value.get(LittleEndian))
}

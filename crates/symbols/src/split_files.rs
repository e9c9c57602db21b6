//! The files of split units: `.dwo` files where the compiler left them, and the package (`.dwp`) beside the program.
//!
//! Guaranteed: only regular files inside of the target's root are opened. The reader of debug information believes a file only if it has
//! the number that the program names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use dwarf::{Sections, SplitSource, SplitUnit};

use crate::debug_file::{Search, load, open_inside};
use crate::debug_sections::DebugSections;
use crate::elf_file::ElfFile;
use crate::split_log::SplitLog;

/// Finds the split units of one program.
pub(crate) struct SplitFiles<'s> {
    search: &'s Search<'s>,
    log: &'s mut SplitLog,
    /// Outer `None`: not searched. Index, then sections.
    package: Option<Option<(Vec<u8>, DebugSections)>>,
}

impl<'s> SplitFiles<'s> {
    /// What is looked for goes into the log.
    pub fn new(search: &'s Search<'s>, log: &'s mut SplitLog) -> Self {
        Self { search, log, package: None }
    }

    fn package(&mut self) -> Option<&(Vec<u8>, DebugSections)> {
        let Self { search, log, .. } = self;
        let find = || {
            let mut path = search.path.as_os_str().to_owned();
            path.push(".dwp");
            let elf = open(search, log, Path::new(&path))?;
            let index = elf.decompressed(elf.section(".debug_cu_index")?)?.into_owned();
            Some((index, DebugSections::load(&elf, ".dwo")?))
        };
        self.package.get_or_insert_with(find).as_ref()
    }
}

impl SplitSource for SplitFiles<'_> {
    fn with_unit(&mut self, unit: &SplitUnit<'_>, read: &mut dyn FnMut(Sections<'_>)) {
        if let Some((index, sections)) = self.package()
            && let Some(sections) = sections.get().of_package(index, unit.id)
        {
            return read(sections);
        }
        let path: PathBuf = Path::new(OsStr::from_bytes(unit.directory)).join(OsStr::from_bytes(unit.name));
        let found = open(self.search, self.log, &path);
        if let Some(sections) = found.and_then(|elf| DebugSections::load(&elf, ".dwo")) {
            read(sections.get());
        }
    }
}

fn open(search: &Search<'_>, log: &mut SplitLog, path: &Path) -> Option<ElfFile> {
    let file = search.roots.first().and_then(|root| open_inside(root, path));
    log.enter(search.path, path, file.as_ref());
    load(&file?)
}

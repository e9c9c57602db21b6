//! Mappings of processes as records, and the build-ids of the files that they show.

use std::collections::{BTreeSet, HashSet};

use events::Mmap;
use perf_data::{FileBuildId, FileIdentity, Record};
use process::{Region, RegionKind};

use crate::processes::ProcessSnapshot;

/// Files whose build-ids are kept at most.
const MAX_FILES: usize = 1 << 16;
/// Of a mapping that was there before, of which no more is known than that it is code.
const PROT_READ_EXEC: u32 = 5;
const MAP_PRIVATE: u32 = 2;
/// The names that the kernel has for them.
const ANONYMOUS: &str = "//anon";
const VDSO: &str = "[vdso]";
const VSYSCALL: &str = "[vsyscall]";
const UPROBES: &str = "[uprobes]";

/// The record of a mapping that was just made.
pub(super) fn made(mmap: &Mmap) -> Record<'_> {
    let file = FileIdentity::Inode { major: mmap.dev_major, minor: mmap.dev_minor, inode: mmap.inode };
    Record::Mapping {
        address: mmap.address,
        len: mmap.len,
        offset: mmap.file_offset,
        file,
        protection: mmap.protection,
        flags: mmap.flags,
        path: &mmap.path,
    }
}

/// The record of a mapping that is there.
pub(super) fn present(region: &Region) -> Record<'_> {
    let (path, file) = name_and_file(region);
    let identity = file.map(|file| file.identity());
    let by_place = FileIdentity::Inode {
        major: identity.map_or(0, |identity| identity.dev_major),
        minor: identity.map_or(0, |identity| identity.dev_minor),
        inode: identity.map_or(0, |identity| identity.inode),
    };
    let build_id = file.and_then(|file| file.build_id());
    Record::Mapping {
        address: region.start.0,
        len: region.end.0.saturating_sub(region.start.0),
        offset: region.offset.0,
        file: build_id.map_or(by_place, |build_id| FileIdentity::BuildId(build_id.as_bytes())),
        protection: PROT_READ_EXEC,
        flags: MAP_PRIVATE,
        path: path.as_bytes(),
    }
}

fn name_and_file(region: &Region) -> (&str, Option<&process::MappedFile>) {
    match region.kind() {
        RegionKind::Vdso(file) => (VDSO, Some(file)),
        RegionKind::File(file) | RegionKind::Trampolines(file) => (file.path(), Some(file)),
        RegionKind::Opening(file) => (file.unanswered().path(), Some(file.unanswered())),
        RegionKind::Anonymous => (ANONYMOUS, None),
        // One lies where no program maps anything, the other one among the mappings of programs.
        RegionKind::KernelPage if region.start.0 >> 63 == 1 => (VSYSCALL, None),
        RegionKind::KernelPage => (UPROBES, None),
    }
}

/// The build-ids of the files that processes of the file map.
#[derive(Debug, Default)]
pub(super) struct BuildIds {
    known: BTreeSet<(String, Vec<u8>)>,
    /// Processes with files that may still be to be opened.
    unsettled: HashSet<u32>,
}

impl BuildIds {
    /// The process has mappings that were not looked at.
    pub(super) fn look_at(&mut self, pid: u32) {
        self.unsettled.insert(pid);
    }

    /// Takes in the files that were opened by now.
    pub(super) fn settle<'a>(&mut self, snapshot: impl Fn(u32) -> Option<ProcessSnapshot<'a>>) {
        let Self { known, unsettled } = self;
        unsettled.retain(|pid| {
            let Some(snapshot) = snapshot(*pid) else { return false };
            let mut is_opening = false;
            for region in snapshot.image.regions().iter() {
                is_opening |= matches!(region.kind(), RegionKind::Opening(_));
                let (path, file) = name_and_file(region);
                if let Some(build_id) = file.and_then(|file| file.build_id())
                    && known.len() < MAX_FILES
                {
                    known.insert((path.to_owned(), build_id.as_bytes().to_vec()));
                }
            }
            is_opening
        });
    }

    /// All of them.
    pub(super) fn files(&self) -> impl Iterator<Item = FileBuildId> {
        let file = |(path, build_id): &(String, Vec<u8>)| FileBuildId {
            kernel: false,
            build_id: build_id.clone(),
            path: path.clone().into_bytes(),
        };
        self.known.iter().map(file)
    }
}

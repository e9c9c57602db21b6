//! Files that are the reason why frames have no names.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use recording::{Frame, Mode, Module, ModuleId, Names, Recording};

use super::finding::{Finding, FindingKind};
use crate::figures::{add, sum};
use crate::selection;

/// A smaller share of frames without a name, in percent, is not told.
const MIN_PCT: f64 = 5.0;
/// A file with a smaller share is not named.
const MIN_PCT_OF_FILE: f64 = 1.0;
/// This many files are named.
const MAX_FILES: usize = 3;

/// The finding about files that give no names to frames in the profile of a mode.
pub(super) fn of(recording: &Recording, names: &Names, mode: Mode) -> Option<Finding> {
    let settings = &recording.settings;
    let mut all = 0;
    let mut nameless: BTreeMap<ModuleId, u64> = BTreeMap::new();
    for entry in selection::shown(recording).filter(|entry| settings.shows(mode, entry.at.state)) {
        let (kernel, user) = entry.at.stack.split();
        let kernel = if settings.kernel_stacks { kernel } else { &[] };
        for frame in kernel.iter().chain(user) {
            add(&mut all, entry.count);
            if !names.has(*frame)
                && let Some(Frame::Native { mapping, .. }) = recording.frame(*frame)
                && let Some((mapping, _)) = recording.mapping(*mapping)
            {
                add(nameless.entry(mapping.module).or_default(), entry.count);
            }
        }
    }
    let files = nameless.into_iter().filter_map(|(id, count)| Some((recording.module(id)?, count)));
    finding(all, files.collect())
}

fn finding(all: u64, mut files: Vec<(&Module, u64)>) -> Option<Finding> {
    let pct = |count: u64| 100.0 * count as f64 / all.max(1) as f64;
    let nameless = pct(sum(files.iter().map(|(_, count)| *count)));
    if nameless < MIN_PCT {
        return None;
    }
    files.retain(|(_, count)| pct(*count) >= MIN_PCT_OF_FILE);
    files.sort_by_key(|(file, count)| (Reverse(*count), &file.path));
    let named = files.iter().take(MAX_FILES).map(|(file, count)| {
        let build_id = file.build_id.as_ref().map_or(String::new(), |id| format!(", build-id {id}"));
        format!("{} ({:.0} %{build_id})", file.path, pct(*count))
    });
    let named: Vec<_> = named.collect();
    let others = if files.len() > named.len() { " and others" } else { "" };
    let files = if named.is_empty() { "many files".to_owned() } else { named.join(", ") + others };
    Some(Finding::new(
        FindingKind::Names,
        format!("{nameless:.0} % of the frames have no names: symbols are missing for {files}"),
        "install their debug symbols (Debian: the packages -dbgsym); they are found by build-id under /usr/lib/debug",
    ))
}

#[cfg(test)]
mod tests {
    use profile::BuildId;
    use recording::{FileIdentity, ModuleKind};

    use super::*;

    fn module(path: &str, build_id: &[u8]) -> Module {
        Module {
            path: path.to_owned(),
            build_id: BuildId::new(build_id).ok(),
            kind: ModuleKind::Elf,
            identity: FileIdentity::default(),
        }
    }

    #[test]
    fn the_files_that_lack_most_are_named() {
        let (one, other) = (module("/bin/sh", &[0x12, 0xab, 0, 1]), module("/bin/ls", &[]));
        let said = finding(1000, vec![(&other, 60), (&one, 300), (&other, 9)]).unwrap().message;
        assert!(said.starts_with("37 % of the frames have no names"), "{said}");
        assert!(said.contains("for /bin/sh (30 %, build-id 12ab0001), /bin/ls (6 %)"), "{said}");
        assert!(!said.contains("others"), "{said}");
        let said = finding(100, vec![(&one, 10); 4]).unwrap().message;
        assert!(said.contains("and others"), "{said}");
    }

    #[test]
    fn a_small_share_is_not_told() {
        let file = module("/bin/sh", &[]);
        assert!(finding(1000, vec![(&file, 49)]).is_none());
        assert!(finding(0, Vec::new()).is_none());
        let many = finding(10_000, vec![(&file, 60); 10]).unwrap().message;
        assert!(many.contains("many files"), "{many}");
    }
}

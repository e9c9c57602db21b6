//! Which files are the reason that frames have no names.

use std::collections::HashMap;

use process::MappedFile;

use super::names::Names;
use super::shown::is_shown;
use super::stacks::{Place, Stacks};
use crate::{Config, Mode, Warning, WarningKind};

/// Fewer frames without a name are not worth a word, in percent of all.
const WORTH_PCT: f64 = 5.0;
/// Of a file alone.
const WORTH_OF_FILE_PCT: f64 = 1.0;
/// So many files are named.
const MAX_FILES: usize = 3;

/// What is to be said of frames in files that give them no names, in the profile of one mode.
pub(super) fn warning(stacks: &Stacks, names: &Names, mode: Mode, config: &Config) -> Option<Warning> {
    let (mut all, mut nameless): (u64, HashMap<u32, u64>) = (0, HashMap::new());
    for entry in stacks.iter().filter(|entry| is_shown(config, mode, entry.stack.state)) {
        let stack = entry.stack;
        let shown = if config.kernel_stacks { stack.places } else { &stack.places[stack.kernel_places..] };
        for place in shown {
            all += entry.sums.count;
            if let Place::Module { module, .. } = stacks.places()[*place as usize]
                && !names.has(*place)
            {
                *nameless.entry(module).or_default() += entry.sums.count;
            }
        }
    }
    let files = nameless.into_iter().map(|(module, count)| (&*stacks.modules[module as usize].file, count));
    tell(all, files.collect())
}

fn tell(all: u64, mut files: Vec<(&MappedFile, u64)>) -> Option<Warning> {
    let pct = |count: u64| 100.0 * count as f64 / all.max(1) as f64;
    let nameless = pct(files.iter().map(|(_, count)| count).sum());
    if nameless < WORTH_PCT {
        return None;
    }
    files.retain(|(_, count)| pct(*count) >= WORTH_OF_FILE_PCT);
    files.sort_by_key(|(file, count)| (std::cmp::Reverse(*count), file.path().to_owned()));
    let named = files.iter().take(MAX_FILES).map(|(file, count)| {
        let build_id = file.build_id().map_or(String::new(), |id| format!(", build-id {id}"));
        format!("{} ({:.0} %{build_id})", file.path(), pct(*count))
    });
    let named: Vec<_> = named.collect();
    let others = if files.len() > named.len() { " and others" } else { "" };
    let files = if named.is_empty() { "many files".to_owned() } else { named.join(", ") + others };
    Some(Warning::new(
        WarningKind::Names,
        format!("{nameless:.0} % of the frames have no names: symbols are missing for {files}"),
        "install their debug symbols (Debian: the packages -dbgsym); they are found by build-id under /usr/lib/debug",
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_files_that_lack_most_are_named() {
        let [one, other] = ["/bin/sh", "/bin/ls"].map(|path| MappedFile::open(Path::new(path)).unwrap());
        let said = tell(1000, vec![(&other, 60), (&one, 300), (&other, 9)]).unwrap().message;
        let build_id = one.build_id().map_or(String::new(), |id| format!(", build-id {id}"));
        assert!(said.starts_with("37 % of the frames have no names"), "{said}");
        assert!(said.contains(&format!("for /bin/sh (30 %{build_id}), /bin/ls (6 %")), "{said}");
        assert!(!said.contains("others"), "{said}");
        let said = tell(100, vec![(&one, 10); 4]).unwrap().message;
        assert!(said.contains("and others"), "{said}");
    }

    #[test]
    fn a_few_frames_are_not_worth_a_word() {
        let file = MappedFile::open(Path::new("/bin/sh")).unwrap();
        assert!(tell(1000, vec![(&file, 49)]).is_none());
        assert!(tell(0, Vec::new()).is_none());
        let many = tell(10_000, vec![(&file, 60); 10]).unwrap().message;
        assert!(many.contains("many files"), "{many}");
    }
}

//! Names of stripped files beside files that have all symbols: absent or equal.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::{run, symbolize};

/// Libraries as they are installed, whose names are checked.
const LIBRARIES: usize = 20;
/// Addresses that are asked of each file.
const ADDRESSES: u64 = 20_000;
/// Larger libraries take long in a build without optimization.
const LARGEST: u64 = 12 << 20;

/// The symbols of code in a file: start, and the longest size and all names there.
#[derive(Default)]
struct Known {
    symbols: BTreeMap<u64, (u64, Vec<String>)>,
    /// The longest symbol.
    longest: u64,
}

/// A name without its version (`name@VERSION`) and without the part of the function that the compiler laid elsewhere (`name.cold`).
fn plain(name: &str) -> &str {
    name.split(['@', '.']).next().unwrap()
}

impl Known {
    /// Reads both symbol tables of a file. Returns `None` if the tool is missing.
    fn read(path: &Path) -> Option<Self> {
        let text = run(Path::new("/"), &["readelf", "-sW", path.to_str().unwrap()])?;
        let mut known = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, value, size, kind, _, _, section, name, ..] = words[..] else { continue };
            if !matches!(kind, "FUNC" | "IFUNC" | "NOTYPE") || section.parse::<u16>().is_err() {
                continue;
            }
            let start = u64::from_str_radix(value, 16).unwrap();
            let size = match size.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
                None => size.parse().unwrap(),
            };
            let entry = known.symbols.entry(start).or_default();
            entry.0 = entry.0.max(size);
            entry.1.push(plain(name).to_owned());
            known.longest = known.longest.max(size);
        }
        Some(known)
    }

    /// Whether a symbol of this name covers an address. One without a size ends at the next symbol.
    fn covers(&self, address: u64, name: &str) -> bool {
        let mut next = self.symbols.range(address + 1..).next().map_or(u64::MAX, |(start, _)| *start);
        for (start, (size, names)) in self.symbols.range(..=address).rev() {
            if start.saturating_add(self.longest) <= address && next <= address {
                return false;
            }
            let covers = address - start < *size || *size == 0 && next > address;
            if covers && names.iter().any(|known| known == plain(name)) {
                return true;
            }
            next = *start;
        }
        false
    }
}

/// Addresses spread over the code of a file.
fn code(path: &Path) -> Option<Vec<u64>> {
    let text = run(Path::new("/"), &["readelf", "-SW", path.to_str().unwrap()])?;
    let line = text.lines().find(|line| line.contains(" .text "))?;
    let words: Vec<&str> = line.split(" .text ").nth(1)?.split_whitespace().collect();
    let number = |at: usize| u64::from_str_radix(words[at], 16).unwrap();
    let (start, size) = (number(1), number(3));
    // An odd step meets all places within functions that are aligned.
    let step = (size / ADDRESSES).max(1) | 1;
    Some((start..start + size).step_by(usize::try_from(step).unwrap()).collect())
}

/// The shares of addresses with a name, of those that the oracle names. Fails if a name is not that of the oracle.
fn compare(stripped: &Path, known: &Known) -> (usize, usize) {
    let addresses = code(stripped).unwrap();
    let answers = symbolize(stripped, &addresses);
    let mut named = 0;
    let mut wrong = Vec::new();
    for (address, lines) in addresses.iter().zip(&answers) {
        let Some(line) = lines.last() else { continue };
        named += 1;
        // Debug information has no linkage name of an `extern "C"` function in a namespace, and one name for all variants of a constructor.
        let name = line.system_name.as_str();
        let last = name.rsplit("::").next().unwrap();
        let variants =
            ["1E", "2E"].map(|n| name.replace("C4E", &format!("C{n}")).replace("D4E", &format!("D{n}")));
        let spellings = [name, last, &variants[0], &variants[1]];
        if !spellings.iter().any(|spelling| known.covers(*address, spelling)) {
            wrong.push(format!("{address:#x} {name}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}: {} of {named} names are wrong: {:#?}",
        stripped.display(),
        wrong.len(),
        &wrong[..wrong.len().min(20)]
    );
    (named, addresses.len())
}

/// The debug file of a library in a folder of such files, by its build-id.
fn debug_file(library: &Path, folder: &Path) -> Option<PathBuf> {
    let notes = run(Path::new("/"), &["readelf", "-n", library.to_str().unwrap()])?;
    let id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: "))?;
    let (head, tail) = id.split_at_checked(2)?;
    let path = folder.join(".build-id").join(head).join(format!("{tail}.debug"));
    path.exists().then_some(path)
}

fn libraries() -> PathBuf {
    PathBuf::from(format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH))
}

#[test]
fn names_of_the_c_library_are_those_of_its_debug_file() {
    if let Err(missing) = testkit::need("libc6-dbg") {
        testkit::skip!("{missing}");
    }
    for name in ["libc.so.6", "libm.so.6"] {
        let library = libraries().join(name);
        let Some(oracle) = debug_file(&library, Path::new("/usr/lib/debug")) else {
            testkit::skip!("the installed libc6-dbg is not that of the C library");
        };
        let Some(known) = Known::read(&oracle) else { return };
        let (named, all) = compare(&library, &known);
        assert!(named * 4 > all, "{name}: {named} of {all} addresses have names");
    }
}

/// Names are those of the symbols that the library itself has, and none reaches beyond the size of its symbol.
#[test]
fn no_name_of_an_installed_library_reaches_beyond_its_symbol() {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(libraries()).unwrap().flatten() {
        let Ok(path) = entry.path().canonicalize() else { continue };
        let Ok(file) = path.metadata() else { continue };
        let is_library = path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so."));
        if is_library && file.is_file() && file.size() < LARGEST {
            found.insert((u64::MAX - file.size(), path.clone()), path);
        }
    }
    let mut checked = 0;
    for path in found.values() {
        let Some(known) = Known::read(path) else { return };
        // Names of debug information are not those of symbols: a weak function that another one replaces keeps its code and loses its symbol.
        let sections = run(Path::new("/"), &["readelf", "-SW", path.to_str().unwrap()]).unwrap();
        if sections.contains(" .debug_info ") || code(path).is_none_or(|addresses| addresses.len() < 1000) {
            continue;
        }
        compare(path, &known);
        checked += 1;
        if checked == LIBRARIES {
            return;
        }
    }
    assert!(checked > 5, "only {checked} libraries are installed");
}

/// Other libraries and their debug files, which a list names: `PERF_AGENT_NAME_ORACLES=LIBRARY=DEBUG_FILE:...`.
#[test]
fn names_are_those_of_files_that_have_all_symbols() {
    let Ok(list) = std::env::var("PERF_AGENT_NAME_ORACLES") else {
        testkit::skip!("PERF_AGENT_NAME_ORACLES names no files");
    };
    for pair in list.split(':') {
        let (stripped, oracle) = pair.split_once('=').unwrap();
        let known = Known::read(Path::new(oracle)).unwrap();
        let (named, all) = compare(Path::new(stripped), &known);
        println!("{stripped}: {named} of {all} addresses have names, all equal");
    }
}

//! The events of the kernel's event sources (PMUs) in sysfs, by perf's names: `msr/tsc/`, `cpu/event=0x3c,umask=1/`.
//!
//! In: names to numbers, where all terms are bits of `config`, `config1` and `config2`. Sources with other words, and those for tracepoints and
//! probes, are left out.

use std::fs;
use std::path::Path;

use super::names::NamedEvent;

const SOURCES: &str = "/sys/bus/event_source/devices";
/// Sources and events of each that are read at most.
const MOST: usize = 4096;

/// All named events of all sources, sorted.
#[must_use]
pub fn pmu_events() -> Vec<NamedEvent> {
    events_in(Path::new(SOURCES))
}

/// The event with such a name: `PMU/EVENT/` or `PMU/TERM=NUMBER,…/`.
pub(crate) fn pmu_event(name: &str) -> Result<NamedEvent, String> {
    event_in(Path::new(SOURCES), name)
}

fn events_in(sources: &Path) -> Vec<NamedEvent> {
    let of_source = |pmu: String| {
        let names = list(&sources.join(&pmu).join("events"));
        // Beside an event there are files with its scale and unit.
        let names = names.into_iter().filter(|name| !name.contains('.'));
        names.filter_map(move |name| event_in(sources, &format!("{pmu}/{name}/")).ok())
    };
    list(sources).into_iter().flat_map(of_source).collect()
}

fn event_in(sources: &Path, name: &str) -> Result<NamedEvent, String> {
    let parts = name.strip_suffix('/').and_then(|name| name.split_once('/'));
    let Some((pmu, terms)) = parts.filter(|(pmu, terms)| is_plain(pmu) && !terms.contains('/')) else {
        return Err("an event of a PMU is PMU/EVENT/ or PMU/TERM=NUMBER,…/".to_owned());
    };
    let folder = sources.join(pmu);
    let kind = read(&folder.join("type")).and_then(|text| text.trim().parse().ok());
    let kind =
        kind.ok_or_else(|| format!("there is no PMU {pmu}; there are {}", list(sources).join(", ")))?;
    let written = match is_plain(terms).then(|| read(&folder.join("events").join(terms))).flatten() {
        Some(written) => written,
        None if terms.contains('=') => terms.to_owned(),
        None => {
            let known = list(&folder.join("events"));
            let known = known.into_iter().filter(|name| !name.contains('.')).collect::<Vec<_>>().join(", ");
            return Err(format!("PMU {pmu} has no event `{terms}`; it has {known}"));
        }
    };
    let mut words = [0; WORDS.len()];
    for term in written.trim().split(',') {
        let (word, bits) = bits_of(&folder, term.trim())?;
        words[word] |= bits;
    }
    let [config, further @ ..] = words;
    Ok(NamedEvent { name: name.to_owned(), also: None, set: "pmu", kind, config, further })
}

/// The words of an attribute that terms are bits of.
const WORDS: [&str; 3] = ["config", "config1", "config2"];

/// The bits of a term, with the number of their word. A term without a number is 1.
fn bits_of(folder: &Path, term: &str) -> Result<(usize, u64), String> {
    let (name, value) = term.split_once('=').unwrap_or((term, "1"));
    let number = match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    };
    let number = number.ok_or_else(|| format!("`{value}` is no number for {name}"))?;
    let word_of = |name: &str| WORDS.iter().position(|word| *word == name);
    if let Some(word) = word_of(name) {
        return Ok((word, number));
    }
    let format = is_plain(name).then(|| read(&folder.join("format").join(name))).flatten();
    let format = format.ok_or_else(|| {
        format!("its PMU has no term `{name}`; it has {}", list(&folder.join("format")).join(", "))
    })?;
    let other = || {
        format!(
            "term `{name}` is {}, and only bits of config, config1 and config2 are supported",
            format.trim()
        )
    };
    let (word, ranges) = format.trim().split_once(':').ok_or_else(other)?;
    let word = word_of(word).ok_or_else(other)?;
    let (mut left, mut bits) = (number, 0);
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else { return Err(other()) };
        let Some(len) = (last < 64).then(|| (last + 1).checked_sub(first)).flatten().filter(|len| *len > 0)
        else {
            return Err(other());
        };
        let mask = u64::MAX >> (64 - len);
        bits |= (left & mask) << first;
        left = left.checked_shr(len).unwrap_or(0);
    }
    if left > 0 { Err(format!("{number:#x} is too large for {name}")) } else { Ok((word, bits)) }
}

/// Whether a text can be the name of a file in a folder.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn list(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten().take(MOST);
    let mut names: Vec<String> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sources as an Intel processor has them.
    fn sources() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("cpu/type", "4\n"),
            ("cpu/events/cpu-cycles", "event=0x3c\n"),
            ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
            ("cpu/events/slots", "event=0x00,umask=0x4,split=0x1f\n"),
            ("cpu/format/event", "config:0-7\n"),
            ("cpu/format/umask", "config:8-15\n"),
            ("cpu/format/split", "config:16-18,35-38\n"),
            ("cpu/format/inv", "config:23\n"),
            ("cpu/format/ldlat", "config1:0-15\n"),
            ("cpu/format/snoop", "config2:4-7\n"),
            ("cpu/format/far", "config3:0-7\n"),
            ("cpu/format/odd", "config:70-80\n"),
            ("power/type", "20\n"),
            ("power/events/energy-pkg", "event=0x02\n"),
            ("power/events/energy-pkg.scale", "2.3e-10\n"),
            ("power/format/event", "config:0-7\n"),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn terms_are_put_where_the_format_says() {
        let folder = sources();
        let config = |name: &str| event_in(folder.path(), name).map(|event| (event.kind, event.config));
        assert_eq!(config("cpu/cpu-cycles/"), Ok((4, 0x3c)));
        assert_eq!(config("cpu/event=0x3c,umask=2,inv/"), Ok((4, 0x3c | 2 << 8 | 1 << 23)));
        assert_eq!(config("cpu/slots/"), Ok((4, 4 << 8 | 7 << 16 | 3 << 35)));
        assert_eq!(config("cpu/config=0x1ff/"), Ok((4, 0x1ff)));
        let words = |name: &str| event_in(folder.path(), name).map(|event| (event.config, event.further));
        assert_eq!(words("cpu/mem-loads/"), Ok((0x1cd, [3, 0])));
        assert_eq!(words("cpu/event=0xcd,ldlat=0x1e,snoop=2/"), Ok((0xcd, [0x1e, 0x20])));
        assert_eq!(words("cpu/event=1,config1=7,config2=9/"), Ok((1, [7, 9])));
        let names: Vec<String> = events_in(folder.path()).into_iter().map(|event| event.name).collect();
        assert_eq!(names, ["cpu/cpu-cycles/", "cpu/mem-loads/", "cpu/slots/", "power/energy-pkg/"]);
        for (name, said) in [
            ("gpu/x/", "no PMU gpu; there are cpu, power"),
            ("cpu/instructions/", "it has cpu-cycles, mem-loads, slots"),
            ("cpu/far=1/", "only bits of config"),
            ("cpu/event=0x100/", "too large for event"),
            ("cpu/odd=1/", "only bits of config"),
            ("cpu/event=x/", "no number"),
            ("cpu/nothing=1/", "no term `nothing`"),
            ("../cpu/x/", "PMU/EVENT/"),
            ("cpu/../type/", "PMU/EVENT/"),
            ("cpu/", "PMU/EVENT/"),
        ] {
            let error = config(name).unwrap_err();
            assert!(error.contains(said), "{name}: {error}");
        }
    }

    #[test]
    fn the_events_of_this_machine_are_found_by_their_names() {
        for event in pmu_events() {
            assert_eq!(pmu_event(&event.name), Ok(event));
        }
    }
}

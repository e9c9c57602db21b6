//! The report on unused parts of a perf map.

use super::map::PerfMap;

/// Reports unused parts of the perf map of a process, and why they are unused. `None`: all of it is used.
#[must_use]
pub fn perf_map_shortfall(map: &PerfMap, pid: u32) -> Option<String> {
    if map.is_spent() {
        return Some(spent_perf_map(pid));
    }
    let counts = [
        (map.malformed_lines(), "malformed lines"),
        (map.misplaced_entries(), "entries that do not lie within one mapping of code"),
        (map.entries_beyond_limit(), "entries beyond the limit"),
        (map.bytes_beyond_limit(), "bytes beyond the limit"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    let doubt = "names beneath entries that do not lie within one mapping may be missing";
    let doubt = map.is_left_in_doubt().then(|| doubt.to_owned());
    let reasons: Vec<_> = counts.chain(doubt).collect();
    (!reasons.is_empty()).then(|| not_all(pid, &reasons.join(", ")))
}

/// Reports that [`PerfMap::MAX_READ`] bytes of a perf map were read, so that it is read no further.
#[must_use]
pub fn spent_perf_map(pid: u32) -> String {
    let limit = PerfMap::MAX_READ >> 30;
    not_all(pid, &format!("it is written anew again and again, and {limit} GiB were read"))
}

fn not_all(pid: u32, why: &str) -> String {
    format!("of the perf map of process {pid} not all is used: {why}")
}

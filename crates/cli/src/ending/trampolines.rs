//! What was done with the perf trampolines of CPython.

use perfagent::PythonStats;

use crate::messages;

/// Perf maps that are named.
const MAPS: usize = 3;

/// Tells what was done. Returns whether everything that was switched on is off again.
pub fn tell(stats: Option<&PythonStats>) -> bool {
    let Some(stats) = stats else { return true };
    for (pid, cause) in &stats.left_on {
        let text = format!("python: pid {pid}: its trampoline may still be on: {cause}");
        let hint =
            format!("`perf-agent --profile --inject-python --pid {pid} -d 1` switches it off at its end");
        messages::error(&text, Some(&hint));
    }
    messages::note(&format!("python: {}", stats.counts));
    if let Some(text) = maps(stats) {
        messages::note(&text);
    }
    stats.left_on.is_empty()
}

/// Where the names of functions are.
fn maps(stats: &PythonStats) -> Option<String> {
    let named: Vec<String> =
        stats.maps.iter().take(MAPS).map(|(_, path)| path.display().to_string()).collect();
    let more = stats.maps.len().saturating_sub(MAPS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!named.is_empty()).then(|| format!("python: perf maps that stay: {}{more}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_maps_are_named_and_the_others_counted() {
        let mut stats = PythonStats::default();
        assert_eq!(maps(&stats), None);
        assert!(tell(Some(&stats)) && tell(None));
        stats.maps = (1..=5).map(|pid| (pid, format!("/tmp/perf-{pid}.map").into())).collect();
        let text =
            "python: perf maps that stay: /tmp/perf-1.map, /tmp/perf-2.map, /tmp/perf-3.map and 2 more";
        assert_eq!(maps(&stats).unwrap(), text);
        stats.left_on = vec![(7, "timeout: cause".to_owned())];
        assert!(!tell(Some(&stats)));
    }
}

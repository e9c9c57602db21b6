//! Snapshots as text and as JSON.

mod json;
mod text;

pub use json::json_report;
pub use text::text_report;

use crate::Incomplete;

/// The causes of an incomplete report: JSON key, number, text.
fn missing(incomplete: &Incomplete) -> [(&'static str, u64, &'static str); 9] {
    [
        ("untracked_threads", incomplete.untracked_threads, "threads not tracked"),
        ("lost_switches", incomplete.lost_switches, "switches lost"),
        ("unknown_durations", incomplete.unknown_durations, "unknown durations"),
        ("unplaced_durations", incomplete.unplaced_durations, "durations in no percentile"),
        ("uncounted_threads", incomplete.uncounted_threads, "threads without counters"),
        ("uncounted_cpus", incomplete.uncounted_cpus, "CPUs without counters"),
        ("failed_reads", incomplete.failed_reads, "failed reads of counters"),
        ("lost_processes", incomplete.lost_processes, "processes not followed"),
        ("unlisted_processes", incomplete.unlisted_processes, "ended processes in the sum only"),
    ]
}

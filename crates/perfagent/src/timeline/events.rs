//! The events of the file: which ones a capture has, and by which number samples refer to them.

use perf_data::{Attr, Event};

/// `PERF_TYPE_SOFTWARE`.
const SOFTWARE: u32 = 1;
/// `PERF_COUNT_SW_CPU_CLOCK`.
const CPU_CLOCK: u64 = 0;
/// `PERF_COUNT_SW_BPF_OUTPUT`, as which `perf record --off-cpu` writes its samples.
const BPF_OUTPUT: u64 = 10;

/// The number of the samples of the clock. Records that are no samples have it too.
pub(super) const CLOCK_ID: u64 = 1;
/// The number of intervals off the CPU. Their period is their time in ns.
pub(super) const OFF_CPU_ID: u64 = 2;

/// The events of a capture.
pub(super) fn of_capture(rate_hz: u64, off_cpu: bool, kernel_frames: bool) -> Vec<Event> {
    let event = |name: &str, id, config, rate| Event {
        name: name.to_owned(),
        id,
        attr: Attr { kind: SOFTWARE, config, rate, kernel_frames },
    };
    let clock = event("cpu-clock", CLOCK_ID, CPU_CLOCK, Some(rate_hz));
    let waits = off_cpu.then(|| event("off-cpu", OFF_CPU_ID, BPF_OUTPUT, None));
    std::iter::once(clock).chain(waits).collect()
}

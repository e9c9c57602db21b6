//! The events of the file: which ones a capture has, and by which number samples refer to them.

use perf_data::{Attr, Event, Rate};

use crate::config::{Counted, SampledEvent};

/// `PERF_TYPE_SOFTWARE`.
const SOFTWARE: u32 = 1;
/// `PERF_COUNT_SW_CPU_CLOCK`.
const CPU_CLOCK: u64 = 0;
/// `PERF_COUNT_SW_BPF_OUTPUT`, as which `perf record --off-cpu` writes its samples.
const BPF_OUTPUT: u64 = 10;

/// The number of the samples of the clock, or of the event that is sampled instead. Records that are no samples have it too.
pub(super) const CLOCK_ID: u64 = 1;
/// The number of intervals off the CPU. Their period is their time in ns.
pub(super) const OFF_CPU_ID: u64 = 2;

/// What takes the samples.
#[derive(Clone, Debug)]
pub(crate) struct Sampled {
    name: String,
    /// `type` and `config` of the kernel's attribute.
    numbers: (u32, u64),
    rate: Rate,
    /// What each sample stands for.
    pub(super) period: u64,
}

impl Sampled {
    /// The clock of each CPU.
    pub(crate) fn clock(rate_hz: u64) -> Self {
        let rate = Rate::PerSecond(rate_hz);
        let period = 1_000_000_000 / rate_hz.max(1);
        Self { name: "cpu-clock".to_owned(), numbers: (SOFTWARE, CPU_CLOCK), rate, period }
    }

    /// Another event.
    pub(crate) fn of_event(event: &SampledEvent) -> Self {
        let SampledEvent { kind, counted, period, .. } = event;
        let numbers = match counted {
            Counted::ByNumbers(kind, config) => (*kind, *config),
            // Readers of a tracepoint or probe want its fields, which samples do not have.
            Counted::Tracepoint(_) | Counted::Probe(_) => (SOFTWARE, BPF_OUTPUT),
        };
        Self { name: kind.clone(), numbers, rate: Rate::Every(*period), period: *period }
    }
}

/// The events of a capture.
pub(super) fn of_capture(sampled: &Sampled, off_cpu: bool, kernel_frames: bool) -> Vec<Event> {
    let event = |name: &str, id, (kind, config), rate| Event {
        name: name.to_owned(),
        id,
        attr: Attr { kind, config, rate, kernel_frames },
    };
    let of_samples = event(&sampled.name, CLOCK_ID, sampled.numbers, sampled.rate);
    let waits = off_cpu.then(|| event("off-cpu", OFF_CPU_ID, (SOFTWARE, BPF_OUTPUT), Rate::Every(1)));
    std::iter::once(of_samples).chain(waits).collect()
}

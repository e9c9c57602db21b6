//! The perf.data file of a capture: begun with it, cut with its intervals, ended with it.

use std::time::SystemTime;

use kernel::Kernel;
use recording::KernelImage;
use sys::clock::kernel_ns;

use super::kernel_image;
use super::parts::{Interval, Parts};
use crate::Config;
use crate::output::InPlace;
use crate::timeline::{Sampled, Timeline, TimelineSettings, Written};

/// Begins the file, if one is asked for.
pub(super) fn begin(parts: &mut Parts) {
    let Interval { started, start_ns, .. } = parts.interval;
    if parts.config.perf_data.is_some() {
        let kernel = (kernel_image::running(true), parts.settings.kernel_stacks);
        parts.intake.timeline = begun(&parts.config, kernel, started, start_ns);
    }
}

/// The file of a capture that ended before it began.
pub(super) fn empty(config: &Config, started: SystemTime) -> Option<Written> {
    begun(config, (KernelImage::default(), false), started, kernel_ns()).map(Timeline::finish)
}

fn begun(
    config: &Config,
    (kernel, kernel_frames): (KernelImage, bool),
    started: SystemTime,
    start_ns: u64,
) -> Option<Timeline> {
    let place = InPlace::open(config.perf_data.clone()?, config.rotate.is_some());
    // Several events are refused with this output.
    let sampled = match config.events.first() {
        Some(event) => Sampled::of_event(event),
        None => Sampled::clock(config.sample_rate_hz.into()),
    };
    let settings = TimelineSettings { sampled, off_cpu: config.off_cpu_profile, kernel, kernel_frames };
    Some(Timeline::begin(place, started, settings, start_ns))
}

/// Writes what has come, as in each round.
pub(super) fn round(parts: &mut Parts, last: bool) {
    let Parts { intake, processes, kernel, .. } = parts;
    if let Some(timeline) = &mut intake.timeline {
        timeline.round(processes, || lost(kernel), last);
    }
}

/// Begins the file of an interval that has just begun, if each has its own.
pub(super) fn cut(parts: &mut Parts) {
    if parts.config.rotate.is_none() {
        return;
    }
    let image = kernel_image::running(true);
    let Parts { intake, processes, kernel, interval, .. } = parts;
    if let Some(timeline) = &mut intake.timeline {
        timeline.next_file(interval.started, image, processes, lost(kernel), interval.start_ns);
    }
}

/// Ends the file.
pub(super) fn finish(parts: &mut Parts) -> Option<Written> {
    round(parts, true);
    parts.intake.timeline.take().map(Timeline::finish)
}

/// Samples that the programs have lost so far: not recorded at all, or not sent.
fn lost(kernel: &Kernel) -> u64 {
    let all = [kernel.counters(), kernel.off_cpu_counters()];
    all.iter().map(|counters| counters.lost() + counters.singles_lost).sum()
}

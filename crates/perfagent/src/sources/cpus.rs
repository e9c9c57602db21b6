//! CPUs that come and go during a capture: the kernel closes events with their CPU and does not open them again.

use std::time::{Duration, Instant};

use events::{Followed, Present, SideBand, cpu_list};
use kernel::Kernel;

use super::registry::Sources;
use crate::{Warning, WarningKind};

/// Time between two checks of which CPUs are online.
pub(crate) const CPU_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Time between two checks for events that the kernel closed unseen: of a CPU that went and came back between two of the other checks,
/// or while perf-agent did not run, as when the machine sleeps. Each check interrupts every CPU once.
const ENDED_CHECK_INTERVAL: Duration = Duration::from_secs(1);

const HINT: &str = "what ran on that CPU before the agent noticed is not sampled";

/// Which CPUs are covered by open events.
pub(crate) struct CpuFollower {
    /// CPUs on which everything is open.
    covered: Vec<u32>,
    next_ended_check: Instant,
}

impl CpuFollower {
    /// With everything open on these CPUs.
    pub(crate) fn new(covered: Vec<u32>) -> Self {
        Self { covered, next_ended_check: Instant::now() + ENDED_CHECK_INTERVAL }
    }

    /// Closes the events on CPUs that went offline, and opens on CPUs that came online the same events as on the others.
    pub(crate) fn follow(
        &mut self,
        side_band: &mut SideBand,
        sources: &mut Sources,
        kernel: &mut Kernel,
    ) -> Vec<Warning> {
        let Ok(online) = events::online_cpus() else { return Vec::new() };
        let mut ended = Vec::new();
        if Instant::now() >= self.next_ended_check {
            self.next_ended_check = Instant::now() + ENDED_CHECK_INTERVAL;
            ended = side_band.ended();
        }
        if online == self.covered && ended.is_empty() {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        let now = Present { online: online.clone(), ended };
        // Follow the side band first: a sample from a mapping that is not known has no name. Follow the sources only on CPUs that the
        // side band covers: events opened later cannot have ended earlier.
        let mut followed = side_band.follow(&now);
        let mut missing = take_missing(&mut followed, &mut warnings);
        let recorded: Vec<u32> = side_band.cpus().collect();
        let now = now.only(|cpu| recorded.contains(&cpu));
        for source in sources.followers() {
            let mut by_source = source.follow_cpus(kernel, &now);
            missing.extend(take_missing(&mut by_source, &mut warnings));
            if !by_source.opened.is_empty() {
                followed = by_source;
            }
        }
        let (returned, came): (Vec<u32>, Vec<u32>) =
            followed.opened.iter().partition(|cpu| followed.closed.contains(cpu));
        if !came.is_empty() {
            warnings.push(warning(format!("{} came online during the capture", name(&came))));
        }
        warnings.extend(returned_warning(&returned));
        // Missing CPUs are tried again until it works or until they have gone again.
        self.covered = online;
        self.covered.retain(|cpu| !missing.contains(cpu));
        warnings
    }

    /// A last check, for events that the kernel closed and that are not followed any more.
    pub(crate) fn finish(&self, side_band: &mut SideBand) -> Option<Warning> {
        returned_warning(&side_band.ended())
    }
}

fn returned_warning(cpus: &[u32]) -> Option<Warning> {
    let were = if cpus.len() == 1 { "was" } else { "were" };
    (!cpus.is_empty())
        .then(|| warning(format!("{} {were} offline for a moment during the capture", name(cpus))))
}

fn warning(message: String) -> Warning {
    Warning::new(WarningKind::Capture, message, HINT)
}

/// The CPUs that are to be tried again.
fn take_missing(followed: &mut Followed, warnings: &mut Vec<Warning>) -> Vec<u32> {
    let missing = std::mem::take(&mut followed.missing);
    for error in missing.iter().filter_map(|(_, error)| error.as_ref()) {
        let message = format!("a CPU that came online is not recorded: {error}");
        warnings.push(Warning::bare(WarningKind::Capture, message));
    }
    missing.into_iter().map(|(cpu, _)| cpu).collect()
}

/// `CPU 1`, `CPUs 1-3,5`
fn name(cpus: &[u32]) -> String {
    format!("CPU{} {}", if cpus.len() == 1 { "" } else { "s" }, cpu_list(cpus))
}

#[cfg(test)]
mod tests {
    #[test]
    fn cpus_are_named_as_the_kernel_names_them() {
        assert_eq!((super::name(&[1]), super::name(&[1, 2, 3, 5])), ("CPU 1".into(), "CPUs 1-3,5".into()));
    }
}

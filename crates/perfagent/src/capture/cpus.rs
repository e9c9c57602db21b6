//! CPUs that come and go while a capture goes on: the kernel ends events with their CPU and does not bring them back.

use std::time::{Duration, Instant};

use events::{Followed, Present, cpu_list};

use super::Capture;

/// Between two looks which CPUs are online.
pub(super) const EVERY: Duration = Duration::from_millis(50);
/// Between two looks for CPUs that went and came between two of the others, or while perf-agent did not run, as when the
/// machine sleeps. Each interrupts every CPU once.
const ENDED_EVERY: Duration = Duration::from_secs(1);

const HINT: &str = "what ran there before that was noticed is not sampled";

/// What was found at the last looks.
pub(super) struct Cpus {
    /// Those on which everything is open.
    covered: Vec<u32>,
    next_ended: Instant,
}

impl Cpus {
    /// With what is open on these CPUs.
    pub(super) fn new(covered: Vec<u32>) -> Self {
        Self { covered, next_ended: Instant::now() + ENDED_EVERY }
    }
}

impl Capture {
    /// Closes what is open on CPUs that have gone since the last call, and opens on those that have come what the others have.
    pub(super) fn follow_cpus(&mut self) {
        let Ok(online) = events::online_cpus() else { return };
        let mut ended = Vec::new();
        if Instant::now() >= self.cpus.next_ended {
            self.cpus.next_ended = Instant::now() + ENDED_EVERY;
            ended = self.side_band.ended();
        }
        if online == self.cpus.covered && ended.is_empty() {
            return;
        }
        let mut now = Present { online: online.clone(), ended };
        // First what tells of mappings, as at the start: a sample of one that is not known has no names. The rest only where
        // that is: what is younger than the events which are asked whether they have ended has not ended before them.
        let mut followed = self.side_band.follow(&now);
        let mut missing = self.take_missing(&mut followed);
        let recorded: Vec<u32> = self.side_band.cpus().collect();
        now = now.only(|cpu| recorded.contains(&cpu));
        if let Some(figures) = &mut self.figures {
            let (uncounted, split) = figures.follow_cpus(&now, &mut self.kernel);
            missing.extend(uncounted);
            self.checked(split);
        }
        if let Some(events) = &mut self.events {
            let wanted = self.config.cpus.as_ref();
            followed = events.follow(&now.only(|cpu| wanted.is_none_or(|cpus| cpus.contains(&cpu))));
            missing.extend(self.take_missing(&mut followed));
        }
        let (returned, came): (Vec<u32>, Vec<u32>) =
            followed.opened.iter().partition(|cpu| followed.closed.contains(cpu));
        if !came.is_empty() {
            self.warn(format!("{} came online during the capture", name(&came)), HINT);
        }
        self.warn_of_returned(&returned);
        // The others until it works, or they have gone again.
        self.cpus.covered = online;
        self.cpus.covered.retain(|cpu| !missing.contains(cpu));
    }

    /// A last look, for what is not followed any more.
    pub(super) fn leave_cpus(&mut self) {
        let ended = self.side_band.ended();
        self.warn_of_returned(&ended);
    }

    fn warn_of_returned(&mut self, cpus: &[u32]) {
        if !cpus.is_empty() {
            let were = if cpus.len() == 1 { "was" } else { "were" };
            let message = format!("{} {were} offline for a moment during the capture", name(cpus));
            self.warn(message, HINT);
        }
    }

    /// The CPUs on which it is to be tried again.
    fn take_missing(&mut self, followed: &mut Followed) -> Vec<u32> {
        let missing = std::mem::take(&mut followed.missing);
        for error in missing.iter().filter_map(|(_, error)| error.as_ref()) {
            self.warn(format!("a CPU that came online is not recorded: {error}"), "");
        }
        missing.into_iter().map(|(cpu, _)| cpu).collect()
    }
}

/// `CPU 1`, `CPUs 1-3,5`
fn name(cpus: &[u32]) -> String {
    format!("CPU{} {}", if cpus.len() == 1 { "" } else { "s" }, cpu_list(cpus))
}

#[cfg(test)]
mod tests {
    #[test]
    fn cpus_are_named_as_the_kernel_does() {
        assert_eq!((super::name(&[1]), super::name(&[1, 2, 3, 5])), ("CPU 1".into(), "CPUs 1-3,5".into()));
    }
}

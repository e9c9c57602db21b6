//! CPUs that come online while a capture goes on: the kernel ends events with their CPU and does not bring them back.

use std::time::Duration;

use super::Capture;

/// Between two looks. A CPU that goes and comes in between, or while perf-agent does not run (as when the machine sleeps), is not
/// noticed, and stays without events.
pub(super) const EVERY: Duration = Duration::from_millis(50);

impl Capture {
    /// Opens on CPUs that have come online since the last call what the others have.
    pub(super) fn follow_cpus(&mut self) {
        let Ok(online) = events::online_cpus() else { return };
        if online == self.online {
            return;
        }
        if let Some(figures) = &mut self.figures {
            let followed = figures.follow_cpus(&online, &mut self.kernel);
            self.checked(followed);
        }
        let is_wanted = |cpu: &u32| self.config.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu));
        let wanted: Vec<u32> = online.iter().copied().filter(is_wanted).collect();
        // First what tells of mappings, as at the start: a sample of one that is not known has no names.
        let followed = self.side_band.follow(&online);
        let followed = match &mut self.events {
            Some(events) => followed.and_then(|_| events.follow(&wanted)),
            None => followed,
        };
        match followed {
            Ok(new) => {
                for cpu in new {
                    let message = format!("CPU {cpu} came online during the capture");
                    self.warn(message, "what ran there before that was noticed is not sampled");
                }
                self.online = online;
            }
            // Until it works, or the CPU has gone again.
            Err(error) => self.warn(format!("a CPU that came online is not recorded: {error}"), ""),
        }
    }
}

//! The tables that a capture begins with: which are asked for, and how long the first sample waits for them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use events::SideBand;
use kernel::{Kernel, Message};

use super::tables::Tables;
use super::{Shared, setup};
use crate::processes::{Arrival, Arrivals, Processes};
use crate::{CancelToken, Config, Error, Targets, Unwind};

/// As long as cached ones take. What comes later is made while samples are taken, and stacks that need it cross as they
/// are.
const CACHED: Duration = Duration::from_millis(100);
/// Threads leave their CPUs far more often than samples are taken: more than can cross as they are.
const OFF_CPU: Duration = Duration::from_secs(5);
/// Between two looks at the cancel token.
const SLICE: Duration = Duration::from_millis(20);

/// How long after the start of the capture tables are still waited for. None: as long as it takes.
pub(super) fn patience(config: &Config) -> Option<Duration> {
    match config.targets {
        // What it maps now is not what it will run.
        Targets::Command(_) => Some(CACHED),
        _ if config.unwind == Unwind::Dwarf => None,
        Targets::Pids(_) if config.off_cpu_profile => Some(OFF_CPU),
        _ => Some(CACHED),
    }
}

/// What is at work before the first sample.
pub(super) struct Opened<'a> {
    pub(super) kernel: &'a mut Kernel,
    pub(super) side_band: &'a mut SideBand,
    pub(super) arrivals: &'a mut Arrivals,
    pub(super) processes: &'a mut Processes,
    pub(super) tables: &'a mut Tables,
}

impl Opened<'_> {
    /// Waits until all tables that were asked for are in the kernel, or until it is too late, and follows what processes
    /// do meanwhile. Gives those whose mappings have tables now.
    pub(super) fn wait(
        &mut self,
        until: Option<Instant>,
        shared: &Shared,
        cancel: &CancelToken,
    ) -> Result<HashSet<u32>, Error> {
        let mut ready = HashSet::new();
        loop {
            let pending = self.tables.pending();
            shared.set_tables_left(pending as u64);
            let left = until.map_or(SLICE, |until| until.saturating_duration_since(Instant::now()));
            if pending == 0 {
                break;
            }
            // What is finished by now is installed, however late it is.
            ready.extend(self.tables.install_finished(self.kernel, left.min(SLICE)));
            self.follow()?;
            setup::check(cancel)?;
            if left.is_zero() {
                break;
            }
        }
        shared.set_tables_left(0);
        Ok(ready)
    }

    /// Follows what processes do. Nothing is sampled yet, so no stacks come.
    fn follow(&mut self) -> Result<(), Error> {
        let mut records = Vec::new();
        let complete_ns = self.side_band.drain(&mut records);
        let messages = self.kernel.receive().map_err(setup::load_error)?;
        self.arrivals.add(records, complete_ns, messages);
        while let Some(arrival) = self.arrivals.next() {
            match arrival {
                Arrival::Mapping(_, mmap) => {
                    self.processes.mapped(&mmap);
                }
                Arrival::Message(Message::Life(life)) => {
                    self.processes.follow(&life);
                }
                Arrival::Message(_) => {}
            }
        }
        self.processes.take_released().for_each(|pid| self.tables.forget(pid));
        Ok(())
    }
}

/// Asks for the tables of all files of all targets, the smallest first: most stacks need several, and few the largest.
/// `only_hot`: of the processes that run just now.
pub(super) fn request(processes: &Processes, tables: &mut Tables, only_hot: bool) {
    let is_hot = |pid| !only_hot || process::task::stat(pid).is_ok_and(|stat| stat.state == 'R');
    let images: Vec<_> = processes.current().map(|(_, snapshot)| Arc::clone(snapshot.image)).collect();
    let hot = images.iter().filter(|image| is_hot(image.pid));
    let regions = hot.flat_map(|image| image.regions().iter().map(|region| (image.pid, region)));
    let mut regions: Vec<_> = regions.collect();
    regions.sort_by_key(|(_, region)| region.kind.file().map_or(0, |file| file.identity().size));
    for (pid, region) in regions {
        tables.request(pid, region);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Agent, AgentBuilder};

    fn on() -> AgentBuilder {
        Agent::builder().with_cpu_profile()
    }

    fn off() -> AgentBuilder {
        Agent::builder().with_off_cpu_profile()
    }

    fn of(builder: AgentBuilder) -> Option<Duration> {
        patience(&builder.build().unwrap().config())
    }

    #[test]
    fn who_waits_for_what() {
        assert_eq!(of(on().pid(1)), Some(CACHED));
        assert_eq!(of(off().pid(1)), Some(OFF_CPU));
        assert_eq!(of(off().with_cpu_profile().pid(1)), Some(OFF_CPU));
        assert_eq!(of(off().system_wide()), Some(CACHED));
        for builder in [on, off] {
            let dwarf = || builder().unwind(Unwind::Dwarf);
            assert_eq!((of(dwarf().pid(1)), of(dwarf().system_wide())), (None, None));
            assert_eq!(of(dwarf().command(std::process::Command::new("true"))), Some(CACHED));
        }
    }
}

//! The unwind tables that a capture begins with: which are requested, and how long the first sample waits for them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use events::SideBand;
use kernel::{Kernel, Message};
use process::Image;

use super::shared::Shared;
use crate::failure::load_error;
use crate::processes::{Arrival, Arrivals, Processes};
use crate::unwinding::TableStore;
use crate::{CancelToken, Config, Error, Targets, Unwind};

/// As long as reading cached tables takes. Later tables are compiled while samples are taken; stacks that need them are sent unwalked.
const CACHED: Duration = Duration::from_millis(100);
/// Threads leave their CPUs far more often than samples are taken, so more stacks would need a table than can be sent unwalked.
const OFF_CPU: Duration = Duration::from_secs(5);
/// Time between two checks of the cancel token.
const SLICE: Duration = Duration::from_millis(20);

/// How long after the start of the capture the first sample waits for tables. `None`: until all are compiled.
pub(super) fn patience(config: &Config) -> Option<Duration> {
    match config.targets {
        // The command has not been executed yet: its present mappings are not those that it will run.
        Targets::Command(_) => Some(CACHED),
        _ if config.unwind == Unwind::Dwarf => None,
        Targets::Pids(_) if config.follows_waits() => Some(OFF_CPU),
        _ => Some(CACHED),
    }
}

/// How long the start waits for files of targets to be opened. File systems that answer do so in a few milliseconds.
const OPEN: Duration = Duration::from_millis(500);
/// How long it waits before the programs are loaded. What is opened by then is compiled meanwhile.
const OPEN_EARLY: Duration = Duration::from_millis(20);

/// Opens the files of targets and requests their tables, before the targets are followed. A target that cannot be read is told later.
pub(super) fn request_early(processes: &mut Processes, tables: &mut TableStore, pids: &[u32]) {
    for pid in pids {
        let _ = processes.read_early(*pid);
    }
    processes.take_opened(OPEN_EARLY);
    request_of_early(processes, tables);
}

/// Requests the tables of targets that are not followed yet, as far as their files are opened by now.
pub(super) fn request_of_early(processes: &Processes, tables: &mut TableStore) {
    request_all(processes.early(), tables);
}

/// Requests the tables of all files of all targets, after waiting a moment for the files to be opened. `only_running`: of the processes
/// that run at this moment.
pub(super) fn request(processes: &mut Processes, tables: &mut TableStore, only_running: bool) {
    processes.take_opened(OPEN);
    let is_wanted = |pid| !only_running || process::task::stat(pid).is_ok_and(|stat| stat.state == 'R');
    let images: Vec<_> =
        processes.histories().current().map(|(_, snapshot)| Arc::clone(snapshot.image)).collect();
    request_all(images.iter().map(Arc::as_ref).filter(|image| is_wanted(image.pid)), tables);
}

/// The smallest file first: most stacks need several tables, and few need the largest.
fn request_all<'a>(images: impl Iterator<Item = &'a Image>, tables: &mut TableStore) {
    let mut regions: Vec<_> = images.flat_map(|image| image.regions().iter()).collect();
    regions.sort_by_key(|region| region.file().map_or(0, |file| file.identity().size));
    regions.into_iter().for_each(|region| tables.request(region));
}

/// The parts of a capture that are needed while the start waits for tables.
pub(super) struct TableWait<'a> {
    pub(super) kernel: &'a mut Kernel,
    pub(super) side_band: &'a mut SideBand,
    pub(super) processes: &'a mut Processes,
    pub(super) arrivals: &'a mut Arrivals,
    pub(super) tables: &'a mut TableStore,
}

impl TableWait<'_> {
    /// Waits until all requested tables are in the kernel, or until the time is over, and follows processes meanwhile. Gives the
    /// processes whose mappings have tables now.
    pub(super) fn wait(
        &mut self,
        until: Option<Instant>,
        shared: &Shared,
        cancel: &CancelToken,
    ) -> Result<HashSet<u32>, Error> {
        let mut ready = HashSet::new();
        loop {
            ready.extend(self.take_opened());
            let pending = self.tables.pending().max(self.processes.opening());
            shared.set_tables_left(pending as u64);
            let left = until.map_or(SLICE, |until| until.saturating_duration_since(Instant::now()));
            if pending == 0 {
                break;
            }
            // Tables that are finished by now are installed even if the time is over.
            ready.extend(self.tables.install_finished(self.kernel, left.min(SLICE)));
            self.follow()?;
            cancel.check()?;
            if left.is_zero() {
                break;
            }
        }
        shared.set_tables_left(0);
        Ok(ready)
    }

    /// Requests the tables of files that were opened meanwhile. Gives the processes that map them.
    fn take_opened(&mut self) -> Vec<u32> {
        let opened = self.processes.take_opened(Duration::ZERO);
        for pid in &opened {
            if let Some((now, _)) = self.processes.histories().present(*pid) {
                // Looking at the mappings requests tables, unless they are requested at their first use.
                drop(self.tables.mappings(now.image, &[]));
            }
        }
        opened
    }

    /// Follows what processes do. Nothing is sampled yet, so no stacks arrive.
    fn follow(&mut self) -> Result<(), Error> {
        let mut records = Vec::new();
        let complete_ns = self.side_band.drain(&mut records);
        let messages = self.kernel.receive().map_err(load_error)?;
        self.arrivals.add(records, complete_ns, messages);
        while let Some(arrival) = self.arrivals.next() {
            match arrival {
                Arrival::Mapping(_, mmap) => {
                    self.processes.mapped(&mmap);
                }
                Arrival::Message(Message::Life(life)) => {
                    self.processes.follow(&life);
                }
                Arrival::Thread(..) | Arrival::Message(_) => {}
            }
        }
        self.processes.take_released().for_each(|pid| self.tables.forget(pid));
        Ok(())
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

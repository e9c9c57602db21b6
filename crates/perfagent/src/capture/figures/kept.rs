//! Figures of processes, summed over the capture: what the kernel side has given so far, also of those that have ended.

use std::collections::{BTreeMap, HashMap};

use kernel::{ProcessFigures, ProcessId};
use metrics::Scheduling;

/// Processes that have ended and are still kept apart; those that live are bounded by the machine.
const MAX_ENDED: usize = 8192;

/// Sums by process.
#[derive(Default)]
pub(super) struct Kept {
    /// In the order of numbers, and of the same number in the order of time. The tree has room for twice as many.
    processes: BTreeMap<ProcessId, Box<Process>>,
    /// How many of them lived at the last look.
    living: usize,
    /// Those that ended and are not kept apart any more.
    others: Scheduling,
    unlisted: u64,
}

/// One process.
#[derive(Default)]
pub(super) struct Process {
    pub(super) name: String,
    pub(super) figures: ProcessFigures,
}

impl Kept {
    /// Adds what was counted since the last time. `name` tells the name of a process, and is given the begin of the next one
    /// that had its number.
    pub(super) fn add(
        &mut self,
        taken: &BTreeMap<ProcessId, ProcessFigures>,
        name: impl Fn(ProcessId, Option<u64>) -> Option<String>,
    ) {
        for (id, figures) in taken {
            self.processes.entry(*id).or_default().figures.merge(figures);
        }
        for id in taken.keys() {
            let next = ProcessId { pid: id.pid, start_ns: id.start_ns.saturating_add(1) };
            let last = ProcessId { pid: id.pid, start_ns: u64::MAX };
            let next = self.processes.range(next..=last).next().map(|(next, _)| next.start_ns);
            let name = name(*id, next);
            if let (Some(name), Some(process)) = (name, self.processes.get_mut(id)) {
                process.name = name;
            }
        }
    }

    /// If there are many by now: those that have ended, for [`Self::give_up`]. Asked for before the figures are taken a last
    /// time, so that nothing of them is still to come then.
    pub(super) fn ended(&self, has_ended: impl Fn(ProcessId) -> bool) -> Option<Vec<ProcessId>> {
        self.ended_beyond(MAX_ENDED, has_ended)
    }

    fn ended_beyond(&self, most: usize, has_ended: impl Fn(ProcessId) -> bool) -> Option<Vec<ProcessId>> {
        if self.processes.len() <= self.living + most {
            return None;
        }
        let mut last_of_number: HashMap<u32, u64> = HashMap::new();
        for id in self.processes.keys() {
            last_of_number.insert(id.pid, id.start_ns);
        }
        let replaced = |id: &ProcessId| last_of_number.get(&id.pid) != Some(&id.start_ns);
        Some(self.processes.keys().filter(|id| replaced(id) || has_ended(**id)).copied().collect())
    }

    /// Of these, half of what may be kept stays, so that this is not done for each new one: those that used CPUs most.
    /// The others go into one sum.
    pub(super) fn give_up(&mut self, ended: Vec<ProcessId>) {
        self.give_up_beyond(MAX_ENDED, ended);
    }

    fn give_up_beyond(&mut self, most: usize, ended: Vec<ProcessId>) {
        self.living = self.processes.len() - ended.len();
        let used = |id: ProcessId| Some((self.processes.get(&id)?.figures.scheduling.on_cpu_ns_total, id));
        let mut ended: Vec<_> = ended.into_iter().filter_map(used).collect();
        ended.sort_unstable();
        for (_, id) in ended.iter().take(ended.len().saturating_sub(most / 2)) {
            if let Some(process) = self.processes.remove(id) {
                self.others.merge(&process.figures.scheduling);
                self.unlisted += 1;
            }
        }
    }

    /// Each process that is kept apart.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ProcessId, &Process)> {
        self.processes.iter().map(|(id, process)| (*id, &**process))
    }

    /// The sum of those that are not, and their number.
    pub(super) fn others(&self) -> (&Scheduling, u64) {
        (&self.others, self.unlisted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pid: u32, start_ns: u64, on_cpu_ns_total: u64) -> BTreeMap<ProcessId, ProcessFigures> {
        let scheduling = Scheduling { on_cpu_ns_total, migrations: 1, ..Scheduling::default() };
        let figures = ProcessFigures { scheduling, ..ProcessFigures::default() };
        BTreeMap::from([(ProcessId { pid, start_ns }, figures)])
    }

    fn shown(kept: &Kept) -> Vec<(u32, String, u64)> {
        let process = |(id, process): (ProcessId, &Process)| {
            (id.pid, process.name.clone(), process.figures.scheduling.on_cpu_ns_total)
        };
        kept.iter().map(process).collect()
    }

    #[test]
    fn processes_of_one_number_are_kept_apart() {
        let mut kept = Kept::default();
        let name = |id: ProcessId, next: Option<u64>| Some(format!("p{}-{next:?}", id.start_ns));
        kept.add(&taken(7, 100, 1), name);
        let mut both = taken(7, 100, 2);
        both.extend(taken(7, 200, 30));
        kept.add(&both, name);
        kept.add(&taken(7, 200, 5), |_, _| None);
        assert_eq!(shown(&kept), [(7, "p100-Some(200)".to_owned(), 3), (7, "p200-None".to_owned(), 35)]);
    }

    #[test]
    fn what_is_not_kept_apart_stays_in_the_sum() {
        let mut kept = Kept::default();
        let is_even = |id: ProcessId| id.pid.is_multiple_of(2);
        let mut looks = 0;
        for pid in 0..100 {
            let ended = kept.ended_beyond(10, is_even);
            kept.add(&taken(pid, 1, u64::from(1000 - pid)), |_, _| None);
            looks += usize::from(ended.is_some());
            ended.into_iter().for_each(|ended| kept.give_up_beyond(10, ended));
        }
        let (others, unlisted) = kept.others();
        let (listed, living) = (shown(&kept), shown(&kept).iter().filter(|(pid, ..)| pid % 2 == 1).count());
        assert_eq!((listed.len() as u64 + unlisted, living), (100, 50), "those that live are all there");
        assert!(listed.len() - living <= 10 && looks < 20, "{listed:?}, {looks}");
        assert!(listed.iter().any(|(pid, ..)| *pid == 0), "what used most stays");
        let sum: u64 = listed.iter().map(|(_, _, ns)| ns).sum();
        assert_eq!(sum + others.on_cpu_ns_total, (0..100).map(|pid| 1000 - pid).sum::<u64>());
        assert_eq!(others.migrations, unlisted);
    }
}

//! Scheduler statistics by process, summed over the capture; those of ended processes are included.

use std::collections::{BTreeMap, HashMap};

use kernel::{ProcessId, ProcessStats};
use metrics::Scheduling;

/// Ended processes that are kept apart. The machine limits the number of living ones.
const MAX_ENDED: usize = 8192;

/// Statistics by process.
#[derive(Default)]
pub(super) struct ByProcess {
    /// By number, and for one number by time.
    processes: BTreeMap<ProcessId, Box<Process>>,
    /// How many of them lived at the last check.
    living: usize,
    /// The sum of ended processes that are no longer kept apart.
    others: Scheduling,
    unlisted: u64,
}

/// One process.
#[derive(Default)]
pub(super) struct Process {
    pub(super) name: String,
    pub(super) figures: ProcessStats,
}

impl ByProcess {
    /// Adds what was counted since the last call. `name` gives the name of a process; its second argument is the time at which the next
    /// process with the same number began.
    pub(super) fn add(
        &mut self,
        taken: &BTreeMap<ProcessId, ProcessStats>,
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

    /// The ended processes, if there are many by now, for [`Self::merge_ended`]. Ask before the statistics are taken, so that their last
    /// ones are included.
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

    /// Keeps half of the limit of these processes apart, those that used CPUs most, and merges the others into one sum. Half, so that
    /// this is not done again for each new process.
    pub(super) fn merge_ended(&mut self, ended: Vec<ProcessId>) {
        self.merge_ended_beyond(MAX_ENDED, ended);
    }

    fn merge_ended_beyond(&mut self, most: usize, ended: Vec<ProcessId>) {
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

    /// The sum of the merged processes, and their number.
    pub(super) fn others(&self) -> (&Scheduling, u64) {
        (&self.others, self.unlisted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pid: u32, start_ns: u64, on_cpu_ns_total: u64) -> BTreeMap<ProcessId, ProcessStats> {
        let scheduling = Scheduling { on_cpu_ns_total, migrations: 1, ..Scheduling::default() };
        let figures = ProcessStats { scheduling, ..ProcessStats::default() };
        BTreeMap::from([(ProcessId { pid, start_ns }, figures)])
    }

    fn shown(kept: &ByProcess) -> Vec<(u32, String, u64)> {
        let process = |(id, process): (ProcessId, &Process)| {
            (id.pid, process.name.clone(), process.figures.scheduling.on_cpu_ns_total)
        };
        kept.iter().map(process).collect()
    }

    #[test]
    fn processes_of_one_number_are_kept_apart() {
        let mut kept = ByProcess::default();
        let name = |id: ProcessId, next: Option<u64>| Some(format!("p{}-{next:?}", id.start_ns));
        kept.add(&taken(7, 100, 1), name);
        let mut both = taken(7, 100, 2);
        both.extend(taken(7, 200, 30));
        kept.add(&both, name);
        kept.add(&taken(7, 200, 5), |_, _| None);
        assert_eq!(shown(&kept), [(7, "p100-Some(200)".to_owned(), 3), (7, "p200-None".to_owned(), 35)]);
    }

    #[test]
    fn merged_processes_stay_in_the_sum() {
        let mut kept = ByProcess::default();
        let is_even = |id: ProcessId| id.pid.is_multiple_of(2);
        let mut looks = 0;
        for pid in 0..100 {
            let ended = kept.ended_beyond(10, is_even);
            kept.add(&taken(pid, 1, u64::from(1000 - pid)), |_, _| None);
            looks += usize::from(ended.is_some());
            ended.into_iter().for_each(|ended| kept.merge_ended_beyond(10, ended));
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

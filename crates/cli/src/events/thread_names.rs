//! Names of threads: from the kernel's records about threads, else from /proc. They outlast the thread, which is switched off after its end.

use std::collections::HashMap;

use ::events::monitor::RecordBody;

/// Names that are kept at most.
const MOST: usize = 65_536;
/// Names of living threads that are read at the start.
const MOST_AT_START: usize = 16_384;

/// The names of threads that were seen.
#[derive(Debug, Default)]
pub struct ThreadNames(HashMap<u32, String>);

impl ThreadNames {
    /// Reads the names of all living threads that are not known.
    pub fn add_living(&mut self) {
        let numbers = |path: &str| {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        };
        for tid in numbers("/proc").flat_map(|pid| numbers(&format!("/proc/{pid}/task"))).take(MOST_AT_START)
        {
            self.of(tid);
        }
    }

    /// Takes in a record about a thread.
    pub fn note(&mut self, record: &RecordBody<'_>) {
        match record {
            RecordBody::Comm { tid, comm, .. } => {
                self.keep(*tid, String::from_utf8_lossy(comm).into_owned());
            }
            RecordBody::Fork(task) => {
                // The thread that made it may have ended; then its process has the same name as a rule.
                let name = Some(self.of(task.ptid).to_owned()).filter(|name| !name.is_empty());
                let name = name.unwrap_or_else(|| self.of(task.ppid).to_owned());
                if !name.is_empty() {
                    self.keep(task.tid, name);
                }
            }
            _ => {}
        }
    }

    /// The name of a thread; empty if nothing tells it.
    pub fn of(&mut self, tid: u32) -> &str {
        if !self.0.contains_key(&tid) {
            let read = || std::fs::read(format!("/proc/{tid}/comm")).ok();
            let name = match tid {
                // It stands for each CPU's idle thread, and /proc does not have it.
                0 => "swapper".to_owned(),
                _ => {
                    read().map_or(String::new(), |name| String::from_utf8_lossy(&name).trim_end().to_owned())
                }
            };
            self.keep(tid, name);
        }
        self.0.get(&tid).map_or("", String::as_str)
    }

    fn keep(&mut self, tid: u32, name: String) {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert(tid, name);
    }
}

#[cfg(test)]
mod tests {
    use ::events::monitor::Task;

    use super::*;

    /// No process has it: numbers end at 2^22.
    const TID: u32 = 1 << 30;

    fn fork(ptid: u32, ppid: u32) -> RecordBody<'static> {
        RecordBody::Fork(Task { pid: TID, ppid, tid: TID, ptid, time: 0 })
    }

    #[test]
    fn a_thread_that_has_ended_has_the_name_of_who_made_it() {
        let own = std::process::id();
        let name = std::fs::read_to_string("/proc/self/comm").unwrap();
        for (ptid, ppid) in [(own, own), (TID + 1, own)] {
            let mut names = ThreadNames::default();
            names.note(&fork(ptid, ppid));
            assert_eq!(names.of(TID), name.trim_end(), "{ptid}");
        }
        let mut names = ThreadNames::default();
        names.note(&fork(TID + 1, TID + 2));
        assert_eq!(names.of(TID), "", "nothing tells it");
        names.add_living();
        assert!(names.0.contains_key(&own));
    }
}

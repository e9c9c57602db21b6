//! Names of threads: from the kernel's records about threads, else from /proc. They outlast the thread, which is switched off after its end.

use std::collections::HashMap;

use ::events::monitor::RecordBody;

/// Names that are kept at most.
const MOST: usize = 65_536;

/// The names of threads that were seen.
#[derive(Debug, Default)]
pub struct ThreadNames(HashMap<u32, String>);

impl ThreadNames {
    /// Takes in a record about a thread.
    pub fn note(&mut self, record: &RecordBody<'_>) {
        match record {
            RecordBody::Comm { tid, comm, .. } => {
                self.keep(*tid, String::from_utf8_lossy(comm).into_owned());
            }
            RecordBody::Fork(task) => {
                if let Some(name) = self.0.get(&task.ptid).cloned() {
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

//! Hooks: functions of the host program that are called for each compiled unwind table.
//!
//! Guaranteed: hooks run on their own thread, never on the thread of the capture. A hook that panics is not called again and
//! leads to a warning. The agent stops waiting for a hook that does not return.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::Error;
use crate::finished::{Warning, WarningKind};

/// How long the agent waits for a hook after the end of the capture.
const PATIENCE: Duration = Duration::from_secs(5);

/// An unwind table that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompiledTable {
    /// The path of the file, as mapped by the first process that uses it.
    pub path: String,
    /// Rows of the table; 0 if the file has no unwind information.
    pub rows: usize,
    /// Time that a worker thread needed, including reading the file.
    pub compile_time: Duration,
    /// Whether it came from the cache on disk.
    pub cached: bool,
}

type TableHook = Box<dyn FnMut(&CompiledTable) + Send>;

/// Hooks before the start of the capture.
#[derive(Default)]
pub(crate) struct TableHooks {
    all: Vec<TableHook>,
}

/// The thread that calls the hooks; there is none without hooks.
#[derive(Default)]
pub(crate) struct TableHookThread {
    running: Option<(Sender<CompiledTable>, Receiver<String>)>,
}

impl TableHooks {
    pub(crate) fn add(&mut self, hook: impl FnMut(&CompiledTable) + Send + 'static) {
        self.all.push(Box::new(hook));
    }

    /// Starts the thread.
    pub(crate) fn start(self) -> Result<TableHookThread, Error> {
        if self.all.is_empty() {
            return Ok(TableHookThread::default());
        }
        let ((tables, finished), (failures, failed)) = (channel(), channel());
        let body = move || call_all(self.all, &finished, &failures);
        sys::thread::spawn_quiet_thread("hooks", body).map_err(|source| Error::System {
            attempt: "start the thread that calls the hooks for unwind tables".to_owned(),
            source,
        })?;
        Ok(TableHookThread { running: Some((tables, failed)) })
    }
}

impl TableHookThread {
    /// Sends a table to the thread. Calls `describe` only if there are hooks.
    pub(crate) fn tell(&self, describe: impl FnOnce() -> CompiledTable) {
        if let Some((tables, _)) = &self.running {
            // The thread ends early only after all hooks have panicked; the failures are recorded.
            let _ = tables.send(describe());
        }
    }

    /// Waits for the hooks. Returns a warning for each failure.
    pub(crate) fn finish(self) -> Vec<Warning> {
        let Some((tables, failed)) = self.running else { return Vec::new() };
        drop(tables);
        let mut warnings = Vec::new();
        loop {
            match failed.recv_timeout(PATIENCE) {
                Ok(message) => warnings.push(Warning::bare(WarningKind::Tables, message)),
                Err(RecvTimeoutError::Disconnected) => return warnings,
                Err(RecvTimeoutError::Timeout) => {
                    let message = format!(
                        "a hook for compiled tables did not return within {PATIENCE:?} and was left behind"
                    );
                    warnings.push(Warning::bare(WarningKind::Tables, message));
                    return warnings;
                }
            }
        }
    }
}

/// Calls each hook for each table. `failures` closes at the end.
fn call_all(mut hooks: Vec<TableHook>, tables: &Receiver<CompiledTable>, failures: &Sender<String>) {
    while let (false, Ok(table)) = (hooks.is_empty(), tables.recv()) {
        hooks.retain_mut(|hook| {
            let held = catch_unwind(AssertUnwindSafe(|| hook(&table))).is_ok();
            if !held {
                let message =
                    format!("a hook for compiled tables panicked for {} and is not called again", table.path);
                let _ = failures.send(message);
            }
            held
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    fn table(rows: usize) -> CompiledTable {
        CompiledTable { path: "/bin/x".to_owned(), rows, compile_time: Duration::ZERO, cached: false }
    }

    #[test]
    fn each_hook_is_called_for_each_table_until_it_panics() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let mut hooks = TableHooks::default();
        hooks.add(|table| assert!(table.rows < 2, "a panic of the test"));
        let theirs = Arc::clone(&told);
        hooks.add(move |table| theirs.lock().unwrap().push(table.rows));
        let thread = hooks.start().unwrap();
        for rows in 1..=3 {
            thread.tell(|| table(rows));
        }
        let warnings = thread.finish();
        assert_eq!(*told.lock().unwrap(), [1, 2, 3]);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].message.contains("panicked for /bin/x"), "{warnings:?}");
    }

    #[test]
    fn without_hooks_no_table_is_described() {
        let thread = TableHooks::default().start().unwrap();
        thread.tell(|| panic!("there is no hook"));
        assert!(thread.finish().is_empty());
    }
}

//! Hooks: functions of the host program that are called for each compiled unwind table, or for each program that a process executes.
//!
//! Guaranteed: hooks run on a thread of their own, never on the thread of the capture. A hook that panics is not called again and leads to
//! a warning. A hook that is slow loses events, which are counted, and holds up nothing. The agent stops waiting for a hook that does not
//! return.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel};
use std::time::{Duration, SystemTime};

use crate::Error;
use crate::finished::{Warning, WarningKind};

/// How long the agent waits for a hook after the end of the capture.
const PATIENCE: Duration = Duration::from_secs(5);
/// Events that wait for a slow hook.
const MAX_WAITING: usize = 1 << 14;

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

/// A process of the targets that executes another program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecutedProgram {
    /// The process.
    pub pid: u32,
    /// Its name since then.
    pub comm: String,
    /// The executable, as the process sees it. None if the process ended before it could be read.
    pub exe: Option<PathBuf>,
    /// When it did so.
    pub at: SystemTime,
}

/// The events of hooks.
pub(crate) trait HookEvent: Send + 'static {
    /// The purpose of the hooks, for warnings.
    const HOOKS_FOR: &'static str;
    /// The kind of these warnings.
    const KIND: WarningKind;

    /// Names the event in the warning about a hook that panicked on it.
    fn subject(&self) -> String;
}

impl HookEvent for CompiledTable {
    const HOOKS_FOR: &'static str = "compiled tables";
    const KIND: WarningKind = WarningKind::Tables;

    fn subject(&self) -> String {
        self.path.clone()
    }
}

impl HookEvent for ExecutedProgram {
    const HOOKS_FOR: &'static str = "executed programs";
    const KIND: WarningKind = WarningKind::Capture;

    fn subject(&self) -> String {
        format!("{} (pid {})", self.comm, self.pid)
    }
}

type Hook<T> = Box<dyn FnMut(&T) + Send>;

/// Hooks before the start of the capture.
pub(crate) struct Hooks<T> {
    all: Vec<Hook<T>>,
}

impl<T> Default for Hooks<T> {
    fn default() -> Self {
        Self { all: Vec::new() }
    }
}

/// The thread that calls the hooks; there is none without hooks.
pub(crate) struct HookThread<T> {
    running: Option<(SyncSender<T>, Receiver<String>)>,
    /// Events that were not told, because too many waited.
    untold: AtomicU64,
}

impl<T> Default for HookThread<T> {
    fn default() -> Self {
        Self { running: None, untold: AtomicU64::new(0) }
    }
}

impl<T: HookEvent> Hooks<T> {
    pub(crate) fn add(&mut self, hook: impl FnMut(&T) + Send + 'static) {
        self.all.push(Box::new(hook));
    }

    /// Starts the thread.
    pub(crate) fn start(self) -> Result<HookThread<T>, Error> {
        if self.all.is_empty() {
            return Ok(HookThread::default());
        }
        let ((events, told), (failures, failed)) = (sync_channel(MAX_WAITING), channel());
        let body = move || {
            call_all(self.all, &told, |message| {
                let _ = failures.send(message);
            });
        };
        sys::thread::spawn_quiet_thread("hooks", body).map_err(|source| Error::System {
            attempt: format!("start the thread that calls the hooks for {}", T::HOOKS_FOR),
            source,
        })?;
        Ok(HookThread { running: Some((events, failed)), untold: AtomicU64::new(0) })
    }
}

impl<T: HookEvent> HookThread<T> {
    /// Sends an event to the thread. Calls `describe` only if there are hooks.
    pub(crate) fn tell(&self, describe: impl FnOnce() -> T) {
        // The thread ends early only after all hooks have panicked; the failures are recorded.
        if let Some((events, _)) = &self.running
            && let Err(TrySendError::Full(_)) = events.try_send(describe())
        {
            self.untold.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits for the hooks. Returns a warning for each failure.
    pub(crate) fn finish(self) -> Vec<Warning> {
        let Some((events, failed)) = self.running else { return Vec::new() };
        drop(events);
        let warning = |message| Warning::bare(T::KIND, message);
        let mut warnings = Vec::new();
        let untold = self.untold.into_inner();
        if untold > 0 {
            let hooks_for = T::HOOKS_FOR;
            warnings
                .push(warning(format!("a hook is too slow: {untold} {hooks_for} were not told to hooks")));
        }
        loop {
            match failed.recv_timeout(PATIENCE) {
                Ok(message) => warnings.push(warning(message)),
                Err(RecvTimeoutError::Disconnected) => return warnings,
                Err(RecvTimeoutError::Timeout) => {
                    warnings.push(warning(format!(
                        "a hook for {} did not return within {PATIENCE:?} and was left behind",
                        T::HOOKS_FOR
                    )));
                    return warnings;
                }
            }
        }
    }
}

/// Calls each hook for each event.
fn call_all<T: HookEvent>(mut hooks: Vec<Hook<T>>, events: &Receiver<T>, failed: impl Fn(String)) {
    while let (false, Ok(event)) = (hooks.is_empty(), events.recv()) {
        hooks.retain_mut(|hook| {
            let held = catch_unwind(AssertUnwindSafe(|| hook(&event))).is_ok();
            if !held {
                let (hooks_for, subject) = (T::HOOKS_FOR, event.subject());
                failed(format!("a hook for {hooks_for} panicked for {subject} and is not called again"));
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
        let mut hooks = Hooks::default();
        hooks.add(|table: &CompiledTable| assert!(table.rows < 2, "a panic of the test"));
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
        let thread = Hooks::<CompiledTable>::default().start().unwrap();
        thread.tell(|| panic!("there is no hook"));
        assert!(thread.finish().is_empty());
    }

    #[test]
    fn a_slow_hook_loses_events_and_holds_up_nothing() {
        let (release, gate) = channel::<()>();
        let mut hooks = Hooks::default();
        hooks.add(move |_: &CompiledTable| _ = gate.recv());
        let thread = hooks.start().unwrap();
        // One may be in the hook.
        (0..MAX_WAITING + 3).for_each(|rows| thread.tell(|| table(rows)));
        drop(release);
        let warnings = thread.finish();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].message.contains("compiled tables were not told to hooks"), "{warnings:?}");
    }
}

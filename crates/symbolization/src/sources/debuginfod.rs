//! Debug files from debuginfod servers, for modules of which this machine has no debug information.
//!
//! Which module goes where: a file with debug information here needs nothing; of a file without, its debug file is fetched; of a file that
//! cannot be read, its debug file or else the file itself. Until a file arrives, the other sources answer. Fetching goes on beside the
//! capture; nothing waits for it before the interval ends.

use std::collections::BTreeMap;

use debuginfod::{Cause, Fetched, Status, Want};
use recording::{Fetches, ModuleKind};

use super::object_files::{Local, ObjectFiles};
use crate::options::Fetch;
use crate::request::{ModuleRequest, Request};
use crate::source::{Answer, SymbolSource};

/// So many modules are told of one cause.
const MAX_TOLD: usize = 8;

/// Fetched debug files.
pub(super) struct Debuginfod {
    files: ObjectFiles,
    /// None: nothing is fetched.
    fetch: Option<Fetch>,
    /// Paths of modules whose file is missing in this interval, or did not arrive so far.
    missing: BTreeMap<String, Cause>,
    /// The figures at the end of the last interval.
    before: Fetches,
}

impl Debuginfod {
    pub(super) fn new(files: ObjectFiles, fetch: Option<Fetch>) -> Self {
        Self { files, fetch, missing: BTreeMap::new(), before: Fetches::default() }
    }

    /// Uses a file that has arrived.
    fn arrived(&self, request: &ModuleRequest, is_readable: bool, fetched: &Fetched) -> Answer {
        if is_readable {
            // The next source reads it.
            self.files.add_debug_file(request, fetched.path());
            return Answer::NotMine;
        }
        self.files.look_up_in(request, fetched.path()).map_or(Answer::NotMine, Answer::Names)
    }
}

impl SymbolSource for Debuginfod {
    fn name(&self) -> &str {
        "debuginfod"
    }

    fn lookup(&mut self, request: &Request) -> Answer {
        let (Some(fetch), Request::Module(request)) = (&self.fetch, request) else { return Answer::NotMine };
        if request.module.kind != ModuleKind::Elf {
            return Answer::NotMine;
        }
        let want = match self.files.local(request) {
            Local::Enough => return Answer::NotMine,
            Local::Stripped(build_id) => Want { build_id, or_executable: false },
            Local::Unreadable => match request.module.build_id.clone() {
                Some(build_id) => Want { build_id, or_executable: true },
                None => return Answer::NotMine,
            },
        };
        let path = &request.module.path;
        match fetch.fetcher.ask(&want) {
            Status::Pending => {
                self.missing.insert(path.clone(), Cause::Abandoned);
                Answer::Later { ask_others: !fetch.fail_closed }
            }
            Status::Done(Ok(fetched)) => {
                self.missing.remove(path);
                self.arrived(request, !want.or_executable, &fetched)
            }
            Status::Done(Err(cause)) => {
                self.missing.insert(path.clone(), cause);
                if fetch.fail_closed { Answer::Refused } else { Answer::NotMine }
            }
        }
    }

    fn wait(&mut self, given_up: &dyn Fn() -> bool) {
        if let Some(fetch) = &self.fetch {
            fetch.fetcher.wait(given_up);
        }
    }

    fn fetches(&mut self) -> Option<Fetches> {
        let fetch = self.fetch.as_ref()?;
        let now = fetch.fetcher.figures();
        let figures = now.since(&self.before);
        self.before = now;
        let refused = if fetch.fail_closed { self.missing.len() } else { 0 };
        Some(Fetches { refused_mappings: refused as u64, ..figures })
    }

    fn delivered(&mut self, large: bool) {
        self.files.delivered(large);
    }

    fn end_interval(&mut self) -> Vec<String> {
        let refuses = self.fetch.as_ref().is_some_and(|fetch| fetch.fail_closed);
        let mut by_cause: BTreeMap<Cause, Vec<String>> = BTreeMap::new();
        for (path, cause) in std::mem::take(&mut self.missing) {
            by_cause.entry(cause).or_default().push(path);
        }
        by_cause.into_iter().map(|(cause, paths)| told(cause, &paths, refuses)).collect()
    }
}

/// The line about files that are missing for one cause.
fn told(cause: Cause, paths: &[String], refuses: bool) -> String {
    let (count, what) = (paths.len(), if paths.len() == 1 { "file" } else { "files" });
    let effect = if refuses { "their frames stay without names" } else { "names come from what is here" };
    let mut list = paths.iter().take(MAX_TOLD).cloned().collect::<Vec<_>>().join(", ");
    if count > MAX_TOLD {
        list.push_str(", \u{2026}");
    }
    format!("debuginfod: nothing for {count} {what}, because {}; {effect}: {list}", cause.text())
}

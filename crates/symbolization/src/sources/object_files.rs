//! The object files that several sources read, on a thread of their own. Each is opened and mapped once for all of them.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use profile::{BuildId, Svma};
use symbols::{ObjectFile, ObjectSource, SourceLine, Symbolizer};

use crate::options::Options;
use crate::request::ModuleRequest;

use super::file_thread::FileThread;

/// Major and minor number.
type Device = (u32, u32);

/// What this machine has of a module.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Local {
    /// A file with debug information, of its own or in a separate file; or nothing that a build-id could help.
    Enough,
    /// A file with this build-id and without debug information.
    Stripped(BuildId),
    /// No file that can be read.
    Unreadable,
}

/// Clones share the files.
#[derive(Clone)]
pub(super) struct ObjectFiles(Rc<RefCell<Shared>>);

struct Shared {
    thread: FileThread<Symbolizer, Device>,
    /// The device of the file that was read since the last delivery ended.
    used: Option<Device>,
    /// Look-ups in this interval whose file system did not answer.
    unanswered: u64,
    /// Symbol tables that were read in this interval, and only in part.
    cut_tables: u64,
}

impl ObjectFiles {
    /// Reads nothing yet.
    pub(super) fn new(options: &Options) -> Self {
        let (symbols, fetch) = (options.symbols.clone(), options.fetch.clone());
        let thread = FileThread::new(move || {
            let mut symbols = symbols.clone();
            symbols.supplementary_dirs.extend(fetch.as_ref().and_then(|fetch| fetch.fetcher.directory()));
            Symbolizer::new(symbols)
        });
        Self(Rc::new(RefCell::new(Shared { thread, used: None, unanswered: 0, cut_tables: 0 })))
    }

    /// Looks places up by a method of the reader. `None` if the module has no file that can be opened, or if its file system does not
    /// answer.
    pub(super) fn look_up<T: Send + 'static>(
        &self,
        request: &ModuleRequest,
        method: impl FnOnce(&mut Symbolizer, &ObjectFile, &[Svma]) -> T + Send + 'static,
    ) -> Option<T> {
        let identity = request.module.identity;
        let device = (identity.dev_major, identity.dev_minor);
        let mut shared = self.0.borrow_mut();
        let request = request.clone();
        let found = shared.thread.call(device, move |symbolizer| {
            let opened = request.open()?;
            let before = symbolizer.stats().cut_symbol_tables;
            let found = method(symbolizer, &opened.object, &request.svmas);
            Some((found, symbolizer.stats().cut_symbol_tables - before))
        });
        match found {
            Ok(found) => {
                let (found, cut_tables) = found?;
                shared.used = Some(device);
                shared.cut_tables += cut_tables;
                Some(found)
            }
            Err(_) => {
                shared.unanswered += 1;
                None
            }
        }
    }

    /// What this machine has of a module.
    pub(super) fn local(&self, request: &ModuleRequest) -> Local {
        let lacking = |symbolizer: &mut Symbolizer, object: &ObjectFile, _: &[Svma]| {
            symbolizer.lacking_debug_information(object)
        };
        match self.look_up(request, lacking) {
            None => Local::Unreadable,
            Some(None) => Local::Enough,
            Some(Some(build_id)) => Local::Stripped(build_id),
        }
    }

    /// From now on, the debug file of a module is the one at this path.
    pub(super) fn add_debug_file(&self, request: &ModuleRequest, path: PathBuf) {
        self.look_up(request, move |symbolizer, object, _| symbolizer.add_debug_file(object, &path));
    }

    /// Looks places up in a file that stands for a module without one.
    pub(super) fn look_up_in(&self, request: &ModuleRequest, path: PathBuf) -> Option<Vec<Vec<SourceLine>>> {
        let module = &request.module;
        let (display_path, build_id) = (module.path.clone(), module.build_id.clone());
        let object = ObjectFile { source: ObjectSource::Path(path), display_path, root: None, build_id };
        let svmas = request.svmas.clone();
        let nowhere = (0, 0);
        let mut shared = self.0.borrow_mut();
        shared.thread.call(nowhere, move |symbolizer| symbolizer.object(&object, &svmas)).ok()
    }

    /// All places of a delivery in one module were looked up. The first of the sources that tells it has an effect.
    pub(super) fn delivered(&self, large: bool) {
        let mut shared = self.0.borrow_mut();
        if let Some(device) = shared.used.take().filter(|_| large) {
            let _ = shared.thread.tell(device, Symbolizer::release_last);
            sys::memory::give_back_free_pages();
        }
    }

    /// Keeps what was learned of files for later runs. The first of the sources that tells it has an effect.
    pub(super) fn keep(&self) {
        // Nothing is read of the files that are named here, but of others that belong to them.
        let nowhere = (0, 0);
        let _ = self.0.borrow_mut().thread.tell(nowhere, Symbolizer::save_records);
    }

    /// What is to be said about an interval that ends. The first of the sources that asks is told.
    pub(super) fn end_interval(&self) -> Vec<String> {
        let mut shared = self.0.borrow_mut();
        let unanswered =
            "files whose file system does not answer were not read: their code has no names, or fewer";
        let cut =
            "symbol tables that are too long were read only in part: some code of these files has no names";
        let Shared { unanswered: calls, cut_tables, .. } = &mut *shared;
        let mut told = Vec::new();
        for (count, line) in [(calls, unanswered), (cut_tables, cut)] {
            if std::mem::take(count) > 0 {
                told.push(line.to_owned());
            }
        }
        told
    }
}

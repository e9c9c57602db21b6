//! The object files that several sources read, on a thread of their own. Each is opened and mapped once for all of them.

use std::cell::RefCell;
use std::rc::Rc;

use profile::Svma;
use symbols::{ObjectFile, Symbolizer};

use crate::request::ModuleRequest;

use super::file_thread::FileThread;

/// Major and minor number.
type Device = (u32, u32);

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
    pub(super) fn new(options: symbols::Options) -> Self {
        let thread = FileThread::new(move || Symbolizer::new(options.clone()));
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

    /// All places of a delivery in one module were looked up. The first of the sources that tells it has an effect.
    pub(super) fn delivered(&self, large: bool) {
        let mut shared = self.0.borrow_mut();
        if let Some(device) = shared.used.take().filter(|_| large) {
            let _ = shared.thread.tell(device, Symbolizer::release_last);
            sys::memory::give_back_free_pages();
        }
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

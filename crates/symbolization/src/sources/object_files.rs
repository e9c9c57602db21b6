//! The object files that several sources read. Each is opened and mapped once for all of them.

use std::cell::RefCell;
use std::rc::Rc;

use profile::Svma;
use symbols::{ObjectFile, Symbolizer};

use crate::request::ModuleRequest;

/// Clones share the files.
#[derive(Clone)]
pub(super) struct ObjectFiles(Rc<RefCell<Shared>>);

struct Shared {
    symbolizer: Symbolizer,
    /// Whether a file was read since the last delivery ended.
    used: bool,
}

impl ObjectFiles {
    /// Reads nothing yet.
    pub(super) fn new(options: symbols::Options) -> Self {
        Self(Rc::new(RefCell::new(Shared { symbolizer: Symbolizer::new(options), used: false })))
    }

    /// Looks places up by a method of the reader. `None` if the module has no file that can be opened.
    pub(super) fn look_up<T>(
        &self,
        request: &ModuleRequest,
        method: impl FnOnce(&mut Symbolizer, &ObjectFile, &[Svma]) -> T,
    ) -> Option<T> {
        let opened = request.open()?;
        let mut shared = self.0.borrow_mut();
        shared.used = true;
        Some(method(&mut shared.symbolizer, &opened.object, &request.svmas))
    }

    /// All places of a delivery in one module were looked up. The first of the sources that tells it has an effect.
    pub(super) fn delivered(&self, large: bool) {
        let mut shared = self.0.borrow_mut();
        if std::mem::take(&mut shared.used) && large {
            shared.symbolizer.release_last();
            sys::memory::give_back_free_pages();
        }
    }
}

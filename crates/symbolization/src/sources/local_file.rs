//! Names from the files of this machine: the mapped file itself, its separate debug file, and what that refers to.

use symbols::Symbolizer;

use crate::options::Options;
use crate::request::Request;
use crate::source::{Answer, SymbolSource};

/// Files of this machine.
pub(super) struct LocalFile {
    symbolizer: Symbolizer,
    /// Whether a file was read since the last delivery ended.
    used: bool,
}

impl LocalFile {
    pub(super) fn new(options: &Options) -> Self {
        Self { symbolizer: Symbolizer::new(options.symbols.clone()), used: false }
    }
}

impl SymbolSource for LocalFile {
    fn name(&self) -> &'static str {
        "local file"
    }

    fn lookup(&mut self, request: &Request<'_>) -> Answer {
        let Request::Module(request) = request else { return Answer::NotMine };
        let Some(opened) = request.open() else { return Answer::NotMine };
        self.used = true;
        Answer::Names(self.symbolizer.object(&opened.object, request.svmas))
    }

    fn delivered(&mut self, large: bool) {
        if std::mem::take(&mut self.used) && large {
            self.symbolizer.release_last();
            sys::memory::give_back_free_pages();
        }
    }
}

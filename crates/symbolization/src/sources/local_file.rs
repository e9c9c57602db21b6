//! Names from the mapped files themselves: their own debug information, symbol tables, and the tables of Go programs.

use symbols::Symbolizer;

use super::object_files::ObjectFiles;
use crate::request::Request;
use crate::source::{Answer, SymbolSource};

/// Mapped files.
pub(super) struct LocalFile(ObjectFiles);

impl LocalFile {
    pub(super) fn new(files: ObjectFiles) -> Self {
        Self(files)
    }
}

impl SymbolSource for LocalFile {
    fn name(&self) -> &str {
        "local file"
    }

    fn lookup(&mut self, request: &Request) -> Answer {
        let Request::Module(request) = request else { return Answer::NotMine };
        self.0.look_up(request, Symbolizer::mapped_file).map_or(Answer::NotMine, Answer::Names)
    }

    fn delivered(&mut self, large: bool) {
        self.0.delivered(large);
    }

    fn keep(&mut self) {
        self.0.keep();
    }

    fn end_interval(&mut self) -> Vec<String> {
        self.0.end_interval()
    }
}

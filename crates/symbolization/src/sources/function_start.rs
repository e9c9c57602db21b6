//! Where functions begin whose names nobody knows, from the mapped files themselves. Asked last: a name is better.

use symbols::Symbolizer;

use super::object_files::ObjectFiles;
use crate::request::Request;
use crate::source::{Answer, SymbolSource};

/// Mapped files without symbols.
pub(super) struct FunctionStart(ObjectFiles);

impl FunctionStart {
    pub(super) fn new(files: ObjectFiles) -> Self {
        Self(files)
    }
}

impl SymbolSource for FunctionStart {
    fn name(&self) -> &str {
        "function start"
    }

    fn lookup(&mut self, request: &Request) -> Answer {
        let Request::Module(request) = request else { return Answer::NotMine };
        self.0.look_up(request, Symbolizer::function_starts).map_or(Answer::NotMine, Answer::FunctionStarts)
    }

    fn delivered(&mut self, large: bool) {
        self.0.delivered(large);
    }

    fn end_interval(&mut self) -> Vec<String> {
        self.0.end_interval()
    }
}

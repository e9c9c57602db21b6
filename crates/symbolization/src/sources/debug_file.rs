//! Names from separate debug files, which are found by the build-id or the link of a file without debug information of its own.

use symbols::Symbolizer;

use super::object_files::ObjectFiles;
use crate::request::Request;
use crate::source::{Answer, SymbolSource};

/// Separate debug files of this machine.
pub(super) struct DebugFile(ObjectFiles);

impl DebugFile {
    pub(super) fn new(files: ObjectFiles) -> Self {
        Self(files)
    }
}

impl SymbolSource for DebugFile {
    fn name(&self) -> &str {
        "debug file"
    }

    fn lookup(&mut self, request: &Request) -> Answer {
        let Request::Module(request) = request else { return Answer::NotMine };
        self.0.look_up(request, Symbolizer::debug_file).flatten().map_or(Answer::NotMine, Answer::Names)
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

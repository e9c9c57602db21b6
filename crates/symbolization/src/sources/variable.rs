//! Names of variables of files, such as locks, from the symbol tables of the files and of their debug files. Code has its names by then.

use symbols::Symbolizer;

use super::object_files::ObjectFiles;
use crate::request::Request;
use crate::source::{Answer, SymbolSource};

/// Files with variables.
pub(super) struct Variable(ObjectFiles);

impl Variable {
    pub(super) fn new(files: ObjectFiles) -> Self {
        Self(files)
    }
}

impl SymbolSource for Variable {
    fn name(&self) -> &str {
        "variable"
    }

    fn lookup(&mut self, request: &Request) -> Answer {
        let Request::Module(request) = request else { return Answer::NotMine };
        self.0.look_up(request, Symbolizer::variables).map_or(Answer::NotMine, Answer::Names)
    }

    fn delivered(&mut self, large: bool) {
        self.0.delivered(large);
    }

    fn end_interval(&mut self) -> Vec<String> {
        self.0.end_interval()
    }
}

//! Names of interpreted functions, from the code objects of the recording.

use symbols::SourceLine;

use crate::request::Request;
use crate::source::{Answer, SymbolSource};

/// Reads the recording alone.
pub(super) struct Interpreter;

impl SymbolSource for Interpreter {
    fn name(&self) -> &str {
        "interpreter"
    }

    fn lookup(&mut self, request: &Request) -> Answer {
        let Request::Interpreted(request) = request else { return Answer::NotMine };
        let code = &request.code;
        if code.name.is_empty() {
            return Answer::NotMine;
        }
        let line = |instruction: &u32| {
            vec![SourceLine {
                name: code.name.as_str().into(),
                system_name: code.name.as_str().into(),
                file: code.file.as_str().into(),
                line: code.line_of(*instruction),
                column: 0,
                start_line: code.first_line,
            }]
        };
        Answer::Names(request.instructions.iter().map(line).collect())
    }
}

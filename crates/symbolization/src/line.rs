//! Lines of source: owned as symbol sources give them, borrowed as tables of names take them.

use recording::NameLine;
use symbols::SourceLine;

pub(crate) fn borrowed(line: &SourceLine) -> NameLine<'_> {
    NameLine {
        name: &line.name,
        system_name: &line.system_name,
        file: &line.file,
        line: line.line,
        column: line.column,
        start_line: line.start_line,
    }
}

pub(crate) fn owned(line: NameLine<'_>) -> SourceLine {
    SourceLine {
        name: line.name.into(),
        system_name: line.system_name.into(),
        file: line.file.into(),
        line: line.line,
        column: line.column,
        start_line: line.start_line,
    }
}

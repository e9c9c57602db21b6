//! Splits the names that runtimes write into perf maps and jitdumps into function, file and line.

use crate::source_line::SourceLine;

/// Prefixes of JavaScript functions in Node and other embedders of V8.
const V8_KINDS: [&str; 7] = ["JS:", "LazyCompile:", "Function:", "Script:", "Eval:", "Callback:", "RegExp:"];
/// Beginnings of the file that follows a name of V8.
const V8_FILES: [&str; 7] =
    [" /", " file://", " node:", " http://", " https://", " evalmachine.", " wasm://"];

/// Python: `py::QUALNAME:FILE`. V8: `KIND:[*~^+]NAME FILE:LINE[:COLUMN]`. Anything else is a name.
pub(crate) fn parse(text: &str) -> SourceLine {
    python(text).or_else(|| v8(text)).unwrap_or_else(|| SourceLine {
        name: text.into(),
        system_name: text.into(),
        ..SourceLine::default()
    })
}

/// Whether V8 gives such names.
pub(crate) fn is_v8(text: &str) -> bool {
    V8_KINDS.iter().any(|kind| text.starts_with(kind))
}

/// The path of a file that may be written as a URL.
pub(crate) fn plain_file(file: &str) -> &str {
    file.strip_prefix("file://").unwrap_or(file)
}

fn python(text: &str) -> Option<SourceLine> {
    let (function, file) = text.strip_prefix("py::")?.split_once(':')?;
    Some(SourceLine {
        name: format!("py::{function}").into(),
        system_name: text.into(),
        file: file.into(),
        ..SourceLine::default()
    })
}

fn v8(text: &str) -> Option<SourceLine> {
    let kind = V8_KINDS.iter().find(|kind| text.starts_with(**kind))?;
    let (rest, column_or_line) = last_number(text)?;
    let (rest, line, column) = match last_number(rest) {
        Some((rest, line)) => (rest, line, column_or_line),
        None => (rest, column_or_line, 0),
    };
    let blank = V8_FILES.iter().filter_map(|start| rest.find(start)).min().or_else(|| rest.rfind(' '))?;
    let (function, file) = (rest.get(..blank)?, rest.get(blank + 1..)?);
    let unnamed = function.get(kind.len()..)?.trim_start_matches(['*', '~', '^', '+']).is_empty();
    Some(SourceLine {
        name: if unnamed { format!("{function}(anonymous)").into() } else { function.into() },
        system_name: text.into(),
        file: plain_file(file).into(),
        line,
        column,
        start_line: line,
    })
}

/// Splits `REST:NUMBER`.
fn last_number(text: &str) -> Option<(&str, u32)> {
    let (rest, number) = text.rsplit_once(':')?;
    let digits = number.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| number.parse().ok())?.map(|number| (rest, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_forms() {
        for (text, name, file, line, column) in [
            ("py::main:/srv/app.py", "py::main", "/srv/app.py", 0, 0),
            ("py::f.<locals>.<lambda>:/a b/c:d.py", "py::f.<locals>.<lambda>", "/a b/c:d.py", 0, 0),
            ("py::_find:<frozen importlib._bootstrap>", "py::_find", "<frozen importlib._bootstrap>", 0, 0),
            ("JS:*fib /srv/app.js:3:12", "JS:*fib", "/srv/app.js", 3, 12),
            ("JS:~get size /my dir/a.js:7:1", "JS:~get size", "/my dir/a.js", 7, 1),
            ("JS:^onRead file:///srv/app.mjs:30:5", "JS:^onRead", "/srv/app.mjs", 30, 5),
            ("LazyCompile:*emit node:events:466:44", "LazyCompile:*emit", "node:events", 466, 44),
            ("LazyCompile:~ /srv/app.js:9:9", "LazyCompile:~(anonymous)", "/srv/app.js", 9, 9),
            ("Function:foo bar.js:3", "Function:foo", "bar.js", 3, 0),
            (
                "Script:~ node:internal/main/run_main_module:1:1",
                "Script:~(anonymous)",
                "node:internal/main/run_main_module",
                1,
                1,
            ),
            ("Builtin:ArrayMap", "Builtin:ArrayMap", "", 0, 0),
            ("RegExp:a b:[0-9]+", "RegExp:a b:[0-9]+", "", 0, 0),
            ("JS:", "JS:", "", 0, 0),
            ("JS:*é:99999999999", "JS:*é:99999999999", "", 0, 0),
            ("Lcom/example/Main;::run", "Lcom/example/Main;::run", "", 0, 0),
        ] {
            let parsed = parse(text);
            let found = (parsed.name.as_str(), parsed.file.as_str(), parsed.line, parsed.column);
            assert_eq!(found, (name, file, line, column), "{text}");
            assert_eq!(parsed.system_name, text);
        }
    }
}

//! The nouns of a profile. Ids are indices into the tables of the [`Profile`] that they belong to.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::address::{FileOffset, Svma};
use crate::build_id::BuildId;

/// Index into [`Profile::mappings`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MappingId(pub u32);

/// Index into [`Profile::functions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u32);

/// Index into [`Profile::locations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocationId(pub u32);

/// The meaning of a number in a sample: `samples`/`count`, `cpu`/`nanoseconds`, …
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ValueType {
    /// The quantity.
    pub kind: String,
    /// Its unit.
    pub unit: String,
}

impl ValueType {
    /// A value type from its two words.
    #[must_use]
    pub fn new(kind: &str, unit: &str) -> Self {
        Self { kind: kind.to_owned(), unit: unit.to_owned() }
    }
}

/// The name of the mapping of all kernel code, whose addresses are absolute.
pub const KERNEL_MAPPING: &str = "[kernel.kallsyms]";

/// One executable segment of one file, shared by all processes that map it.
///
/// Special names: [`KERNEL_MAPPING`], `[vdso]`, `[jit]` (range 0).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// First link-time address of the segment, rounded down to a page.
    pub start: Svma,
    /// First link-time address after the segment, rounded up to a page.
    pub limit: Svma,
    /// File position of `start`.
    pub file_offset: FileOffset,
    /// Absolute path as the process sees it, or a special name.
    pub filename: String,
    /// The GNU build-id, if the file has one.
    pub build_id: Option<BuildId>,
}

/// A function, as the symbolizer names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Function {
    /// Demangled name.
    pub name: String,
    /// Name as in the symbol table; equal to `name` if it is not mangled.
    pub system_name: String,
    /// Source file, or empty.
    pub filename: String,
    /// Line of the declaration, 0 if unknown.
    pub start_line: u32,
}

/// Beginnings of the names that V8 gives to functions of JavaScript.
const V8_KINDS: [&str; 7] = ["JS:", "LazyCompile:", "Function:", "Script:", "Eval:", "Callback:", "RegExp:"];

/// Between the file and the start in the name of a [`Function::by_start`].
const BY_START: &str = "!fn_0x";

impl Function {
    /// A function whose name nobody knows. Its placeholder consists of the last component of its file's path and the link-time
    /// address at which it begins: `libc.so.6!fn_0x5c780`.
    #[must_use]
    pub fn by_start(path: &str, start: Svma) -> Self {
        let file = path.rsplit('/').next().unwrap_or(path);
        Self { name: format!("{file}{BY_START}{:x}", start.0), ..Self::default() }
    }

    /// The start in the name of a [`Function::by_start`], as `fn_0x5c780`; none of a function whose name is known.
    #[must_use]
    pub fn start_in_name(&self) -> Option<&str> {
        let is_bare = self.system_name.is_empty() && self.filename.is_empty() && self.start_line == 0;
        let at = self.name.rfind(BY_START).filter(|_| is_bare)?;
        let digits = &self.name[at + BY_START.len()..];
        let is_address =
            (1..=16).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_address.then(|| &self.name[at + 1..])
    }

    /// Whether its name alone is the one that V8 gives to a function of JavaScript.
    fn is_script(&self) -> bool {
        V8_KINDS.iter().any(|kind| self.name.starts_with(kind))
    }

    /// The source file and the line of the declaration, `/srv/app.py:12`; empty if the file is unknown.
    #[must_use]
    pub fn place(&self) -> String {
        match self.start_line {
            0 => self.filename.clone(),
            line if !self.filename.is_empty() => format!("{}:{line}", self.filename),
            _ => String::new(),
        }
    }
}

/// One of the functions at a location: several if calls were inlined there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// The function.
    pub function: FunctionId,
    /// Source line, 0 if unknown.
    pub line: u32,
    /// Source column, 0 if unknown.
    pub column: u32,
}

/// An address in code, with its functions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The mapping, or none for synthetic frames and addresses outside of every mapping.
    pub mapping: Option<MappingId>,
    /// Link-time address inside of the mapping, absolute for the kernel: of the instruction for the innermost frame and for one that a
    /// signal interrupted, of the last byte of the call for callers.
    pub address: u64,
    /// Innermost inlined function first; empty if nothing is known.
    pub lines: Vec<Line>,
}

impl Profile {
    /// Whether an interpreter runs the functions of a location: they have a source file and no machine code of their own.
    #[must_use]
    pub fn is_interpreted(&self, location: &Location) -> bool {
        let has_file = |line: &Line| {
            self.functions.get(line.function.0 as usize).is_some_and(|function| !function.filename.is_empty())
        };
        location.mapping.is_none() && location.address == 0 && location.lines.iter().any(has_file)
    }

    /// The name of a function at a location as texts and pictures show it. That of a function of JavaScript or Python is followed by the file and
    /// the line of its declaration: many are anonymous, and many share a name.
    #[must_use]
    pub fn shown_name(&self, location: &Location, line: &Line) -> Cow<'_, str> {
        let Some(function) = self.functions.get(line.function.0 as usize) else { return Cow::Borrowed("") };
        let is_of_source = function.is_script() || self.is_interpreted(location);
        if !is_of_source || function.name.is_empty() || function.filename.is_empty() {
            return Cow::Borrowed(&function.name);
        }
        Cow::Owned(format!("{} {}", function.name, function.place()))
    }
}

/// The value of a [`Label`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LabelValue {
    /// Text.
    Str(String),
    /// A number without unit.
    Num(i64),
}

/// A key and a value of a sample: `pid`, `comm`, `thread`, …
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Label {
    /// The key.
    pub key: String,
    /// The value.
    pub value: LabelValue,
}

impl Label {
    /// A text label.
    #[must_use]
    pub fn str(key: &str, value: &str) -> Self {
        Self { key: key.to_owned(), value: LabelValue::Str(value.to_owned()) }
    }

    /// A numeric label.
    #[must_use]
    pub fn num(key: &str, value: i64) -> Self {
        Self { key: key.to_owned(), value: LabelValue::Num(value) }
    }
}

/// The values of one stack with one set of labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Leaf first: kernel frames, user frames, then a synthetic frame if the stack is truncated.
    pub locations: Vec<LocationId>,
    /// One per entry of [`Profile::sample_types`].
    pub values: Vec<i64>,
    /// Labels, in order of output.
    pub labels: Vec<Label>,
}

/// When one of the samples that a [`Sample`] stands for was taken, or ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// In ns from the start of the capture.
    pub at_ns: i64,
    /// For how many ns it had lasted then, as a wait does; 0 of a sample of a moment.
    pub lasted_ns: u64,
    /// Index into [`Profile::samples`].
    pub sample: u32,
}

/// A whole capture of one kind (on-CPU, off-CPU, …).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The meaning of the values of each sample.
    pub sample_types: Vec<ValueType>,
    /// `kind` of the sample type that tools show first.
    pub default_sample_type: String,
    /// The quantity that `period` counts.
    pub period_type: ValueType,
    /// Units of `period_type` between two samples.
    pub period: i64,
    /// Start of the capture, wall clock, ns since the epoch.
    pub time_ns: i64,
    /// Length of the capture in ns.
    pub duration_ns: i64,
    /// Lines of text: tags, then the ledger.
    pub comments: Vec<String>,
    /// Mappings; the main executable of the first target first.
    pub mappings: Vec<Mapping>,
    /// Functions.
    pub functions: Vec<Function>,
    /// Locations.
    pub locations: Vec<Location>,
    /// Samples.
    pub samples: Vec<Sample>,
    /// The times of samples, where they are known, in their order; else empty.
    pub moments: Vec<Moment>,
}

impl Profile {
    /// The number of the value that tools show first: the default sample type, or the first one.
    #[must_use]
    pub fn default_value(&self) -> usize {
        self.sample_types.iter().position(|of| of.kind == self.default_sample_type).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_without_a_name_is_called_by_its_start_and_recognized() {
        let function = Function::by_start("/opt/a!fn_0x1/lib!x.so", Svma(0x5c7800));
        assert_eq!(function.name, "lib!x.so!fn_0x5c7800");
        assert_eq!(function.start_in_name(), Some("fn_0x5c7800"));
        let start_of = |name: &str, system_name: &str| {
            let function =
                Function { name: name.into(), system_name: system_name.into(), ..Function::default() };
            function.start_in_name().map(str::to_owned)
        };
        assert_eq!(start_of("a!fn_0x10", ""), Some("fn_0x10".to_owned()));
        for other in ["a!fn_0x", "a!fn_0x10 ", "a!fn_0x12345678123456781", "afn_0x10", "malloc", ""] {
            assert_eq!(start_of(other, ""), None, "{other}");
        }
        assert_eq!(start_of("a!fn_0x10", "a!fn_0x10"), None, "a symbol has that name");
    }

    #[test]
    fn functions_of_javascript_and_python_are_shown_with_their_place() {
        let shown = |mapping: Option<MappingId>, name: &str, filename: &str, start_line| {
            let function =
                Function { name: name.into(), filename: filename.into(), start_line, ..Function::default() };
            let line = Line { function: FunctionId(0), line: 7, column: 0 };
            let location = Location { mapping, address: 0, lines: vec![line] };
            let profile = Profile { functions: vec![function], ..Profile::default() };
            profile.shown_name(&location, &line).into_owned()
        };
        let jit = Some(MappingId(0));
        assert_eq!(shown(jit, "JS:*(anonymous)", "/srv/app.js", 3), "JS:*(anonymous) /srv/app.js:3");
        assert_eq!(shown(jit, "LazyCompile:~f", "node:events", 0), "LazyCompile:~f node:events");
        assert_eq!(shown(jit, "JS:*f", "", 3), "JS:*f");
        assert_eq!(shown(jit, "py::f", "/srv/app.py", 3), "py::f");
        assert_eq!(shown(jit, "malloc", "malloc.c", 3), "malloc");
        assert_eq!(shown(None, "<lambda>", "/srv/app.py", 3), "<lambda> /srv/app.py:3");
        assert_eq!(shown(None, "f", "<string>", 0), "f <string>");
        assert_eq!(shown(None, "[kernel thread]", "", 0), "[kernel thread]");
        assert_eq!(shown(None, "", "/srv/app.py", 3), "");
    }
}

//! The list of sources.

mod debug_file;
mod debuginfod;
mod file_thread;
mod function_start;
mod interpreter;
mod jit_dump;
mod kept_files;
mod kernel;
mod local_file;
mod object_files;
mod perf_map;
mod shortfalls;
mod variable;

use crate::options::Options;
use crate::source::SymbolSource;

use self::object_files::ObjectFiles;

/// What sources of this crate need when they are made.
struct Parts {
    options: Options,
    files: ObjectFiles,
}

type MakeStandard = fn(&Parts) -> Box<dyn SymbolSource>;
type MakeSource = Box<dyn FnOnce() -> Box<dyn SymbolSource> + Send>;

/// All sources in the order in which they are asked. A new source is one file and one line here.
const REGISTRY: [MakeStandard; 9] = [
    |parts| Box::new(debuginfod::Debuginfod::new(parts.files.clone(), parts.options.fetch.clone())),
    |parts| Box::new(debug_file::DebugFile::new(parts.files.clone())),
    |parts| Box::new(local_file::LocalFile::new(parts.files.clone())),
    |parts| Box::new(variable::Variable::new(parts.files.clone())),
    |_| Box::new(jit_dump::JitDumpFiles::default()),
    |_| Box::new(perf_map::PerfMapFiles::default()),
    |parts| Box::new(kernel::Kernel::new(&parts.options)),
    |_| Box::new(interpreter::Interpreter),
    |parts| Box::new(function_start::FunctionStart::new(parts.files.clone())),
];

/// Sources that are made on the thread that uses them: some cannot move between threads.
#[derive(Default)]
pub struct Sources {
    /// Sources of the host program. The last one is asked first.
    given: Vec<MakeSource>,
    /// Options of the sources of this crate; `None`: they are not asked.
    standard: Option<Options>,
    /// Names of sources of this crate that are not asked.
    left_out: Vec<String>,
}

impl Sources {
    /// All sources of this crate.
    #[must_use]
    pub fn standard(options: &Options) -> Self {
        Self { standard: Some(options.clone()), ..Self::default() }
    }

    /// No source.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds a source that is asked before all others.
    #[must_use]
    pub fn first(mut self, make: impl FnOnce() -> Box<dyn SymbolSource> + Send + 'static) -> Self {
        self.given.push(Box::new(make));
        self
    }

    /// Leaves out the source of this crate that has this name: "debuginfod", "debug file", "local file", "variable", "jitdump", "perf map",
    /// "kernel", "interpreter" or "function start".
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.left_out.push(name.to_owned());
        self
    }

    pub(crate) fn make(self) -> Vec<Box<dyn SymbolSource>> {
        let mut all: Vec<_> = self.given.into_iter().rev().map(|make| make()).collect();
        if let Some(options) = self.standard {
            let parts = Parts { files: ObjectFiles::new(&options), options };
            let standard = REGISTRY.iter().map(|make| make(&parts));
            all.extend(standard.filter(|source| self.left_out.iter().all(|name| name != source.name())));
        }
        all
    }
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources").field("given", &self.given.len()).finish_non_exhaustive()
    }
}

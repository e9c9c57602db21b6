//! The list of sources.

mod interpreter;
mod kernel;
mod local_file;
mod perf_map;

use crate::options::Options;
use crate::source::SymbolSource;

type MakeStandard = fn(&Options) -> Box<dyn SymbolSource>;
type MakeSource = Box<dyn FnOnce() -> Box<dyn SymbolSource> + Send>;

/// All sources in the order in which they are asked. A new source is one file and one line here.
const REGISTRY: [MakeStandard; 4] = [
    |options| Box::new(local_file::LocalFile::new(options)),
    |_| Box::new(perf_map::PerfMaps::default()),
    |options| Box::new(kernel::Kernel::new(options)),
    |_| Box::new(interpreter::Interpreter),
];

/// Sources that are made on the thread that uses them: some cannot move between threads.
pub struct Sources(Vec<MakeSource>);

impl Sources {
    /// All sources of this crate.
    #[must_use]
    pub fn standard(options: &Options) -> Self {
        let made = REGISTRY.into_iter().map(|make| {
            let options = options.clone();
            Box::new(move || make(&options)) as MakeSource
        });
        Self(made.collect())
    }

    /// No source.
    #[must_use]
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Adds a source that is asked before all others.
    #[must_use]
    pub fn first(mut self, make: impl FnOnce() -> Box<dyn SymbolSource> + Send + 'static) -> Self {
        self.0.insert(0, Box::new(make));
        self
    }

    pub(crate) fn make(self) -> Vec<Box<dyn SymbolSource>> {
        self.0.into_iter().map(|make| make()).collect()
    }
}

//! Symbol sources of the host program: names for code that perf-agent cannot name, or knows less well.
//!
//! A source implements [`SymbolSource`]. It is given to a capture by [`AgentBuilder::symbol_source`](crate::Builder::symbol_source), and to
//! the names of a recording by [`Symbolizer::symbol_source`](crate::Symbolizer::symbol_source). Sources of the host program are asked
//! before those of perf-agent (debug files, mapped files, perf maps, the kernel, code objects of interpreters), in the order in which they
//! were added. Each is asked about the addresses that the sources before it did not name.
//!
//! Guaranteed: a source is called on the thread that looks names up, never on the capture's thread. A panic of a source costs its answer;
//! it is caught and counted, and the report has a warning. Addresses are those of instructions: of a return address, the call's.
//!
//! ```
//! use perfagent::symbol_source::{Answer, Request, SourceLine, SymbolSource};
//!
//! /// Names each place in one library by its address.
//! struct Vendor;
//!
//! impl SymbolSource for Vendor {
//!     fn name(&self) -> &str {
//!         "vendor"
//!     }
//!
//!     fn lookup(&mut self, request: &Request) -> Answer {
//!         let Request::Module(request) = request else { return Answer::NotMine };
//!         if !request.module.path.ends_with("/libvendor.so") {
//!             return Answer::NotMine;
//!         }
//!         let line = |name: String| SourceLine { name: name.into(), ..SourceLine::default() };
//!         Answer::Names(request.svmas.iter().map(|svma| vec![line(format!("vendor+{svma:x}"))]).collect())
//!     }
//! }
//!
//! let agent = perfagent::Agent::builder().pid(1).with_cpu_profile().symbol_source(Vendor).build()?;
//! # Ok::<(), perfagent::Error>(())
//! ```

pub use profile::{Avma, BuildId, BuildIdError, Svma};
pub use recording::{
    CodeObject, ExecInstance, FileIdentity, KernelImage, KernelModule, KernelNaming, Module, ModuleKind,
};
pub use symbolization::{
    Answer, InterpretedRequest, JitRequest, KernelRequest, ModuleRequest, ObjectFile, ObjectSource,
    OpenedModule, Request, SourceLine, SymbolSource,
};

use symbolization::Sources;

/// The sources of a host program, in the order in which they were added.
#[derive(Default)]
pub(crate) struct GivenSources(Vec<Box<dyn SymbolSource + Send>>);

impl GivenSources {
    pub(crate) fn add(&mut self, source: impl SymbolSource + Send + 'static) {
        self.0.push(Box::new(source));
    }

    /// These sources, then the others.
    pub(crate) fn before(self, others: Sources) -> Sources {
        self.0.into_iter().rev().fold(others, |sources, source| sources.first(move || source))
    }
}

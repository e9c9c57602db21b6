//! Names of kernel code, from the list of the running kernel and its debug information.

use recording::KernelNaming;
use symbols::{KernelNames, Symbolizer};

use crate::options::Options;
use crate::request::Request;
use crate::source::{Answer, SymbolSource};

/// The running kernel.
pub(super) struct Kernel {
    symbolizer: Symbolizer,
    /// At the last request.
    naming: KernelNaming,
}

impl Kernel {
    pub(super) fn new(options: &Options) -> Self {
        Self { symbolizer: Symbolizer::new(options.symbols.clone()), naming: KernelNaming::NotAsked }
    }
}

impl SymbolSource for Kernel {
    fn name(&self) -> &'static str {
        "kernel"
    }

    fn lookup(&mut self, request: &Request<'_>) -> Answer {
        let Request::Kernel(request) = request else { return Answer::NotMine };
        self.naming = match self.symbolizer.kernel_names() {
            KernelNames::Known(_) => KernelNaming::Known,
            KernelNames::Hidden => KernelNaming::Hidden,
            KernelNames::Unreadable(reason) => KernelNaming::Unreadable(reason),
        };
        if self.naming == KernelNaming::Known {
            Answer::Names(self.symbolizer.kernel(request.addresses))
        } else {
            Answer::NotMine
        }
    }

    fn kernel_naming(&self) -> Option<KernelNaming> {
        Some(self.naming.clone())
    }
}

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

#[cfg(test)]
mod tests {
    use crate::request::KernelRequest;

    use super::*;

    fn with_list(list: &str) -> (Answer, Option<KernelNaming>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, list).unwrap();
        let mut options = Options::default();
        options.symbols.kallsyms = file.path().to_owned();
        options.symbols.kernel_images.clear();
        let mut kernel = Kernel::new(&options);
        let request = KernelRequest { addresses: &[0xffff_ffff_8100_0010, 5] };
        (kernel.lookup(&Request::Kernel(request)), kernel.kernel_naming())
    }

    #[test]
    fn a_kernel_that_hides_its_addresses_is_told_from_one_without_a_name_for_an_address() {
        let (answer, naming) = with_list("ffffffff81000000 T do_work\n");
        let Answer::Names(names) = answer else { panic!("{answer:?}") };
        assert_eq!((names[0][0].name.as_str(), names[1].len()), ("do_work", 0));
        assert_eq!(naming, Some(KernelNaming::Known));
        assert_eq!(with_list("0000000000000000 T do_work\n"), (Answer::NotMine, Some(KernelNaming::Hidden)));
        let (answer, naming) = with_list("");
        assert_eq!(answer, Answer::NotMine);
        assert!(matches!(naming, Some(KernelNaming::Unreadable(_))), "{naming:?}");
    }
}

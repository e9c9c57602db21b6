//! A source whose panics cost its own answers and nothing else.

use std::panic::{AssertUnwindSafe, catch_unwind};

use recording::{Fetches, KernelNaming};

use crate::request::Request;
use crate::source::{Answer, SymbolSource};

/// The source panicked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Panicked;

/// A source and how often it panicked. It is asked again after a panic: the cause may lie in one file.
pub(crate) struct Guarded {
    /// `None` only while it is dropped.
    source: Option<Box<dyn SymbolSource>>,
    name: String,
    /// Panics that are not told yet.
    untold: u64,
}

impl Guarded {
    pub(crate) fn new(source: Box<dyn SymbolSource>) -> Self {
        let mut this = Self { source: Some(source), name: "without a name".to_owned(), untold: 0 };
        if let Ok(name) = this.call(|source| source.name().to_owned()) {
            this.name = name;
        }
        this
    }

    pub(crate) fn lookup(&mut self, request: &Request) -> Result<Answer, Panicked> {
        self.call(|source| source.lookup(request))
    }

    pub(crate) fn kernel_naming(&mut self) -> Option<KernelNaming> {
        self.call(|source| source.kernel_naming()).ok().flatten()
    }

    pub(crate) fn wait(&mut self, given_up: &dyn Fn() -> bool) {
        let _ = self.call(|source| source.wait(given_up));
    }

    pub(crate) fn fetches(&mut self) -> Option<Fetches> {
        self.call(|source| source.fetches()).ok().flatten()
    }

    pub(crate) fn delivered(&mut self, large: bool) {
        let _ = self.call(|source| source.delivered(large));
    }

    pub(crate) fn keep(&mut self) {
        let _ = self.call(|source| source.keep());
    }

    /// What is to be said of an interval that ends, panics included.
    pub(crate) fn end_interval(&mut self) -> Vec<String> {
        let mut told = self.call(|source| source.end_interval()).unwrap_or_default();
        let panics = std::mem::take(&mut self.untold);
        if panics > 0 {
            let (name, times) = (&self.name, if panics == 1 { "time" } else { "times" });
            told.push(format!(
                "the symbol source \"{name}\" panicked {panics} {times}; the sources behind it were asked instead"
            ));
        }
        told
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut dyn SymbolSource) -> T) -> Result<T, Panicked> {
        let source = self.source.as_deref_mut().ok_or(Panicked)?;
        catch_unwind(AssertUnwindSafe(|| call(source))).map_err(|_| {
            self.untold += 1;
            tracing::debug!(target: "perfagent", "names: the source \"{}\" panicked", self.name);
            Panicked
        })
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let source = self.source.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(source)));
    }
}

#[cfg(test)]
mod tests {
    use crate::request::KernelRequest;

    use super::*;

    /// Panics wherever it can.
    struct Panics;

    impl SymbolSource for Panics {
        fn name(&self) -> &str {
            panic!("as the test asks")
        }

        fn lookup(&mut self, _: &Request) -> Answer {
            panic!("as the test asks")
        }

        fn kernel_naming(&self) -> Option<KernelNaming> {
            panic!("as the test asks")
        }

        fn delivered(&mut self, _: bool) {
            panic!("as the test asks")
        }

        fn keep(&mut self) {
            panic!("as the test asks")
        }

        fn end_interval(&mut self) -> Vec<String> {
            panic!("as the test asks")
        }
    }

    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("as the test asks")
        }
    }

    #[test]
    fn no_panic_of_a_source_gets_out_and_all_are_counted() {
        let mut source = Guarded::new(Box::new(Panics));
        let request = Request::Kernel(KernelRequest { image: None, addresses: Vec::new() });
        assert_eq!(source.lookup(&request), Err(Panicked));
        assert_eq!(source.kernel_naming(), None);
        source.delivered(true);
        source.keep();
        let told = source.end_interval();
        assert!(told[0].contains("without a name") && told[0].contains("panicked 6 times"), "{told:?}");
        let told = source.end_interval();
        assert!(told[0].contains("panicked 1 time;"), "those before were told: {told:?}");
    }
}

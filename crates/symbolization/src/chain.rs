//! Asks the sources one after the other.

use std::panic::{AssertUnwindSafe, catch_unwind};

use profile::{Avma, Svma};
use recording::{CodeObject, ExecInstance, KernelNaming, Module, NameOutcome};
use symbols::SourceLine;

use crate::request::{
    FileOnce, InterpretedRequest, JitProgram, JitRequest, KernelRequest, ModuleRequest, Request,
};
use crate::source::{Answer, SymbolSource};

/// What a request is about, without its addresses: each source is asked about fewer.
pub(crate) trait Subject {
    type Address: Copy;

    fn request<'a>(&'a self, addresses: &'a [Self::Address]) -> Request<'a>;
}

pub(crate) struct InModule<'a> {
    pub(crate) module: &'a Module,
    pub(crate) file: &'a FileOnce<'a>,
}

impl Subject for InModule<'_> {
    type Address = Svma;

    fn request<'a>(&'a self, svmas: &'a [Svma]) -> Request<'a> {
        Request::Module(ModuleRequest::new(self.module, svmas, self.file))
    }
}

pub(crate) struct InKernel;

impl Subject for InKernel {
    type Address = u64;

    fn request<'a>(&'a self, addresses: &'a [u64]) -> Request<'a> {
        Request::Kernel(KernelRequest { addresses })
    }
}

pub(crate) struct InJit<'a> {
    pub(crate) program: &'a ExecInstance,
    pub(crate) live: Option<&'a dyn JitProgram>,
}

impl Subject for InJit<'_> {
    type Address = Avma;

    fn request<'a>(&'a self, addresses: &'a [Avma]) -> Request<'a> {
        Request::Jit(JitRequest { program: self.program, live: self.live, addresses })
    }
}

pub(crate) struct InCode<'a>(pub(crate) &'a CodeObject);

impl Subject for InCode<'_> {
    type Address = u32;

    fn request<'a>(&'a self, instructions: &'a [u32]) -> Request<'a> {
        Request::Interpreted(InterpretedRequest { code: self.0, instructions })
    }
}

/// What all sources together know.
pub(crate) struct Found {
    /// For each address, the innermost function first; empty where no source knows a name.
    pub(crate) names: Vec<Vec<SourceLine>>,
    /// Whether a source answered.
    pub(crate) answered: bool,
    /// Sources that panicked.
    pub(crate) panics: u64,
}

/// The sources in the order in which they are asked.
pub(crate) struct Chain(Vec<Box<dyn SymbolSource>>);

impl Chain {
    pub(crate) fn new(sources: Vec<Box<dyn SymbolSource>>) -> Self {
        Self(sources)
    }

    /// Asks each source about the addresses that the sources before it did not name.
    pub(crate) fn lookup<S: Subject>(&mut self, subject: &S, addresses: &[S::Address]) -> Found {
        let mut found = Found { names: vec![Vec::new(); addresses.len()], answered: false, panics: 0 };
        let mut unnamed: Vec<usize> = (0..addresses.len()).collect();
        for source in &mut self.0 {
            if unnamed.is_empty() {
                break;
            }
            let asked: Vec<S::Address> = unnamed.iter().map(|index| addresses[*index]).collect();
            match guarded(source.as_mut(), |source| source.lookup(&subject.request(&asked))) {
                Some(Answer::Names(lists)) => {
                    found.answered = true;
                    unnamed.iter().zip(lists).for_each(|(index, lines)| found.names[*index] = lines);
                    unnamed.retain(|index| found.names[*index].is_empty());
                }
                Some(Answer::NotMine) => {}
                None => found.panics += 1,
            }
        }
        found
    }

    /// Why no source could name kernel addresses.
    pub(crate) fn kernel_naming(&self) -> KernelNaming {
        let told = self.0.iter().find_map(|source| source.kernel_naming());
        told.unwrap_or_else(|| KernelNaming::Unreadable("no source reads the kernel's symbols".to_owned()))
    }

    /// A delivery in one module is done.
    pub(crate) fn delivered(&mut self, large: bool) {
        for source in &mut self.0 {
            guarded(source.as_mut(), |source| source.delivered(large));
        }
    }

    /// An interval ends.
    pub(crate) fn end_interval(&mut self) -> NameOutcome {
        let mut outcome = NameOutcome::default();
        for source in &mut self.0 {
            guarded(source.as_mut(), |source| source.end_interval(&mut outcome));
        }
        outcome
    }
}

/// `None` if the source panicked. It is asked again the next time: the cause may lie in one file.
fn guarded<T>(source: &mut dyn SymbolSource, call: impl FnOnce(&mut dyn SymbolSource) -> T) -> Option<T> {
    let name = source.name();
    let result = catch_unwind(AssertUnwindSafe(|| call(source)));
    if result.is_err() {
        tracing::debug!(target: "perfagent", "names: the source \"{name}\" failed; the next one is asked");
    }
    result.ok()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    type Asked = Rc<RefCell<Vec<Vec<u64>>>>;

    /// Names some kernel addresses, and writes down what it is asked.
    struct Fake {
        named: Vec<u64>,
        asked: Asked,
        panics: bool,
    }

    impl SymbolSource for Fake {
        fn name(&self) -> &'static str {
            "fake"
        }

        fn lookup(&mut self, request: &Request<'_>) -> Answer {
            let Request::Kernel(request) = request else { return Answer::NotMine };
            self.asked.borrow_mut().push(request.addresses.to_vec());
            assert!(!self.panics, "as the test asks");
            let lines = |address: &u64| {
                let name = self.named.contains(address).then(|| format!("f{address}"));
                name.map(|name| SourceLine { name, ..SourceLine::default() }).into_iter().collect()
            };
            Answer::Names(request.addresses.iter().map(lines).collect())
        }
    }

    fn fake(named: &[u64], panics: bool) -> (Box<dyn SymbolSource>, Asked) {
        let asked = Asked::default();
        (Box::new(Fake { named: named.to_vec(), asked: Rc::clone(&asked), panics }), asked)
    }

    fn names(found: &Found) -> Vec<&str> {
        found.names.iter().map(|lines| lines.first().map_or("", |line| line.name.as_str())).collect()
    }

    #[test]
    fn each_source_is_asked_about_what_the_ones_before_it_did_not_name() {
        let ((first, first_asked), (second, second_asked), (third, third_asked)) =
            (fake(&[2], false), fake(&[1, 2, 3], false), fake(&[1], false));
        let mut chain = Chain::new(vec![first, second, third]);
        let found = chain.lookup(&InKernel, &[1, 2, 3]);
        assert_eq!(names(&found), ["f1", "f2", "f3"]);
        assert_eq!((found.answered, found.panics), (true, 0));
        assert_eq!(*first_asked.borrow(), [[1, 2, 3]]);
        assert_eq!(*second_asked.borrow(), [[1, 3]]);
        assert!(third_asked.borrow().is_empty(), "nothing was left");
    }

    #[test]
    fn the_addresses_of_a_source_that_panics_go_to_the_next() {
        let ((first, first_asked), (second, _)) = (fake(&[1], true), fake(&[1], false));
        let mut chain = Chain::new(vec![first, second]);
        for _ in 0..2 {
            let found = chain.lookup(&InKernel, &[1, 4]);
            assert_eq!((names(&found), found.panics), (vec!["f1", ""], 1));
        }
        assert_eq!(first_asked.borrow().len(), 2, "it is asked again");
    }

    #[test]
    fn without_a_source_that_knows_such_places_nothing_is_answered() {
        let (source, _) = fake(&[1], false);
        let found = Chain::new(vec![source]).lookup(&InCode(&CodeObject::default()), &[1, 2]);
        assert_eq!((names(&found), found.answered), (vec!["", ""], false));
    }
}

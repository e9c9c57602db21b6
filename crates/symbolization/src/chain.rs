//! Asks the sources one after the other.

use std::sync::Arc;

use profile::{Avma, Svma};
use recording::{CodeObject, ExecInstance, Fetches, KernelImage, KernelNaming, Module};
use symbols::SourceLine;

use crate::guarded::{Guarded, Panicked};
use crate::request::{
    FileOnce, InterpretedRequest, JitPlace, JitProgram, JitRequest, KernelRequest, ModuleRequest, Request,
};
use crate::source::{Answer, SymbolSource};

/// What a request is about, without its addresses: each source is asked about fewer.
pub(crate) trait Subject {
    type Address: Copy;

    fn request(&self, addresses: Vec<Self::Address>) -> Request;
}

pub(crate) struct InModule {
    pub(crate) module: Arc<Module>,
    pub(crate) file: Arc<FileOnce>,
}

impl Subject for InModule {
    type Address = Svma;

    fn request(&self, svmas: Vec<Svma>) -> Request {
        Request::Module(ModuleRequest::new(Arc::clone(&self.module), svmas, Arc::clone(&self.file)))
    }
}

pub(crate) struct InKernel {
    pub(crate) image: Option<Arc<KernelImage>>,
}

impl Subject for InKernel {
    type Address = Avma;

    fn request(&self, addresses: Vec<Avma>) -> Request {
        Request::Kernel(KernelRequest { image: self.image.clone(), addresses })
    }
}

pub(crate) struct InJit {
    pub(crate) program: Arc<ExecInstance>,
    pub(crate) live: Option<Arc<dyn JitProgram>>,
    /// The places are looked up for the last time.
    pub(crate) is_last: bool,
}

impl Subject for InJit {
    type Address = JitPlace;

    fn request(&self, places: Vec<JitPlace>) -> Request {
        let (addresses, seen_ns) = places.iter().map(|place| (place.address, place.seen_ns)).unzip();
        let (program, live) = (Arc::clone(&self.program), self.live.clone());
        Request::Jit(JitRequest { program, live, addresses, seen_ns, is_last: self.is_last })
    }
}

pub(crate) struct InCode(pub(crate) Arc<CodeObject>);

impl Subject for InCode {
    type Address = u32;

    fn request(&self, instructions: Vec<u32>) -> Request {
        Request::Interpreted(InterpretedRequest { code: Arc::clone(&self.0), instructions })
    }
}

/// What all sources together know.
pub(crate) struct Found {
    /// For each address, the innermost function first; empty where no source knows a name.
    pub(crate) names: Vec<Vec<SourceLine>>,
    /// For each address without a name, where its function begins, if a source knows that.
    pub(crate) starts: Vec<Option<Svma>>,
    /// Whether a source answered.
    pub(crate) answered: bool,
    /// A source may know more when the interval ends.
    pub(crate) later: bool,
    /// Sources that panicked.
    pub(crate) panics: u64,
}

impl Found {
    /// No name of any source may be used, nor where functions begin.
    fn forget(&mut self) {
        self.names.iter_mut().for_each(Vec::clear);
        self.starts.iter_mut().for_each(|start| *start = None);
    }
}

/// The sources in the order in which they are asked.
pub(crate) struct Chain(Vec<Guarded>);

impl Chain {
    pub(crate) fn new(sources: Vec<Box<dyn SymbolSource>>) -> Self {
        Self(sources.into_iter().map(Guarded::new).collect())
    }

    /// Asks each source about the addresses that the sources before it did not name.
    pub(crate) fn lookup<S: Subject>(&mut self, subject: &S, addresses: &[S::Address]) -> Found {
        let (names, starts) = (vec![Vec::new(); addresses.len()], vec![None; addresses.len()]);
        let mut found = Found { names, starts, answered: false, later: false, panics: 0 };
        let mut unnamed: Vec<usize> = (0..addresses.len()).collect();
        for source in &mut self.0 {
            if unnamed.is_empty() {
                break;
            }
            let asked = unnamed.iter().map(|index| addresses[*index]).collect();
            match source.lookup(&subject.request(asked)) {
                Ok(Answer::Names(lists)) => {
                    found.answered = true;
                    unnamed.iter().zip(lists).for_each(|(index, lines)| found.names[*index] = lines);
                    unnamed.retain(|index| found.names[*index].is_empty());
                }
                Ok(Answer::FunctionStarts(starts)) => {
                    for (index, start) in unnamed.iter().zip(starts) {
                        found.starts[*index] = found.starts[*index].or(start);
                    }
                }
                Ok(Answer::NotMine) => {}
                Ok(Answer::Later { ask_others }) => {
                    found.later = true;
                    if !ask_others {
                        found.forget();
                        break;
                    }
                }
                Ok(Answer::Refused) => {
                    found.answered = true;
                    found.forget();
                    break;
                }
                Err(Panicked) => found.panics += 1,
            }
        }
        found
    }

    /// Why no source could name kernel addresses.
    pub(crate) fn kernel_naming(&mut self) -> KernelNaming {
        let told = self.0.iter_mut().find_map(Guarded::kernel_naming);
        told.unwrap_or_else(|| KernelNaming::Unreadable("no source reads the kernel's symbols".to_owned()))
    }

    /// Waits for what some sources may know later.
    pub(crate) fn wait(&mut self, given_up: &dyn Fn() -> bool) {
        self.0.iter_mut().for_each(|source| source.wait(given_up));
    }

    /// What was fetched for the interval that ends.
    pub(crate) fn fetches(&mut self) -> Option<Fetches> {
        self.0.iter_mut().find_map(Guarded::fetches)
    }

    /// A delivery in one module is done.
    pub(crate) fn delivered(&mut self, large: bool) {
        self.0.iter_mut().for_each(|source| source.delivered(large));
    }

    /// An interval ends: what is to be said about its names.
    pub(crate) fn keep(&mut self) {
        self.0.iter_mut().for_each(Guarded::keep);
    }

    pub(crate) fn end_interval(&mut self) -> Vec<String> {
        self.0.iter_mut().flat_map(Guarded::end_interval).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    const KERNEL: InKernel = InKernel { image: None };

    type Asked = Rc<RefCell<Vec<Vec<u64>>>>;

    /// Names some kernel addresses, and writes down what it is asked.
    struct Fake {
        named: Vec<u64>,
        asked: Asked,
        panics: bool,
    }

    impl SymbolSource for Fake {
        fn name(&self) -> &str {
            "fake"
        }

        fn lookup(&mut self, request: &Request) -> Answer {
            let Request::Kernel(request) = request else { return Answer::NotMine };
            self.asked.borrow_mut().push(request.addresses.iter().map(|address| address.0).collect());
            assert!(!self.panics, "as the test asks");
            let lines = |address: &Avma| {
                let name = self.named.contains(&address.0).then(|| format!("f{}", address.0));
                name.map(|name| SourceLine { name: name.into(), ..SourceLine::default() })
                    .into_iter()
                    .collect()
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
        let found = chain.lookup(&KERNEL, &[1, 2, 3].map(Avma));
        assert_eq!(names(&found), ["f1", "f2", "f3"]);
        assert_eq!((found.answered, found.panics), (true, 0));
        assert_eq!(*first_asked.borrow(), [[1, 2, 3]]);
        assert_eq!(*second_asked.borrow(), [[1, 3]]);
        assert!(third_asked.borrow().is_empty(), "nothing was left");
    }

    /// Gives one answer to everything.
    struct Says(Answer);

    impl SymbolSource for Says {
        fn name(&self) -> &str {
            "says"
        }

        fn lookup(&mut self, _: &Request) -> Answer {
            self.0.clone()
        }
    }

    #[test]
    fn a_source_that_knows_more_later_lets_others_answer_meanwhile_or_nobody() {
        let starts = || Box::new(Says(Answer::FunctionStarts(vec![Some(Svma(1)), Some(Svma(2))])));
        for (answer, expected, later, is_open) in [
            (Answer::Later { ask_others: true }, vec!["f1", "f2"], true, true),
            (Answer::Later { ask_others: false }, vec!["", ""], true, false),
            (Answer::Refused, vec!["", ""], false, false),
        ] {
            let ((before, _), (after, asked)) = (fake(&[1], false), fake(&[2], false));
            let mut chain =
                Chain::new(vec![starts(), before, Box::new(Says(answer.clone())), after, starts()]);
            let found = chain.lookup(&KERNEL, &[1, 2].map(Avma));
            assert_eq!((names(&found), found.later), (expected, later), "{answer:?}");
            assert_eq!(
                found.starts.iter().any(Option::is_some),
                is_open,
                "{answer:?}: where functions begin"
            );
            assert_eq!(asked.borrow().is_empty(), !is_open, "{answer:?}: the sources behind it");
        }
    }

    #[test]
    fn the_addresses_of_a_source_that_panics_go_to_the_next() {
        let ((first, first_asked), (second, _)) = (fake(&[1], true), fake(&[1], false));
        let mut chain = Chain::new(vec![first, second]);
        for _ in 0..2 {
            let found = chain.lookup(&KERNEL, &[1, 4].map(Avma));
            assert_eq!((names(&found), found.panics), (vec!["f1", ""], 1));
        }
        assert_eq!(first_asked.borrow().len(), 2, "it is asked again");
    }

    #[test]
    fn without_a_source_that_knows_such_places_nothing_is_answered() {
        let (source, _) = fake(&[1], false);
        let found = Chain::new(vec![source]).lookup(&InCode(Arc::default()), &[1, 2]);
        assert_eq!((names(&found), found.answered), (vec!["", ""], false));
    }
}

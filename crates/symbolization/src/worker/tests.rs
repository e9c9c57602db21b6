//! The thread with sources of the tests' own.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use profile::{Avma, Svma};
use recording::{CodeObject, ExecInstance, FileIdentity, FrameId, KernelNaming, Module, ModuleKind};
use symbols::SourceLine;

use crate::request::{JitPlace, Request};
use crate::source::{Answer, SymbolSource};
use crate::work::{ModuleHandle, ProgramHandle};

use super::late_names::GRACE;
use super::*;

type AnswerBy = Box<dyn FnMut(&Request) -> Answer + Send>;

/// Answers by a function.
struct Fake {
    answer: AnswerBy,
    shortfalls: Vec<String>,
}

impl SymbolSource for Fake {
    fn name(&self) -> &str {
        "fake"
    }

    fn lookup(&mut self, request: &Request) -> Answer {
        (self.answer)(request)
    }

    fn end_interval(&mut self) -> Vec<String> {
        std::mem::take(&mut self.shortfalls)
    }
}

fn fake(answer: impl FnMut(&Request) -> Answer + Send + 'static) -> Box<dyn SymbolSource + Send> {
    Box::new(Fake { answer: Box::new(answer), shortfalls: Vec::new() })
}

fn start(sources: Sources, abandon: &AbandonToken) -> Symbolization {
    start_observed(sources, abandon, |_, _| {})
}

fn start_observed(
    sources: Sources,
    abandon: &AbandonToken,
    observe: impl FnMut(Lookup, u64) + Send + 'static,
) -> Symbolization {
    let spawn = |body| sys::thread::spawn_quiet_thread("names", body);
    Symbolization::start(sources, &Options::default(), abandon.clone(), observe, spawn).unwrap()
}

fn with(source: Box<dyn SymbolSource + Send>) -> Sources {
    Sources::none().first(|| source)
}

fn in_module(path: &str, svmas: impl Iterator<Item = u64>) -> Work {
    let identity = FileIdentity { size: 1, ..FileIdentity::default() };
    let module = Module { path: path.to_owned(), build_id: None, kind: ModuleKind::Elf, identity };
    let places = svmas.enumerate().map(|(frame, svma)| (FrameId(frame as u32), Svma(svma))).collect();
    Work::Module { module: ModuleHandle { module: Arc::new(module), file: None }, places }
}

fn lines(name: String) -> Vec<SourceLine> {
    vec![SourceLine { name: name.into(), ..SourceLine::default() }]
}

/// Names each even address of modules.
fn even(request: &Request) -> Answer {
    let Request::Module(request) = request else { return Answer::NotMine };
    let path = &request.module.path;
    let name = |svma: &Svma| {
        if svma.0.is_multiple_of(2) { lines(format!("{path}+{}", svma.0)) } else { Vec::new() }
    };
    Answer::Names(request.svmas.iter().map(name).collect())
}

fn name(names: &Names, frame: u32) -> Option<&str> {
    names.of(FrameId(frame)).next().map(|line| line.name)
}

#[test]
fn intervals_that_are_open_at_once_get_their_own_names() {
    let symbolization = start(with(fake(even)), &AbandonToken::new());
    let first = symbolization.begin_interval();
    first.submit(in_module("/a", 0..10));
    let second = symbolization.begin_interval();
    second.submit(in_module("/b", 0..4));
    first.submit(in_module("/c", [20, 21].into_iter()));
    let first = first.wait(|_| {});
    assert_eq!((first.len(), name(&first, 0), name(&first, 2)), (5, Some("/c+20"), Some("/a+2")));
    second.submit(in_module("/b", [6].into_iter()));
    let second = second.wait(|_| {});
    assert_eq!((second.len(), name(&second, 0), name(&second, 2)), (2, Some("/b+6"), Some("/b+2")));
    assert_eq!((first.outcome.abandoned, second.outcome.abandoned), (0, 0));
    let figures = symbolization.figures();
    assert_eq!((figures.named, figures.unnamed, figures.panics), (9, 8, 0));
    symbolization.finish();
}

#[test]
fn names_of_earlier_intervals_are_not_looked_up_again() {
    let asked = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&asked);
    let source = fake(move |request| {
        if let Request::Module(request) = request {
            counter.fetch_add(request.svmas.len() as u64, Ordering::Relaxed);
        }
        even(request)
    });
    let symbolization = start(with(source), &AbandonToken::new());
    let interval = |places| {
        let pending = symbolization.begin_interval();
        pending.submit(in_module("/a", 0..places));
        let names = pending.wait(|_| {});
        (names.len(), name(&names, 4).map(str::to_owned), asked.swap(0, Ordering::Relaxed))
    };
    let four = Some("/a+4".to_owned());
    assert_eq!(interval(5000), (2500, four.clone(), 5000));
    assert_eq!(interval(5010), (2505, four.clone(), 10));
    assert_eq!(interval(0), (0, None, 0));
    assert_eq!(interval(5000), (2500, four.clone(), 0));
    assert_eq!([interval(0), interval(0), interval(0)], [(0, None, 0), (0, None, 0), (0, None, 0)]);
    assert_eq!(interval(6), (3, four, 0), "short intervals forget nothing");
    let figures = symbolization.figures();
    assert_eq!((figures.from_cache, figures.named), (10_006, 7508));
}

#[test]
fn a_source_that_panics_costs_its_own_names() {
    let source = fake(|request| match request {
        Request::Module(request) if request.module.path == "/bad" => panic!("as the test asks"),
        other => even(other),
    });
    let last = fake(|request| match request {
        Request::Module(request) => Answer::Names(vec![lines("last".to_owned()); request.svmas.len()]),
        _ => Answer::NotMine,
    });
    let symbolization = start(with(last).first(|| source), &AbandonToken::new());
    let pending = symbolization.begin_interval();
    pending.submit(in_module("/bad", 0..3));
    let names = pending.wait(|_| {});
    assert_eq!([0, 1, 2].map(|frame| name(&names, frame)), [Some("last"); 3]);
    let pending = symbolization.begin_interval();
    pending.submit(in_module("/good", 0..2));
    let names = pending.wait(|_| {});
    assert_eq!([0, 1].map(|frame| name(&names, frame)), [Some("/good+0"), Some("last")]);
    assert_eq!(symbolization.figures().panics, 1);
}

#[test]
fn code_of_a_runtime_is_looked_up_again_when_the_interval_ends() {
    let written = Arc::new(AtomicBool::new(false));
    let source = |shortfall: &str| {
        let written = Arc::clone(&written);
        let answer = move |request: &Request| {
            let Request::Jit(request) = request else { return Answer::NotMine };
            let known = |address: u64| address == 1 || (address == 2 && written.load(Ordering::Relaxed));
            let name = |at: &Avma| if known(at.0) { lines(format!("jit {}", at.0)) } else { Vec::new() };
            Answer::Names(request.addresses.iter().map(name).collect())
        };
        Box::new(Fake { answer: Box::new(answer), shortfalls: vec![shortfall.to_owned()] })
    };
    let source = source("not all was used");
    let symbolization = start(with(source), &AbandonToken::new());
    let pending = symbolization.begin_interval();
    let program = ExecInstance { pid: 1, began_ns: 2, ended_ns: None, labels: Vec::new() };
    let program = ProgramHandle { program: Arc::new(program), live: None };
    let places =
        (0..3).map(|n| (FrameId(n), JitPlace { address: Avma(u64::from(n) + 1), seen_ns: 0 })).collect();
    pending.submit(Work::Jit { program, places });
    while pending.left() > 2 {
        std::thread::yield_now();
    }
    assert_eq!(symbolization.figures().named, 1);
    written.store(true, Ordering::Relaxed);
    let names = pending.wait(|_| {});
    assert_eq!([0, 1, 2].map(|n| name(&names, n)), [Some("jit 1"), Some("jit 2"), None]);
    assert_eq!((names.outcome.abandoned, names.outcome.shortfalls.len()), (0, 1));
    let figures = symbolization.figures();
    assert_eq!((figures.named, figures.unnamed), (2, 1));
}

#[test]
fn abandoned_names_leave_the_rest_and_say_how_much() {
    let abandon = AbandonToken::new();
    let token = abandon.clone();
    let mut batches = 0;
    let source = fake(move |request| {
        batches += 1;
        if batches == 2 {
            token.abandon();
        }
        even(request)
    });
    let symbolization = start(with(source), &abandon);
    let (pending, other) = (symbolization.begin_interval(), symbolization.begin_interval());
    pending.submit(in_module("/a", 0..10_000));
    other.submit(in_module("/b", 0..7));
    let names = pending.wait(|_| {});
    assert_eq!((names.len(), names.outcome.abandoned), (2048, 10_000 - 2 * 2048));
    let names = other.wait(|_| {});
    assert_eq!((names.len(), names.outcome.abandoned), (0, 7));
    let late = symbolization.begin_interval();
    late.submit(in_module("/c", 0..3));
    assert_eq!(late.wait(|_| {}).outcome.abandoned, 3, "the thread has ended");
    symbolization.finish();
}

#[test]
fn a_source_that_hangs_is_not_waited_for_longer_than_the_grace() {
    let abandon = AbandonToken::new();
    let ((release, hang), (began, begin)) = (channel::<()>(), channel());
    let source = fake(move |_| {
        let _ = began.send(());
        let _ = hang.recv();
        Answer::NotMine
    });
    let symbolization = start(with(source), &abandon);
    let pending = symbolization.begin_interval();
    pending.submit(in_module("/a", 0..5));
    let told = Mutex::new(Vec::new());
    begin.recv().unwrap();
    abandon.abandon();
    let begun = Instant::now();
    let names = pending.wait(|left| told.lock().unwrap().push(left));
    assert!(begun.elapsed() >= GRACE, "{:?}", begun.elapsed());
    assert_eq!((names.len(), names.outcome.abandoned), (0, 5));
    let told = told.into_inner().unwrap();
    assert_eq!((told.first(), told.last()), (Some(&5), Some(&0)));
    symbolization.finish();
    drop(release);
}

#[test]
fn the_work_of_an_interval_that_nobody_waits_for_is_left_out() {
    let (release, gate) = channel::<()>();
    let asked = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&asked);
    let source = fake(move |request| {
        counter.fetch_add(1, Ordering::Relaxed);
        let _ = gate.recv();
        even(request)
    });
    let symbolization = start(with(source), &AbandonToken::new());
    let (kept, dropped) = (symbolization.begin_interval(), symbolization.begin_interval());
    kept.submit(in_module("/a", 0..2));
    dropped.submit(in_module("/b", 0..2));
    drop(dropped);
    drop(release);
    assert_eq!(kept.wait(|_| {}).len(), 1);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

/// The addresses of each request.
type Asked = Arc<Mutex<Vec<Vec<u64>>>>;

/// A source that writes down the addresses of each request in modules, and waits before each answer until `release` has a message or is
/// dropped. Tells that it began.
fn held() -> (Sources, Asked, Sender<()>, Receiver<()>) {
    let ((release, gate), (began, begin)) = (channel::<()>(), channel());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&asked);
    let source = fake(move |request| {
        if let Request::Module(request) = request {
            theirs.lock().unwrap().push(request.svmas.iter().map(|svma| svma.0).collect());
        }
        let _ = began.send(());
        let _ = gate.recv();
        even(request)
    });
    (with(source), asked, release, begin)
}

#[test]
fn places_in_one_module_that_several_intervals_wait_for_are_looked_up_at_once() {
    let (sources, asked, release, begin) = held();
    let symbolization = start(sources, &AbandonToken::new());
    let first = symbolization.begin_interval();
    first.submit(in_module("/big", 0..2));
    begin.recv().unwrap();
    // While the first look-up goes on, further intervals end.
    let first = first.end();
    let later: Vec<_> = (1..=4)
        .map(|number| {
            let interval = symbolization.begin_interval();
            interval.submit(in_module("/big", [10 * number].into_iter()));
            interval.submit(in_module("/small", [10 * number].into_iter()));
            interval.end()
        })
        .collect();
    assert_eq!(later.iter().map(LateNames::left).collect::<Vec<_>>(), [2; 4]);
    drop(release);
    assert_eq!(first.wait(|| false, |_| {}).len(), 1);
    for names in later.iter().map(|names| names.wait(|| false, |_| {})) {
        assert_eq!((names.outcome.abandoned, names.len()), (0, 1), "frame 0 in both modules");
    }
    let together = vec![10, 20, 30, 40];
    assert_eq!(*asked.lock().unwrap(), [vec![0, 1], together.clone(), together]);
    // All that was found is known as long as if each interval had been looked up alone.
    let again = symbolization.begin_interval();
    again.submit(in_module("/big", [0, 40].into_iter()));
    assert_eq!(again.wait(|_| {}).len(), 2);
    assert_eq!(symbolization.figures().from_cache, 2);
}

#[test]
fn an_interval_that_is_given_up_has_the_names_so_far_and_is_not_looked_up() {
    let (sources, asked, release, begin) = held();
    let symbolization = start(sources, &AbandonToken::new());
    let first = symbolization.begin_interval();
    first.submit(in_module("/first", 0..1));
    begin.recv().unwrap();
    let mut ended = Vec::new();
    for number in 0..6 {
        let interval = symbolization.begin_interval();
        interval.submit(in_module("/a", 0..10));
        interval.submit(in_module("/b", (0..3).map(|at| 100 * (number + 1) + at)));
        ended.push(interval.end());
    }
    let last = ended.pop().unwrap();
    // Nobody waits: the first look-up has not ended.
    for given_up in ended {
        let names = given_up.wait(|| true, |_| {});
        assert_eq!((names.len(), names.outcome.abandoned), (0, 13));
    }
    drop(release);
    let names = last.wait(|| false, |_| {});
    // Frames 0, 2, .. of /a, and of /b.
    assert_eq!((names.len(), names.outcome.abandoned), (5, 0));
    let asked = asked.lock().unwrap().clone();
    assert_eq!(
        asked,
        [vec![0], (0..10).collect(), vec![600, 601, 602]],
        "nothing of those that were given up"
    );
}

#[test]
fn ended_intervals_get_their_names_although_nobody_waits_yet() {
    let symbolization = start(with(fake(even)), &AbandonToken::new());
    let interval = symbolization.begin_interval();
    interval.submit(in_module("/a", 0..10));
    let interval = interval.end();
    // Not held up by names that nobody has taken.
    symbolization.finish();
    assert_eq!(interval.left(), 0);
    assert_eq!(interval.wait(|| false, |_| {}).len(), 5);
}

#[test]
fn batches_and_their_times_are_told() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&told);
    let observe = move |what, _ns| theirs.lock().unwrap().push(what);
    let source = fake(|request| match request {
        Request::Kernel(request) if request.addresses[0] < Avma(100) => Answer::Names(
            request
                .addresses
                .iter()
                .map(|at| if *at == Avma(1) { lines("k".into()) } else { vec![] })
                .collect(),
        ),
        Request::Interpreted(_) => Answer::Names(vec![lines("code".into())]),
        _ => Answer::NotMine,
    });
    let symbolization = start_observed(with(source), &AbandonToken::new(), observe);
    let pending = symbolization.begin_interval();
    pending.submit(Work::Kernel { image: None, places: vec![(FrameId(0), Avma(1)), (FrameId(1), Avma(2))] });
    pending
        .submit(Work::Interpreted { code: Arc::new(CodeObject::default()), places: vec![(FrameId(2), 0)] });
    assert_eq!(pending.wait(|_| {}).outcome.kernel, KernelNaming::Known);
    let pending = symbolization.begin_interval();
    pending.submit(Work::Kernel { image: None, places: vec![(FrameId(0), Avma(100))] });
    assert!(matches!(pending.wait(|_| {}).outcome.kernel, KernelNaming::Unreadable(_)));
    let pending = symbolization.begin_interval();
    assert_eq!(pending.wait(|_| {}).outcome.kernel, KernelNaming::NotAsked);
    let figures = symbolization.figures();
    symbolization.finish();
    assert_eq!(*told.lock().unwrap(), [Lookup::Kernel, Lookup::User, Lookup::Kernel]);
    let expected = Figures {
        named: 2,
        unnamed: 2,
        kernel_batches: 2,
        kernel_input_ips: 3,
        kernel_batch_failures: 1,
        kernel_raw_addr_frames: 2,
        ..Figures::default()
    };
    assert_eq!(figures, expected);
}

#[test]
fn names_can_be_waited_for_on_another_thread() {
    let symbolization = start(with(fake(even)), &AbandonToken::new());
    let pending = symbolization.begin_interval();
    pending.submit(in_module("/a", 0..2));
    let names = std::thread::spawn(move || pending.wait(|_| {})).join().unwrap();
    assert_eq!(name(&names, 0), Some("/a+0"));
}

//! When the frames of an interval are handed over: by file, at first soon and then less and less often.
//!
//! Each delivery in a file costs the search for the file's addresses in its debug information, whatever their number. So places in one
//! file are collected.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use profile::{Avma, Svma};
use recording::{
    CodeMappingId, CodeObject, CodeObjectId, ExecInstanceId, Frame, FrameId, KernelImage, ModuleId,
};
use rustix::time::{ClockId, clock_gettime};

use crate::request::JitPlace;
use crate::work::{ModuleHandle, ProgramHandle, Work};

/// Between two deliveries of new places in one file: at first, and at most. In between it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(900);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);
/// Large files may be read anew for each delivery. Their first comes when most places are there, the next ones are far between.
const FIRST_OF_LARGE: Duration = Duration::from_secs(4);

/// What frames refer to.
pub trait FrameContext {
    /// The module of a loaded range.
    fn module_of(&self, mapping: CodeMappingId) -> Option<ModuleId>;

    /// A module with its file. Asked for each delivery.
    fn module(&self, id: ModuleId) -> Option<ModuleHandle>;

    /// A program that makes code at run time.
    fn program(&self, id: ExecInstanceId) -> Option<ProgramHandle>;

    /// A function of an interpreted language.
    fn code_object(&self, id: CodeObjectId) -> Option<Arc<CodeObject>>;

    /// The kernel, if it is that of a recording; none for the running one.
    fn kernel(&self) -> Option<Arc<KernelImage>> {
        None
    }
}

/// Places in one module that are not handed over yet.
struct Held {
    places: Vec<(FrameId, Svma)>,
    due: Instant,
    pause: Duration,
}

/// The schedule of one interval.
#[derive(Default)]
pub struct Deliveries {
    held: BTreeMap<ModuleId, Held>,
    /// Frames that were sorted by where they are.
    seen: usize,
    nowhere: u64,
}

impl Deliveries {
    /// The schedule of an interval that begins.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What is due: new places, except those in files of which some were handed over lately. `frames` are all frames of the interval in
    /// the order of their ids.
    pub fn take_due<'a>(
        &mut self,
        frames: impl Iterator<Item = &'a Frame>,
        context: &impl FrameContext,
    ) -> Vec<Work> {
        self.take(frames, context, Some(Instant::now()))
    }

    /// All that is left.
    pub fn take_rest<'a>(
        &mut self,
        frames: impl Iterator<Item = &'a Frame>,
        context: &impl FrameContext,
    ) -> Vec<Work> {
        self.take(frames, context, None)
    }

    /// Frames so far that lie in no mapping, so that nobody can name them.
    #[must_use]
    pub fn nowhere(&self) -> u64 {
        self.nowhere
    }

    /// What is due at a time; all if there is none.
    fn take<'a>(
        &mut self,
        frames: impl Iterator<Item = &'a Frame>,
        context: &impl FrameContext,
        now: Option<Instant>,
    ) -> Vec<Work> {
        let mut jit: BTreeMap<ExecInstanceId, Vec<(FrameId, JitPlace)>> = BTreeMap::new();
        let seen_ns = monotonic_ns();
        let mut interpreted: BTreeMap<CodeObjectId, Vec<(FrameId, u32)>> = BTreeMap::new();
        let mut kernel = Vec::new();
        for frame in frames.skip(self.seen) {
            let id = FrameId(u32::try_from(self.seen).unwrap_or(u32::MAX));
            self.seen += 1;
            match *frame {
                Frame::Native { mapping, svma, exact } => {
                    let svma = Svma(Frame::lookup(svma.0, exact));
                    match self.held(mapping, context, now) {
                        Some(held) => held.places.push((id, svma)),
                        None => self.nowhere += 1,
                    }
                }
                Frame::Jit { program, address, exact } => {
                    let address = Avma(Frame::lookup(address.0, exact));
                    jit.entry(program).or_default().push((id, JitPlace { address, seen_ns }));
                }
                Frame::Kernel { address, exact } => kernel.push((id, Avma(Frame::lookup(address, exact)))),
                Frame::Interpreted { code, instruction } => {
                    interpreted.entry(code).or_default().push((id, instruction));
                }
                Frame::Unknown { .. } => self.nowhere += 1,
            }
        }
        let mut works = self.due_modules(context, now);
        for (id, places) in jit {
            match context.program(id) {
                Some(program) => works.push(Work::Jit { program, places }),
                None => self.nowhere += places.len() as u64,
            }
        }
        for (id, places) in interpreted {
            match context.code_object(id) {
                Some(code) => works.push(Work::Interpreted { code, places }),
                None => self.nowhere += places.len() as u64,
            }
        }
        if !kernel.is_empty() {
            works.push(Work::Kernel { image: context.kernel(), places: kernel });
        }
        works
    }

    /// Where places in a loaded range are collected.
    fn held(
        &mut self,
        mapping: CodeMappingId,
        context: &impl FrameContext,
        now: Option<Instant>,
    ) -> Option<&mut Held> {
        let id = context.module_of(mapping)?;
        match self.held.entry(id) {
            Entry::Occupied(held) => Some(held.into_mut()),
            Entry::Vacant(free) => {
                let now = now.unwrap_or_else(Instant::now);
                let (due, pause) = if context.module(id)?.is_large() {
                    (now + FIRST_OF_LARGE, LONGEST_PAUSE)
                } else {
                    (now, FIRST_PAUSE)
                };
                Some(free.insert(Held { places: Vec::new(), due, pause }))
            }
        }
    }

    fn due_modules(&mut self, context: &impl FrameContext, now: Option<Instant>) -> Vec<Work> {
        let mut works = Vec::new();
        for (id, held) in &mut self.held {
            if held.places.is_empty() || now.is_some_and(|now| now < held.due) {
                continue;
            }
            if let Some(now) = now {
                held.due = now + held.pause;
            }
            held.pause = (held.pause * 2).min(LONGEST_PAUSE);
            let places = std::mem::take(&mut held.places);
            match context.module(*id) {
                Some(module) => works.push(Work::Module { module, places }),
                None => self.nowhere += places.len() as u64,
            }
        }
        works
    }
}

/// `CLOCK_MONOTONIC`.
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use recording::{ExecInstance, FileIdentity, Module, ModuleKind};

    use super::*;

    /// A mapping has the number of its module; module 1 is large, module 9 is unknown.
    struct Context;

    impl FrameContext for Context {
        fn module_of(&self, mapping: CodeMappingId) -> Option<ModuleId> {
            (mapping.0 < 9).then_some(ModuleId(mapping.0))
        }

        fn module(&self, id: ModuleId) -> Option<ModuleHandle> {
            let size = if id.0 == 1 { 9 << 20 } else { 100 };
            let identity = FileIdentity { size, ..FileIdentity::default() };
            let module =
                Module { path: format!("/{}", id.0), build_id: None, kind: ModuleKind::Elf, identity };
            Some(ModuleHandle { module: Arc::new(module), file: None })
        }

        fn program(&self, id: ExecInstanceId) -> Option<ProgramHandle> {
            let program = ExecInstance { pid: id.0, began_ns: 1, ended_ns: None, labels: Vec::new() };
            (id.0 < 9).then(|| ProgramHandle { program: Arc::new(program), live: None })
        }

        fn code_object(&self, id: CodeObjectId) -> Option<Arc<CodeObject>> {
            (id.0 < 9).then(Arc::default)
        }
    }

    fn native(mapping: u32, svma: u64, exact: bool) -> Frame {
        Frame::Native { mapping: CodeMappingId(mapping), svma: Svma(svma), exact }
    }

    /// Path or kind, with frames and addresses.
    fn told(works: &[Work]) -> Vec<(String, Vec<(u32, u64)>)> {
        let told = |work: &Work| match work {
            Work::Module { module, places } => {
                (module.module.path.clone(), places.iter().map(|(id, svma)| (id.0, svma.0)).collect())
            }
            Work::Kernel { places, .. } => {
                ("kernel".to_owned(), places.iter().map(|(id, at)| (id.0, at.0)).collect())
            }
            Work::Jit { program, places } => {
                let places = places.iter().map(|(id, place)| (id.0, place.address.0));
                (format!("jit {}", program.program.pid), places.collect())
            }
            Work::Interpreted { places, .. } => {
                ("code".to_owned(), places.iter().map(|(id, at)| (id.0, u64::from(*at))).collect())
            }
        };
        works.iter().map(told).collect()
    }

    #[test]
    fn places_in_a_file_come_with_growing_pauses_and_all_at_the_end() {
        let begin = Instant::now();
        let after = |ms| begin + Duration::from_millis(ms);
        let (mut deliveries, mut frames) = (Deliveries::new(), Vec::new());
        let mut at = |now: Option<Instant>, svma: u64| {
            frames.push(native(0, svma, true));
            let works = deliveries.take(frames.iter(), &Context, now);
            told(&works).into_iter().map(|(_, places)| places.len()).sum::<usize>()
        };
        assert_eq!(at(Some(begin), 0), 1, "the first at once");
        assert_eq!([at(Some(after(100)), 1), at(Some(after(899)), 2), at(Some(after(900)), 3)], [0, 0, 3]);
        assert_eq!([at(Some(after(2600)), 4), at(Some(after(2700)), 5)], [0, 2], "twice as long");
        assert_eq!([at(Some(after(2800)), 6), at(None, 7)], [0, 2]);
    }

    #[test]
    fn large_files_come_later() {
        let begin = Instant::now();
        let frames = [native(1, 10, true), native(2, 20, false)];
        let mut deliveries = Deliveries::new();
        let mut at = |seconds| {
            told(&deliveries.take(frames.iter(), &Context, Some(begin + Duration::from_secs(seconds))))
        };
        assert_eq!(at(0), [("/2".to_owned(), vec![(1, 19)])]);
        assert_eq!(at(3), []);
        assert_eq!(at(4), [("/1".to_owned(), vec![(0, 10)])]);
    }

    #[test]
    fn frames_are_sorted_by_where_they_are_and_each_is_handed_over_once() {
        let frames = [
            Frame::Kernel { address: 100, exact: false },
            Frame::Jit { program: ExecInstanceId(3), address: Avma(200), exact: false },
            Frame::Interpreted { code: CodeObjectId(4), instruction: 5 },
            native(0, 7, false),
            Frame::Jit { program: ExecInstanceId(3), address: Avma(300), exact: true },
            Frame::Unknown { address: Avma(1) },
            native(9, 7, false),
            Frame::Jit { program: ExecInstanceId(9), address: Avma(300), exact: true },
            Frame::Interpreted { code: CodeObjectId(9), instruction: 5 },
        ];
        let mut deliveries = Deliveries::new();
        let works = deliveries.take_rest(frames.iter(), &Context);
        let expected = [
            ("/0", vec![(3, 6)]),
            ("jit 3", vec![(1, 199), (4, 300)]),
            ("code", vec![(2, 5)]),
            ("kernel", vec![(0, 99)]),
        ];
        assert_eq!(told(&works), expected.map(|(what, places)| (what.to_owned(), places)));
        assert_eq!(deliveries.nowhere(), 4);
        assert!(deliveries.take_rest(frames.iter(), &Context).is_empty());
        assert_eq!(deliveries.nowhere(), 4);
    }
}

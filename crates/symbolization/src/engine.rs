//! Answers deliveries: in batches, from the cache and the sources.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use profile::{Avma, Svma};
use recording::{FrameId, KernelImage, KernelNaming};
use symbols::SourceLine;

use crate::abandon::AbandonToken;
use crate::chain::{Chain, Found, InCode, InJit, InKernel, InModule};
use crate::figures::{Figures, Lookup};
use crate::interval::{Interval, Later, Unnamed};
use crate::name_cache::NameCache;
use crate::request::{FileOnce, JitPlace};
use crate::source::SymbolSource;
use crate::work::{ModuleHandle, ProgramHandle, Work};

/// Addresses in a module that are looked up at once; between two batches symbolization may be abandoned.
const BATCH: usize = 2048;
/// The same of code made at run time, whose lookup is fast. For each batch the perf map may be read again.
const JIT_BATCH: usize = 1 << 15;
/// Told how long each batch took, in ns.
pub(crate) type Observer = Box<dyn FnMut(Lookup, u64) + Send>;

/// What finds names: the sources, and what is known from earlier intervals.
pub(crate) struct Engine {
    chain: Chain,
    cache: NameCache,
    figures: Arc<Mutex<Figures>>,
    observer: Observer,
    abandon: AbandonToken,
}

impl Engine {
    pub(crate) fn new(
        sources: Vec<Box<dyn SymbolSource>>,
        cached_places: usize,
        figures: Arc<Mutex<Figures>>,
        observer: Observer,
        abandon: AbandonToken,
    ) -> Self {
        Self { chain: Chain::new(sources), cache: NameCache::new(cached_places), figures, observer, abandon }
    }

    pub(crate) fn begin_interval(&mut self) {
        self.cache.begin_interval(Instant::now());
    }

    /// Looks up the places of a delivery. Ends early if symbolization is abandoned.
    pub(crate) fn answer(&mut self, interval: &Interval, work: Work) {
        match work {
            Work::Module { module, places } => {
                let places: Vec<_> =
                    places.into_iter().map(|(frame, svma)| (interval, frame, svma)).collect();
                self.answer_module(&module, &places);
            }
            Work::Kernel { image, places } => self.kernel(interval, image, &places),
            Work::Jit { program, places } => self.jit(interval, &program, &places),
            Work::Interpreted { code, places } => {
                let (frames, instructions) = split(&places);
                let found = self.timed(Lookup::User, |chain| chain.lookup(&InCode(code), &instructions));
                self.enter(interval, &frames, &found.names);
            }
        }
    }

    /// Everything in the interval was looked up once: looks up again what may have a name by now, and asks the sources what is to be said.
    pub(crate) fn end_interval(&mut self, interval: &Interval) {
        self.answer_later(interval);
        interval.set_fetches(self.chain.fetches());
        for Unnamed { program, places } in interval.take_unnamed() {
            for batch in places.chunks(JIT_BATCH) {
                if self.abandon.is_abandoned() {
                    return;
                }
                let (frames, found) = self.jit_batch(&program, batch, true);
                self.enter(interval, &frames, &found.names);
            }
        }
        interval.tell(self.chain.end_interval());
    }

    /// Lets the sources keep what they learned for later runs, unless symbolization is abandoned. Nothing is asked afterwards.
    pub(crate) fn keep(&mut self) {
        if !self.abandon.is_abandoned() {
            self.chain.keep();
        }
    }

    /// Waits for what sources said that they may know later, and asks them again.
    fn answer_later(&mut self, interval: &Interval) {
        let all = interval.take_later();
        if all.is_empty() {
            return;
        }
        let abandon = self.abandon.clone();
        self.chain.wait(&|| abandon.is_abandoned());
        for Later { module, places } in all {
            let places: Vec<_> = places.into_iter().map(|(frame, svma)| (interval, frame, svma)).collect();
            self.in_module(&module, &places, true);
        }
    }

    /// Looks up places in one module, which may be of several intervals. Ends early if symbolization is abandoned.
    pub(crate) fn answer_module(&mut self, module: &ModuleHandle, places: &[(&Interval, FrameId, Svma)]) {
        self.in_module(module, places, false);
    }

    /// `is_last`: nothing is known later.
    fn in_module(&mut self, module: &ModuleHandle, places: &[(&Interval, FrameId, Svma)], is_last: bool) {
        let begun = Instant::now();
        let file = Arc::new(FileOnce::new(module.file.clone()));
        // Debug information is read unit by unit: addresses of one unit in one batch.
        let mut places = places.to_vec();
        places.sort_by_key(|(_, _, svma)| *svma);
        for batch in places.chunks(BATCH) {
            if self.abandon.is_abandoned() {
                break;
            }
            self.module_batch(module, &file, batch, is_last);
        }
        self.chain.delivered(module.is_large());
        let (path, places) = (&module.module.path, places.len());
        tracing::debug!(target: "perfagent", path, places, elapsed = ?begun.elapsed(), "names");
    }

    fn module_batch(
        &mut self,
        handle: &ModuleHandle,
        file: &Arc<FileOnce>,
        batch: &[(&Interval, FrameId, Svma)],
        is_last: bool,
    ) {
        let module = &*handle.module;
        let mut unknown = Vec::new();
        for (interval, frame, svma) in batch {
            match self.cache.get(module, *svma) {
                Some((lines, start)) => {
                    self.with_figures(|figures| figures.from_cache += 1);
                    self.enter(interval, &[*frame], &[lines]);
                    interval.enter_start(*frame, start);
                }
                None => unknown.push((interval, frame, svma)),
            }
        }
        if unknown.is_empty() {
            return;
        }
        let svmas: Vec<Svma> = unknown.iter().map(|(_, _, svma)| **svma).collect();
        let subject = InModule { module: Arc::clone(&handle.module), file: Arc::clone(file) };
        let found = self.timed(Lookup::User, |chain| chain.lookup(&subject, &svmas));
        if found.later && !is_last {
            for ((interval, frame, svma), lines) in unknown.into_iter().zip(found.names) {
                interval.enter_meanwhile([*frame].into_iter(), &[lines]);
                interval.keep_later(handle, *frame, *svma);
            }
            return;
        }
        // An answer that another interval may get better is not kept.
        let is_final = found.answered && found.panics == 0 && !file.failed() && !found.later;
        for (((interval, frame, svma), lines), start) in
            unknown.into_iter().zip(found.names).zip(found.starts)
        {
            if is_final || (!lines.is_empty() && !found.later) {
                self.cache.put(module, *svma, &lines, start);
            }
            self.enter(interval, &[*frame], &[lines]);
            interval.enter_start(*frame, start);
        }
    }

    fn kernel(&mut self, interval: &Interval, image: Option<Arc<KernelImage>>, places: &[(FrameId, Avma)]) {
        let (frames, addresses) = split(places);
        let found = self.timed(Lookup::Kernel, |chain| chain.lookup(&InKernel { image }, &addresses));
        self.with_figures(|figures| {
            figures.kernel_batches += 1;
            figures.kernel_input_ips += addresses.len() as u64;
            figures.kernel_batch_failures += u64::from(!found.answered);
            figures.kernel_raw_addr_frames += unnamed(&found.names);
        });
        let naming = if found.answered { KernelNaming::Known } else { self.chain.kernel_naming() };
        interval.set_kernel(naming, &frames);
        self.enter(interval, &frames, &found.names);
    }

    fn jit(&mut self, interval: &Interval, program: &ProgramHandle, places: &[(FrameId, JitPlace)]) {
        for batch in places.chunks(JIT_BATCH) {
            if self.abandon.is_abandoned() {
                return;
            }
            let (frames, found) = self.jit_batch(program, batch, false);
            // What was at a place may be known later only.
            if program.live.as_ref().is_some_and(|live| live.names_may_change()) {
                interval.enter_meanwhile(frames.into_iter(), &found.names);
                interval.keep_unnamed(program, batch.iter().copied());
                continue;
            }
            let (named, unnamed): (Vec<usize>, Vec<usize>) =
                (0..batch.len()).partition(|index| !found.names[*index].is_empty());
            let named_frames: Vec<FrameId> = named.iter().map(|index| frames[*index]).collect();
            let names: Vec<_> = named.iter().map(|index| found.names[*index].clone()).collect();
            self.enter(interval, &named_frames, &names);
            if !unnamed.is_empty() {
                interval.keep_unnamed(program, unnamed.into_iter().map(|index| batch[index]));
            }
        }
    }

    fn jit_batch(
        &mut self,
        program: &ProgramHandle,
        batch: &[(FrameId, JitPlace)],
        is_last: bool,
    ) -> (Vec<FrameId>, Found) {
        let (frames, places) = split(batch);
        let subject = InJit { program: Arc::clone(&program.program), live: program.live.clone(), is_last };
        (frames, self.timed(Lookup::User, |chain| chain.lookup(&subject, &places)))
    }

    fn timed(&mut self, what: Lookup, lookup: impl FnOnce(&mut Chain) -> Found) -> Found {
        let begun = Instant::now();
        let found = lookup(&mut self.chain);
        (self.observer)(what, u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        self.with_figures(|figures| figures.panics += found.panics);
        found
    }

    fn enter(&self, interval: &Interval, frames: &[FrameId], names: &[Vec<SourceLine>]) {
        let unnamed = unnamed(names);
        self.with_figures(|figures| {
            figures.unnamed += unnamed;
            figures.named += names.len() as u64 - unnamed;
        });
        interval.enter(frames.iter().copied(), names);
    }

    fn with_figures(&self, change: impl FnOnce(&mut Figures)) {
        change(&mut self.figures.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

fn split<A: Copy>(places: &[(FrameId, A)]) -> (Vec<FrameId>, Vec<A>) {
    places.iter().copied().unzip()
}

fn unnamed(names: &[Vec<SourceLine>]) -> u64 {
    names.iter().filter(|lines| lines.is_empty()).count() as u64
}

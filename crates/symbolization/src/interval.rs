//! The results of one interval while they are being found.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use profile::Svma;
use recording::{Fetches, FrameId, KernelNaming, Names};
use symbols::SourceLine;

use crate::line;
use crate::request::{JitPlace, ProgramId};
use crate::work::{ModuleHandle, ProgramHandle};

/// Places in code of a program that have no name so far, or maybe another one later.
pub(crate) struct Unnamed {
    pub(crate) program: ProgramHandle,
    pub(crate) places: Vec<(FrameId, JitPlace)>,
}

/// Places in a module that are looked up again when the interval ends.
pub(crate) struct Later {
    pub(crate) module: ModuleHandle,
    pub(crate) places: Vec<(FrameId, Svma)>,
}

/// What was asked and found in one interval.
#[derive(Default)]
pub(crate) struct Interval {
    submitted: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    names: Names,
    answered: u64,
    /// Places in code made at run time that are looked up again when the interval ends.
    unnamed: HashMap<ProgramId, Unnamed>,
    /// Places that a source may know more about when the interval ends.
    later: Vec<Later>,
}

impl State {
    /// Enters a line about the names, once.
    fn tell(&mut self, line: String) {
        let told = &mut self.names.outcome.shortfalls;
        if !told.contains(&line) {
            told.push(line);
        }
    }
}

impl Interval {
    /// Results that start with names which were known before.
    pub(crate) fn with_names(names: Names) -> Self {
        Self { submitted: AtomicU64::new(0), state: Mutex::new(State { names, ..State::default() }) }
    }

    pub(crate) fn add_submitted(&self, places: usize) {
        self.submitted.fetch_add(places as u64, Ordering::Relaxed);
    }

    /// Places that nobody has looked up so far.
    pub(crate) fn left(&self) -> u64 {
        self.submitted.load(Ordering::Relaxed).saturating_sub(self.state().answered)
    }

    /// Enters what was found at some frames.
    pub(crate) fn enter(&self, frames: impl Iterator<Item = FrameId>, found: &[Vec<SourceLine>]) {
        let mut state = self.state();
        state.answered += found.len() as u64;
        for (frame, lines) in frames.zip(found).filter(|(_, lines)| !lines.is_empty()) {
            state.names.enter(frame, lines.iter().map(line::borrowed));
        }
    }

    /// Enters where the function of a frame begins, if that is known. A frame with a name keeps that alone.
    pub(crate) fn enter_start(&self, frame: FrameId, start: Option<Svma>) {
        if let Some(start) = start {
            self.state().names.enter_start(frame, start);
        }
    }

    /// Enters what is known of some frames until they are looked up again.
    pub(crate) fn enter_meanwhile(&self, frames: impl Iterator<Item = FrameId>, found: &[Vec<SourceLine>]) {
        let mut state = self.state();
        for (frame, lines) in frames.zip(found).filter(|(_, lines)| !lines.is_empty()) {
            state.names.enter(frame, lines.iter().map(line::borrowed));
        }
    }

    /// Keeps a place in a module that is looked up again when the interval ends.
    pub(crate) fn keep_later(&self, module: &ModuleHandle, frame: FrameId, svma: Svma) {
        let mut state = self.state();
        match state.later.iter_mut().rfind(|later| later.module.module == module.module) {
            Some(later) => later.places.push((frame, svma)),
            None => state.later.push(Later { module: module.clone(), places: vec![(frame, svma)] }),
        }
    }

    pub(crate) fn take_later(&self) -> Vec<Later> {
        std::mem::take(&mut self.state().later)
    }

    /// Tells what was fetched.
    pub(crate) fn set_fetches(&self, fetches: Option<Fetches>) {
        self.state().names.outcome.fetches = fetches;
    }

    /// Tells whether the kernel addresses at these frames could be named. If not, names that the frames have from before stay.
    pub(crate) fn set_kernel(&self, naming: KernelNaming, frames: &[FrameId]) {
        let mut state = self.state();
        let reason = match &naming {
            KernelNaming::NotAsked | KernelNaming::Known => None,
            KernelNaming::Hidden => Some("the kernel hides its addresses from this process"),
            KernelNaming::Unreadable(reason) => Some(reason.as_str()),
        };
        match reason.filter(|_| frames.iter().any(|frame| state.names.has(*frame))) {
            Some(reason) => state.tell(format!("kernel frames keep the names of the recording: {reason}")),
            None => state.names.outcome.kernel = naming,
        }
    }

    /// Keeps places that are looked up again when the interval ends.
    pub(crate) fn keep_unnamed(
        &self,
        program: &ProgramHandle,
        places: impl Iterator<Item = (FrameId, JitPlace)>,
    ) {
        let mut state = self.state();
        let new = || Unnamed { program: program.clone(), places: Vec::new() };
        let id = ProgramId::from(&*program.program);
        state.unnamed.entry(id).or_insert_with(new).places.extend(places);
    }

    pub(crate) fn take_unnamed(&self) -> Vec<Unnamed> {
        std::mem::take(&mut self.state().unnamed).into_values().collect()
    }

    /// Everything was looked up: enters what the sources say about it.
    pub(crate) fn tell(&self, told: Vec<String>) {
        let mut state = self.state();
        told.into_iter().for_each(|line| state.tell(line));
    }

    /// The results. Places that nobody looked up are counted as abandoned.
    pub(crate) fn take_names(&self) -> Names {
        let abandoned = self.left();
        let mut state = self.state();
        if state.names.not_kept() > 0 {
            let line = "names take more memory than a recording may have: some places in code have none";
            state.tell(line.to_owned());
        }
        let mut names = std::mem::take(&mut state.names);
        names.outcome.abandoned = abandoned;
        names
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: String) -> Vec<SourceLine> {
        vec![SourceLine { name: name.into(), ..SourceLine::default() }]
    }

    #[test]
    fn names_that_a_recording_has_no_memory_for_are_told() {
        const TEXT: usize = 4096;
        let few = Interval::default();
        few.enter([FrameId(0)].into_iter(), &[named("function".to_owned())]);
        assert!(few.take_names().outcome.shortfalls.is_empty());
        let many = Interval::default();
        for number in 0..(300 << 20) / TEXT as u32 {
            many.enter([FrameId(number)].into_iter(), &[named(format!("{number:TEXT$}"))]);
        }
        let names = many.take_names();
        assert!((50_000..=(256 << 20) / TEXT).contains(&names.len()), "{} names", names.len());
        let [told] = names.outcome.shortfalls.as_slice() else { panic!("{:?}", names.outcome) };
        assert!(told.contains("memory"), "{told}");
    }
}

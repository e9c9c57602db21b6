//! Unwinders over all registers, one for each file that walks in user space go through. They are asked for at the first frame in a file,
//! made from its frame sections by workers, and kept while walks use them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use process::{FileKey, FileKind, MappedFile, Region, WorkerPool};
use unwind::full::{Frame, FullUnwinder};
use unwind::{Memory, StepError};

use super::file_bytes::FileBytes;

/// More than any stack goes through.
const MAX_FILES: usize = 256;
/// Bytes of the frame sections of one file. A file with more is walked by compact rules.
const MAX_BYTES: usize = 48 << 20;
/// Bytes of all frame sections together. Those used last are kept.
const MAX_ALL_BYTES: usize = 96 << 20;
/// A file that cannot be read within this time is given up, as stacks are that wait for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// It owns copies of the frame sections: the file itself may not answer.
type Unwinder = FullUnwinder<Vec<u8>>;

/// A step from a frame to its caller.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives for one step")]
pub(crate) enum FullStep {
    Taken(Result<Frame, StepError>),
    /// No frame section covers the code; compact rules or frame pointers may.
    NoRow,
    /// The frame sections are still being read.
    NotReady,
}

enum State {
    /// The number of the request.
    Awaited(u64),
    /// `None`: the file cannot be read, or has no frame sections.
    Ready(Option<Box<Unwinder>>),
}

struct Entry {
    key: FileKey,
    state: State,
    /// Since the last [`Unwinders::release_unused`].
    used: bool,
}

impl Entry {
    fn bytes(&self) -> usize {
        match &self.state {
            State::Ready(Some(unwinder)) => unwinder.bytes().len(),
            _ => 0,
        }
    }
}

/// The unwinders of the files used last.
pub(crate) struct Unwinders {
    /// The last used comes first.
    entries: Vec<Entry>,
    workers: WorkerPool<Option<Unwinder>>,
    /// How long steps may still wait for frame sections.
    may_wait: Duration,
}

impl Default for Unwinders {
    fn default() -> Self {
        let spawn = |body: Box<dyn FnOnce() + Send>| {
            let body = || {
                crate::priority::go_soon();
                body();
            };
            sys::thread::spawn_quiet_thread("frame", body).map(drop)
        };
        let workers = WorkerPool::new(Box::new(spawn), PATIENCE);
        Self { entries: Vec::new(), workers, may_wait: Duration::ZERO }
    }
}

impl Unwinders {
    /// The caller of a frame whose code lies in a region.
    pub(crate) fn step(&mut self, region: &Region, frame: &Frame, memory: &impl Memory) -> FullStep {
        let Some((file, bias)) = linked(region) else { return FullStep::NoRow };
        match self.of(file).map(|entry| &entry.state) {
            Some(State::Awaited(_)) => FullStep::NotReady,
            Some(State::Ready(Some(unwinder))) => match unwinder.step(frame, bias, memory) {
                Err(StepError::NoRow(_)) => FullStep::NoRow,
                result => FullStep::Taken(result),
            },
            Some(State::Ready(None)) | None => FullStep::NoRow,
        }
    }

    /// Whether code that a frame section describes begins at an address of a region. `false` while the section is not read.
    pub(crate) fn begins_at(&mut self, region: &Region, address: u64) -> bool {
        let Some((file, bias)) = linked(region) else { return false };
        match self.of(file).map(|entry| &entry.state) {
            Some(State::Ready(Some(unwinder))) => unwinder.begins_at(address.wrapping_sub(bias)),
            _ => false,
        }
    }

    /// Steps wait for frame sections from here on, all together for no longer than this.
    pub(crate) fn may_wait(&mut self, time: Duration) {
        self.may_wait = time;
    }

    /// Takes what the workers have read, after waiting for no longer than `wait`. Whether there was something.
    pub(crate) fn take_finished(&mut self, wait: Duration) -> bool {
        let taken = self.workers.take(wait);
        let some = !taken.given_up.is_empty() || !taken.finished.is_empty();
        let given_up = taken.given_up.into_iter().map(|ticket| (ticket, None));
        for (number, unwinder) in given_up.chain(taken.finished) {
            let awaited =
                |entry: &&mut Entry| matches!(entry.state, State::Awaited(other) if other == number);
            if let Some(entry) = self.entries.iter_mut().find(awaited) {
                entry.state = State::Ready(unwinder.map(Box::new));
            }
        }
        let mut bytes = 0;
        self.entries.retain(|entry| {
            bytes += entry.bytes();
            bytes <= MAX_ALL_BYTES
        });
        some
    }

    fn of(&mut self, file: &Arc<MappedFile>) -> Option<&Entry> {
        let key = file.key();
        match self.entries.iter().position(|entry| entry.key == key) {
            Some(at) => self.entries[..=at].rotate_right(1),
            None => {
                self.entries.truncate(MAX_FILES - 1);
                let state = self.request(file);
                self.entries.insert(0, Entry { key, state, used: true });
            }
        }
        if matches!(self.entries.first()?.state, State::Awaited(_)) && !self.may_wait.is_zero() {
            let begun = Instant::now();
            self.take_finished(self.may_wait);
            self.may_wait = self.may_wait.saturating_sub(begun.elapsed());
        }
        let entry = self.entries.first_mut()?;
        entry.used = true;
        Some(entry)
    }

    fn request(&mut self, file: &Arc<MappedFile>) -> State {
        if file.kind() == FileKind::InMemory {
            return State::Ready(FileBytes::of(file).ok().and_then(make).map(Box::new));
        }
        let (identity, file) = (file.identity(), Arc::clone(file));
        let device = (identity.dev_major, identity.dev_minor);
        State::Awaited(self.workers.ask(device, move || make(FileBytes::of(&file).ok()?)))
    }

    /// Drops the unwinders that no walk has used since the last call. Walks wait for those that are still being read, and do not ask again.
    pub(crate) fn release_unused(&mut self) {
        self.entries
            .retain_mut(|entry| std::mem::take(&mut entry.used) || matches!(entry.state, State::Awaited(_)));
    }
}

/// The reason for a failure is told when the file's table is compiled, which fails in the same way.
fn make(bytes: FileBytes) -> Option<Unwinder> {
    let unwinder = FullUnwinder::new(&bytes).ok()?.detached(MAX_BYTES);
    // Pages that could not be read were replaced by zeros: a step made from them is wrong.
    unwinder.filter(|_| bytes.is_whole())
}

/// The ELF file of a region, and the difference between its run-time and link-time addresses.
fn linked(region: &Region) -> Option<(&Arc<MappedFile>, u64)> {
    let file = region.file().filter(|file| file.kind() != FileKind::NotElf)?;
    Some((file, region.start.0.wrapping_sub(file.svma_of(region.offset)?.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unwinding::file_bytes::tests::Idle;

    #[test]
    fn steps_are_made_from_copies_and_none_from_what_could_not_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("library.so");
        let original = Idle::library();
        std::fs::write(&library, &original).unwrap();
        let (_idle, image, file) = Idle::with(&library);
        let of_library = |region: &&Region| region.file().is_some_and(|other| other.key() == file.key());
        let regions: Vec<_> = image.regions().iter().filter(of_library).collect();
        let steps = |unwinders: &mut Unwinders| {
            let pcs = regions.iter().flat_map(|region| (region.start.0..region.end.0).step_by(4096));
            let frames = pcs.map(|pc| Frame::leaf(&[0x1000; 16], pc));
            let step = |frame: Frame| {
                let region = regions.iter().find(|region| (region.start.0..region.end.0).contains(&frame.pc));
                Some(unwinders.step(region?, &frame, &|_| Some(0x2000)))
            };
            frames.filter_map(step).filter(|step| matches!(step, FullStep::Taken(Ok(_)))).count()
        };
        let mut unwinders = Unwinders::default();
        let first = regions[0];
        let frame = Frame::leaf(&[0x1000; 16], first.start.0);
        assert!(matches!(unwinders.step(first, &frame, &|_| None), FullStep::NotReady));
        unwinders.may_wait(Duration::from_secs(20));
        let before = steps(&mut unwinders);
        assert!(before > 10);
        let bytes = FileBytes::of(&file).unwrap();
        let cut = std::fs::File::options().write(true).open(&library).unwrap();
        cut.set_len(original.len() as u64 / 2).unwrap();
        assert_eq!(steps(&mut unwinders), before);
        assert!(make(bytes).is_none(), "the pages that are missing were replaced by zeros");
        unwinders.entries.clear();
        assert_eq!(steps(&mut unwinders), 0);
    }
}

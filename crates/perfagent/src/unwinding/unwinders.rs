//! Unwinders over all registers, one for each file that walks in user space go through. They are made at the first frame in a file and
//! kept while walks use them.

use process::{FileKey, FileKind, MappedFile, Region};
use unwind::full::{Frame, FullUnwinder};
use unwind::{Memory, StepError};

use super::file_bytes::FileBytes;

/// As many files as a few stacks go through.
const MAX_FILES: usize = 16;

struct Entry {
    key: FileKey,
    /// `None`: the file cannot be read, or has no frame sections.
    unwinder: Option<FullUnwinder<FileBytes>>,
    /// Since the last [`Unwinders::release_unused`].
    used: bool,
    /// Count of unreadable pages of all files at the last check.
    replaced: u64,
}

impl Entry {
    /// Whether all that was read of the file so far could be read.
    fn is_whole(&mut self) -> bool {
        let replaced = sys::filemap::replaced_pages();
        std::mem::replace(&mut self.replaced, replaced) == replaced
            || self.unwinder.as_ref().is_none_or(|unwinder| unwinder.bytes().is_whole())
    }
}

/// The unwinders of the files used last.
#[derive(Default)]
pub(crate) struct Unwinders {
    /// The last used comes first.
    entries: Vec<Entry>,
}

impl Unwinders {
    /// The caller of a frame whose code lies in a region. `None`: no frame section covers it; compact rules or frame pointers may.
    pub(crate) fn step(
        &mut self,
        region: &Region,
        frame: &Frame,
        memory: &impl Memory,
    ) -> Option<Result<Frame, StepError>> {
        let file = region.file().filter(|file| file.kind() != FileKind::NotElf)?;
        let bias = region.start.0.wrapping_sub(file.svma_of(region.offset)?.0);
        let entry = self.of(file)?;
        let result = entry.unwinder.as_ref()?.step(frame, bias, memory);
        // Pages that could not be read were replaced by zeros: a step made from them is wrong.
        if !entry.is_whole() {
            entry.unwinder = None;
            return None;
        }
        match result {
            Err(StepError::NoRow(_)) => None,
            result => Some(result),
        }
    }

    fn of(&mut self, file: &MappedFile) -> Option<&mut Entry> {
        let key = file.key();
        let known = self.entries.iter().position(|entry| entry.key == key);
        if let Some(at) = known {
            self.entries[..=at].rotate_right(1);
        } else {
            self.entries.truncate(MAX_FILES - 1);
            let replaced = sys::filemap::replaced_pages();
            let unwinder = make(file);
            self.entries.insert(0, Entry { key, unwinder, used: true, replaced });
        }
        let entry = self.entries.first_mut()?;
        entry.used = true;
        Some(entry)
    }

    /// Drops the unwinders that no walk has used since the last call.
    pub(crate) fn release_unused(&mut self) {
        self.entries.retain_mut(|entry| std::mem::take(&mut entry.used));
    }
}

/// The reason for a failure is told when the file's table is compiled, which fails in the same way.
fn make(file: &MappedFile) -> Option<FullUnwinder<FileBytes>> {
    FullUnwinder::new(FileBytes::of(file).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unwinding::file_bytes::tests::Idle;

    #[test]
    fn no_step_is_made_from_what_could_not_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("library.so");
        let original = Idle::library();
        std::fs::write(&library, &original).unwrap();
        let (_idle, image, file) = Idle::with(&library);
        let of_library = |region: &&Region| region.file().is_some_and(|other| other.key() == file.key());
        let regions: Vec<_> = image.regions().iter().filter(of_library).collect();
        let mut unwinders = Unwinders::default();
        let steps = |unwinders: &mut Unwinders| {
            let pcs = regions.iter().flat_map(|region| (region.start.0..region.end.0).step_by(4096));
            let frames = pcs.map(|pc| Frame::leaf(&[0x1000; 16], pc));
            let step = |frame: Frame| {
                let region = regions.iter().find(|region| (region.start.0..region.end.0).contains(&frame.pc));
                unwinders.step(region?, &frame, &|_| Some(0x2000))
            };
            frames.filter_map(step).filter(Result::is_ok).count()
        };
        assert!(steps(&mut unwinders) > 10);
        std::fs::File::options()
            .write(true)
            .open(&library)
            .and_then(|file| file.set_len(original.len() as u64 / 2))
            .unwrap();
        assert_eq!(steps(&mut unwinders), 0);
        assert!(unwinders.entries.iter().all(|entry| entry.unwinder.is_none()));
    }
}

//! The name and the kind of a lock.

use recording::{FileIdentity, Frame, ModuleKind, SymbolizedRecording};

use super::class::{LockClass, class_of};
use super::frames::{file_name, functions};
use crate::selection::LockWaits;

/// Names locks.
pub(crate) struct LockNames<'a>(&'a SymbolizedRecording);

impl<'a> LockNames<'a> {
    pub(crate) fn new(symbolized: &'a SymbolizedRecording) -> Self {
        Self(symbolized)
    }

    /// The variable that a lock is, as `cache_lock+0x8`, or where it is in its file, or its address.
    pub(crate) fn of(&self, waits: &LockWaits<'_>) -> String {
        self.variable(waits).unwrap_or_else(|| match waits.lock {
            Some(lock) => format!("{:#x}", lock.address),
            None => "[one of many]".to_owned(),
        })
    }

    /// The same of a lock that is a variable of a file.
    pub(super) fn variable(&self, waits: &LockWaits<'_>) -> Option<String> {
        let SymbolizedRecording { recording, names, .. } = self.0;
        let place = waits.place?;
        if let Some(line) = names.of(place).next() {
            return Some(line.name.to_owned());
        }
        let Some(Frame::Native { mapping, svma, .. }) = recording.frame(place) else { return None };
        let (_, module) = recording.mapping(*mapping)?;
        Some(format!("{}+{:#x}", file_name(&module.path), svma.0))
    }

    /// The file and the offset of a lock in memory that processes share.
    pub(super) fn shared(&self, waits: &LockWaits<'_>) -> Option<(FileIdentity, u64)> {
        let recording = &self.0.recording;
        let Some(Frame::Native { mapping, svma, .. }) = recording.frame(waits.place?) else { return None };
        let (_, module) = recording.mapping(*mapping)?;
        (module.kind == ModuleKind::NotElf).then_some((module.identity, svma.0))
    }

    /// The name of the file that a lock is a variable of.
    pub(super) fn file(&self, waits: &LockWaits<'_>) -> Option<&'a str> {
        let recording = &self.0.recording;
        let Some(Frame::Native { mapping, .. }) = recording.frame(waits.place?) else { return None };
        recording.mapping(*mapping).map(|(_, module)| file_name(&module.path))
    }

    /// What kind of lock it is.
    pub(crate) fn class_of(&self, waits: &LockWaits<'_>) -> LockClass {
        let SymbolizedRecording { recording, names, .. } = self.0;
        let functions = functions(recording, names, waits.entry.at.stack);
        let kind = waits.lock.and_then(|lock| lock.lock);
        class_of(functions.iter().map(String::as_str), waits.owner.is_some(), kind)
    }
}

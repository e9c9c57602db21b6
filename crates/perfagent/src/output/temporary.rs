//! The list of existing temporary files, so that an interrupted process can remove them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::directory::Directory;

/// The named temporary files of one agent. Clones share the list. A host program that must exit at once calls
/// [`remove_all`](Self::remove_all) first.
#[derive(Clone, Debug, Default)]
pub struct TemporaryFiles(Arc<Mutex<Listed>>);

/// Directories and names, by the number of the entry.
#[derive(Debug, Default)]
struct Listed {
    files: BTreeMap<u64, (Directory, OsString)>,
    next: u64,
}

/// One registered file; removed when dropped.
#[derive(Debug)]
pub(super) struct TemporaryFile {
    directory: Directory,
    name: OsString,
    entry: u64,
    registry: TemporaryFiles,
}

impl TemporaryFiles {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Deletes all files of the list. Files that no longer exist are ignored.
    pub fn remove_all(&self) {
        let files = std::mem::take(&mut self.lock().files);
        for (directory, name) in files.into_values() {
            if let Err(error) = directory.remove(&name) {
                let path = directory.path_of(&name);
                tracing::debug!(target: "perfagent", path = %path.display(), %error, "temporary file");
            }
        }
    }

    /// Adds a file to the list, before it is created.
    pub(super) fn register(&self, directory: &Directory, name: OsString) -> TemporaryFile {
        let mut listed = self.lock();
        let entry = listed.next;
        listed.next += 1;
        listed.files.insert(entry, (directory.clone(), name.clone()));
        drop(listed);
        TemporaryFile { directory: directory.clone(), name, entry, registry: self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Listed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TemporaryFile {
    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }

    /// Its path, for messages.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.path_of(&self.name)
    }

    /// Takes the file off the list without deleting it: it has its final name now.
    pub(super) fn keep(self) {
        self.registry.lock().files.remove(&self.entry);
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if self.registry.lock().files.remove(&self.entry).is_some() {
            let _gone_already_is_fine = self.directory.remove(&self.name);
        }
    }
}

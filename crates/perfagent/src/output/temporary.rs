//! The list of existing temporary files, so that an interrupted process can remove them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The named temporary files of one agent. Clones share the list. A host program that must exit at once calls
/// [`remove_all`](Self::remove_all) first.
#[derive(Clone, Debug, Default)]
pub struct TemporaryFiles(Arc<Mutex<BTreeSet<PathBuf>>>);

/// One registered file; removed when dropped.
#[derive(Debug)]
pub(super) struct TemporaryFile {
    path: PathBuf,
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
        let paths = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for path in paths {
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::debug!(target: "perfagent", path = %path.display(), %error, "temporary file");
            }
        }
    }

    /// Adds a file to the list, before it is created.
    pub(super) fn register(&self, path: PathBuf) -> TemporaryFile {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone());
        TemporaryFile { path, registry: self.clone() }
    }
}

impl TemporaryFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the file off the list without deleting it: it has its final name now.
    pub(super) fn keep(self) {
        self.registry.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.path);
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if self.registry.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.path) {
            let _gone_already_is_fine = std::fs::remove_file(&self.path);
        }
    }
}

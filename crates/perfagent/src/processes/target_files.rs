//! The files of targets: workers open them, and the thread of the capture takes the answers. Nothing here waits for a file system.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use process::{Files, Image, NewMapping, OpenCounts, OpenRequest, Opened, Opener};

use crate::Error;

/// Mapped files, and the workers that open them.
pub(super) struct TargetFiles {
    files: Arc<Files>,
    opener: Opener,
    /// Targets that were read before their life was followed.
    early: HashMap<u32, Image>,
}

impl TargetFiles {
    pub(super) fn start() -> Result<Self, Error> {
        let files = Arc::new(Files::new());
        let spawn = |body| sys::thread::spawn_quiet_thread("open", body).map(drop);
        let opener = Opener::start(Arc::clone(&files), Box::new(spawn)).map_err(|source| Error::System {
            attempt: "start a thread that opens files".to_owned(),
            source,
        })?;
        Ok(Self { files, opener, early: HashMap::new() })
    }

    /// Reads a process. `before`: the same program as it was read before. `is_target`: what cannot be read of it is worth a warning.
    pub(super) fn read(
        &mut self,
        pid: u32,
        before: Option<&Image>,
        is_target: bool,
    ) -> Result<Image, process::Error> {
        let early = self.early.remove(&pid);
        let (image, requests) = process::read_mappings(pid, &self.files, before.or(early.as_ref()))?;
        requests.into_iter().for_each(|request| self.ask(request, is_target));
        Ok(image)
    }

    /// Reads a target whose life is not followed yet, so that its files are opened by the time it is.
    pub(super) fn read_early(&mut self, pid: u32) -> Result<(), process::Error> {
        let image = self.read(pid, None, true)?;
        self.early.insert(pid, image);
        Ok(())
    }

    /// The targets that were read early.
    pub(super) fn early(&self) -> impl Iterator<Item = &Image> {
        self.early.values()
    }

    /// Adds a mapping to an image of a target, or of another process.
    pub(super) fn map(&mut self, image: &mut Image, mapping: &NewMapping<'_>, is_target: bool) {
        let request: Option<OpenRequest> = image.apply_mmap(mapping, &self.files);
        request.into_iter().for_each(|request| self.ask(request, is_target));
    }

    fn ask(&mut self, request: OpenRequest, is_target: bool) {
        if !is_target {
            request.file().set_of_no_target();
        }
        self.opener.ask(request);
    }

    /// Whether files were asked for since the answers were last taken.
    pub(super) fn were_asked_for(&self) -> bool {
        self.opener.was_asked()
    }

    /// Files that are still to be opened.
    pub(super) fn pending(&self) -> usize {
        self.opener.pending()
    }

    /// Takes the answers, after waiting for them for no longer than `wait`.
    pub(super) fn take(&mut self, wait: Duration) -> Opened {
        self.opener.take(wait)
    }

    /// Reads parts of the memory of a process: see [`Files::read_memory`].
    pub(super) fn read_memory(&self, pid: u32, parts: Vec<(u64, usize)>) -> Option<Vec<Vec<u8>>> {
        self.files.read_memory(pid, parts)
    }

    pub(super) fn prune(&self) {
        self.files.prune();
    }

    /// Files that targets map and that could not be opened.
    pub(super) fn failures(&self) -> OpenCounts {
        self.files.failures_of_targets()
    }
}

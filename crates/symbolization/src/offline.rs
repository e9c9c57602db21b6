//! Names for a finished recording, from the files of this machine alone.

use std::sync::{Arc, Mutex, PoisonError};

use recording::{
    CodeMappingId, CodeObject, CodeObjectId, ExecInstanceId, KernelNaming, ModuleId, Recording,
    SymbolizedRecording,
};

use crate::abandon::AbandonToken;
use crate::deliveries::{Deliveries, FrameContext};
use crate::engine::Engine;
use crate::figures::Figures;
use crate::interval::Interval;
use crate::options::Options;
use crate::path_file::PathFile;
use crate::request::ModuleFile;
use crate::running_kernel::RunningKernel;
use crate::sources::Sources;
use crate::work::{ModuleHandle, ProgramHandle, Work};

/// Names recordings, on the thread that made it. Several intervals of a capture share what was found.
pub struct Symbolizer {
    engine: Engine,
    kernel: RunningKernel,
    figures: Arc<Mutex<Figures>>,
    abandon: AbandonToken,
}

impl Symbolizer {
    /// With all sources of this crate.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self::with_sources(Sources::standard(&options), &options, AbandonToken::new())
    }

    /// With the sources given. `abandon` ends it early.
    #[must_use]
    pub fn with_sources(sources: Sources, options: &Options, abandon: AbandonToken) -> Self {
        let figures = Arc::default();
        let (theirs, observer) = (Arc::clone(&figures), Box::new(|_, _| {}));
        let engine = Engine::new(sources.make(), options.cached_places, theirs, observer, abandon.clone());
        Self { engine, kernel: RunningKernel::read(options), figures, abandon }
    }

    /// Names a recording. Files are found by their paths and must prove to be those of the recording, see [`PathFile`]. Kernel frames are
    /// named if the kernel of the recording runs here since before the recording. Code that was made at run time has no name any more.
    pub fn symbolize(&mut self, recording: Recording) -> SymbolizedRecording {
        self.symbolize_again(SymbolizedRecording { recording, ..SymbolizedRecording::default() })
    }

    /// Names a recording anew. Frames that cannot be named here keep the names that they have. The ledgers stay as they are: they tell of
    /// the names of the live run.
    pub fn symbolize_again(&mut self, named: SymbolizedRecording) -> SymbolizedRecording {
        let SymbolizedRecording { recording, names, ledgers } = named;
        let mut before = names.outcome.clone();
        let interval = Interval::with_names(names);
        self.engine.begin_interval();
        let mut kernel_refused = false;
        for work in Deliveries::new().take_rest(recording.frames.iter(), &Files(&recording)) {
            interval.add_submitted(work.len());
            if matches!(work, Work::Kernel { .. }) && !self.kernel.is_that_of(&recording) {
                kernel_refused = true;
                interval.pass_over(work.len());
            } else if !self.abandon.is_abandoned() {
                self.engine.answer(&interval, work);
            }
        }
        self.engine.end_interval(&interval);
        let mut names = interval.take_names();
        if kernel_refused && before.kernel == KernelNaming::NotAsked {
            before.kernel =
                KernelNaming::Unreadable("the recording is of another kernel than runs here".to_owned());
        }
        if kernel_refused {
            names.outcome.kernel = before.kernel;
        }
        SymbolizedRecording { recording, names, ledgers }
    }

    /// Figures so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the frames of a recording refer to, with files by their paths.
struct Files<'a>(&'a Recording);

impl FrameContext for Files<'_> {
    fn module_of(&self, mapping: CodeMappingId) -> Option<ModuleId> {
        self.0.mapping(mapping).map(|(mapping, _)| mapping.module)
    }

    fn module(&self, id: ModuleId) -> Option<ModuleHandle> {
        let module = self.0.module(id)?;
        let file = PathFile::of(module).map(|file| Arc::new(file) as Arc<dyn ModuleFile>);
        Some(ModuleHandle { module: Arc::new(module.clone()), file })
    }

    fn program(&self, id: ExecInstanceId) -> Option<ProgramHandle> {
        let program = Arc::new(self.0.exec_instance(id)?.clone());
        Some(ProgramHandle { program, live: None })
    }

    fn code_object(&self, id: CodeObjectId) -> Option<Arc<CodeObject>> {
        self.0.code_object(id).map(|code| Arc::new(code.clone()))
    }
}

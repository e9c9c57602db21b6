//! Deliveries: places in one module, program or function that are named together.

use std::sync::Arc;

use profile::{Avma, Svma};
use recording::{CodeObject, ExecInstance, FrameId, KernelImage, Module};

use crate::request::{JitPlace, JitProgram, ModuleFile};

/// Contents of files up to this size are kept for the next delivery. Of larger ones only symbol tables are: the rest would be most of our
/// memory.
const LARGE_FILE: u64 = 8 << 20;

/// A module, and the file behind it if there is one.
#[derive(Clone)]
pub struct ModuleHandle {
    /// The module.
    pub module: Arc<Module>,
    /// Its file.
    pub file: Option<Arc<dyn ModuleFile>>,
}

impl ModuleHandle {
    /// Whether reading the file costs much.
    pub(crate) fn is_large(&self) -> bool {
        self.file.as_ref().map_or(self.module.identity.size, |file| file.size()) > LARGE_FILE
    }
}

/// A program that makes code at run time; `live` is its handle in a live capture.
#[derive(Clone)]
pub struct ProgramHandle {
    /// The program. Its process number and its begin must tell it apart from all other programs of the capture.
    pub program: Arc<ExecInstance>,
    /// The program in the live capture.
    pub live: Option<Arc<dyn JitProgram>>,
}

/// Places that are named together, as instructions: return addresses have already been moved to their calls.
pub enum Work {
    /// In one module.
    Module {
        /// The module.
        module: ModuleHandle,
        /// Frames and their link-time addresses.
        places: Vec<(FrameId, Svma)>,
    },
    /// In the kernel.
    Kernel {
        /// The kernel of a recording; none for the running one.
        image: Option<Arc<KernelImage>>,
        /// Frames and their addresses.
        places: Vec<(FrameId, Avma)>,
    },
    /// In code that a program made at run time. Places without a name, and all places if the program writes a jitdump, are looked up
    /// again when the interval ends: the runtime may have written more by then.
    Jit {
        /// The program.
        program: ProgramHandle,
        /// Frames and where they are.
        places: Vec<(FrameId, JitPlace)>,
    },
    /// In a function of an interpreted language.
    Interpreted {
        /// The function.
        code: Arc<CodeObject>,
        /// Frames and their instructions.
        places: Vec<(FrameId, u32)>,
    },
}

impl Work {
    /// How many places there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Module { places, .. } => places.len(),
            Self::Kernel { places, .. } => places.len(),
            Self::Jit { places, .. } => places.len(),
            Self::Interpreted { places, .. } => places.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

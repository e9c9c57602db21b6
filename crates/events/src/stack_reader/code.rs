//! The code of a process: its mappings, and the frame information of the files behind them.

use std::cell::OnceCell;
use std::collections::HashMap;

use process::{Bytes, FileKey, Files, Image, MappedFile, Region, RegionKind};
use profile::{Avma, Svma};
use unwind::abi::{ENTRY, START};
use unwind::full::{Frame, FullUnwinder};
use unwind::{Memory, StepError, Table};

use super::walk_end::{NoCaller, WalkEnd};

/// Longer files get no table of their own for code without frame information.
const MAX_FOR_TABLE: usize = 256 << 20;

/// Why the code of a process cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("read the mappings of process {pid}: {source}")]
pub struct CodeError {
    /// The process.
    pub pid: u32,
    /// The cause.
    source: process::Error,
}

/// What unwinds the code of a file.
#[derive(Debug)]
struct FileCode {
    unwinder: FullUnwinder<Bytes>,
    /// Compiled at the first address that the frame information does not cover.
    table: OnceCell<Option<Table>>,
}

/// The code of a process at one moment. Read it again after the process has mapped more.
#[derive(Debug)]
pub struct ProcessCode {
    image: Image,
    files: HashMap<FileKey, FileCode>,
}

/// Where an address is in a file.
#[derive(Clone, Copy, Debug)]
pub struct CodePlace<'a> {
    /// The file.
    pub file: &'a MappedFile,
    /// The address as the file has it.
    pub svma: Svma,
}

impl ProcessCode {
    /// Reads the mappings of a process, and opens the files behind them. Files that cannot be read have no rules.
    ///
    /// # Errors
    /// [`CodeError`] if the process has ended or may not be read.
    pub fn of(pid: u32) -> Result<Self, CodeError> {
        let image = process::read_image(pid, &Files::new()).map_err(|source| CodeError { pid, source })?;
        let mut files = HashMap::new();
        for file in image.regions().iter().filter_map(Region::file) {
            if files.contains_key(&file.key()) {
                continue;
            }
            let unwinder = file.bytes().ok().and_then(|bytes| FullUnwinder::new(bytes).ok());
            if let Some(unwinder) = unwinder {
                files.insert(file.key(), FileCode { unwinder, table: OnceCell::new() });
            }
        }
        Ok(Self { image, files })
    }

    /// The file behind an address, and where the address is in it; none if no file is mapped there.
    #[must_use]
    pub fn place(&self, address: u64) -> Option<CodePlace<'_>> {
        let region = self.image.find(Avma(address))?;
        let file = region.file()?;
        Some(CodePlace { file, svma: file.svma_of(region.offset_of(Avma(address)))? })
    }

    /// The caller of a frame.
    pub(super) fn step(&self, frame: &Frame, memory: &impl Memory) -> Result<Frame, NoCaller> {
        let region = self.image.find(Avma(frame.lookup_address())).ok_or(WalkEnd::NoMapping)?;
        let by_frame_pointer = || frame.by_frame_pointer(memory).map_err(NoCaller::from);
        if matches!(region.kind(), RegionKind::Anonymous) {
            return by_frame_pointer();
        }
        let file = region.file().ok_or(WalkEnd::NoRule)?;
        let code = self.files.get(&file.key()).ok_or(WalkEnd::NoRule)?;
        let svma = file.svma_of(region.offset).ok_or(WalkEnd::NoRule)?;
        let bias = region.start.0.wrapping_sub(svma.0);
        let stepped = code.unwinder.step(frame, bias, memory);
        if !matches!(stepped, Err(StepError::NoRow(_) | StepError::ZeroFrame)) {
            return stepped.map_err(NoCaller::from);
        }
        let table = code.table.get_or_init(|| {
            let bytes: &[u8] = code.unwinder.bytes();
            if bytes.len() <= MAX_FOR_TABLE { unwind::compile(bytes).ok() } else { None }
        });
        match table.as_ref().and_then(|table| table.lookup(frame.lookup_address().wrapping_sub(bias))) {
            Some(rule) if stepped == Err(StepError::ZeroFrame) => {
                Err(if rule.flags & (START | ENTRY) == ENTRY { WalkEnd::Root } else { WalkEnd::ZeroFrame }
                    .into())
            }
            Some(rule) => frame.apply(rule, memory).map_err(NoCaller::from),
            None if stepped == Err(StepError::ZeroFrame) => Err(WalkEnd::ZeroFrame.into()),
            None => by_frame_pointer(),
        }
    }
}

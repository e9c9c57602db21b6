//! Steps from a frame to its caller with all general registers, by any rule of `.eh_frame` and `.debug_frame`.
//!
//! [`FullUnwinder`] is for stacks that the kernel sends with their registers because no compact rule can express the
//! step: for example a CFA in rbx outside the innermost frame, or a return address in a register. For code without
//! frame information and for Go, [`Frame::apply`] takes a step by a compact rule and tracks which registers are still
//! known.
//!
//! There is no I/O and no `unsafe`. No input causes a panic, and time and memory are bounded for any input. A register
//! without a certain value is unknown; a rule that needs it is refused with [`StepError::UnsupportedRule`].
//! [`FullUnwinder::new`] reads headers only. An index is built at the first step that needs it, and only for files
//! without a usable `.eh_frame_hdr`.
//!
//! The registers are those of the machine that this crate is compiled for.
//!
//! The caller decides how a walk continues without a row, and finds the file of an address.

mod eh_frame;
mod evaluate;
mod frame;
mod index;
mod native;
mod record;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use gimli::BaseAddresses;
use gimli::LittleEndian;

use crate::Error;
use crate::Memory;
use crate::StepError;
use crate::cfi::pointer::Bases;
use crate::cfi::section::Format;
use crate::cfi::section::FrameSection;
use crate::go;
use crate::image::Image;
use crate::machine::Machine;

pub use frame::Frame;
pub use frame::KnownRegisters;
pub use native::REGISTERS;

use eh_frame::EhFrameSection;
use index::Index;
use index::SearchTable;

/// The frame sections of an ELF file, prepared for single steps. `B` contains the bytes of the file.
#[derive(Debug)]
pub struct FullUnwinder<B> {
    bytes: B,
    text: Option<u64>,
    eh_frame: Option<EhFrame>,
    has_debug_frame: bool,
    debug_frame: OnceLock<Option<DebugFrame>>,
}

#[derive(Debug)]
struct EhFrame {
    section: EhFrameSection,
    table: Option<SearchTable>,
    /// Made only for a section without a table.
    index: OnceLock<Index>,
}

#[derive(Debug)]
struct DebugFrame {
    section: Stored,
    index: Index,
}

/// Bytes of a section: in the file, or decompressed.
#[derive(Debug)]
enum Stored {
    InFile(Range<usize>),
    Own(Vec<u8>),
}

impl<B: AsRef<[u8]>> FullUnwinder<B> {
    /// Finds the frame sections of a file.
    ///
    /// # Errors
    /// Those of [`crate::compile`], and [`Error::Machine`] for files of another machine than this one.
    pub fn new(bytes: B) -> Result<Self, Error> {
        let image = Image::parse(bytes.as_ref())?;
        if image.machine != Machine::NATIVE {
            return Err(Error::Machine(image.machine.number()));
        }
        let text = image.section(b".text").map(|section| section.address);
        let has_debug_frame = debug_frame_section(&image).is_some();
        let eh_frame = EhFrameSection::find(&image).map(|section| {
            let table = SearchTable::find(&image, &section, text);
            EhFrame { section, table, index: OnceLock::new() }
        });
        Ok(Self { text, eh_frame, has_debug_frame, debug_frame: OnceLock::new(), bytes })
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> &B {
        &self.bytes
    }

    /// The caller of a frame. `bias` is the difference between run-time and link-time addresses.
    ///
    /// # Errors
    /// [`StepError::NoRow`] if no frame section covers the code; a compact rule may exist nevertheless.
    /// [`StepError::UnsupportedRule`] if the rule needs an unknown register, or an operation on more than registers and
    /// memory. [`StepError::ZeroFrame`] also where the stack begins: a rule with [`crate::abi::ENTRY`] says so. Otherwise
    /// the causes of a walk's end.
    pub fn step(&self, frame: &Frame, bias: u64, memory: &impl Memory) -> Result<Frame, StepError> {
        let svma = frame.lookup_address().wrapping_sub(bias);
        match self.step_by_eh_frame(svma, frame, bias, memory) {
            Err(StepError::NoRow(_)) => self.step_by_debug_frame(svma, frame, bias, memory),
            result => result,
        }
    }

    /// Whether the code that a description in a frame section covers begins at a link-time address: a function or a part of one.
    pub fn begins_at(&self, svma: u64) -> bool {
        let file = self.bytes.as_ref();
        let in_eh_frame = self.eh_frame.as_ref().is_some_and(|eh_frame| match &eh_frame.table {
            Some(table) => table.begins_at(file, svma),
            None => eh_frame.index(file, self.text).begins_at(svma),
        });
        let debug_frame = || self.debug_frame.get_or_init(|| DebugFrame::read(file)).as_ref();
        in_eh_frame
            || (self.has_debug_frame && debug_frame().is_some_and(|frames| frames.index.begins_at(svma)))
    }

    fn step_by_eh_frame(
        &self,
        svma: u64,
        frame: &Frame,
        bias: u64,
        memory: &impl Memory,
    ) -> Result<Frame, StepError> {
        let no_row = StepError::NoRow(svma);
        let file = self.bytes.as_ref();
        let eh_frame = self.eh_frame.as_ref().ok_or(no_row)?;
        let data = file.get(eh_frame.section.range.clone()).ok_or(no_row)?;
        let offset = match &eh_frame.table {
            Some(table) => {
                table.lookup(file, svma).map(|address| address.wrapping_sub(eh_frame.section.address))
            }
            None => eh_frame.index(file, self.text).lookup(svma),
        };
        let offset = offset.and_then(|offset| usize::try_from(offset).ok()).ok_or(no_row)?;
        let mut section = gimli::EhFrame::new(data, LittleEndian);
        section.set_vendor(native::VENDOR);
        let bases = eh_frame.section.bases(self.text);
        evaluate::step(&section, &bases, offset.into(), svma, frame, bias, memory)
    }

    fn step_by_debug_frame(
        &self,
        svma: u64,
        frame: &Frame,
        bias: u64,
        memory: &impl Memory,
    ) -> Result<Frame, StepError> {
        let no_row = StepError::NoRow(svma);
        if !self.has_debug_frame {
            return Err(no_row);
        }
        let file = self.bytes.as_ref();
        let debug_frame = self.debug_frame.get_or_init(|| DebugFrame::read(file)).as_ref().ok_or(no_row)?;
        let data = match &debug_frame.section {
            Stored::InFile(range) => file.get(range.clone()).ok_or(no_row)?,
            Stored::Own(data) => data,
        };
        let offset = debug_frame.index.lookup(svma).and_then(|offset| usize::try_from(offset).ok());
        let mut section = gimli::DebugFrame::new(data, LittleEndian);
        section.set_address_size(8);
        section.set_vendor(native::VENDOR);
        let bases = BaseAddresses::default();
        evaluate::step(&section, &bases, offset.ok_or(no_row)?.into(), svma, frame, bias, memory)
    }
}

impl<B: AsRef<[u8]>> FullUnwinder<B> {
    /// The same with copies of the frame sections, so that steps no longer read the file. `None` if the copies are longer than `limit`.
    ///
    /// Everything that [`Self::step`] reads of the file is read here.
    pub fn detached(self, limit: usize) -> Option<FullUnwinder<Vec<u8>>> {
        let file = self.bytes.as_ref();
        let mut copies = Copies { file, bytes: Vec::new(), limit };
        let eh_frame = match self.eh_frame {
            Some(mut eh_frame) => {
                if eh_frame.table.is_none() {
                    eh_frame.index(file, self.text);
                }
                eh_frame.section.range = copies.of(&eh_frame.section.range)?;
                if let Some(table) = &mut eh_frame.table {
                    table.range = copies.of(&table.range)?;
                }
                Some(eh_frame)
            }
            None => None,
        };
        let debug_frame = self.debug_frame.into_inner().unwrap_or_else(|| {
            let has_debug_frame = self.has_debug_frame;
            has_debug_frame.then(|| DebugFrame::read(file)).flatten()
        });
        let debug_frame = match debug_frame {
            Some(DebugFrame { section: Stored::InFile(range), index }) => {
                Some(DebugFrame { section: Stored::InFile(copies.of(&range)?), index })
            }
            Some(DebugFrame { section: Stored::Own(data), .. }) if data.len() > limit => return None,
            own => own,
        };
        let Copies { bytes, .. } = copies;
        let debug_frame = OnceLock::from(debug_frame);
        Some(FullUnwinder {
            text: self.text,
            eh_frame,
            has_debug_frame: self.has_debug_frame,
            debug_frame,
            bytes,
        })
    }
}

/// Copies of ranges of a file, one after the other.
struct Copies<'f> {
    file: &'f [u8],
    bytes: Vec<u8>,
    limit: usize,
}

impl Copies<'_> {
    /// Copies a range. Gives the range of the copy; `None` if the copies become too long.
    fn of(&mut self, range: &Range<usize>) -> Option<Range<usize>> {
        let bytes = self.file.get(range.clone())?;
        let start = self.bytes.len();
        let end = start.checked_add(bytes.len()).filter(|end| *end <= self.limit)?;
        self.bytes.extend_from_slice(bytes);
        Some(start..end)
    }
}

impl EhFrame {
    fn index(&self, file: &[u8], text: Option<u64>) -> &Index {
        self.index.get_or_init(|| {
            let (Some(data), Ok(image)) = (file.get(self.section.range.clone()), Image::parse(file)) else {
                return Index::default();
            };
            let bases = Bases { section: self.section.address, data: self.section.header, text };
            let stop_at_terminator = self.section.stop_at_terminator;
            let (machine, format) = (image.machine, Format::EhFrame);
            let section = FrameSection { data, machine, format, bases, stop_at_terminator };
            Index::new(&image, &section)
        })
    }
}

impl DebugFrame {
    fn read(file: &[u8]) -> Option<Self> {
        let image = Image::parse(file).ok()?;
        // Go's section has no rule for rbp. The compact rules come from a better table.
        if go::is_go(&image) {
            return None;
        }
        let section = debug_frame_section(&image)?;
        let data = image.section_bytes(section)?;
        let bases = Bases::default();
        let (machine, format) = (image.machine, Format::DebugFrame);
        let frame_section = FrameSection { data: &data, machine, format, bases, stop_at_terminator: false };
        let index = Index::new(&image, &frame_section);
        let section = match data {
            Cow::Borrowed(_) => Stored::InFile(image.file_range_of(section)?),
            Cow::Owned(data) => Stored::Own(data),
        };
        Some(Self { section, index })
    }
}

fn debug_frame_section<'i>(image: &'i Image<'_>) -> Option<&'i elf::Section> {
    image.section(b".debug_frame").or_else(|| image.section(b".zdebug_frame"))
}

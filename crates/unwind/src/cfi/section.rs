//! The records of a frame section.

use std::collections::HashMap;

use super::State;
use super::pointer;
use super::pointer::Bases;
use super::program;
use super::program::Factors;
use crate::machine::Machine;
use crate::reader::Reader;

/// Limit of bytes read from a section, four times the largest known section.
const MAX_DATA: usize = 256 << 20;
/// Limit of functions, above that of any known program.
const MAX_FUNCTIONS: usize = 4 << 20;

/// Limit of positions at which common entries are searched.
const MAX_COMMON: usize = 1 << 20;

/// The format of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    EhFrame,
    DebugFrame,
}

/// A section and how to read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameSection<'a> {
    pub data: &'a [u8],
    pub machine: Machine,
    pub format: Format,
    pub bases: Bases,
    /// Without section headers the length is unknown, and a zero-length record terminates the section.
    pub stop_at_terminator: bool,
}

/// The data shared by all functions of a common information entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cie<'a> {
    pub factors: Factors,
    pub signal: bool,
    /// State after the initial instructions.
    pub initial: State<'a>,
    address_encoding: u8,
    has_augmentation_data: bool,
    exceptions_encoding: u8,
}

/// Where the exception table of a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExceptionTable {
    /// It has none: an unwinder enters the function nowhere.
    None,
    At(u64),
    Unreadable,
}

/// One function: its addresses and its instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fde<'a> {
    /// Offset of its record in the section.
    pub offset: usize,
    pub start: u64,
    pub end: u64,
    pub cie: u32,
    pub exceptions: ExceptionTable,
    pub instructions: &'a [u8],
}

/// All records of a section.
#[derive(Debug, Default)]
pub(crate) struct Records<'a> {
    pub cies: Vec<Cie<'a>>,
    pub fdes: Vec<Fde<'a>>,
    /// Unreadable records.
    pub bad: u32,
}

impl<'a> FrameSection<'a> {
    pub(crate) fn records(&self) -> Records<'a> {
        let mut records = Records::default();
        let mut known: HashMap<u64, Option<u32>> = HashMap::new();
        let mut last: Option<(u64, u32)> = None;
        // Entries that do not overlap are together not longer than the section.
        let mut bytes_for_cies = self.data.len() as u64;
        let mut r = Reader::at(&self.data[..self.data.len().min(MAX_DATA)], 0);
        while !r.is_empty() {
            let offset = r.pos();
            if records.fdes.len() == MAX_FUNCTIONS {
                records.bad += 1;
                break;
            }
            let Some((record, wide)) = self.next_record(&mut r) else {
                // The start of the next record is unknown.
                records.bad += 1;
                break;
            };
            let Some(mut body) = record else {
                if self.stop_at_terminator {
                    break;
                }
                continue;
            };
            let id_at = body.pos() as u64;
            let id = if wide { body.u64() } else { body.u32().map(u64::from) };
            let Some(id) = id else {
                records.bad += 1;
                continue;
            };
            let cie_offset = match self.format {
                Format::EhFrame if id == 0 => continue,
                Format::EhFrame => id_at.wrapping_sub(id),
                Format::DebugFrame if id == u64::MAX || (!wide && id == 0xffff_ffff) => continue,
                Format::DebugFrame => id,
            };
            let cie = match last {
                Some((offset, cie)) if offset == cie_offset => Some(cie),
                _ if known.len() == MAX_COMMON => known.get(&cie_offset).copied().flatten(),
                _ => *known.entry(cie_offset).or_insert_with(|| {
                    let cie = self.cie(cie_offset, &mut bytes_for_cies)?;
                    records.cies.push(cie);
                    Some(records.cies.len() as u32 - 1)
                }),
            };
            let fde = cie.and_then(|index| {
                last = Some((cie_offset, index));
                self.fde(&mut body, &records.cies[index as usize], index).map(|fde| Fde { offset, ..fde })
            });
            match fde {
                Some(fde) => records.fdes.push(fde),
                None => records.bad += 1,
            }
        }
        records
    }

    /// The next record as a reader that ends with it, and whether it is in the 64-bit format. The inner `None` is a
    /// zero-length record.
    fn next_record(&self, r: &mut Reader<'a>) -> Option<(Option<Reader<'a>>, bool)> {
        let length = r.u32()?;
        let (length, wide) =
            if length == 0xffff_ffff { (r.u64()?, true) } else { (u64::from(length), false) };
        let start = r.pos();
        r.skip(length)?;
        let body = Reader::at(&self.data[..r.pos()], start);
        Some(((length > 0).then_some(body), wide))
    }

    fn cie(&self, offset: u64, bytes: &mut u64) -> Option<Cie<'a>> {
        let mut r = Reader::at(self.data, usize::try_from(offset).ok()?);
        let (body, wide) = self.next_record(&mut r)?;
        *bytes = bytes.checked_sub((r.pos() as u64).saturating_sub(offset))?;
        let mut r = body?;
        let id = if wide { r.u64()? } else { u64::from(r.u32()?) };
        let is_cie = match self.format {
            Format::EhFrame => id == 0,
            Format::DebugFrame => id == if wide { u64::MAX } else { 0xffff_ffff },
        };
        let version = r.u8()?;
        if !is_cie || !matches!(version, 1 | 3 | 4) {
            return None;
        }
        let augmentation = r.c_str()?;
        if augmentation == b"eh" {
            r.skip(8)?;
        }
        if version == 4 && (r.u8()?, r.u8()?) != (8, 0) {
            return None;
        }
        let code_align = r.uleb()?;
        let data_align = r.sleb()?;
        let ra_register = if version == 1 { u64::from(r.u8()?) } else { r.uleb()? };
        let mut cie = Cie {
            factors: Factors {
                machine: self.machine,
                code_align,
                data_align,
                ra_register,
                absolute_addresses: true,
            },
            signal: false,
            initial: State::default(),
            address_encoding: pointer::ABSPTR,
            has_augmentation_data: augmentation.first() == Some(&b'z'),
            exceptions_encoding: pointer::OMIT,
        };
        if cie.has_augmentation_data {
            let len = r.uleb()?;
            let mut data = Reader::at(self.data, r.pos());
            r.skip(len)?;
            for letter in &augmentation[1..] {
                match letter {
                    b'R' => cie.address_encoding = data.u8()?,
                    b'L' => cie.exceptions_encoding = data.u8()?,
                    b'P' => {
                        let encoding = data.u8()?;
                        // The personality routine is not needed; alignment (0x50) pads to 8 bytes.
                        if encoding & 0x70 == 0x50 {
                            let at = self.bases.section.wrapping_add(data.pos() as u64);
                            data.skip(at.wrapping_neg() & 7)?;
                        }
                        pointer::plain(&mut data, encoding)?;
                    }
                    b'S' => cie.signal = true,
                    // Pointer authentication and memory tagging of arm64.
                    b'B' | b'G' => {}
                    _ => return None,
                }
            }
        } else if !augmentation.is_empty() && augmentation != b"eh" {
            return None;
        }
        cie.factors.absolute_addresses = cie.address_encoding == pointer::ABSPTR;
        cie.initial = program::initial_state(&cie.factors, r.bytes_to_end())?;
        Some(cie)
    }

    fn fde(&self, r: &mut Reader<'a>, cie: &Cie<'a>, index: u32) -> Option<Fde<'a>> {
        if cie.address_encoding == pointer::OMIT {
            return None;
        }
        let start = pointer::address(r, cie.address_encoding, &self.bases)?;
        let len = pointer::plain(r, cie.address_encoding)?;
        let mut exceptions = ExceptionTable::None;
        if cie.has_augmentation_data {
            let len = r.uleb()?;
            let data = *r;
            r.skip(len)?;
            exceptions = self.exception_table(data, cie.exceptions_encoding);
        }
        let (end, instructions) = (start.saturating_add(len), r.bytes_to_end());
        Some(Fde { offset: 0, start, end, cie: index, exceptions, instructions })
    }

    /// Reads the address of an exception table; 0 stands for none.
    fn exception_table(&self, mut data: Reader<'a>, encoding: u8) -> ExceptionTable {
        if encoding == pointer::OMIT {
            return ExceptionTable::None;
        }
        match pointer::plain(&mut data.clone(), encoding) {
            Some(0) => ExceptionTable::None,
            _ => pointer::address(&mut data, encoding, &self.bases)
                .map_or(ExceptionTable::Unreadable, ExceptionTable::At),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each common entry reaches to the end of the section. Reading each one for its function would take quadratic
    /// time.
    #[test]
    fn overlapping_entries_are_read_once() {
        const FUNCTIONS: usize = 60_000;
        const NOPS: usize = 4 << 20;
        let (functions_len, entry_len) = (FUNCTIONS * 24, 20);
        let entries_end = functions_len + FUNCTIONS * entry_len;
        let mut data = Vec::new();
        for i in 0..FUNCTIONS {
            data.extend(20u32.to_le_bytes());
            data.extend(((functions_len + i * entry_len) as u32).to_le_bytes());
            data.extend((0x1000 + i as u64 * 16).to_le_bytes());
            data.extend(16u64.to_le_bytes());
        }
        for i in 0..FUNCTIONS {
            let at = functions_len + i * entry_len;
            data.extend(((entries_end + NOPS - at - 4) as u32).to_le_bytes());
            data.extend([0xff, 0xff, 0xff, 0xff, 1, 0, 1, 0x78, 16]);
            // A value expression of a register, up to the nops.
            let rest = entries_end - at - entry_len + 1;
            data.extend([0x16, 1, 0x80 | rest as u8, 0x80 | (rest >> 7) as u8]);
            data.extend([0x80 | (rest >> 14) as u8, 0, 0]);
        }
        data.resize(entries_end + NOPS, 0);
        let bases = Bases::default();
        let section = FrameSection {
            data: &data,
            machine: Machine::X86_64,
            format: Format::DebugFrame,
            bases,
            stop_at_terminator: false,
        };
        let records = section.records();
        assert_eq!((records.cies.len(), records.fdes.len()), (1, 1));
        assert_eq!(records.bad as usize, FUNCTIONS - 1);
    }
}

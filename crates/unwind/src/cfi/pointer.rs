//! Encoded pointers (`DW_EH_PE_*`).

use crate::reader::Reader;

pub(crate) const ABSPTR: u8 = 0x00;
pub(crate) const OMIT: u8 = 0xff;

/// The base addresses of encoded pointers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bases {
    /// Link-time address of the first byte of the section.
    pub section: u64,
    /// For `DW_EH_PE_datarel`: the address of `.eh_frame_hdr`.
    pub data: Option<u64>,
    /// For `DW_EH_PE_textrel`.
    pub text: Option<u64>,
}

/// Reads a value without a base, as the length of an address range.
pub(crate) fn plain(r: &mut Reader<'_>, encoding: u8) -> Option<u64> {
    Some(match encoding & 0x0f {
        0x00 | 0x04 | 0x0c => r.u64()?,
        0x01 => r.uleb()?,
        0x02 => u64::from(r.u16()?),
        0x03 => u64::from(r.u32()?),
        0x09 => r.sleb()? as u64,
        0x0a => i64::from(r.u16()? as i16) as u64,
        0x0b => i64::from(r.u32()? as i32) as u64,
        _ => return None,
    })
}

/// Reads a pointer. Indirect pointers are refused: they need the running process.
pub(crate) fn address(r: &mut Reader<'_>, encoding: u8, bases: &Bases) -> Option<u64> {
    let at = bases.section.wrapping_add(r.pos() as u64);
    let base = match encoding & 0xf0 {
        0x00 => 0,
        0x10 => at,
        0x20 => bases.text?,
        0x30 => bases.data?,
        _ => return None,
    };
    plain(r, encoding).map(|value| value.wrapping_add(base))
}

//! How long attributes are, by their forms.

use gimli::constants::{self as dw, DwForm};
use gimli::{Encoding, Format};

use crate::bytes::{skip_string, uleb};

/// How to get over attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Skip {
    Bytes(u32),
    Leb,
    String,
    /// A block, and the bytes of its length.
    Block(u8),
    BlockLeb,
    Indirect,
}

/// Forms with small numbers.
pub(crate) const SIZES: usize = 64;
/// The size of an attribute that has none of its own.
pub(crate) const VARIABLE: u8 = u8::MAX;

/// The bytes of attributes in each form, for those that are always the same.
pub(crate) fn sizes(encoding: Encoding) -> [u8; SIZES] {
    std::array::from_fn(|form| match skip_of(DwForm(form as u16), encoding) {
        Some(Skip::Bytes(bytes)) => bytes as u8,
        _ => VARIABLE,
    })
}

#[inline]
pub(crate) fn skip_of(form: DwForm, encoding: Encoding) -> Option<Skip> {
    let offset = match encoding.format {
        Format::Dwarf32 => 4,
        Format::Dwarf64 => 8,
    };
    let address = u32::from(encoding.address_size);
    Some(match form {
        dw::DW_FORM_implicit_const | dw::DW_FORM_flag_present => Skip::Bytes(0),
        dw::DW_FORM_data1 | dw::DW_FORM_ref1 | dw::DW_FORM_flag | dw::DW_FORM_strx1 | dw::DW_FORM_addrx1 => {
            Skip::Bytes(1)
        }
        dw::DW_FORM_data2 | dw::DW_FORM_ref2 | dw::DW_FORM_strx2 | dw::DW_FORM_addrx2 => Skip::Bytes(2),
        dw::DW_FORM_strx3 | dw::DW_FORM_addrx3 => Skip::Bytes(3),
        dw::DW_FORM_data4
        | dw::DW_FORM_ref4
        | dw::DW_FORM_ref_sup4
        | dw::DW_FORM_strx4
        | dw::DW_FORM_addrx4 => Skip::Bytes(4),
        dw::DW_FORM_data8 | dw::DW_FORM_ref8 | dw::DW_FORM_ref_sig8 | dw::DW_FORM_ref_sup8 => Skip::Bytes(8),
        dw::DW_FORM_data16 => Skip::Bytes(16),
        dw::DW_FORM_addr => Skip::Bytes(address),
        dw::DW_FORM_ref_addr => Skip::Bytes(if encoding.version == 2 { address } else { offset }),
        dw::DW_FORM_strp
        | dw::DW_FORM_sec_offset
        | dw::DW_FORM_line_strp
        | dw::DW_FORM_strp_sup
        | dw::DW_FORM_GNU_ref_alt
        | dw::DW_FORM_GNU_strp_alt => Skip::Bytes(offset),
        dw::DW_FORM_udata
        | dw::DW_FORM_sdata
        | dw::DW_FORM_ref_udata
        | dw::DW_FORM_strx
        | dw::DW_FORM_addrx
        | dw::DW_FORM_loclistx
        | dw::DW_FORM_rnglistx
        | dw::DW_FORM_GNU_addr_index
        | dw::DW_FORM_GNU_str_index => Skip::Leb,
        dw::DW_FORM_string => Skip::String,
        dw::DW_FORM_block1 => Skip::Block(1),
        dw::DW_FORM_block2 => Skip::Block(2),
        dw::DW_FORM_block4 => Skip::Block(4),
        dw::DW_FORM_block | dw::DW_FORM_exprloc => Skip::BlockLeb,
        dw::DW_FORM_indirect => Skip::Indirect,
        _ => return None,
    })
}

#[inline]
pub(crate) fn apply(skip: Skip, data: &[u8], at: &mut usize, encoding: Encoding) -> Option<()> {
    if !matches!(skip, Skip::Indirect) {
        return apply_direct(skip, data, at);
    }
    let form = DwForm(u16::try_from(uleb(data, at)?).ok()?);
    match skip_of(form, encoding)? {
        // gimli reads no constant from an indirect form either.
        Skip::Indirect => None,
        skip => apply_direct(skip, data, at),
    }
}

/// The same of a form that is in the abbreviation.
#[inline]
fn apply_direct(skip: Skip, data: &[u8], at: &mut usize) -> Option<()> {
    let length = match skip {
        Skip::Bytes(bytes) => bytes as usize,
        Skip::Leb => {
            uleb(data, at)?;
            0
        }
        Skip::String => {
            skip_string(data, at)?;
            0
        }
        Skip::Block(size) => {
            let bytes = data.get(*at..at.checked_add(usize::from(size))?)?;
            *at += usize::from(size);
            bytes.iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte))
        }
        Skip::BlockLeb => usize::try_from(uleb(data, at)?).ok()?,
        Skip::Indirect => return None,
    };
    *at = at.checked_add(length)?;
    Some(())
}

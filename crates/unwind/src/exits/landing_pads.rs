//! Landing pads: where an unwinder enters a function, by its exception table (Itanium C++ ABI, "Exception Handling Tables").

use crate::cfi::pointer::{self, Bases};
use crate::image::Image;
use crate::reader::Reader;

/// Limit of the call sites of one table.
const MAX_CALL_SITES: usize = 1 << 16;

/// The landing pads of the code that begins at `start`. `None`: the table is not understood.
pub(super) fn of_table(image: &Image<'_>, table: u64, start: u64) -> Option<Vec<u64>> {
    let bases = Bases { section: table, data: None, text: None };
    let mut r = Reader::at(image.bytes_at(table)?, 0);
    let base = match r.u8()? {
        pointer::OMIT => start,
        encoding => pointer::address(&mut r, encoding, &bases)?,
    };
    if r.u8()? != pointer::OMIT {
        r.uleb()?;
    }
    let encoding = r.u8()?;
    let len = usize::try_from(r.uleb()?).ok()?;
    let end = r.pos().checked_add(len)?;
    let mut pads = Vec::new();
    for _ in 0..MAX_CALL_SITES {
        if r.pos() >= end {
            return Some(pads);
        }
        let _from = pointer::plain(&mut r, encoding)?;
        let _len = pointer::plain(&mut r, encoding)?;
        let pad = pointer::plain(&mut r, encoding)?;
        let _action = r.uleb()?;
        if pad != 0 {
            pads.push(base.wrapping_add(pad));
        }
    }
    None
}

//! The header: where the other parts of the file lie.

use crate::attr::ATTR_BYTES;
use crate::bytes::Bytes;

pub(crate) const HEADER_BYTES: u64 = 104;
/// Where the header has the size of the data.
pub(crate) const DATA_SIZE_AT: u64 = 48;
/// Where the header has the bits of the features.
pub(crate) const FEATURES_AT: u64 = 72;
/// An attribute, and where its ids lie.
pub(crate) const ENTRY_BYTES: u64 = ATTR_BYTES as u64 + 16;

/// The header of a file with so many events, of which each has one id, and so far without data and features.
pub(crate) fn header(events: u64, data_at: u64) -> Vec<u8> {
    let ids = events * 8;
    let mut bytes = Bytes::default();
    bytes.raw(b"PERFILE2").u64(HEADER_BYTES).u64(ENTRY_BYTES);
    bytes.u64(HEADER_BYTES + ids).u64(events * ENTRY_BYTES).u64(data_at).u64(0);
    // Names of events, which nobody writes there any more, and the features.
    bytes.u64(0).u64(0).raw(&[0; 32]);
    bytes.into_vec()
}

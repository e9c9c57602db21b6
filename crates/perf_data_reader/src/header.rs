//! The header of the file: where its sections are.

use std::io::Read;

use crate::bytes::Bytes;
use crate::error::Error;
use crate::source::{Section, Source};

/// The first bytes of a file of this byte order.
pub(crate) const MAGIC: [u8; 8] = *b"PERFILE2";
/// The same of the other byte order, and of files before 2010.
const FOREIGN: [[u8; 8]; 2] = [*b"2ELIFREP", *b"PERFFILE"];
const SIZE: u64 = 104;
/// The size that a header on a pipe names.
const PIPE_SIZE: u64 = 16;

/// What the first bytes say.
#[derive(Debug)]
pub(crate) enum Header {
    /// A file with sections.
    Sections(Sections),
    /// Records from here on, those among them that describe the rest: a recording that perf wrote to a pipe.
    Records,
}

/// Where the sections of a file are.
#[derive(Debug)]
pub(crate) struct Sections {
    /// Bytes of an entry in `attrs`.
    pub(crate) attr_size: u64,
    pub(crate) attrs: Section,
    pub(crate) data: Section,
    features: [u64; 4],
}

/// Whether a file begins as perf.data files do.
#[must_use]
pub fn is_perf_data(begin: &[u8]) -> bool {
    begin.starts_with(&MAGIC) || FOREIGN.iter().any(|magic| begin.starts_with(magic))
}

impl Header {
    pub(crate) fn read<R: Read>(source: &mut Source<R>) -> Result<Self, Error> {
        let what = "the header";
        let mut magic = [0; 16];
        source.read(&mut magic, what)?;
        let size = u64::from_le_bytes(magic[8..].try_into().unwrap_or_default());
        let refused = |reason: &str| Err(Error::Unsupported { reason: reason.to_owned() });
        if magic[..8] != MAGIC {
            if is_perf_data(&magic) {
                return refused(
                    "it was written on a machine of the other byte order, or by perf before 2010",
                );
            }
            let reason = "it does not begin as perf.data files do".to_owned();
            return Err(Error::Invalid { what, at: 0, reason });
        }
        if size == PIPE_SIZE {
            return Ok(Self::Records);
        }
        if size != SIZE {
            let reason = format!("its size is {size}, not {SIZE}");
            return Err(Error::Invalid { what, at: 8, reason });
        }
        let mut rest = [0; SIZE as usize - 16];
        source.read(&mut rest, what)?;
        let mut rest = Bytes(&rest);
        let mut next = || rest.u64().unwrap_or_default();
        let attr_size = next();
        let mut section = || Section { at: next(), size: next() };
        let (attrs, data, _event_types) = (section(), section(), section());
        let features = [next(), next(), next(), next()];
        Ok(Self::Sections(Sections { attr_size, attrs, data, features }))
    }
}

impl Sections {
    /// The numbers of the features that follow the data, in the order of their sections.
    pub(crate) fn features(&self) -> impl Iterator<Item = u32> {
        let features = self.features;
        (0u32..256).filter(move |bit| features[*bit as usize / 64] >> (bit % 64) & 1 == 1)
    }
}

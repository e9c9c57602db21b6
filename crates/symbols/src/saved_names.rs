//! What was learned of one file and those that belong to it, as the content of one file of a [`RecordStore`](crate::RecordStore).
//!
//! Layout, little-endian: the lengths of the parts (u64 each); the parts; a checksum of all before (u64). The file begins with the versions of the
//! format and of what makes names, so that another version reads nothing of it.
//!
//! Guaranteed: any bytes are refused, or give parts that are checked where they are used.

use std::ops::Range;

use crate::hash::hash;

const PARTS: usize = 6;
const CHECKSUM: usize = 8;

/// The parts of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedNames {
    /// Which files it is about.
    pub(crate) identity: Range<usize>,
    /// Files of split units that were looked for.
    pub(crate) split_files: Range<usize>,
    /// What the debug information says.
    pub(crate) functions: Range<usize>,
    /// Readable names, by number of the text in the functions.
    pub(crate) readable: Range<usize>,
    /// What the symbol table of the separate debug file says.
    pub(crate) debug_symbols: Range<usize>,
    /// What the symbol tables of the mapped file say.
    pub(crate) mapped_symbols: Range<usize>,
}

impl SavedNames {
    /// What a file begins with. Raised where the layout changes, or what the parts say of equal files. Names are made readable by other crates,
    /// whose versions a test compares with those in use.
    pub const VERSION: &[u8] =
        b"perf-agent names 3; cpp_demangle 0.5.1; gimli 0.34.0; rustc-demangle 0.1.28\n";

    /// The content of a file.
    pub(crate) fn write(parts: [&[u8]; PARTS]) -> Vec<u8> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mut out = Vec::with_capacity(Self::VERSION.len() + 8 * PARTS + length + CHECKSUM);
        out.extend_from_slice(Self::VERSION);
        parts.iter().for_each(|part| out.extend_from_slice(&(part.len() as u64).to_le_bytes()));
        parts.iter().for_each(|part| out.extend_from_slice(part));
        let checksum = hash(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Where the parts are. `None` if the bytes are not as they were written, or of another version.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (content, sum) = bytes.split_last_chunk::<CHECKSUM>()?;
        if hash(content) != u64::from_le_bytes(*sum) {
            return None;
        }
        Self::parts(content)
    }

    /// The same without a look at the checksum.
    pub(crate) fn read_unchecked(bytes: &[u8]) -> Option<Self> {
        Self::parts(bytes.split_last_chunk::<CHECKSUM>()?.0)
    }

    fn parts(content: &[u8]) -> Option<Self> {
        let lengths = content.strip_prefix(Self::VERSION)?.first_chunk::<{ 8 * PARTS }>()?;
        let mut at = Self::VERSION.len() + lengths.len();
        let mut parts = [const { 0..0 }; PARTS];
        for (part, length) in parts.iter_mut().zip(lengths.as_chunks().0) {
            let end = at.checked_add(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
            *part = std::mem::replace(&mut at, end)..end;
        }
        let [identity, split_files, functions, readable, debug_symbols, mapped_symbols] = parts;
        (at == content.len()).then_some(Self {
            identity,
            split_files,
            functions,
            readable,
            debug_symbols,
            mapped_symbols,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back_and_nothing_is_read_of_bytes_that_changed() {
        let parts: [&[u8]; PARTS] = [b"one", b"", b"three", b"4", b"", b"six"];
        let bytes = SavedNames::write(parts);
        let read = SavedNames::read(&bytes).unwrap();
        let found = [&read.identity, &read.split_files, &read.functions, &read.readable];
        assert_eq!(found.map(|part| &bytes[part.clone()]), parts[..4]);
        assert_eq!(&bytes[read.mapped_symbols], b"six");
        assert!((0..bytes.len()).all(|length| SavedNames::read(&bytes[..length]).is_none()));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(SavedNames::read(&changed), None, "byte {at}");
            // As if the checksum were right.
            let _ = SavedNames::parts(&changed[..changed.len() - CHECKSUM]);
        }
    }

    #[test]
    fn the_version_tells_the_crates_that_make_names() {
        let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).unwrap();
        let version = std::str::from_utf8(SavedNames::VERSION).unwrap();
        for name in ["cpp_demangle", "gimli", "rustc-demangle"] {
            let entry = format!("name = \"{name}\"\nversion = \"");
            let versions: Vec<&str> =
                lock.split(&entry).skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
            let told = versions.iter().any(|found| version.contains(&format!("; {name} {found}")));
            assert!(
                told,
                "{name} is of version {versions:?}: change VERSION, or names of the older one are used"
            );
        }
    }
}

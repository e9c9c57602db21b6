//! Bounds on what one file may cost, whatever its bytes are.

/// Longer units are not read.
pub(crate) const MAX_UNIT: usize = 256 << 20;
/// Units of one file. The largest programs have less than a tenth of this.
pub(crate) const MAX_UNITS: usize = 1 << 20;
/// Bytes that are read of the abbreviations of one unit.
pub(crate) const MAX_ABBREVIATIONS: usize = 1 << 20;
/// Bytes of a line program's header: its directories and files.
pub(crate) const MAX_LINE_HEADER: u64 = 2 << 20;
/// Nested scopes of a function in which inlined calls are found.
pub(crate) const MAX_DEPTH: usize = 256;
/// Address ranges of one entry.
pub(crate) const MAX_RANGES_OF_ENTRY: usize = 65_536;
/// Address ranges that are kept of one unit, of its functions and again of their inlined calls.
pub(crate) const MAX_RANGES_OF_UNIT: usize = 4 << 20;
/// Inlined calls that are kept of one unit.
pub(crate) const MAX_CALLS_OF_UNIT: usize = 2 << 20;
/// Rows of a line program that are kept.
pub(crate) const MAX_ROWS: usize = 4 << 20;
/// Inlined calls at one address.
pub(crate) const MAX_INLINED: usize = 256;
/// References from an entry to the one that has the name.
pub(crate) const MAX_REFERENCES: usize = 16;
/// Bytes of a path. The rest is left out.
pub(crate) const MAX_PATH: usize = 64 << 10;
/// Bytes of a name. A longer one is none: its beginning may be that of another function.
pub(crate) const MAX_NAME: usize = 1 << 20;
/// Namespaces, types and functions around a function.
pub(crate) const MAX_SCOPES: usize = 64;
/// Namespaces, types and functions that are kept of one unit.
pub(crate) const MAX_SCOPES_OF_UNIT: usize = 1 << 20;
/// Bytes of all names and paths that are kept.
pub(crate) const MAX_TEXTS: usize = 64 << 20;
/// Bytes of records after which only what was asked for is kept.
pub(crate) const MAX_RECORDS: usize = 128 << 20;
/// Address ranges of functions and of sequences of lines that are kept for the next look-up.
pub(crate) const MAX_KEPT_RANGES: usize = 4 << 20;
/// Units in which an address is searched, where several claim to have it.
pub(crate) const MAX_TRIES: usize = 8;

/// What a look-up may still do: bytes read, list entries decoded.
///
/// Entries may share range lists, abbreviations and line programs, so that a small file asks for endless work.
#[derive(Debug)]
pub(crate) struct Work(u64);

impl Work {
    /// Some times of what an honest file of this size needs.
    pub fn of(section_bytes: usize) -> Self {
        Self((section_bytes as u64).saturating_mul(8).saturating_add(256 << 20))
    }

    /// Whether it was not enough.
    pub fn is_spent(&self) -> bool {
        self.0 == 0
    }

    /// So much.
    #[cfg(test)]
    pub fn new(amount: u64) -> Self {
        Self(amount)
    }

    /// How much is left.
    #[cfg(test)]
    pub fn left(&self) -> u64 {
        self.0
    }

    /// Takes an amount. `false` if there is not so much left.
    #[inline]
    pub fn take(&mut self, amount: usize) -> bool {
        match self.0.checked_sub(amount as u64) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => {
                self.0 = 0;
                false
            }
        }
    }
}

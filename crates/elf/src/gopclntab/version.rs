//! Versions of the table.

/// Magic numbers of the layouts.
const MAGICS: [(u32, Version); 3] =
    [(0xffff_fffa, Version::Go116), (0xffff_fff0, Version::Go118), (0xffff_fff1, Version::Go120)];
/// Layouts of the table, by the first version of Go that has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Functions are stored with their addresses.
    Go116,
    /// Functions are stored with offsets from the start of the text.
    Go118,
    /// Functions are stored with the lines that they start at.
    Go120,
}

impl Version {
    /// The version that a table begins with.
    pub(super) fn of_magic(magic: u32) -> Option<Self> {
        MAGICS.into_iter().find(|(known, _)| *known == magic).map(|(_, version)| version)
    }
}

//! The header of the table, and the tables behind it.

/// Magic numbers of the layouts.
const MAGICS: [(u32, Version); 3] =
    [(0xffff_fffa, Version::Go116), (0xffff_fff0, Version::Go118), (0xffff_fff1, Version::Go120)];
/// No program has more functions.
const MAX_FUNCTIONS: u64 = 4 << 20;

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

/// The table of functions of a Go program.
#[derive(Clone, Copy, Debug)]
pub struct PcLnTab<'t> {
    /// The layout.
    pub version: Version,
    /// Link-time address of the header.
    pub address: u64,
    /// Bytes of the shortest instruction.
    pub quantum: u8,
    /// How many functions there are.
    pub function_count: u64,
    /// The start of the text, as the header says; 0 in newer versions and before relocation.
    pub text_start: u64,
    /// From the header to the end of its section or segment.
    pub(super) bytes: &'t [u8],
    /// Positions of the parts. They lie inside of the bytes.
    pub(super) names: usize,
    pub(super) units: usize,
    pub(super) files: usize,
    pub(super) values: usize,
    pub(super) functab: usize,
}

impl<'t> PcLnTab<'t> {
    /// Reads the header, which is at the beginning of the bytes and at this link-time address.
    #[must_use]
    pub fn parse(bytes: &'t [u8], address: u64) -> Option<Self> {
        let (&[magic @ .., padding_1, padding_2, quantum, pointer], mut rest) =
            bytes.split_first_chunk::<8>()?;
        let (_, version) = MAGICS.into_iter().find(|(known, _)| *known == u32::from_le_bytes(magic))?;
        if (padding_1, padding_2, pointer) != (0, 0, 8) || !matches!(quantum, 1 | 2 | 4) {
            return None;
        }
        let mut word = || {
            let (word, behind) = rest.split_first_chunk()?;
            rest = behind;
            Some(u64::from_le_bytes(*word))
        };
        let (function_count, _file_count) = (word()?, word()?);
        let text_start = if version == Version::Go116 { 0 } else { word()? };
        let mut position = || word().and_then(|at| usize::try_from(at).ok()).filter(|at| *at < bytes.len());
        let (names, units, files, values, functab) =
            (position()?, position()?, position()?, position()?, position()?);
        let this = Self {
            version,
            address,
            quantum,
            function_count,
            text_start,
            bytes,
            names,
            units,
            files,
            values,
            functab,
        };
        // One entry more than functions, whose first half is the end of the last function.
        let table = (function_count as usize).checked_mul(this.entry_size())?.checked_add(functab)?;
        ((1..=MAX_FUNCTIONS).contains(&function_count) && table < bytes.len()).then_some(this)
    }

    /// Link-time address of the names of functions, to which the description of the program points.
    #[must_use]
    pub fn names_address(&self) -> u64 {
        self.address.wrapping_add(self.names as u64)
    }

    /// Bytes of one entry in the list of functions.
    pub(super) fn entry_size(&self) -> usize {
        if self.version == Version::Go116 { 16 } else { 8 }
    }

    /// The text from a position to the next zero, of at most `max` bytes.
    pub(super) fn text(&self, position: usize, max: usize) -> Option<&'t [u8]> {
        let rest = self.bytes.get(position..)?;
        let rest = &rest[..rest.len().min(max)];
        Some(&rest[..rest.iter().position(|byte| *byte == 0)?])
    }
}

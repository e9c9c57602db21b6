//! Where the sections of split units come from.

use crate::sections::Sections;

/// A split unit that a file refers to.
#[derive(Clone, Copy, Debug)]
pub struct SplitUnit<'a> {
    /// The number that skeleton and split unit share.
    pub id: u64,
    /// The name of its file (`.dwo`), as the file has it.
    pub name: &'a [u8],
    /// The directory in which it was compiled; empty if it is not known.
    pub directory: &'a [u8],
    /// The sections of the file with the skeleton.
    pub skeleton: Sections<'a>,
}

/// Opens the files of split units.
pub trait SplitSource {
    /// Finds a split unit, and gives its sections to `read`: those with names that end in `.dwo`, in a package (`.dwp`) the parts that are of
    /// this unit. Does not call `read` if there is none.
    fn with_unit(&mut self, unit: &SplitUnit<'_>, read: &mut dyn FnMut(Sections<'_>));
}

/// No split units.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSplitUnits;

impl SplitSource for NoSplitUnits {
    fn with_unit(&mut self, _: &SplitUnit<'_>, _: &mut dyn FnMut(Sections<'_>)) {}
}

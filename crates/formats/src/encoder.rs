//! What each output format implements.

use std::io::{self, Write};

use profile::Profile;

/// An output format of profiles.
pub trait Encoder: Sync {
    /// The name by which the format is chosen.
    fn name(&self) -> &'static str;

    /// The file extensions of this format, without the leading dot: `pb.gz`.
    fn extensions(&self) -> &[&'static str];

    /// Whether the format has a place for [`EncodeOptions::warnings`].
    fn tells_warnings(&self) -> bool {
        false
    }

    /// Writes a profile.
    ///
    /// # Errors
    /// Those of `out`; [`io::ErrorKind::InvalidInput`] if the profile does not have the value that `options` names.
    fn encode(&self, profile: &Profile, options: &EncodeOptions, out: &mut dyn Write) -> io::Result<()>;
}

/// Which samples share a tower of a flame graph, or the begin of folded stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Merge {
    /// Those of a process; if threads are kept apart, of a thread.
    Pid,
    /// Those of all processes with the same name.
    #[default]
    Comm,
    /// All.
    All,
}

impl Merge {
    /// All values with their names on the command line.
    pub const NAMES: [(&'static str, Self); 3] =
        [("pid", Self::Pid), ("comm", Self::Comm), ("all", Self::All)];
}

/// Choices that a profile does not contain. An encoder ignores those that do not apply to its format.
#[derive(Clone, Debug, Default)]
pub struct EncodeOptions {
    /// The value that is shown by formats with one value per stack: an index into [`Profile::sample_types`]. Without it,
    /// the profile's default sample type.
    pub value: Option<usize>,
    /// The title of a picture.
    pub title: String,
    /// The line below the title.
    pub subtitle: String,
    /// What is poor about the profile, and what to do about it, one line each.
    pub warnings: Vec<String>,
    /// Which samples share a tower.
    pub merge: Merge,
    /// Whether a picture has the outermost functions at the top.
    pub inverted: bool,
}

impl EncodeOptions {
    /// The index of the value to show.
    #[must_use]
    pub fn value_index(&self, profile: &Profile) -> usize {
        self.value.unwrap_or_else(|| profile.default_value())
    }
}

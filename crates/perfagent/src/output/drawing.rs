//! How flame graphs and folded stacks are drawn.

use formats::Merge;

/// How flame graphs and folded stacks are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Drawing {
    /// Which samples share a tower; by default those of processes with the same name.
    pub merge: Merge,
    /// Whether flame graphs have the outermost functions at the top.
    pub inverted: bool,
}

impl Drawing {
    /// Samples that share a tower.
    #[must_use]
    pub fn merge(self, merge: Merge) -> Self {
        Self { merge, ..self }
    }

    /// The outermost functions at the top.
    #[must_use]
    pub fn inverted(self, inverted: bool) -> Self {
        Self { inverted, ..self }
    }
}

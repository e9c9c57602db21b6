//! What is compared with what, and why that may be impossible.

/// What the samples of a function are measured against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Against {
    /// All samples of its side: for services, whose load differs between captures.
    #[default]
    Samples,
    /// The duration of the captures of its side.
    Time,
    /// The number of profiles of its side: for runs of the same piece of work.
    Runs,
}

/// Which samples of a function count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Those in the function itself.
    #[default]
    Own,
    /// Those in it and in what it called.
    Total,
}

/// Why sides cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ComparisonError {
    /// A profile has no value that counts.
    #[error("{name} has no value in `count`; it has {found}")]
    #[non_exhaustive]
    NoCount {
        /// The profile.
        name: String,
        /// Its values.
        found: String,
    },
    /// A profile has no samples.
    #[error("{name} has no samples")]
    #[non_exhaustive]
    Empty {
        /// The profile.
        name: String,
    },
    /// Compared by time, but a profile does not tell its duration.
    #[error("{name} does not tell how long its capture was")]
    #[non_exhaustive]
    NoDuration {
        /// The profile.
        name: String,
    },
}

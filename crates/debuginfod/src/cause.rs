//! Why a file was not fetched.

/// Why a file was not fetched. The later of two causes says more about what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// All servers answered that they do not have it.
    NotFound,
    /// A connection failed, a server failed, or the file could not be kept.
    Error,
    /// It did not arrive in time.
    Timeout,
    /// It is larger than allowed.
    TooLarge,
    /// A server sent another file.
    Mismatch,
    /// The search for names was ended before.
    Abandoned,
}

impl Cause {
    /// For messages.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::NotFound => "no server has it",
            Self::Error => "the server could not be reached, or failed",
            Self::Timeout => "it did not arrive in time",
            Self::TooLarge => "it is larger than allowed",
            Self::Mismatch => "the server sent another file",
            Self::Abandoned => "the search for names was ended",
        }
    }
}

//! Ranges of time.

/// A range of time that ends now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Range {
    #[default]
    TenSeconds,
    Minute,
    Start,
}

impl Range {
    /// The intervals of a second that it has; none: all since the start.
    pub(crate) fn intervals(self) -> Option<usize> {
        match self {
            Self::TenSeconds => Some(10),
            Self::Minute => Some(60),
            Self::Start => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TenSeconds => "last 10 s",
            Self::Minute => "last 60 s",
            Self::Start => "since start",
        }
    }

    pub(crate) fn next(self) -> Self {
        match self {
            Self::TenSeconds => Self::Minute,
            Self::Minute => Self::Start,
            Self::Start => Self::TenSeconds,
        }
    }
}

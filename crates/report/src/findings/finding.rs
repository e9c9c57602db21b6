//! A finding.

/// What a [`Finding`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// A profile has no samples.
    NoSamples,
    /// Samples were lost.
    Lost,
    /// The kernel did not run the sampler.
    NotRun,
    /// Samples are recorded without the value that their event has.
    Values,
    /// Code stays without names, for a reason that symbolization knows.
    Names,
    /// The kernel hides its addresses. What to do about that depends on the machine of the capture: there is no hint.
    KernelNamesHidden,
}

/// Something that went less well than it could, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub kind: FindingKind,
    /// What happened.
    pub message: String,
    /// What to do, where something can be done.
    pub hint: Option<String>,
}

impl Finding {
    pub(super) fn new(kind: FindingKind, message: impl Into<String>, hint: &str) -> Self {
        Self { kind, message: message.into(), hint: Some(hint.to_owned()) }
    }

    /// A finding that nothing can be done about.
    pub(super) fn bare(kind: FindingKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }
}

/// Why a capture ended, as far as it explains an empty profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// All targets ended.
    TargetsExited,
    /// Its time was over, or it was stopped.
    Request,
}

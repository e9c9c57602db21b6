//! One check of the doctor and its verdict.

/// The verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Status {
    /// The subject of the check works.
    Ok,
    /// An optional feature is missing.
    Warn,
    /// No mode works without it.
    Fail,
}

impl Status {
    /// `ok`, `warn` or `fail`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// The subject of the check.
    pub check: &'static str,
    /// The verdict.
    pub status: Status,
    /// The value found.
    pub value: String,
    /// What depends on it.
    pub affects: &'static str,
    /// What to do, if anything.
    pub fix: Option<String>,
}

impl Check {
    pub(super) fn new(
        check: &'static str,
        affects: &'static str,
        status: Status,
        value: impl Into<String>,
    ) -> Self {
        Self { check, status, value: value.into(), affects, fix: None }
    }

    pub(super) fn fixed_by(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

/// The trimmed text of a small file in `/proc` or `/sys`.
pub(super) fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

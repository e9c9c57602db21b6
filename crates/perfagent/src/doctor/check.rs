//! One check of the doctor and its verdict.

/// The verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Status {
    /// Fine.
    Ok,
    /// Something is lost.
    Warn,
    /// Nothing works without it.
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

/// One thing looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// What was looked at.
    pub check: &'static str,
    /// The verdict.
    pub status: Status,
    /// The value found.
    pub value: String,
    /// What depends on it.
    pub affects: &'static str,
    /// What to do, where there is something to do.
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

/// The trimmed text of a small file of the kernel.
pub(super) fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

//! A piece of advice.

/// What a piece of [`Advice`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AdviceKind {
    /// Stacks that do not reach their outermost frame.
    CutStacks,
    /// Frames in files without symbols.
    NamelessFiles,
    /// Stacks that go through code that a runtime made and did not name.
    NamelessCode,
    /// Stacks that run Python and do not show its functions.
    PythonFunctions,
    /// Samples that were lost.
    LostSamples,
}

/// What is poor about a result, and what to do about it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Advice {
    /// What it is about.
    pub kind: AdviceKind,
    /// How much of the profile it concerns, in percent.
    pub share_pct: f64,
    /// What is poor, with its share and where it comes from.
    pub message: String,
    /// What to do, where something can be done.
    pub remedy: Option<String>,
}

impl Advice {
    /// Both in one line.
    #[must_use]
    pub fn line(&self) -> String {
        match &self.remedy {
            Some(remedy) => format!("{}: {remedy}", self.message),
            None => self.message.clone(),
        }
    }
}

/// What helps with a file that could not be opened. A warning of the capture has the reason.
pub(super) fn let_read(path: &str) -> String {
    format!("let perf-agent read {path}; the warning above says why it could not")
}

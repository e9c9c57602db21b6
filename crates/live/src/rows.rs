//! Lines of a list, whatever it lists.

use formats::FrameKind;

use crate::query::Scope;

/// Lines of a list at most.
pub(crate) const MAX_ROWS: usize = 1000;

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// The same for the same thing as long as the view runs.
    pub(crate) key: u64,
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) kind: FrameKind,
    pub(crate) own: u64,
    pub(crate) total: u64,
    /// Of a tree: how deep it is.
    pub(crate) depth: usize,
    pub(crate) mark: Mark,
    pub(crate) target: Target,
}

/// What stands before a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mark {
    #[default]
    Nothing,
    /// There is more below it, which is not shown.
    Folded,
    /// What is below it is shown.
    Open,
    /// A caller of the function in the middle.
    Caller,
    /// The function in the middle.
    Middle,
    /// A function that it calls.
    Callee,
}

/// Where Enter leads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target {
    /// The callers and callees of the frame with this key.
    Frame(u64),
    /// Open or fold.
    Node,
    /// A process or a thread.
    Owner(Scope),
}

//! Which part of a window is shown.

use crate::range::Range;
use crate::window::{Stack, Sums, Window};

/// A process or a thread that alone is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Process { pid: Option<i64>, name: String },
    Thread { pid: Option<i64>, tid: Option<i64>, name: String },
}

impl Scope {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Process { name, .. } | Self::Thread { name, .. } => name,
        }
    }
}

/// What is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) range: Range,
    pub(crate) scope: Option<Scope>,
    /// Only stacks with a function whose name has this text, in lower case; empty: all.
    pub(crate) filter: String,
    /// Functions by what was spent in them and in what they called.
    pub(crate) by_total: bool,
}

/// The stacks that a query selects.
#[derive(Debug)]
pub(crate) struct Selected<'a> {
    pub(crate) window: &'a Window,
    pub(crate) stacks: Vec<(&'a Stack, Sums)>,
    /// Their time.
    pub(crate) whole: u64,
}

impl<'a> Selected<'a> {
    pub(crate) fn of(window: &'a Window, query: &Query) -> Self {
        let matching = Matching::of(window, &query.filter);
        let mut stacks = window.stacks(query.range);
        stacks.retain(|(stack, _)| is_selected(window, query, &matching, stack));
        let whole = stacks.iter().fold(0u64, |sum, (_, own)| sum.saturating_add(own.value));
        Self { window, stacks, whole }
    }
}

/// The time of the selected stacks in each of the last intervals.
pub(crate) fn history(window: &Window, query: &Query) -> Vec<f64> {
    let matching = Matching::of(window, &query.filter);
    window.history(|stack| is_selected(window, query, &matching, stack))
}

fn is_selected(window: &Window, query: &Query, matching: &Matching, stack: &Stack) -> bool {
    let owner = window.owner(stack);
    let is_in_scope = match &query.scope {
        None => true,
        Some(Scope::Process { pid: Some(pid), .. }) => owner.pid == Some(*pid),
        Some(Scope::Process { pid: None, name }) => {
            owner.pid.is_none() && window.frame(owner.process).name == *name
        }
        Some(Scope::Thread { pid, tid, name }) => {
            owner.pid == *pid && owner.tid == *tid && (tid.is_some() || owner.thread == *name)
        }
    };
    is_in_scope && matching.has(stack)
}

/// The frames that a filter names.
struct Matching(Option<Vec<bool>>);

impl Matching {
    fn of(window: &Window, filter: &str) -> Self {
        if filter.is_empty() {
            return Self(None);
        }
        let numbers = 0..u32::try_from(window.frames()).unwrap_or(u32::MAX);
        Self(Some(numbers.map(|number| has_text(&window.frame(number).name, filter)).collect()))
    }

    fn has(&self, stack: &Stack) -> bool {
        let Self(Some(matching)) = self else { return true };
        stack.path.iter().any(|frame| matching.get(*frame as usize) == Some(&true))
    }
}

/// Whether a name has a text, which is in lower case.
pub(crate) fn has_text(name: &str, text: &str) -> bool {
    name.to_lowercase().contains(text)
}

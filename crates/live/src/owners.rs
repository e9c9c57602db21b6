//! The processes or threads of the selected stacks, each with its hottest function.

use std::cmp::Reverse;
use std::collections::HashMap;

use formats::FrameKind;

use crate::frames::Frame;
use crate::query::{Scope, Selected};
use crate::rows::{MAX_ROWS, Mark, Row, Target};

#[derive(Default)]
struct Sum {
    total: u64,
    /// The time in each function itself.
    functions: HashMap<u32, u64>,
}

/// The processes, or the threads, the heaviest first. `own` is what their hottest function has, `file` is its name.
pub(crate) fn rows(selected: &Selected<'_>, are_threads: bool) -> Vec<Row> {
    let window = selected.window;
    let mut sums: HashMap<(Option<i64>, Option<i64>, String), Sum> = HashMap::new();
    for (stack, spent) in &selected.stacks {
        let owner = window.owner(stack);
        let process = &window.frame(owner.process).name;
        let key = match (are_threads, owner.pid) {
            (true, _) if owner.tid.is_some() => (owner.pid, owner.tid, owner.thread.clone()),
            (false, Some(pid)) => (Some(pid), None, String::new()),
            _ => (owner.pid, None, process.clone()),
        };
        let sum = sums.entry(key).or_default();
        sum.total = sum.total.saturating_add(spent.value);
        if let Some(leaf) = stack.path.get(1..).and_then(<[u32]>::last) {
            *sum.functions.entry(*leaf).or_default() += spent.value;
        }
    }
    let mut names: HashMap<i64, &str> = HashMap::new();
    for (stack, _) in &selected.stacks {
        let owner = window.owner(stack);
        names.extend(owner.pid.map(|pid| (pid, window.frame(owner.process).name.as_str())));
    }
    let row = |((pid, tid, name), sum): ((Option<i64>, Option<i64>, String), Sum)| {
        let process = pid.and_then(|pid| names.get(&pid).copied()).unwrap_or(&name).to_owned();
        let hottest = sum.functions.iter().max_by_key(|(number, own)| (**own, Reverse(**number)));
        let (function, own) =
            hottest.map_or(("", 0), |(number, own)| (window.frame(*number).name.as_str(), *own));
        let (shown, scope) = match tid {
            Some(_) => {
                let shown = format!("{name}  of {process}");
                (shown.clone(), Scope::Thread { pid, tid, name })
            }
            None => (process.clone(), Scope::Process { pid, name: process }),
        };
        Row {
            key: Frame::owner(&format!("{pid:?} {tid:?} {}", if pid.is_none() { &shown } else { "" })).key(),
            name: Frame::owner(&shown).name,
            file: function.to_owned(),
            kind: FrameKind::Owner,
            own,
            total: sum.total,
            depth: 0,
            mark: Mark::Nothing,
            target: Target::Owner(scope),
        }
    };
    let mut rows: Vec<Row> = sums.into_iter().map(row).collect();
    rows.sort_by(|a, b| (Reverse(a.total), &a.name).cmp(&(Reverse(b.total), &b.name)));
    rows.truncate(MAX_ROWS);
    rows
}

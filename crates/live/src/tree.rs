//! The call tree of the selected stacks, as far as it is open.
//!
//! A function that has one callee and no time of its own shares its line with it, so deep stacks stay short.

use std::cmp::Reverse;
use std::collections::HashSet;

use crate::frames::below;
use crate::query::Selected;
use crate::rows::{MAX_ROWS, Mark, Row, Target};

/// Nodes with this share, in percent, are open unless a key folded them.
const OPEN_PCT: u64 = 5;
/// Functions of a line that are named at most.
const NAMED: usize = 3;

/// A stack with its time.
type Path<'a> = (&'a [u32], u64);

struct Walk<'a> {
    selected: &'a Selected<'a>,
    /// Nodes that are the other way round than they would be.
    flipped: &'a HashSet<u64>,
    rows: Vec<Row>,
}

/// The lines of the tree. `flipped`: the nodes that keys opened or folded. Processes are the first level if there are several.
pub(crate) fn rows(selected: &Selected<'_>, flipped: &HashSet<u64>) -> Vec<Row> {
    let mut paths: Vec<Path<'_>> =
        selected.stacks.iter().map(|(stack, sums)| (&*stack.path, sums.value)).collect();
    paths.sort_unstable();
    let first = paths.first().and_then(|(path, _)| path.first());
    let several = paths.last().and_then(|(path, _)| path.first()) != first;
    let mut walk = Walk { selected, flipped, rows: Vec::new() };
    walk.level(&paths, usize::from(!several), 0, 0);
    walk.rows
}

fn sum(paths: &[Path<'_>]) -> u64 {
    paths.iter().fold(0u64, |sum, (_, value)| sum.saturating_add(*value))
}

impl Walk<'_> {
    /// Adds the lines of all functions at `at` of these paths, which are equal before it.
    fn level(&mut self, paths: &[Path<'_>], at: usize, depth: usize, parent: u64) {
        let going_on = paths.iter().position(|(path, _)| path.len() > at).unwrap_or(paths.len());
        let mut groups: Vec<(u64, &[Path<'_>])> = paths[going_on..]
            .chunk_by(|a, b| a.0.get(at) == b.0.get(at))
            .map(|group| (sum(group), group))
            .collect();
        groups.sort_by_key(|(total, _)| Reverse(*total));
        for (total, group) in groups {
            if self.rows.len() >= MAX_ROWS {
                return;
            }
            self.node(group, total, at, depth, parent);
        }
    }

    /// Adds the line of a function, with those that it alone calls, and what is below it.
    fn node(&mut self, paths: &[Path<'_>], total: u64, at: usize, depth: usize, parent: u64) {
        let Some((first, _)) = paths.first() else { return };
        // All paths share the frames of this line. They are sorted: what the first and the last share, all share.
        let mut end = at + 1;
        let last = paths.last().map_or(*first, |(path, _)| *path);
        let is_process = at == 0;
        while !is_process && first.len() > end && last.get(end) == first.get(end) {
            end += 1;
        }
        let chain = &first[at..end];
        let window = self.selected.window;
        let key = chain.iter().fold(parent, |key, frame| below(key, window.frame_key(*frame)));
        let own = sum(&paths[..paths.iter().take_while(|(path, _)| path.len() == end).count()]);
        let has_more = paths.iter().any(|(path, _)| path.len() > end);
        let is_hot = total.saturating_mul(100) >= self.selected.whole.saturating_mul(OPEN_PCT);
        let is_open = has_more && (is_hot != self.flipped.contains(&key));
        let Some(frame) = chain.last().map(|last| window.frame(*last)) else { return };
        self.rows.push(Row {
            key,
            name: self.name(chain),
            file: frame.file.clone(),
            kind: frame.kind,
            own,
            total,
            depth,
            mark: match (has_more, is_open) {
                (false, _) => Mark::Nothing,
                (true, false) => Mark::Folded,
                (true, true) => Mark::Open,
            },
            target: Target::Node,
        });
        if is_open {
            self.level(paths, end, depth + 1, key);
        }
    }

    /// The names of the frames of a line: the first and the last.
    fn name(&self, chain: &[u32]) -> String {
        let name = |number: &u32| self.selected.window.frame(*number).name.as_str();
        match chain {
            [first, .., last] if chain.len() > NAMED => {
                format!("{} › {} more › {}", name(first), chain.len() - 2, name(last))
            }
            _ => chain.iter().map(name).collect::<Vec<_>>().join(" › "),
        }
    }
}

//! A function between its callers and its callees.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use crate::frames::below;
use crate::query::Selected;
use crate::rows::{MAX_ROWS, Mark, Row, Target};

/// Callers, the function with this key, callees. What a stack has counts once for a caller or callee. Nothing if no stack has it.
pub(crate) fn rows(selected: &Selected<'_>, key: u64) -> Vec<Row> {
    let window = selected.window;
    let is_meant = |number: u32| window.frame_key(number) == key;
    let (mut callers, mut callees) = (HashMap::<u32, u64>::new(), HashMap::<u32, u64>::new());
    let (mut middle, mut own, mut total) = (None, 0u64, 0u64);
    for (stack, spent) in &selected.stacks {
        let Some(code) = stack.path.get(1..) else { continue };
        let Some(found) = code.iter().copied().find(|number| is_meant(*number)) else { continue };
        middle = Some(found);
        total = total.saturating_add(spent.value);
        if code.last() == Some(&found) {
            own = own.saturating_add(spent.value);
        }
        let pairs = || code.windows(2);
        let above: BTreeSet<u32> = pairs().filter(|pair| pair[1] == found).map(|pair| pair[0]).collect();
        let after: BTreeSet<u32> = pairs().filter(|pair| pair[0] == found).map(|pair| pair[1]).collect();
        for (sums, numbers) in [(&mut callers, above), (&mut callees, after)] {
            for number in numbers {
                let sum = sums.entry(number).or_default();
                *sum = sum.saturating_add(spent.value);
            }
        }
    }
    let Some(middle) = middle else { return Vec::new() };
    let row = |number: u32, own, total, mark: Mark| {
        let (frame, frame_key) = (window.frame(number), window.frame_key(number));
        Row {
            key: below(mark as u64, frame_key),
            name: frame.name.clone(),
            file: frame.file.clone(),
            kind: frame.kind,
            own,
            total,
            depth: usize::from(mark == Mark::Callee),
            mark,
            target: Target::Frame(frame_key),
        }
    };
    let listed = |sums: HashMap<u32, u64>, mark: Mark| {
        let mut rows: Vec<Row> =
            sums.into_iter().map(|(number, total)| row(number, 0, total, mark)).collect();
        rows.sort_by(|a, b| (Reverse(a.total), &a.name).cmp(&(Reverse(b.total), &b.name)));
        rows.truncate(MAX_ROWS);
        rows
    };
    // The heaviest caller stands next to the function.
    let mut rows = listed(callers, Mark::Caller);
    rows.reverse();
    rows.push(row(middle, own, total, Mark::Middle));
    rows.extend(listed(callees, Mark::Callee));
    rows
}

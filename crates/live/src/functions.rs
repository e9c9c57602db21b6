//! The functions of the selected stacks.

use std::cmp::Reverse;

use crate::query::Selected;
use crate::rows::{MAX_ROWS, Mark, Row, Target};

/// The hottest functions. A recursive function counts once for each stack.
pub(crate) fn rows(selected: &Selected<'_>, by_total: bool) -> Vec<Row> {
    let window = selected.window;
    // Own, total, and the last stack that counted.
    let mut sums = vec![(0u64, 0u64, usize::MAX); window.frames()];
    for (position, (stack, spent)) in selected.stacks.iter().enumerate() {
        let Some(code) = stack.path.get(1..) else { continue };
        for frame in code {
            let Some(sum) = sums.get_mut(*frame as usize) else { continue };
            if sum.2 != position {
                sum.1 = sum.1.saturating_add(spent.value);
                sum.2 = position;
            }
        }
        if let Some(sum) = code.last().and_then(|leaf| sums.get_mut(*leaf as usize)) {
            sum.0 = sum.0.saturating_add(spent.value);
        }
    }
    let mut numbers: Vec<u32> =
        (0u32..).zip(&sums).filter(|(_, sum)| sum.1 > 0).map(|(number, _)| number).collect();
    let weight = |number: &u32| {
        let (own, total, _) = sums[*number as usize];
        let name = &window.frame(*number).name;
        (Reverse(if by_total { (total, own) } else { (own, total) }), name)
    };
    numbers.sort_by(|a, b| weight(a).cmp(&weight(b)));
    numbers.truncate(MAX_ROWS);
    let row = |number: u32| {
        let (frame, (own, total, _)) = (window.frame(number), sums[number as usize]);
        let key = window.frame_key(number);
        Row {
            key,
            name: frame.name.clone(),
            file: frame.file.clone(),
            kind: frame.kind,
            own,
            total,
            depth: 0,
            mark: Mark::Nothing,
            target: Target::Frame(key),
        }
    };
    numbers.into_iter().map(row).collect()
}

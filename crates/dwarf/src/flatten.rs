//! Overlapping address ranges as pieces that do not overlap.

use std::collections::BinaryHeap;

/// A range of addresses that stands for something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval<P> {
    pub start: u64,
    pub end: u64,
    /// Where ranges overlap, the largest wins.
    pub priority: P,
    pub value: u32,
}

/// A range of addresses that overlaps no other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub start: u64,
    pub end: u64,
    pub value: u32,
}

/// The pieces, sorted. There are less than twice as many as intervals, which are sorted.
pub(crate) fn flatten<P: Ord + Copy>(intervals: &mut Vec<Interval<P>>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::with_capacity(intervals.len());
    flatten_into(intervals, &mut pieces);
    pieces
}

/// The same into memory that was used before.
pub(crate) fn flatten_into<P: Ord + Copy>(intervals: &mut Vec<Interval<P>>, pieces: &mut Vec<Piece>) {
    pieces.clear();
    intervals.retain(|interval| interval.start < interval.end);
    // They come in a few sorted runs, inner ones after outer ones.
    intervals.sort_by_key(|interval| interval.start);
    if !nested(intervals, pieces) {
        pieces.clear();
        crossing(intervals, pieces);
    }
}

/// The pieces if each interval that begins in another one is of a larger priority and ends in it, as most do. `false` if not.
fn nested<P: Ord + Copy>(intervals: &[Interval<P>], pieces: &mut Vec<Piece>) -> bool {
    let mut open: Vec<(P, u64, u32)> = Vec::with_capacity(intervals.len().min(32));
    let mut at = 0;
    for interval in intervals {
        // What ends before it.
        while let Some((_, end, value)) = open.pop_if(|(_, end, _)| *end <= interval.start) {
            push(pieces, Piece { start: at, end, value });
            at = end;
        }
        if let Some((priority, end, value)) = open.last() {
            if interval.priority < *priority || interval.end > *end {
                return false;
            }
            push(pieces, Piece { start: at, end: interval.start, value: *value });
        }
        at = interval.start;
        open.push((interval.priority, interval.end, interval.value));
    }
    while let Some((_, end, value)) = open.pop() {
        push(pieces, Piece { start: at, end, value });
        at = end;
    }
    true
}

/// The pieces of any intervals.
fn crossing<P: Ord + Copy>(intervals: &[Interval<P>], pieces: &mut Vec<Piece>) {
    let mut open: BinaryHeap<(P, u64, u32)> = BinaryHeap::with_capacity(intervals.len().min(32));
    let mut rest = intervals.iter().peekable();
    let mut at = 0;
    loop {
        while open.peek().is_some_and(|(_, end, _)| *end <= at) {
            open.pop();
        }
        let next = rest.peek().map(|interval| interval.start);
        match (open.peek(), next) {
            (None, None) => return,
            (None, Some(next)) => at = next,
            (Some((_, end, value)), next) => {
                let until = next.map_or(*end, |next| next.min(*end));
                push(pieces, Piece { start: at, end: until, value: *value });
                at = until;
            }
        }
        while let Some(interval) = rest.next_if(|interval| interval.start <= at) {
            open.push((interval.priority, interval.end, interval.value));
        }
    }
}

fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    match pieces.last_mut() {
        _ if piece.start == piece.end => {}
        Some(last) if last.end == piece.start && last.value == piece.value => last.end = piece.end,
        _ => pieces.push(piece),
    }
}

/// The piece that an address is in.
pub(crate) fn find(pieces: &[Piece], address: u64) -> Option<&Piece> {
    let index = pieces.partition_point(|piece| piece.start <= address).checked_sub(1)?;
    pieces.get(index).filter(|piece| address < piece.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(intervals: &[(u64, u64, u32)]) -> Vec<(u64, u64, u32)> {
        let numbered = (0..).zip(intervals);
        let intervals = numbered.map(|(value, (start, end, priority))| Interval {
            start: *start,
            end: *end,
            priority: *priority,
            value,
        });
        flatten(&mut intervals.collect()).iter().map(|piece| (piece.start, piece.end, piece.value)).collect()
    }

    #[test]
    fn the_largest_priority_wins_and_what_it_covers_goes_on_behind_it() {
        assert_eq!(
            pieces(&[(0, 10, 1), (2, 4, 2), (6, 20, 0)]),
            [(0, 2, 0), (2, 4, 1), (4, 10, 0), (10, 20, 2)]
        );
        assert_eq!(pieces(&[(5, 5, 1), (7, 6, 1)]), []);
        assert_eq!(
            pieces(&[(0, 4, 1), (8, 9, 1), (0, u64::MAX, 0)]),
            [(0, 4, 0), (4, 8, 2), (8, 9, 1), (9, u64::MAX, 2)]
        );
    }

    #[test]
    fn an_address_is_in_at_most_one_piece() {
        let pieces = flatten(&mut vec![Interval { start: 3, end: 5, priority: 0, value: 7 }]);
        assert_eq!(
            [2, 3, 4, 5].map(|at| find(&pieces, at).map(|piece| piece.value)),
            [None, Some(7), Some(7), None]
        );
    }
}

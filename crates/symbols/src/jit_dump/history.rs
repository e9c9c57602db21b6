//! Which piece of code is at an address, and which ones were there before.
//!
//! The newest pieces form a map without overlaps. Each piece knows the parts of older ones that it covers, so the one at an
//! earlier time is found by going back. A piece takes away at most what others have put in, so memory grows with the number of pieces only.

use std::collections::BTreeMap;

/// So many pieces are gone back at most for one address.
const MAX_BACK: usize = 1024;

/// Pieces of code, by their numbers, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct History {
    /// By start; they do not overlap.
    newest: BTreeMap<u64, Newest>,
    pieces: Vec<Piece>,
    /// Parts that newer pieces cover, sorted for each of them.
    covered: Vec<Part>,
}

#[derive(Clone, Copy, Debug)]
struct Newest {
    end: u64,
    piece: u32,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    time_ns: u64,
    /// Its parts of [`History::covered`].
    from: u32,
    to: u32,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    start: u64,
    end: u64,
    piece: u32,
}

impl History {
    /// Adds the next piece. It must not be empty.
    pub(super) fn add(&mut self, start: u64, end: u64, time_ns: u64) {
        let (piece, from) = (self.pieces.len() as u32, self.covered.len() as u32);
        if let Some((_, before)) = self.newest.range_mut(..start).next_back()
            && before.end > start
        {
            let rest = *before;
            before.end = start;
            self.newest.insert(start, rest);
        }
        while let Some((&at, &old)) = self.newest.range(start..end).next() {
            self.newest.remove(&at);
            self.covered.push(Part { start: at, end: old.end.min(end), piece: old.piece });
            if old.end > end {
                self.newest.insert(end, old);
            }
        }
        self.newest.insert(start, Newest { end, piece });
        self.pieces.push(Piece { time_ns, from, to: self.covered.len() as u32 });
    }

    /// The piece at an address that was newest at a time. Where all are newer, the oldest of them: some runtimes tell of code a
    /// moment after it began to run.
    pub(super) fn find(&self, address: u64, at_ns: u64) -> Option<usize> {
        let (_, newest) = self.newest.range(..=address).next_back()?;
        let mut found = (address < newest.end).then_some(newest.piece)?;
        for _ in 0..MAX_BACK {
            let piece = self.pieces.get(found as usize)?;
            if piece.time_ns <= at_ns {
                return Some(found as usize);
            }
            let covered = self.covered.get(piece.from as usize..piece.to as usize)?;
            let behind = covered.partition_point(|part| part.end <= address);
            match covered.get(behind).filter(|part| part.start <= address) {
                Some(part) => found = part.piece,
                None => return Some(found as usize),
            }
        }
        None
    }

    /// Heap in use.
    pub(super) fn heap_bytes(&self) -> usize {
        // The nodes of the tree are at least half full.
        self.newest.len() * 2 * (size_of::<u64>() + size_of::<Newest>())
            + self.pieces.capacity() * size_of::<Piece>()
            + self.covered.capacity() * size_of::<Part>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(pieces: &[(u64, u64, u64)]) -> History {
        let mut history = History::default();
        pieces.iter().for_each(|(start, end, time)| history.add(*start, *end, *time));
        history
    }

    #[test]
    fn the_newest_piece_before_a_time_is_found() {
        let history = of(&[(0x10, 0x30, 1), (0x20, 0x28, 5), (0x00, 0x40, 9)]);
        assert_eq!(history.find(0x20, 9), Some(2));
        assert_eq!(history.find(0x20, 8), Some(1));
        assert_eq!(history.find(0x20, 4), Some(0));
        assert_eq!([history.find(0x28, 8), history.find(0x1f, 8)], [Some(0); 2]);
        assert_eq!(history.find(0x20, 0), Some(0), "told too late");
        assert_eq!(history.find(0x05, 1), Some(2), "nothing older is there");
        assert_eq!(history.find(0x40, 9), None);
    }

    #[test]
    fn an_address_with_many_pieces_is_given_up() {
        let history = of(&(0..5000).map(|time| (0, 8, time)).collect::<Vec<_>>());
        assert_eq!(history.find(0, 4500), Some(4500));
        assert_eq!(history.find(0, 100), None);
    }

    proptest! {
        #[test]
        fn as_a_list_says(pieces in prop::collection::vec((0u64..64, 1u64..32), 1..60), at in 0u64..80) {
            let pieces: Vec<_> =
                (1..).zip(pieces).map(|(time, (start, size))| (start, start + size, time)).collect();
            let history = of(&pieces);
            prop_assert!(history.covered.len() <= 3 * pieces.len());
            for address in 0..100 {
                let covers = |(start, end, _): &(u64, u64, u64)| (*start..*end).contains(&address);
                let old = pieces.iter().rposition(|piece| covers(piece) && piece.2 <= at);
                prop_assert_eq!(history.find(address, at), old.or_else(|| pieces.iter().position(covers)));
            }
        }
    }
}

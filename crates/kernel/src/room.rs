//! Whether tables would find room in the table pool: judged by the pool's own allocation, on a copy of its free words. Free bytes alone do
//! not tell, because the parts of a table must each lie together.

use crate::extents::Extents;
use crate::table_shape::TableShape;
use crate::tables::TableHandle;

/// A copy of the free words of the table pool, to try what would find room in it.
#[derive(Clone, Debug)]
pub struct TableTrial(pub(crate) Extents);

impl TableTrial {
    /// As if a table was freed.
    pub fn free(&mut self, table: &TableHandle) {
        for (start, words) in table.parts() {
            self.0.give(*start, *words);
        }
    }

    /// Whether there are enough free words in all, in however many pieces.
    #[must_use]
    pub fn may_hold(&self, shape: &TableShape) -> bool {
        shape.words() <= u64::from(self.0.words())
    }

    /// Takes the room of a table. False: there is none, and nothing is taken.
    pub fn take(&mut self, shape: &TableShape) -> bool {
        if !self.may_hold(shape) {
            return false;
        }
        let mut taken = Vec::with_capacity(shape.0.len());
        for part in shape.0.iter().filter(|part| part.words > 0) {
            let Some(start) = self.0.take(part.words, part.align, part.in_one_chunk) else {
                taken.into_iter().for_each(|(start, words)| self.0.give(start, words));
                return false;
            };
            taken.push((start, part.words));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::CHUNK_WORDS;
    use crate::table_shape::Part;

    fn shape(parts: &[(u32, bool)]) -> TableShape {
        let part = |(words, in_one_chunk): &(u32, bool)| Part {
            words: *words,
            align: 4,
            in_one_chunk: *in_one_chunk,
        };
        TableShape(parts.iter().map(part).collect())
    }

    #[test]
    fn free_words_in_many_pieces_are_no_room_for_a_part_that_lies_together() {
        let mut extents = Extents::new(CHUNK_WORDS);
        let pieces: Vec<u32> = (0..16).map(|_| extents.take(CHUNK_WORDS / 16, 4, false).unwrap()).collect();
        pieces.iter().step_by(2).for_each(|start| extents.give(*start, CHUNK_WORDS / 16));
        let mut trial = TableTrial(extents);
        let whole = shape(&[(CHUNK_WORDS / 4, true)]);
        assert!(trial.may_hold(&whole) && !trial.take(&whole));
        let before = trial.0.words();
        assert!(!trial.take(&shape(&[(CHUNK_WORDS / 16, true), (CHUNK_WORDS / 8, true)])));
        assert_eq!(trial.0.words(), before, "a table that does not fit takes nothing");
        assert!(trial.take(&shape(&[(CHUNK_WORDS / 16, true), (CHUNK_WORDS / 16, true)])));
        assert_eq!(trial.0.words(), before - CHUNK_WORDS / 8);
    }

    #[test]
    fn a_list_of_mappings_is_one_part() {
        assert_eq!(TableShape::of_mappings(100).bytes(), 3200);
        let mut trial = TableTrial(Extents::new(CHUNK_WORDS));
        assert!(trial.take(&TableShape::of_mappings(2048)) && !trial.take(&TableShape::of_mappings(1)));
    }
}

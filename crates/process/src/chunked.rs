//! A list in chunks that copies of it share.
//!
//! The chunks have reference counts: copying a list copies a pointer for each chunk, and changing one copy replaces
//! the chunks at the place of the change only.

use std::ops::Range;
use std::sync::Arc;

/// Items of one chunk: a change copies up to this many.
pub(crate) const MAX_CHUNK: usize = 256;
/// Neighbouring chunks that together hold no more items than this are joined.
const MAX_JOINED: usize = MAX_CHUNK / 2;

/// A list of items. No chunk is empty or longer than [`MAX_CHUNK`].
#[derive(Debug)]
pub(crate) struct Chunked<T> {
    chunks: Vec<Arc<Vec<T>>>,
    len: usize,
}

impl<T> Clone for Chunked<T> {
    fn clone(&self) -> Self {
        Self { chunks: self.chunks.clone(), len: self.len }
    }
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<T: Clone> From<Vec<T>> for Chunked<T> {
    fn from(items: Vec<T>) -> Self {
        Self { len: items.len(), chunks: into_chunks(items) }
    }
}

impl<T: Clone> Chunked<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// The items in a range of indices.
    pub(crate) fn range(&self, range: Range<usize>) -> impl Iterator<Item = &T> {
        let (chunk, offset) = self.locate(range.start);
        let rest = self.chunks.get(chunk..).unwrap_or_default();
        rest.iter().flat_map(|chunk| chunk.iter()).skip(offset).take(range.len())
    }

    /// The first item for which `is_before` is false, in a list where it is true for the items in front alone.
    pub(crate) fn first_not(&self, is_before: impl Fn(&T) -> bool) -> Option<&T> {
        let chunk = self.chunks.partition_point(|chunk| chunk.last().is_some_and(&is_before));
        let chunk = self.chunks.get(chunk)?;
        chunk.get(chunk.partition_point(is_before))
    }

    /// The index of that item, or the length of the list.
    pub(crate) fn partition_point(&self, is_before: impl Fn(&T) -> bool) -> usize {
        let chunk = self.chunks.partition_point(|chunk| chunk.last().is_some_and(&is_before));
        let in_front: usize = self.chunks[..chunk].iter().map(|chunk| chunk.len()).sum();
        in_front + self.chunks.get(chunk).map_or(0, |chunk| chunk.partition_point(is_before))
    }

    /// Replaces the items in a range of indices.
    pub(crate) fn splice(&mut self, range: Range<usize>, new: Vec<T>) {
        let (mut first, mut head) = self.locate(range.start);
        if first == self.chunks.len() && first > 0 {
            // At the end of the list: behind the items of the last chunk.
            first -= 1;
            head = self.chunks[first].len();
        }
        let (last, tail) = match range.end.checked_sub(1).filter(|_| !range.is_empty()) {
            Some(last_item) => {
                let (chunk, index) = self.locate(last_item);
                (chunk, index + 1)
            }
            None => (first, head),
        };
        let items_of = |at: usize| self.chunks.get(at).map_or(&[][..], |chunk| chunk.as_slice());
        let new_len = head + new.len() + (items_of(last).len() - tail);

        let joins = |at: Option<usize>| {
            at.is_some_and(|at| at < self.chunks.len() && new_len + self.chunks[at].len() <= MAX_JOINED)
        };
        let (joins_previous, joins_next) = (joins(first.checked_sub(1)), joins(last.checked_add(1)));
        self.len = self.len - range.len() + new.len();
        if first == last && (1..=MAX_CHUNK).contains(&new_len) && !joins_previous && !joins_next {
            // Without a copy, if no other list shares the chunk.
            if let Some(own) = self.chunks.get_mut(first).and_then(Arc::get_mut) {
                own.splice(head..tail, new);
                return;
            }
        }
        let items_of = |at: usize| self.chunks.get(at).map_or(&[][..], |chunk| chunk.as_slice());
        let previous = if joins_previous { items_of(first - 1) } else { &[] };
        let next = if joins_next { items_of(last + 1) } else { &[] };
        let mut items = Vec::with_capacity(previous.len() + new_len + next.len());
        items.extend_from_slice(previous);
        items.extend_from_slice(&items_of(first)[..head]);
        items.extend(new);
        items.extend_from_slice(&items_of(last)[tail..]);
        items.extend_from_slice(next);
        let replaced = first - usize::from(joins_previous)..last + 1 + usize::from(joins_next);
        self.chunks.splice(replaced.start..replaced.end.min(self.chunks.len()), into_chunks(items));
    }

    /// Address and capacity of each chunk.
    #[cfg(test)]
    pub(crate) fn chunks(&self) -> impl Iterator<Item = (*const Vec<T>, usize)> {
        self.chunks.iter().map(|chunk| (Arc::as_ptr(chunk), chunk.capacity()))
    }

    /// The chunk of an index, and the index in that chunk.
    fn locate(&self, index: usize) -> (usize, usize) {
        let mut rest = index;
        for (at, chunk) in self.chunks.iter().enumerate() {
            if rest < chunk.len() {
                return (at, rest);
            }
            rest -= chunk.len();
        }
        (self.chunks.len(), rest)
    }
}

/// Chunks of equal length, as few as are needed.
fn into_chunks<T: Clone>(items: Vec<T>) -> Vec<Arc<Vec<T>>> {
    let count = items.len().div_ceil(MAX_CHUNK);
    match count {
        0 => Vec::new(),
        1 => vec![Arc::new(items)],
        _ => items.chunks(items.len().div_ceil(count)).map(|chunk| Arc::new(chunk.to_vec())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(list: &Chunked<u32>, expected: &[u32]) {
        assert!(list.iter().eq(expected) && list.len() == expected.len());
        assert!(list.chunks.iter().all(|chunk| (1..=MAX_CHUNK).contains(&chunk.len())));
        let joined = list.chunks.iter().zip(list.chunks.iter().skip(1));
        let small = joined.filter(|(one, next)| one.len() + next.len() <= MAX_JOINED / 2);
        assert!(small.count() <= 1 + expected.len() / MAX_JOINED, "small chunks are joined");
    }

    #[test]
    fn a_change_copies_the_chunk_that_it_is_in() {
        let list = Chunked::from((0..10_000u32).collect::<Vec<_>>());
        let mut changed = list.clone();
        changed.splice(5000..5002, vec![1, 2, 3]);
        let shared = |a: &Chunked<u32>, b: &Chunked<u32>| {
            a.chunks.iter().filter(|one| b.chunks.iter().any(|other| Arc::ptr_eq(one, other))).count()
        };
        assert_eq!(shared(&list, &changed), list.chunks.len() - 1);
        assert!(list.iter().copied().eq(0..10_000));
        assert_eq!(changed.range(4999..5005).copied().collect::<Vec<_>>(), [4999, 1, 2, 3, 5002, 5003]);
    }

    #[test]
    fn removing_leaves_no_small_chunks() {
        let mut list = Chunked::from((0..10_000u32).collect::<Vec<_>>());
        for at in (0..10_000).rev().filter(|at| at % 64 != 0) {
            list.splice(at..at + 1, Vec::new());
        }
        assert_eq!(list.len(), 157);
        assert!(list.chunks.len() <= 4, "{} chunks", list.chunks.len());
        list.splice(0..157, Vec::new());
        assert!(list.chunks.is_empty() && list.iter().next().is_none());
    }

    proptest! {
        #[test]
        fn it_is_like_a_vector(
            len in 0usize..1500,
            changes in proptest::collection::vec((any::<usize>(), 0usize..700, 0usize..700, any::<bool>()), 0..30),
        ) {
            let mut expected: Vec<u32> = (0..len as u32).collect();
            let mut list = Chunked::from(expected.clone());
            let mut copies = Vec::new();
            for (start, removed, added, copy) in changes {
                let start = start % (expected.len() + 1);
                let range = start..(start + removed / (1 + removed % 7 * 20)).min(expected.len());
                let new: Vec<u32> = (0..(added / (1 + added % 7 * 20)) as u32).map(|item| item + 1_000_000).collect();
                if copy {
                    copies.push((list.clone(), expected.clone()));
                }
                prop_assert!(list.range(range.clone()).eq(&expected[range.clone()]));
                expected.splice(range.clone(), new.clone());
                list.splice(range, new);
                check(&list, &expected);
            }
            for (copy, expected) in copies {
                check(&copy, &expected);
            }
        }

        #[test]
        fn it_is_searched_like_a_vector(len in 0u32..1500, wanted in 0u32..3000) {
            let items: Vec<u32> = (0..len).map(|item| item * 2).collect();
            let list = Chunked::from(items.clone());
            let at = items.partition_point(|item| *item < wanted);
            prop_assert_eq!(list.partition_point(|item| *item < wanted), at);
            prop_assert_eq!(list.first_not(|item| *item < wanted), items.get(at));
        }
    }
}

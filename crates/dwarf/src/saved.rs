//! Records and texts of a reader as bytes, which a later reader of the same file uses in place.
//!
//! Layout, all numbers little-endian: the lengths of the parts (5 × u64: records, bytes of records, addresses of which nothing is known, texts,
//! bytes of texts); for each record start, end and position (3 × u64), sorted; the bytes of the records in the same order; the addresses
//! (u64), sorted; for each text its end (u32); the bytes of the texts.
//!
//! Guaranteed: any bytes are refused or give answers; no panic, and no record reaches into the bytes of another one.
//! Not here: which file the bytes belong to, and whether they are as they were written.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that stay as they are as long as this is kept: a mapped file, for example.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Bytes of the lengths.
const HEAD: usize = 5 * 8;
/// Bytes of start, end and position of a record.
const ENTRY: usize = 3 * 8;

/// What an earlier reader learned.
#[derive(Clone)]
pub(crate) struct Saved {
    bytes: SharedBytes,
    entries: Range<usize>,
    records: Range<usize>,
    nothing: Range<usize>,
    text_ends: Range<usize>,
    texts: Range<usize>,
}

/// What there is to save, in order.
pub(crate) struct Parts<'p> {
    /// Start, end and bytes of each record, sorted by start.
    pub records: Vec<(u64, u64, &'p [u8])>,
    /// Sorted addresses of which nothing is known.
    pub nothing: Vec<u64>,
    pub texts: Vec<&'p str>,
}

impl Parts<'_> {
    /// `None` if it is too much for the layout.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let records: usize = self.records.iter().map(|(_, _, bytes)| bytes.len()).sum();
        let texts: usize = self.texts.iter().map(|text| text.len()).sum();
        u32::try_from(texts).ok()?;
        let lengths = [self.records.len(), records, self.nothing.len(), self.texts.len(), texts];
        let mut out = Vec::with_capacity(
            HEAD + ENTRY * self.records.len()
                + records
                + 8 * self.nothing.len()
                + 4 * self.texts.len()
                + texts,
        );
        lengths.iter().for_each(|length| out.extend_from_slice(&(*length as u64).to_le_bytes()));
        let mut at = 0u64;
        for (start, end, bytes) in &self.records {
            [*start, *end, at].iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
            at += bytes.len() as u64;
        }
        self.records.iter().for_each(|(_, _, bytes)| out.extend_from_slice(bytes));
        self.nothing.iter().for_each(|address| out.extend_from_slice(&address.to_le_bytes()));
        let mut end = 0;
        for text in &self.texts {
            end += text.len() as u32;
            out.extend_from_slice(&end.to_le_bytes());
        }
        self.texts.iter().for_each(|text| out.extend_from_slice(text.as_bytes()));
        Some(out)
    }
}

impl Saved {
    /// The part of bytes that [`Parts::to_bytes`] made. `None` if they are damaged.
    pub fn read(bytes: SharedBytes, part: Range<usize>) -> Option<Self> {
        let data = (*bytes).as_ref().get(..part.end)?;
        let mut at = part.start;
        let mut take = |count: usize, size: usize| {
            let end = at.checked_add(count.checked_mul(size)?).filter(|end| *end <= data.len())?;
            Some(std::mem::replace(&mut at, end)..end)
        };
        let head = take(5, 8)?;
        let length = |index: usize| usize::try_from(number(data, head.start + 8 * index)?).ok();
        let entries = take(length(0)?, ENTRY)?;
        let records = take(length(1)?, 1)?;
        let nothing = take(length(2)?, 8)?;
        let text_ends = take(length(3)?, 4)?;
        let texts = take(length(4)?, 1)?;
        if at != data.len() {
            return None;
        }
        let mut last = (None, 0);
        for entry in data.get(entries.clone())?.chunks_exact(ENTRY) {
            let (start, end, at) = (number(entry, 0)?, number(entry, 8)?, number(entry, 16)?);
            if last.0 >= Some(start) || start >= end || at < last.1 || at > records.len() as u64 {
                return None;
            }
            last = (Some(start), at);
        }
        let mut last = 0;
        for end in data.get(text_ends.clone())?.as_chunks().0 {
            let end = u32::from_le_bytes(*end);
            if end < last || end as usize > texts.len() {
                return None;
            }
            last = end;
        }
        Some(Self { bytes, entries, records, nothing, text_ends, texts })
    }

    fn data(&self) -> &[u8] {
        (*self.bytes).as_ref()
    }

    pub fn len(&self) -> usize {
        self.entries.len() / ENTRY
    }

    /// Start, end and bytes of a record by its number.
    pub fn record(&self, index: usize) -> Option<(u64, u64, &[u8])> {
        let data = self.data();
        if index >= self.len() {
            return None;
        }
        let at = self.entries.start + ENTRY * index;
        let position = |index: usize, at: usize| -> Option<usize> {
            if index < self.len() {
                usize::try_from(number(data, at + 16)?).ok()
            } else {
                Some(self.records.len())
            }
        };
        let bytes =
            data.get(self.records.clone())?.get(position(index, at)?..position(index + 1, at + ENTRY)?)?;
        Some((number(data, at)?, number(data, at + 8)?, bytes))
    }

    /// The number of the record that an address is in.
    pub fn find(&self, address: u64) -> Option<usize> {
        let entries = self.data().get(self.entries.clone())?;
        let index = partition(self.len(), |index| number(entries, index * ENTRY) <= Some(address));
        let index = index.checked_sub(1)?;
        (Some(address) < number(entries, index * ENTRY + 8)).then_some(index)
    }

    /// Addresses of which nothing is known.
    pub fn nothing(&self) -> impl Iterator<Item = u64> {
        let all = self.data().get(self.nothing.clone()).unwrap_or_default();
        all.as_chunks().0.iter().map(|address| u64::from_le_bytes(*address))
    }

    pub fn is_nothing(&self, address: u64) -> bool {
        let all = self.data().get(self.nothing.clone()).unwrap_or_default().as_chunks().0;
        all.binary_search_by_key(&address, |address| u64::from_le_bytes(*address)).is_ok()
    }

    pub fn texts(&self) -> usize {
        self.text_ends.len() / 4
    }

    /// A text by its number.
    pub fn text(&self, index: usize) -> Option<&str> {
        let data = self.data();
        let ends = data.get(self.text_ends.clone())?.as_chunks().0;
        let end = |index: usize| ends.get(index).map(|end| u32::from_le_bytes(*end) as usize);
        let start = if index == 0 { 0 } else { end(index - 1)? };
        std::str::from_utf8(data.get(self.texts.clone())?.get(start..end(index)?)?).ok()
    }

    /// Bytes of all texts.
    pub fn text_bytes(&self) -> usize {
        self.texts.len()
    }
}

impl fmt::Debug for Saved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saved").field("records", &self.len()).field("texts", &self.texts()).finish()
    }
}

fn number(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*data.get(at..)?.first_chunk()?))
}

/// How many of the numbers below `count` a condition holds for, which holds for the first ones only.
fn partition(count: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Vec<u8> {
        let records = vec![(5, 9, &b"one"[..]), (9, 10, b""), (20, u64::MAX, b"three")];
        Parts { records, nothing: vec![3, 15], texts: vec!["a", "", "b\u{e4}"] }.to_bytes().unwrap()
    }

    fn read(bytes: Vec<u8>) -> Option<Saved> {
        let length = bytes.len();
        Saved::read(Arc::new(bytes), 0..length)
    }

    #[test]
    fn everything_comes_back() {
        let saved = read(parts()).unwrap();
        let found = |address| saved.find(address).and_then(|index| saved.record(index));
        assert_eq!([4, 10, 19, u64::MAX].map(found), [None; 4]);
        assert_eq!([5, 8].map(found), [Some((5, 9, &b"one"[..])); 2]);
        assert_eq!((found(9), found(20)), (Some((9, 10, &[][..])), Some((20, u64::MAX, &b"three"[..]))));
        assert_eq!(
            (0..4).map(|i| saved.text(i)).collect::<Vec<_>>(),
            [Some("a"), Some(""), Some("b\u{e4}"), None]
        );
        assert_eq!([2, 3, 15].map(|address| saved.is_nothing(address)), [false, true, true]);
        assert_eq!(saved.nothing().collect::<Vec<_>>(), [3, 15]);
    }

    #[test]
    fn damaged_bytes_are_refused_or_answer() {
        let whole = parts();
        for length in 0..whole.len() {
            assert!(read(whole[..length].to_vec()).is_none(), "{length}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let Some(saved) = read(bytes) else { continue };
                for address in 0..30 {
                    let _ = saved.find(address).and_then(|index| saved.record(index));
                }
                for index in 0..5 {
                    let _ = saved.text(index);
                }
            }
        }
        let mut twice = whole;
        twice.copy_within(HEAD..HEAD + 8, HEAD + ENTRY);
        assert!(read(twice).is_none(), "starts are not in order");
    }
}

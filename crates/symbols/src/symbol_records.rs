//! What symbol tables said of addresses, so that neither the tables are needed nor names made readable again: also in a later run.
//!
//! Layout of the saved bytes, little-endian: how many records; of each its first address, the end, where its symbol begins, and whether there is
//! a symbol (4 × u64); then a list of texts ([`PackedTexts`]), two of each record: the name as in the table, and the readable one.

use std::collections::BTreeMap;
use std::ops::Range;

use dwarf::SharedBytes;

use crate::packed_texts::PackedTexts;
use crate::shared_text::SharedText;
use crate::source_line::SourceLine;

/// Bytes of records that are kept.
const MAX_BYTES: usize = 32 << 20;
const ENTRY: usize = 4 * 8;

/// A symbol at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub start: u64,
    /// As in the table.
    pub system_name: SharedText,
    /// As in the source.
    pub name: SharedText,
}

impl Symbol {
    /// As an answer without a place in the source.
    pub fn line(self) -> SourceLine {
        SourceLine { name: self.name, system_name: self.system_name, ..SourceLine::default() }
    }
}

/// What was found, by range of addresses.
#[derive(Default)]
pub(crate) struct SymbolRecords {
    saved: Option<Saved>,
    /// By first address: the end, and the symbol if there is one.
    known: BTreeMap<u64, (u64, Option<Symbol>)>,
    bytes: usize,
    has_news: bool,
}

/// Records of an earlier run.
struct Saved {
    bytes: SharedBytes,
    entries: Range<usize>,
    texts: PackedTexts,
}

impl SymbolRecords {
    /// What is known of an address: perhaps that there is no symbol.
    pub fn find(&mut self, address: u64) -> Option<Option<Symbol>> {
        if let Some((_, (end, symbol))) = self.known.range(..=address).next_back()
            && address < *end
        {
            return Some(symbol.clone());
        }
        let (range, symbol) = self.saved.as_ref()?.find(address)?;
        self.enter(range, symbol.clone());
        Some(symbol)
    }

    /// Remembers what was found at all addresses of a range.
    pub fn add(&mut self, range: Range<u64>, symbol: Option<Symbol>) {
        self.has_news = true;
        self.enter(range, symbol);
    }

    fn enter(&mut self, range: Range<u64>, symbol: Option<Symbol>) {
        if self.bytes > MAX_BYTES {
            self.known.clear();
            self.bytes = 0;
        }
        let texts = symbol.as_ref().map_or(0, |symbol| symbol.system_name.len() + symbol.name.len());
        self.bytes += 128 + texts;
        self.known.insert(range.start, (range.end, symbol));
    }

    /// Uses the records in a part of bytes. `false` if they are damaged.
    pub fn restore(&mut self, bytes: SharedBytes, part: Range<usize>) -> bool {
        self.saved = Saved::read(bytes, part);
        self.saved.is_some()
    }

    /// Whether there is more than was restored.
    pub fn has_news(&self) -> bool {
        self.has_news
    }

    /// All records, for [`Self::restore`]. `None` if they are too long.
    pub fn save(&self) -> Option<Vec<u8>> {
        let mut all = self.known.clone();
        if let Some(saved) = &self.saved {
            for (range, symbol) in (0..saved.len()).filter_map(|number| saved.record(number)) {
                all.entry(range.start).or_insert((range.end, symbol));
            }
        }
        let mut out = Vec::new();
        let mut word = |word: u64| out.extend_from_slice(&word.to_le_bytes());
        word(all.len() as u64);
        for (start, (end, symbol)) in &all {
            let symbol_start = symbol.as_ref().map(|symbol| symbol.start);
            [*start, *end, symbol_start.unwrap_or(0), symbol_start.is_some().into()]
                .into_iter()
                .for_each(&mut word);
        }
        let mut texts = Vec::with_capacity(2 * all.len());
        for (_, symbol) in all.values() {
            let names = symbol.as_ref().map(|symbol| [symbol.system_name.as_str(), symbol.name.as_str()]);
            texts.extend(names.unwrap_or_default());
        }
        PackedTexts::write(texts.into_iter(), &mut out)?;
        Some(out)
    }

    pub fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

impl Saved {
    fn read(bytes: SharedBytes, part: Range<usize>) -> Option<Self> {
        let data = (*bytes).as_ref();
        let count = usize::try_from(word(data.get(part.clone())?, 0)?).ok()?;
        let first = part.start + 8;
        let entries = first..first.checked_add(count.checked_mul(ENTRY)?)?;
        let starts = data.get(entries.clone())?.chunks_exact(ENTRY).map(|entry| word(entry, 0));
        let texts = PackedTexts::read(data, entries.end..part.end)?;
        let is_right = starts.is_sorted_by(|one, next| one < next) && texts.len() == 2 * count;
        is_right.then_some(Self { bytes, entries, texts })
    }

    fn len(&self) -> usize {
        self.entries.len() / ENTRY
    }

    fn find(&self, address: u64) -> Option<(Range<u64>, Option<Symbol>)> {
        let entries = (*self.bytes).as_ref().get(self.entries.clone())?.as_chunks::<ENTRY>().0;
        let index = entries.partition_point(|entry| word(entry, 0) <= Some(address)).checked_sub(1)?;
        self.record(index).filter(|(range, _)| address < range.end)
    }

    fn record(&self, number: usize) -> Option<(Range<u64>, Option<Symbol>)> {
        let data = (*self.bytes).as_ref();
        let entry = data.get(self.entries.clone())?.as_chunks::<ENTRY>().0.get(number)?;
        let range = word(entry, 0)?..word(entry, 8)?;
        if word(entry, 24)? == 0 {
            return Some((range, None));
        }
        let text = |number| self.texts.get(data, number).map(SharedText::from);
        let (start, system_name) = (word(entry, 16)?, text(2 * number)?);
        // Most names in C are as they are.
        let name = text(2 * number + 1).filter(|name| *name != system_name);
        let name = name.unwrap_or_else(|| system_name.clone());
        Some((range, Some(Symbol { start, system_name, name })))
    }
}

fn word(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*data.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn symbol(start: u64, name: &str) -> Option<Symbol> {
        Some(Symbol { start, system_name: format!("_{name}").as_str().into(), name: name.into() })
    }

    fn restored(bytes: Vec<u8>) -> Option<SymbolRecords> {
        let (part, mut records) = (0..bytes.len(), SymbolRecords::default());
        records.restore(Arc::new(bytes), part).then_some(records)
    }

    #[test]
    fn what_is_saved_comes_back_and_is_saved_again_with_what_is_new() {
        let mut records = SymbolRecords::default();
        records.add(10..20, symbol(8, "one"));
        records.add(20..30, None);
        let mut records = restored(records.save().unwrap()).unwrap();
        assert_eq!([9, 30].map(|address| records.find(address)), [None, None]);
        assert_eq!(
            [10, 19, 20].map(|at| records.find(at).unwrap()),
            [symbol(8, "one"), symbol(8, "one"), None]
        );
        assert!(!records.has_news());
        records.add(5..10, symbol(5, "two"));
        assert!(records.has_news());
        let mut records = restored(records.save().unwrap()).unwrap();
        assert_eq!(
            [5, 12, 29].map(|at| records.find(at).unwrap()),
            [symbol(5, "two"), symbol(8, "one"), None]
        );
    }

    #[test]
    fn damaged_bytes_are_refused_or_answer() {
        let mut records = SymbolRecords::default();
        records.add(10..20, symbol(8, "one"));
        records.add(20..30, None);
        let whole = records.save().unwrap();
        assert!((0..whole.len()).all(|length| restored(whole[..length].to_vec()).is_none()));
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let Some(mut records) = restored(bytes) else { continue };
                (0..40).for_each(|address| drop(records.find(address)));
                drop(records.save());
            }
        }
    }
}

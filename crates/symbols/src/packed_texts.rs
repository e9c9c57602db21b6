//! A list of texts in bytes, each found by its number: their count and the end of each (u32, little-endian), then the texts.

use std::ops::Range;

/// Where the list is.
#[derive(Clone, Debug, Default)]
pub(crate) struct PackedTexts {
    ends: Range<usize>,
    texts: Range<usize>,
}

impl PackedTexts {
    /// Appends a list. `None` if it is too long.
    pub fn write<'t>(texts: impl ExactSizeIterator<Item = &'t str> + Clone, out: &mut Vec<u8>) -> Option<()> {
        out.extend_from_slice(&u32::try_from(texts.len()).ok()?.to_le_bytes());
        let mut end = 0u32;
        for text in texts.clone() {
            end = end.checked_add(u32::try_from(text.len()).ok()?)?;
            out.extend_from_slice(&end.to_le_bytes());
        }
        texts.for_each(|text| out.extend_from_slice(text.as_bytes()));
        Some(())
    }

    /// The list that takes up all of a part of bytes. `None` if there is none.
    pub fn read(bytes: &[u8], part: Range<usize>) -> Option<Self> {
        let data = bytes.get(part.clone())?;
        let count = u32::from_le_bytes(*data.first_chunk()?) as usize;
        let texts_at = 4usize.checked_add(count.checked_mul(4)?)?;
        let ends = data.get(4..texts_at)?;
        let last = ends.last_chunk().map_or(0, |end| u32::from_le_bytes(*end) as usize);
        let in_order = ends.as_chunks().0.is_sorted_by_key(|end| u32::from_le_bytes(*end));
        let is_whole = in_order && texts_at.checked_add(last) == Some(data.len());
        is_whole.then(|| Self {
            ends: part.start + 4..part.start + texts_at,
            texts: part.start + texts_at..part.end,
        })
    }

    pub fn len(&self) -> usize {
        self.ends.len() / 4
    }

    /// A text by its number, from the same bytes.
    pub fn get<'b>(&self, bytes: &'b [u8], number: usize) -> Option<&'b str> {
        let ends = bytes.get(self.ends.clone())?.as_chunks().0;
        let end = |number: usize| ends.get(number).map(|end| u32::from_le_bytes(*end) as usize);
        let start = if number == 0 { 0 } else { end(number - 1)? };
        std::str::from_utf8(bytes.get(self.texts.clone())?.get(start..end(number)?)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_and_damaged_lists_are_refused_or_answer() {
        let mut bytes = b"before".to_vec();
        PackedTexts::write(["one", "", "\u{e4}"].into_iter(), &mut bytes).unwrap();
        let part = 6..bytes.len();
        let list = PackedTexts::read(&bytes, part.clone()).unwrap();
        let found: Vec<_> = (0..4).map(|number| list.get(&bytes, number)).collect();
        assert_eq!((list.len(), found), (3, vec![Some("one"), Some(""), Some("\u{e4}"), None]));
        assert!((6..bytes.len()).all(|end| PackedTexts::read(&bytes, 6..end).is_none()));
        for at in part.clone() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let list = PackedTexts::read(&damaged, part.clone());
                let Some(list) = list else { continue };
                (0..5).for_each(|number| {
                    assert!(list.get(&damaged, number).is_none_or(|text| text.len() < 99))
                });
            }
        }
    }
}

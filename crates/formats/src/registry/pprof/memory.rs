//! The fields of a message before it is decoded: how much memory they will take, since a message of two bytes becomes a structure of a hundred,
//! and which of them is malformed, since the decoder does not tell.

use prost::Message as _;

use super::proto;

/// Memory of an item of a table, about: the largest of them.
const ITEM: u64 = 96;
/// Memory of an item inside of such an item.
const INNER_ITEM: u64 = 48;
/// Memory of a number of which one byte tells.
const NUMBER: u64 = 8;

/// Bytes of memory that the decoded message takes at most, about.
pub(super) fn memory_of(message: &[u8]) -> u64 {
    let mut memory = 0;
    for field in Fields(message) {
        memory += ITEM;
        match field {
            // Packed numbers, text, or an item with fields of its own: whichever takes most.
            Field::Bytes(bytes) => {
                let inner = Fields(bytes).map(|inner| match inner {
                    Field::Bytes(packed) => INNER_ITEM + NUMBER * packed.len() as u64,
                    Field::Number => NUMBER,
                });
                memory += inner.sum::<u64>().max(bytes.len() as u64);
            }
            Field::Number => {}
        }
    }
    memory
}

/// Where the first item begins that cannot be decoded; the end if there is none.
pub(super) fn malformed_at(message: &[u8]) -> usize {
    let mut fields = Fields(message);
    loop {
        let start = message.len() - fields.0.len();
        let is_whole = fields.next().is_some();
        // Each field by itself is a message too.
        let field = message.get(start..message.len() - fields.0.len()).unwrap_or_default();
        if !is_whole || proto::Profile::decode(field).is_err() {
            return start;
        }
    }
}

enum Field<'a> {
    Number,
    Bytes(&'a [u8]),
}

/// The fields of a message, up to the first malformed one.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for (position, byte) in self.0.iter().enumerate().take(10) {
            number |= u64::from(byte & 0x7f) << (7 * position);
            if byte & 0x80 == 0 {
                self.0 = &self.0[position + 1..];
                return Some(number);
            }
        }
        None
    }

    fn bytes(&mut self, count: u64) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    fn field(&mut self) -> Option<Field<'a>> {
        match self.number()? & 7 {
            0 => self.number().map(|_| Field::Number),
            1 => self.bytes(8).map(|_| Field::Number),
            2 => {
                let length = self.number()?;
                self.bytes(length).map(Field::Bytes)
            }
            5 => self.bytes(4).map(|_| Field::Number),
            _ => None,
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        if self.0.is_empty() { None } else { self.field() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_malformed_item_is_found() {
        // Two samples, the second of which has a label that ends behind it.
        let message = [0x12, 2, 0x08, 1, 0x12, 4, 0x1a, 9, 0x08, 1, 0x48, 7];
        assert_eq!(malformed_at(&message), 4);
        assert_eq!(malformed_at(&message[..4]), 4, "nothing is malformed");
        // Another kind of number than the field has; a length behind the end; a group.
        assert_eq!(malformed_at(&[0x48, 7, 0x49, 0, 0, 0, 0, 0, 0, 0, 0]), 2);
        assert_eq!(malformed_at(&[0x48, 7, 0x12, 0xff, 1]), 2);
        assert_eq!(malformed_at(&[0x13]), 0);
    }

    #[test]
    fn many_small_items_take_much_memory() {
        let samples: Vec<u8> = [0x12, 0].repeat(1000);
        assert_eq!(memory_of(&samples), 1000 * ITEM);
        // A sample with 100 packed values, a text of 5 bytes, a number.
        let mut message = vec![0x12, 102, 0x12, 100];
        message.extend([1; 100]);
        message.extend([0x32, 5, b'h', b'e', b'l', b'l', b'o', 0x48, 0xff, 0xff, 1]);
        assert_eq!(memory_of(&message), 3 * ITEM + INNER_ITEM + 101 * NUMBER);
        assert_eq!(memory_of(&[0x12, 0xff]), 0, "cut off");
        assert_eq!(memory_of(&[0xff; 20]), 0);
    }
}

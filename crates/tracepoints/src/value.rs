//! The value of a field, borrowed from the record.

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// A number without a sign.
    Unsigned(u64),
    /// A number with a sign.
    Signed(i64),
    /// Text.
    Text {
        /// The bytes before the first NUL.
        text: &'a [u8],
        /// All bytes.
        raw: &'a [u8],
    },
    /// Several numbers.
    Array(Elements<'a>),
    /// Bytes whose meaning is not known.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The number in 1, 2, 4 or 8 bytes.
    pub(crate) fn integer(bytes: &[u8], signed: bool) -> Option<Self> {
        let unsigned = match *bytes {
            [byte] => u64::from(byte),
            [a, b] => u64::from(u16::from_ne_bytes([a, b])),
            [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
            _ => u64::from_ne_bytes(bytes.try_into().ok()?),
        };
        if !signed {
            return Some(Self::Unsigned(unsigned));
        }
        let unused = 64 - 8 * bytes.len() as u32;
        Some(Self::Signed(((unsigned << unused) as i64) >> unused))
    }

    /// Text that ends at the first NUL, if there is one.
    pub(crate) fn text(raw: &'a [u8]) -> Self {
        let text = raw.split(|&byte| byte == 0).next().unwrap_or_default();
        Self::Text { text, raw }
    }

    /// The number, if it is one, as the kernel would count it: a negative one is none.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::Unsigned(value) => Some(value),
            Self::Signed(value) => u64::try_from(value).ok(),
            _ => None,
        }
    }
}

/// An element of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// Bytes: 1, 2, 4 or 8.
    pub size: usize,
    /// Whether it has a sign.
    pub signed: bool,
}

/// The elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements<'a> {
    bytes: &'a [u8],
    element: Element,
}

impl<'a> Elements<'a> {
    pub(crate) fn new(bytes: &'a [u8], element: Element) -> Self {
        Self { bytes, element }
    }

    /// How many there are. Bytes that do not fill an element are left out.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / self.element.size.max(1)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element with this index: a number.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        let from = index.checked_mul(self.element.size)?;
        Value::integer(self.bytes.get(from..from.checked_add(self.element.size)?)?, self.element.signed)
    }

    /// All elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let this = *self;
        (0..this.len()).filter_map(move |index| this.get(index))
    }

    /// The bytes of all elements.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_sizes_keep_their_sign() {
        let minus_two = (-2i64).to_ne_bytes();
        for size in [1, 2, 4, 8] {
            let bytes =
                if cfg!(target_endian = "little") { &minus_two[..size] } else { &minus_two[8 - size..] };
            assert_eq!(Value::integer(bytes, true), Some(Value::Signed(-2)), "{size}");
            let all_ones = u64::MAX >> (64 - 8 * size);
            assert_eq!(Value::integer(bytes, false), Some(Value::Unsigned(all_ones - 1)), "{size}");
        }
        assert_eq!(Value::integer(&[1, 2, 3], false), None);
        assert_eq!(Value::Signed(-1).as_u64(), None);
        assert_eq!(Value::Signed(5).as_u64(), Some(5));
    }

    #[test]
    fn text_ends_at_the_first_nul() {
        assert_eq!(Value::text(b"ab\0cd"), Value::Text { text: b"ab", raw: b"ab\0cd" });
        assert_eq!(Value::text(b"ab"), Value::Text { text: b"ab", raw: b"ab" });
        assert_eq!(Value::text(b""), Value::Text { text: b"", raw: b"" });
    }
}

//! A cursor over untrusted bytes: every read can fail, no read panics.

/// Above the length of every string that is compared. The end of a longer string is not searched.
const MAX_STRING: usize = 256;

/// Position in a byte slice; little-endian.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    data: &'a [u8],
    pos: usize,
}

impl<'a> Reader<'a> {
    /// A reader at `pos` of `data`. Past the end, nothing can be read.
    pub(crate) fn at(data: &'a [u8], pos: usize) -> Self {
        Self { data, pos: pos.min(data.len()) }
    }

    pub(crate) fn pos(&self) -> usize {
        self.pos
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pos >= self.data.len()
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        let byte = *self.data.get(self.pos)?;
        self.pos += 1;
        Some(byte)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = *self.data.get(self.pos..)?.first_chunk()?;
        self.pos += N;
        Some(bytes)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn bytes(&mut self, len: u64) -> Option<&'a [u8]> {
        let end = self.pos.checked_add(usize::try_from(len).ok()?)?;
        let bytes = self.data.get(self.pos..end)?;
        self.pos = end;
        Some(bytes)
    }

    pub(crate) fn skip(&mut self, len: u64) -> Option<()> {
        self.bytes(len).map(|_| ())
    }

    pub(crate) fn bytes_to_end(&mut self) -> &'a [u8] {
        let rest = &self.data[self.pos..];
        self.pos = self.data.len();
        rest
    }

    /// The bytes up to the next zero, which is consumed. `None` also for longer strings than the limit.
    pub(crate) fn c_str(&mut self) -> Option<&'a [u8]> {
        let rest = self.data.get(self.pos..)?;
        let len = rest.iter().take(MAX_STRING).position(|&byte| byte == 0)?;
        self.pos += len + 1;
        Some(&rest[..len])
    }

    #[inline]
    pub(crate) fn uleb(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0u64, 0u32);
        loop {
            let byte = self.u8()?;
            let low = u64::from(byte & 0x7f);
            // Bits beyond the 64th must be zero; padding of zeros is legal.
            if shift < 64 && (low << shift) >> shift == low {
                value |= low << shift;
            } else if low != 0 {
                return None;
            }
            if byte & 0x80 == 0 {
                return Some(value);
            }
            shift = shift.saturating_add(7);
        }
    }

    #[inline]
    pub(crate) fn sleb(&mut self) -> Option<i64> {
        let (mut value, mut shift) = (0i64, 0u32);
        loop {
            let byte = self.u8()?;
            if shift < 63 {
                value |= i64::from(byte & 0x7f) << shift;
            } else if shift == 63 && matches!(byte & 0x7f, 0 | 0x7f) {
                value |= i64::from(byte & 1) << 63;
            } else {
                return None;
            }
            shift += 7;
            if byte & 0x80 == 0 {
                if shift < 64 && byte & 0x40 != 0 {
                    value |= -1i64 << shift;
                }
                return Some(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leb128() {
        let uleb = |bytes: &[u8]| Reader::at(bytes, 0).uleb();
        let sleb = |bytes: &[u8]| Reader::at(bytes, 0).sleb();
        assert_eq!(uleb(&[0xe5, 0x8e, 0x26]), Some(624_485));
        assert_eq!(uleb(&[0x80, 0x80, 0]), Some(0));
        assert_eq!(uleb(&[0xff; 20]), None);
        assert_eq!(uleb(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]), Some(u64::MAX));
        assert_eq!(uleb(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]), None);
        assert_eq!(uleb(&[0x80]), None);
        assert_eq!(sleb(&[0x78]), Some(-8));
        assert_eq!(sleb(&[0xc0, 0xbb, 0x78]), Some(-123_456));
        assert_eq!(sleb(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f]), Some(i64::MIN));
        assert_eq!(sleb(&[0xff; 20]), None);
    }

    #[test]
    fn long_strings_are_none() {
        let mut bytes = vec![b'x'; 10_000];
        bytes[255] = 0;
        assert_eq!(Reader::at(&bytes, 0).c_str().map(<[u8]>::len), Some(255));
        assert_eq!(Reader::at(&bytes, 256).c_str(), None);
        assert_eq!(Reader::at(b"a\0b\0", 2).c_str(), Some(&b"b"[..]));
        assert_eq!(Reader::at(b"a", 0).c_str(), None);
    }
}

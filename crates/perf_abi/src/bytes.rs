//! Reading numbers from the front of bytes, one after another.

/// A record whose bytes do not make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed perf record")]
pub struct Malformed;

/// What is left of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.take(2)?.try_into().map(u16::from_ne_bytes).map_err(|_| Malformed)
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.take(4)?.try_into().map(u32::from_ne_bytes).map_err(|_| Malformed)
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.take(8)?.try_into().map(u64::from_ne_bytes).map_err(|_| Malformed)
    }

    /// So many words of 8 bytes.
    pub fn words(&mut self, count: u64) -> Result<Words<'a>, Malformed> {
        let len = usize::try_from(count).ok().and_then(|count| count.checked_mul(8)).ok_or(Malformed)?;
        Ok(Words(self.take(len)?))
    }

    /// All that is left, up to the first NUL.
    pub fn text(&mut self) -> &'a [u8] {
        let all = std::mem::take(&mut self.0);
        all.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

/// Words of 8 bytes, which may be unaligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words<'a>(&'a [u8]);

impl Words<'_> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len() / 8
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The word with this index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<u64> {
        self.0.as_chunks::<8>().0.get(index).map(|word| u64::from_ne_bytes(*word))
    }

    /// All words in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word))
    }
}

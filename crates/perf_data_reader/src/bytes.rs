//! Numbers and texts of a record. Nothing is read behind its end.

/// The part of a record that was not read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// As many numbers as are told.
    pub(crate) fn u64s(&mut self, count: u64) -> Option<U64s<'a>> {
        let bytes = usize::try_from(count).ok()?.checked_mul(8)?;
        Some(U64s(self.take(bytes)?))
    }

    pub(crate) fn skip_u64s(&mut self, count: u64) -> Option<()> {
        self.u64s(count).map(drop)
    }

    /// A text that a zero byte ends. Bytes that are no text are replaced.
    pub(crate) fn text(self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        String::from_utf8_lossy(&self.0[..end]).into_owned()
    }
}

/// The number that a slice begins with.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Bytes(bytes.get(at..)?).u64()
}

/// Numbers one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct U64s<'a>(&'a [u8]);

impl<'a> U64s<'a> {
    pub(crate) fn iter(self) -> impl Iterator<Item = u64> + 'a {
        self.0.as_chunks().0.iter().map(|chunk| u64::from_le_bytes(*chunk))
    }
}

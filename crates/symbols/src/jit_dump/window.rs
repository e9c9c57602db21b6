//! The part of a file that is being read: a file is read once, forward, in large pieces.

use std::io;

/// Bytes that are read at once.
const CHUNK: usize = 1 << 18;
/// Bytes that can be asked for at once.
pub(super) const LARGEST: u64 = 16 << 20;

/// A piece of a file in memory.
pub(super) struct Window<'a> {
    read_at: &'a mut dyn FnMut(&mut [u8], u64) -> io::Result<usize>,
    size: u64,
    /// Bytes that may still be read.
    budget: &'a mut u64,
    bytes: Vec<u8>,
    begin: u64,
    is_spent: bool,
}

impl<'a> Window<'a> {
    /// `size`: of the file; nothing is read behind it.
    pub(super) fn new(
        size: u64,
        budget: &'a mut u64,
        read_at: &'a mut dyn FnMut(&mut [u8], u64) -> io::Result<usize>,
    ) -> Self {
        Self { read_at, size, budget, bytes: Vec::new(), begin: 0, is_spent: false }
    }

    /// Bytes of the file. `None`: the file ends before them, they are too many, they cannot be read, or no more may be read.
    pub(super) fn bytes(&mut self, at: u64, length: u64) -> Option<&[u8]> {
        let end = at.checked_add(length).filter(|end| *end <= self.size)?;
        if length > LARGEST {
            return None;
        }
        if at < self.begin || end > self.begin + self.bytes.len() as u64 {
            self.fill(at, length as usize)?;
        }
        let from = usize::try_from(at - self.begin).ok()?;
        self.bytes.get(from..from + length as usize)
    }

    /// Whether no more may be read.
    pub(super) fn is_spent(&self) -> bool {
        self.is_spent
    }

    fn fill(&mut self, at: u64, length: usize) -> Option<()> {
        let want = (length.max(CHUNK) as u64).min(self.size - at).min(*self.budget) as usize;
        self.is_spent |= want < length;
        self.begin = at;
        self.bytes.resize(want, 0);
        let mut filled = 0;
        while filled < want {
            match (self.read_at)(&mut self.bytes[filled..], at + filled as u64) {
                Ok(0) | Err(_) => break,
                Ok(count) => filled += count.min(want - filled),
            }
        }
        self.bytes.truncate(filled);
        *self.budget -= filled as u64;
        (filled >= length).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_once_and_no_more_than_allowed() {
        let file: Vec<u8> = (0..=255).cycle().take(3 * CHUNK).collect();
        let (mut reads, mut budget) = (0, 2 * CHUNK as u64);
        let mut read_at = |buffer: &mut [u8], at: u64| {
            reads += 1;
            let count = buffer.len().min(100_000);
            buffer[..count].copy_from_slice(&file[at as usize..][..count]);
            Ok(count)
        };
        let mut window = Window::new(file.len() as u64, &mut budget, &mut read_at);
        for at in 0..CHUNK as u64 {
            assert_eq!(window.bytes(at, 1), Some(&[at as u8][..]));
        }
        assert_eq!(window.bytes(2 * CHUNK as u64, 2), Some(&[0, 1][..]));
        assert_eq!(window.bytes(file.len() as u64, 1), None);
        assert_eq!(window.bytes(u64::MAX, 2), None);
        assert!(!window.is_spent());
        assert_eq!(window.bytes(CHUNK as u64, 1), None);
        assert!(window.is_spent());
        assert_eq!((reads, budget), (6, 0));
    }
}

//! The recorded memory of a thread.

/// Recorded pieces of memory: the stack, and where there are more than one, all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    pub(crate) segments: Vec<(u64, Vec<u8>)>,
}

impl Stack {
    /// The bytes from an address on. Nothing else is readable.
    #[must_use]
    pub fn new(base: u64, bytes: Vec<u8>) -> Self {
        Self { segments: vec![(base, bytes)] }
    }

    /// Words from an address on.
    #[must_use]
    pub fn of_words(base: u64, words: &[u64]) -> Self {
        Self::new(base, words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    /// This and one more piece of memory.
    #[must_use]
    pub fn and(mut self, base: u64, bytes: Vec<u8>) -> Self {
        self.segments.push((base, bytes));
        self
    }

    /// The word at an address, if all of it was recorded.
    #[must_use]
    pub fn word(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|(base, bytes)| {
            let at = usize::try_from(address.checked_sub(*base)?).ok()?;
            Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
        })
    }

    /// Overwrites a word; false where it was not recorded.
    pub fn set_word(&mut self, address: u64, word: u64) -> bool {
        self.segments.iter_mut().any(|(base, bytes)| {
            let at = address.checked_sub(*base).and_then(|at| usize::try_from(at).ok());
            let room = at.and_then(|at| bytes.get_mut(at..)).and_then(|rest| rest.first_chunk_mut());
            room.map(|room| *room = word.to_le_bytes()).is_some()
        })
    }
}

//! Names and paths, each kept once.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::limits::{MAX_TEXT, MAX_TEXTS};

/// A name or a path of a [`crate::Reader`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TextId(pub(crate) u32);

impl TextId {
    /// Its number. They count from 0 on.
    #[must_use]
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

/// All texts, up to a limit of bytes. Texts beyond the limit are dropped.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    all: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, TextId>,
    bytes: usize,
}

impl Texts {
    /// The number of a text; the beginning of one that is too long.
    pub fn enter(&mut self, bytes: &[u8]) -> Option<TextId> {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_TEXT)]);
        if let Some(id) = self.ids.get(&*text) {
            return Some(*id);
        }
        if self.is_full() {
            return None;
        }
        let id = TextId(u32::try_from(self.all.len()).ok()?);
        let text: Arc<str> = text.into();
        self.bytes += text.len() + 64;
        self.all.push(Arc::clone(&text));
        self.ids.insert(text, id);
        Some(id)
    }

    pub fn get(&self, id: TextId) -> Option<&str> {
        self.all.get(id.number()).map(|text| &**text)
    }

    pub fn shared(&self, id: TextId) -> Option<Arc<str>> {
        self.all.get(id.number()).cloned()
    }

    pub fn is_full(&self) -> bool {
        self.bytes >= MAX_TEXTS
    }

    /// About the bytes of all.
    pub fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

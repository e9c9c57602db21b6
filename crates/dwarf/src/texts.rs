//! Names and paths, each kept once.

use std::borrow::Cow;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::limits::{MAX_NAME, MAX_TEXTS};
use crate::saved::Saved;

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
    /// Those of an earlier reader have the first numbers.
    saved: Option<Saved>,
    all: Vec<Arc<str>>,
    /// By content. Those of an earlier reader are here when the first other one is.
    ids: HashTable<TextId>,
    hasher: DefaultHashBuilder,
    bytes: usize,
}

impl Texts {
    /// Those of an earlier reader.
    pub fn restore(saved: Saved) -> Self {
        let bytes = saved.text_bytes() + 64 * saved.texts();
        Self { saved: Some(saved), bytes, ..Self::default() }
    }

    /// The number of a text. `None` if it is too long, or if there are too many.
    pub fn enter(&mut self, bytes: &[u8]) -> Option<TextId> {
        if bytes.len() > MAX_NAME {
            return None;
        }
        // Nearly all are ASCII, which this check reads in words.
        let text = str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed);
        if self.ids.is_empty() {
            self.enter_saved();
        }
        let Self { saved, all, ids, hasher, .. } = self;
        let hash = hasher.hash_one(&*text);
        let is_same = |id: &TextId| text_of(saved.as_ref(), all, *id) == Some(&*text);
        if let Some(id) = ids.find(hash, is_same) {
            return Some(*id);
        }
        if self.bytes >= MAX_TEXTS {
            return None;
        }
        let Self { saved, all, ids, hasher, .. } = self;
        let number = saved_texts(saved.as_ref()) + all.len();
        let id = TextId(u32::try_from(number).ok()?);
        self.bytes += text.len() + 64;
        all.push(text.into());
        let hash_of = |id: &TextId| hasher.hash_one(text_of(saved.as_ref(), all, *id).unwrap_or_default());
        ids.insert_unique(hash, id, hash_of);
        Some(id)
    }

    fn enter_saved(&mut self) {
        let Self { saved, all, ids, hasher, .. } = self;
        let hash_of = |id: &TextId| hasher.hash_one(text_of(saved.as_ref(), all, *id).unwrap_or_default());
        ids.reserve(saved_texts(saved.as_ref()), hash_of);
        for number in 0..saved_texts(saved.as_ref()) {
            let id = TextId(number as u32);
            ids.insert_unique(hash_of(&id), id, hash_of);
        }
    }

    pub fn get(&self, id: TextId) -> Option<&str> {
        text_of(self.saved.as_ref(), &self.all, id)
    }

    pub fn shared(&self, id: TextId) -> Option<Arc<str>> {
        match id.number().checked_sub(saved_texts(self.saved.as_ref())) {
            Some(own) => self.all.get(own).cloned(),
            None => self.get(id).map(Arc::from),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        saved_texts(self.saved.as_ref()) + self.all.len()
    }

    pub fn is_full(&self) -> bool {
        self.bytes >= MAX_TEXTS
    }

    /// About the bytes of all.
    pub fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

fn saved_texts(saved: Option<&Saved>) -> usize {
    saved.map_or(0, Saved::texts)
}

fn text_of<'t>(saved: Option<&'t Saved>, all: &'t [Arc<str>], id: TextId) -> Option<&'t str> {
    match id.number().checked_sub(saved_texts(saved)) {
        Some(own) => all.get(own).map(|text| &**text),
        None => saved?.text(id.number()),
    }
}

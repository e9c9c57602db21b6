//! One table of a recording: each item once, up to a number of items, and within the memory that all tables share.

use profile::{Interner, Label, LabelValue};
use std::hash::Hash;

use crate::count::TaskStack;
use crate::frame::{CodeObject, Frame};
use crate::module::{CodeMapping, Module};
use crate::stack::Stack;
use crate::task::{ExecInstance, Task};

/// What the index of a table and the spare room of its growth add to each item, in bytes.
const OF_AN_ITEM: usize = 32;

/// The memory that the tables share.
#[derive(Debug)]
pub(super) struct Room {
    /// Bytes that they may still take, all together.
    left: usize,
    /// An item found no place.
    pub(super) was_short: bool,
}

impl Room {
    pub(super) fn of_bytes(bytes: usize) -> Self {
        Self { left: bytes, was_short: false }
    }

    /// Takes so many bytes, if there are as many.
    fn take(&mut self, bytes: usize) -> Option<()> {
        self.left = self.left.checked_sub(bytes)?;
        Some(())
    }
}

/// An item of a table.
pub(super) trait Item: Eq + Hash {
    /// Bytes that it holds beside its own.
    fn held_bytes(&self) -> usize;
}

/// Numbers items in the order in which they first came.
#[derive(Debug)]
pub(super) struct Table<T>(Interner<T>);

impl<T: Item> Table<T> {
    pub(super) fn with_limit(limit: u32) -> Self {
        Self(Interner::with_limit(limit))
    }

    /// The number of an item. A new item is added; `None` if there are too many, or no room is left.
    pub(super) fn number(&mut self, item: T, room: &mut Room) -> Option<u32> {
        if let Some(number) = self.0.find(&item) {
            return Some(number);
        }
        let bytes = size_of::<T>() + item.held_bytes() + OF_AN_ITEM;
        let number = room.take(bytes).and_then(|()| self.0.number(item));
        room.was_short |= number.is_none();
        number
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.0.get(number)
    }

    pub(super) fn find(&self, item: &T) -> Option<u32> {
        self.0.find(item)
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.0.iter()
    }

    pub(super) fn into_items(self) -> Vec<T> {
        self.0.into_items()
    }
}

impl Item for Module {
    fn held_bytes(&self) -> usize {
        self.path.len() + self.build_id.as_ref().map_or(0, |id| id.as_bytes().len())
    }
}

impl Item for CodeMapping {
    fn held_bytes(&self) -> usize {
        0
    }
}

impl Item for ExecInstance {
    fn held_bytes(&self) -> usize {
        self.labels.held_bytes()
    }
}

impl Item for CodeObject {
    fn held_bytes(&self) -> usize {
        self.name.len() + self.file.len() + size_of_val(self.lines.as_slice())
    }
}

impl Item for Frame {
    fn held_bytes(&self) -> usize {
        0
    }
}

impl Item for Stack {
    fn held_bytes(&self) -> usize {
        size_of_val(&*self.frames)
    }
}

impl Item for Vec<Label> {
    fn held_bytes(&self) -> usize {
        let texts = |label: &Label| match &label.value {
            LabelValue::Str(text) => label.key.len() + text.len(),
            LabelValue::Num(_) => label.key.len(),
        };
        size_of_val(self.as_slice()) + self.iter().map(texts).sum::<usize>()
    }
}

impl Item for Task {
    fn held_bytes(&self) -> usize {
        self.thread.as_ref().map_or(0, |thread| thread.name.len())
    }
}

impl Item for TaskStack {
    fn held_bytes(&self) -> usize {
        0
    }
}

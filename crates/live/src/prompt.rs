//! A line of text that is being typed.

use crate::keys::Key;

/// Characters of a line at most.
const MAX_LENGTH: usize = 200;

/// What the text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Search,
    Filter,
    Write,
}

/// A line that is being typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub(crate) purpose: Purpose,
    pub(crate) text: String,
}

/// What a key did to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    Goes,
    Done,
    Dropped,
}

impl Prompt {
    pub(crate) fn new(purpose: Purpose, text: &str) -> Self {
        Self { purpose, text: text.to_owned() }
    }

    pub(crate) fn press(&mut self, key: Key) -> Typed {
        match key {
            Key::Enter => return Typed::Done,
            Key::Esc | Key::Ctrl('g') => return Typed::Dropped,
            Key::Backspace if self.text.is_empty() => return Typed::Dropped,
            Key::Backspace => _ = self.text.pop(),
            Key::Ctrl('u' | 'w') => self.text.clear(),
            Key::Char(c) if self.text.chars().count() < MAX_LENGTH => self.text.push(c),
            _ => {}
        }
        Typed::Goes
    }

    /// What stands before the text.
    pub(crate) fn question(&self) -> &'static str {
        match self.purpose {
            Purpose::Search => "search: ",
            Purpose::Filter => "only stacks with: ",
            Purpose::Write => "write to (.pb.gz .folded .svg …): ",
        }
    }
}

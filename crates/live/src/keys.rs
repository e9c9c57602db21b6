//! Bytes of a terminal as keys.
//!
//! Guaranteed: any bytes give keys or nothing, and at most 32 bytes wait for their rest.

/// Bytes of a sequence that is not complete yet.
const MAX_WAITING: usize = 32;
const ESCAPE: u8 = 0x1b;

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A character.
    Char(char),
    /// A letter with Ctrl.
    Ctrl(char),
    /// Enter.
    Enter,
    /// Escape.
    Esc,
    /// Tabulator.
    Tab,
    /// The key that removes the character before the cursor.
    Backspace,
    /// Arrow.
    Up,
    /// Arrow.
    Down,
    /// Arrow.
    Left,
    /// Arrow.
    Right,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the begin.
    Home,
    /// To the end.
    End,
}

/// Reads keys from the bytes of a terminal.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    waiting: Vec<u8>,
}

/// What the begin of some bytes is.
enum Step {
    /// A key, or nothing that is known, of so many bytes.
    Whole(Option<Key>, usize),
    /// The begin of a sequence.
    Part,
}

impl Keys {
    /// The keys that these bytes complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.waiting.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let mut at = 0;
        while let Some(rest) = self.waiting.get(at..).filter(|rest| !rest.is_empty()) {
            match step(rest) {
                Step::Whole(key, length) => {
                    keys.extend(key);
                    at += length;
                }
                Step::Part if rest.len() > MAX_WAITING => at = self.waiting.len(),
                Step::Part => break,
            }
        }
        self.waiting.drain(..at);
        keys
    }

    /// Whether a sequence is not complete: the Escape key alone looks like the begin of one.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Nothing came for a while: what waits is the Escape key, or of no use.
    pub fn give_up(&mut self) -> Option<Key> {
        let waiting = std::mem::take(&mut self.waiting);
        (waiting == [ESCAPE]).then_some(Key::Esc)
    }
}

fn step(bytes: &[u8]) -> Step {
    match bytes {
        [ESCAPE, b'[', rest @ ..] => control_sequence(rest),
        [ESCAPE, b'O', last, ..] => Step::Whole(by_letter(*last), 3),
        [ESCAPE] | [ESCAPE, b'O'] => Step::Part,
        [ESCAPE, ..] => Step::Whole(Some(Key::Esc), 1),
        [b'\r' | b'\n', ..] => Step::Whole(Some(Key::Enter), 1),
        [b'\t', ..] => Step::Whole(Some(Key::Tab), 1),
        [0x7f | 0x08, ..] => Step::Whole(Some(Key::Backspace), 1),
        [control @ 1..=26, ..] => Step::Whole(Some(Key::Ctrl(char::from(b'a' + control - 1))), 1),
        [0..=31, ..] => Step::Whole(None, 1),
        _ => character(bytes),
    }
}

/// What follows `ESC [`: parameters, then one byte that says what it is.
fn control_sequence(rest: &[u8]) -> Step {
    let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else { return Step::Part };
    let key = match (rest[end], rest.first()) {
        (b'~', Some(b'5')) => Some(Key::PageUp),
        (b'~', Some(b'6')) => Some(Key::PageDown),
        (b'~', Some(b'1' | b'7')) => Some(Key::Home),
        (b'~', Some(b'4' | b'8')) => Some(Key::End),
        (b'~', _) => None,
        (letter, _) => by_letter(letter),
    };
    Step::Whole(key, end + 3)
}

fn by_letter(letter: u8) -> Option<Key> {
    match letter {
        b'A' => Some(Key::Up),
        b'B' => Some(Key::Down),
        b'C' => Some(Key::Right),
        b'D' => Some(Key::Left),
        b'H' => Some(Key::Home),
        b'F' => Some(Key::End),
        _ => None,
    }
}

/// A character in UTF-8. What is none gives nothing.
fn character(bytes: &[u8]) -> Step {
    let length = match bytes.first() {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => 1,
    };
    let Some(own) = bytes.get(..length) else { return Step::Part };
    let found = std::str::from_utf8(own).ok().and_then(|text| text.chars().next());
    let length = if found.is_some() { length } else { 1 };
    Step::Whole(found.filter(|c| !profile::is_hidden(*c)).map(Key::Char), length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        Keys::default().feed(bytes)
    }

    #[test]
    fn keys_of_terminals_are_known() {
        assert_eq!(
            keys(b"q/\r\t\x7f\x03"),
            [Key::Char('q'), Key::Char('/'), Key::Enter, Key::Tab, Key::Backspace, Key::Ctrl('c')]
        );
        assert_eq!(
            keys(b"\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[H\x1b[4~"),
            [Key::Up, Key::Down, Key::PageUp, Key::PageDown, Key::Home, Key::End]
        );
        assert_eq!(keys(b"\x1b[1;5C"), [Key::Right], "with Ctrl");
        assert_eq!(keys("é世".as_bytes()), [Key::Char('é'), Key::Char('世')]);
        assert_eq!(keys(b"\x1b[20~\xffx"), [Key::Char('x')], "what is not known is nothing");
    }

    #[test]
    fn a_sequence_may_come_in_pieces_and_escape_alone_is_a_key() {
        let mut keys = Keys::default();
        assert_eq!(keys.feed(b"\x1b"), []);
        assert!(keys.is_waiting());
        assert_eq!(keys.feed(b"["), []);
        assert_eq!(keys.feed(b"B"), [Key::Down]);
        assert_eq!(keys.feed(b"\x1b"), []);
        assert_eq!(keys.give_up(), Some(Key::Esc));
        assert_eq!(keys.feed(&[0xe4, 0xb8]), []);
        assert_eq!(keys.feed(&[0x96]), [Key::Char('世')]);
    }

    #[test]
    fn a_sequence_without_an_end_is_dropped() {
        let mut keys = Keys::default();
        assert_eq!(keys.feed(b"\x1b["), []);
        for _ in 0..100 {
            keys.feed(b"0000000000");
            assert!(keys.waiting.len() <= MAX_WAITING + 10, "{}", keys.waiting.len());
        }
    }
}

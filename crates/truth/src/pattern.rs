//! Patterns of call chains: what the stacks of a program may look like, written down frame by frame.
//!
//! A pattern is a sequence of frames, root first, separated by blanks:
//!
//! | written | matches |
//! |---|---|
//! | `spin`, `std::*` | a frame with this name; `*` stands for any text |
//! | `@libc` | any one frame of a module whose name begins so |
//! | `<plt>` | a linkage stub: named as one, or without a name |
//! | `<unnamed>` | a frame without a name |
//! | `<any>` | any one frame |
//! | `( a b )`, `( a / b )` | a group; alternatives |
//! | `x{3}`, `x{0,5}`, `(a b){4}` | repetitions |
//!
//! A stack matches a pattern when it follows it from the root on, as far as the stack goes: a program on its way into
//! a chain shows the chain's beginning. So a pattern fixes which frames follow which, and that the leaf of a chain
//! stands at the end of all of it. `chain // tail` lets the tail begin after any frame of the chain: signal handlers.

use crate::frame::{Frame, Stack};

/// A compiled pattern. See the module for the language.
#[derive(Clone, Debug)]
pub struct Pattern {
    chain: Automaton,
    tail: Option<Automaton>,
}

/// A pattern that cannot be read: the text, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError(String);

impl std::fmt::Display for PatternError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed pattern: {}", self.0)
    }
}

impl std::error::Error for PatternError {}

#[derive(Clone, Debug)]
enum Token {
    Name(String),
    Module(String),
    Stub,
    Unnamed,
    Any,
}

impl Token {
    fn read(text: &str) -> Self {
        match text {
            "<plt>" => Self::Stub,
            "<unnamed>" => Self::Unnamed,
            "<any>" => Self::Any,
            _ => match text.strip_prefix('@') {
                Some(module) => Self::Module(module.to_owned()),
                None => Self::Name(text.to_owned()),
            },
        }
    }

    fn matches(&self, frame: &Frame) -> bool {
        match self {
            Self::Name(glob) => frame.name.as_deref().is_some_and(|name| glob_matches(glob, name)),
            Self::Module(prefix) => frame.module_name().starts_with(prefix.as_str()),
            Self::Stub => frame.name.as_deref().is_none_or(|name| name.starts_with("plt:")),
            Self::Unnamed => frame.name.is_none(),
            Self::Any => true,
        }
    }
}

fn glob_matches(glob: &str, text: &str) -> bool {
    match glob.split_once('*') {
        None => glob == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            (0..=text.len()).any(|at| text.is_char_boundary(at) && glob_matches(rest, &text[at..]))
        }),
    }
}

/// Positions in a pattern; each is left by one token, or freely to other positions.
#[derive(Clone, Debug, Default)]
struct Automaton {
    tokens: Vec<Option<(Token, usize)>>,
    free: Vec<Vec<usize>>,
}

impl Automaton {
    fn position(&mut self) -> usize {
        self.tokens.push(None);
        self.free.push(Vec::new());
        self.tokens.len() - 1
    }

    fn enter(&self, set: &mut [bool], position: usize) {
        let mut open = vec![position];
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut set[at], true) {
                open.extend(&self.free[at]);
            }
        }
    }

    fn step(&self, from: &[bool], frame: &Frame) -> Vec<bool> {
        let mut to = vec![false; self.tokens.len()];
        for at in (0..from.len()).filter(|at| from[*at]) {
            if let Some((token, next)) = &self.tokens[at]
                && token.matches(frame)
            {
                self.enter(&mut to, *next);
            }
        }
        to
    }
}

struct Parser<'a> {
    words: Vec<&'a str>,
    at: usize,
}

/// Splits at blanks, around `(`, `)` and before `{…}`.
fn words(text: &str) -> Vec<&str> {
    let (mut words, mut start, mut in_name) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '(' | ')' | '{' | ' ' => {
                if in_name {
                    words.push(&text[start..at]);
                }
                in_name = c == '{';
                start = at;
                if c == '(' || c == ')' {
                    words.push(&text[at..=at]);
                }
            }
            '}' => {
                words.push(&text[start..=at]);
                in_name = false;
            }
            _ if !in_name => {
                in_name = true;
                start = at;
            }
            _ => {}
        }
    }
    if in_name {
        words.push(&text[start..]);
    }
    words
}

/// The tree of a pattern, before repetitions are written out.
enum Node {
    Token(Token),
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Repeat(Box<Node>, usize, usize),
}

impl Parser<'_> {
    fn peek(&self) -> Option<&str> {
        self.words.get(self.at).copied()
    }

    fn choice(&mut self) -> Result<Node, PatternError> {
        let mut branches = vec![self.sequence()?];
        while self.peek() == Some("/") {
            self.at += 1;
            branches.push(self.sequence()?);
        }
        Ok(Node::Choice(branches))
    }

    fn sequence(&mut self) -> Result<Node, PatternError> {
        let mut nodes = Vec::new();
        while let Some(word) = self.words.get(self.at).copied() {
            let node = match word {
                ")" | "/" => break,
                "(" => {
                    self.at += 1;
                    let inner = self.choice()?;
                    if self.peek() != Some(")") {
                        return Err(PatternError("a parenthesis is not closed".into()));
                    }
                    inner
                }
                word if word.starts_with('{') => return Err(PatternError(format!("nothing before {word}"))),
                word => Node::Token(Token::read(word)),
            };
            self.at += 1;
            nodes.push(match self.peek() {
                Some(times) if times.starts_with('{') => {
                    let (least, most) = repetition(times)?;
                    self.at += 1;
                    Node::Repeat(Box::new(node), least, most)
                }
                _ => node,
            });
        }
        Ok(Node::Sequence(nodes))
    }
}

fn repetition(word: &str) -> Result<(usize, usize), PatternError> {
    let error = || PatternError(format!("{word} is not {{n}} or {{n,m}}"));
    let inner = word.strip_prefix('{').and_then(|w| w.strip_suffix('}')).ok_or_else(error)?;
    let (least, most) = inner.split_once(',').unwrap_or((inner, inner));
    let (least, most) = (least.parse().map_err(|_| error())?, most.parse().map_err(|_| error())?);
    if least <= most && most <= 1000 { Ok((least, most)) } else { Err(error()) }
}

impl Automaton {
    fn read(text: &str) -> Result<Self, PatternError> {
        let mut parser = Parser { words: words(text), at: 0 };
        let node = parser.choice()?;
        if parser.at != parser.words.len() {
            return Err(PatternError(format!("`{text}`: a parenthesis too many")));
        }
        let mut automaton = Self::default();
        let start = automaton.position();
        automaton.lay(&node, start);
        Ok(automaton)
    }

    /// Lays a node from a position on; gives the position after it.
    fn lay(&mut self, node: &Node, from: usize) -> usize {
        match node {
            Node::Token(token) => {
                let (here, to) = (self.position(), self.position());
                self.free[from].push(here);
                self.tokens[here] = Some((token.clone(), to));
                to
            }
            Node::Sequence(nodes) => nodes.iter().fold(from, |at, node| self.lay(node, at)),
            Node::Choice(nodes) => {
                let ends: Vec<usize> = nodes.iter().map(|node| self.lay(node, from)).collect();
                let to = self.position();
                for end in ends {
                    self.free[end].push(to);
                }
                to
            }
            Node::Repeat(node, least, most) => {
                let mut at = from;
                let to = self.position();
                for done in 0..*most {
                    if done >= *least {
                        self.free[at].push(to);
                    }
                    at = self.lay(node, at);
                }
                self.free[at].push(to);
                to
            }
        }
    }
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// If the text does not follow the language of this module.
    pub fn read(text: &str) -> Result<Self, PatternError> {
        let (chain, tail) = match text.split_once(" // ") {
            Some((chain, tail)) => (chain, Some(Automaton::read(tail)?)),
            None => (text, None),
        };
        Ok(Self { chain: Automaton::read(chain)?, tail })
    }

    /// Whether the whole stack follows the pattern from the root on.
    #[must_use]
    pub fn matches(&self, stack: &Stack) -> bool {
        self.matched(&stack.frames) == stack.frames.len() && !stack.frames.is_empty()
    }

    /// How many frames, from the root on, follow the pattern.
    #[must_use]
    pub fn matched(&self, frames: &[Frame]) -> usize {
        let mut chain = vec![false; self.chain.tokens.len()];
        self.chain.enter(&mut chain, 0);
        let mut tail = vec![false; self.tail.as_ref().map_or(0, |tail| tail.tokens.len())];
        for (done, frame) in frames.iter().enumerate() {
            if let Some(automaton) = &self.tail {
                if done > 0 && chain.contains(&true) {
                    automaton.enter(&mut tail, 0);
                }
                tail = automaton.step(&tail, frame);
            }
            chain = self.chain.step(&chain, frame);
            if !chain.contains(&true) && !tail.contains(&true) {
                return done;
            }
        }
        frames.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(text: &str) -> Stack {
        let frames = text
            .split_whitespace()
            .map(|word| {
                let (name, module) = word.split_once('@').unwrap_or((word, "/bin/prog"));
                let name = (!name.is_empty()).then(|| name.to_owned());
                Frame { name, module: module.to_owned(), svma: 0 }
            })
            .collect();
        Stack { frames, count: 1, ..Stack::default() }
    }

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::read(pattern).unwrap().matches(&stack(text))
    }

    #[test]
    fn a_stack_follows_its_chain_as_far_as_it_goes() {
        let chain = "_start @libc{2} main (a b){3} spin";
        let root = "_start x@/lib/libc.so.6 @/lib/libc.so.6 main ";
        for right in ["", "a", "a b", "a b a b a b", "a b a b a b spin"] {
            assert!(matches(chain, &format!("{root}{right}")), "{right}");
        }
        for wrong in ["spin", "a a", "b", "a b a b spin", "a b a b a b a", "a b a b a b spin spin"] {
            assert!(!matches(chain, &format!("{root}{wrong}")), "{wrong}");
        }
        assert!(!matches(chain, "main a b"), "no root");
        assert!(!matches(chain, ""), "no frame at all");
    }

    #[test]
    fn repetitions_have_bounds() {
        assert!(matches("a{1,2} b", "a b") && matches("a{1,2} b", "a a b"));
        assert!(!matches("a{1,2} b", "b") && !matches("a{1,2} b", "a a a b"));
        assert!(matches("a (x{0,1} y){0,1} z", "a z") && matches("a (x{0,1} y){0,1} z", "a x y z"));
    }

    #[test]
    fn alternatives_and_globs() {
        assert!(matches("main (one / two std::*) end", "main two std::rt::x end"));
        assert!(!matches("main (one / two std::*) end", "main one std::rt end"));
        assert!(matches("main <plt>", "main plt:f") && matches("main <plt>", "main @/bin/prog"));
        assert!(!matches("main <plt>", "main f"));
    }

    #[test]
    fn a_tail_may_begin_after_any_frame() {
        let pattern = "main work spin // @libc on_signal handle spin";
        for right in ["main work", "main @libc on_signal", "main work spin @libc on_signal handle spin"] {
            assert!(matches(pattern, right), "{right}");
        }
        for wrong in
            ["@libc on_signal", "main on_signal", "main work @libc handle", "main @libc on_signal spin"]
        {
            assert!(!matches(pattern, wrong), "{wrong}");
        }
    }

    #[test]
    fn malformed_patterns_are_refused() {
        for wrong in ["(a", "a)", "{2}", "a{x}", "a{3,2}", "a{1,100000}"] {
            assert!(Pattern::read(wrong).is_err(), "{wrong}");
        }
    }
}

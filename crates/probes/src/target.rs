//! The text of a target: `SYMBOL`, `SYMBOL+0xOFFSET`, or `0xOFFSET` in the file.

use std::fmt;

use crate::error::ProbeError;

/// Longer names are refused.
const MAX_NAME: usize = 4096;

/// What a uprobe is set on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A function, by its name in the symbol table or as in the source (`module::function`), and bytes behind its entry.
    Symbol {
        /// The name.
        name: String,
        /// Bytes behind the entry; 0 means the function as such.
        offset: u64,
    },
    /// An offset in the file.
    Offset(u64),
}

impl Target {
    /// Reads the text.
    ///
    /// # Errors
    /// [`ProbeError::BadTarget`].
    pub fn parse(text: &str) -> Result<Self, ProbeError> {
        let refuse =
            |reason: &str| ProbeError::BadTarget { text: text.to_owned(), reason: reason.to_owned() };
        if text.is_empty() {
            return Err(refuse("it is empty"));
        }
        if text.len() > MAX_NAME || text.contains('\0') {
            return Err(refuse("no symbol has such a name"));
        }
        if text.starts_with("0x") || text.starts_with("0X") {
            return number(text).map(Self::Offset).ok_or_else(|| refuse("it is no hexadecimal number"));
        }
        // A name may contain a plus itself: `operator+`.
        if let Some((name, offset)) = text.rsplit_once('+')
            && offset.starts_with(|first: char| first.is_ascii_digit())
            && !name.is_empty()
        {
            let offset = number(offset).ok_or_else(|| refuse("what follows + is no number"))?;
            return Ok(Self::Symbol { name: name.to_owned(), offset });
        }
        Ok(Self::Symbol { name: text.to_owned(), offset: 0 })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Symbol { name, offset: 0 } => f.write_str(name),
            Self::Symbol { name, offset } => write!(f, "{name}+{offset:#x}"),
            Self::Offset(offset) => write!(f, "{offset:#x}"),
        }
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if digits.starts_with('+') => None,
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: &str, offset: u64) -> Target {
        Target::Symbol { name: name.to_owned(), offset }
    }

    #[test]
    fn the_three_forms_are_told_apart() {
        for (text, wanted) in [
            ("malloc", symbol("malloc", 0)),
            ("malloc+0x10", symbol("malloc", 16)),
            ("malloc+10", symbol("malloc", 10)),
            ("0x1f", Target::Offset(31)),
            ("a::operator+", symbol("a::operator+", 0)),
            ("a::operator++4", symbol("a::operator+", 4)),
            ("main.(*T).f", symbol("main.(*T).f", 0)),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!(target, wanted, "{text}");
            assert_eq!(Target::parse(&target.to_string()).unwrap(), wanted, "{text}");
        }
        for text in ["", "0x", "0xg", "0x+1", "0x11111111111111111", "f+0x", "f+1g", "a\0"] {
            assert!(matches!(Target::parse(text), Err(ProbeError::BadTarget { .. })), "{text}");
        }
    }
}

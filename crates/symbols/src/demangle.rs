//! Readable names: Rust without hash suffix, C++ with parameters.
//!
//! Guaranteed: bounded time and memory. A name that cannot be demangled stays as it is. A name that is too long is cut.

use std::fmt::{self, Write};

use cpp_demangle::{BorrowedSymbol, DemangleOptions, ParseOptions};

use crate::source_line::cut;

/// If the result is longer, the mangled name is kept.
const MAX_NAME: usize = 16 << 10;
/// Longer mangled names are not tried.
const MAX_MANGLED: usize = 64 << 10;
const MAX_DEPTH: u32 = 160;

struct Bounded<'o>(&'o mut String);

impl Write for Bounded<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_NAME {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Whether the name has one of the prefixes of the mangling schemes that [`demangle`] knows.
pub(crate) fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_R")
}

/// The name as in the source.
#[must_use]
pub fn demangle(name: &str) -> String {
    let mut room = String::new();
    let length = demangle_into(name, &mut room).len();
    room.truncate(length);
    room.shrink_to_fit();
    room
}

/// The same in memory that is used for one after the other.
pub(crate) fn demangle_into<'o>(name: &str, out: &'o mut String) -> &'o str {
    out.clear();
    if in_full(name, out).is_none() {
        out.clear();
        out.push_str(cut(name));
    }
    cut(out)
}

/// Appends the name as in the source. `None` if it stays as it is.
fn in_full(name: &str, out: &mut String) -> Option<()> {
    if !is_mangled(name) || name.len() > MAX_MANGLED {
        return None;
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return write!(Bounded(out), "{rust:#}").ok();
    }
    let options = ParseOptions::default().recursion_limit(MAX_DEPTH);
    let Ok((symbol, tail)) = BorrowedSymbol::with_tail_and_options(name.as_bytes(), &options) else {
        return unscoped_template(name, out);
    };
    let options = DemangleOptions::default().recursion_limit(MAX_DEPTH);
    match symbol.structured_demangle(&mut Bounded(out), &options) {
        Ok(()) if tail.is_empty() => Some(()),
        // Suffixes of compilers that the scheme does not cover: `.llvm.123`, `.cold`.
        Ok(()) if tail.starts_with(b".") => {
            out.push_str(&String::from_utf8_lossy(tail));
            Some(())
        }
        _ => unscoped_template(name, out),
    }
}

/// `NAME<...>` for a template function outside of classes, such as `std::swap`, if the demangler does not know its
/// arguments or its result.
fn unscoped_template(mangled: &str, out: &mut String) -> Option<()> {
    let rest = mangled.strip_prefix("_Z")?;
    let rest = rest.strip_prefix('L').unwrap_or(rest);
    let (scope, rest) = rest.strip_prefix("St").map_or(("", rest), |rest| ("std::", rest));
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = rest.get(..digits)?.parse().ok()?;
    let rest = &rest[digits..];
    let name = rest.get(..length)?;
    rest[length..].starts_with('I').then(|| {
        out.clear();
        [scope, name, "<...>"].iter().for_each(|part| out.push_str(part));
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source_line::MAX_TEXT;

    #[test]
    fn rust_without_hash_and_cpp_with_parameters() {
        for (mangled, name) in [
            ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"),
            ("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE.llvm.123", "core::fmt::Formatter::pad"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_ZN5space3fooEibc", "space::foo(int, bool, char)"),
            ("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back(int&&)"),
            (
                "_ZSt4swapIiENSt9enable_ifIXsrSt6__and_IJSt6__not_ISt15__is_tuple_likeIT_EEEE5valueEvE4typeERS4_SE_",
                "std::swap<...>",
            ),
            ("_Z9999999999999999999I", "_Z9999999999999999999I"),
            ("_Z9aI", "_Z9aI"),
            ("_Z", "_Z"),
            ("_ZN", "_ZN"),
            ("main", "main"),
            ("runtime.mallocgc", "runtime.mallocgc"),
        ] {
            assert_eq!(demangle(mangled), name);
        }
        assert!(demangle("_ZL4funci.part.0").starts_with("func(int)"));
    }

    #[test]
    fn substitutions_that_explode_stay_mangled() {
        let mut bomb = String::from("_Z1fI1aE");
        for i in 0..40 {
            let id = std::char::from_digit(i % 36, 36).unwrap().to_ascii_uppercase();
            bomb.push_str(&format!("N1aIS{id}_S{id}_EE"));
        }
        assert!(demangle(&bomb).len() <= MAX_TEXT);
        let deep = format!("_Z1f{}i", "P".repeat(60_000));
        assert_eq!(demangle(&deep), deep[..MAX_TEXT]);
        let long = format!("_ZN{}E", "1a".repeat(20_000));
        assert_eq!(demangle(&long), long[..MAX_TEXT]);
    }
}

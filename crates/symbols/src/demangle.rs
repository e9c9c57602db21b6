//! Readable names: Rust without hash suffix, C++ and D with parameters.
//!
//! Guaranteed: bounded time and memory. A name that cannot be demangled stays as it is. A hash of the whole name replaces omitted
//! parts, so different functions have different names.

use std::fmt::{self, Write};

use cpp_demangle::{BorrowedSymbol, DemangleOptions, ParseOptions};

use crate::dlang;
use crate::source_line::{MAX_TEXT, mark, shortened};

/// If the result is longer, the mangled name is kept.
const MAX_NAME: usize = 16 << 10;
/// Longer mangled names are not tried.
const MAX_MANGLED: usize = 64 << 10;
const MAX_DEPTH: u32 = 160;
/// In place of arguments of a template.
const LEFT_OUT: &str = "<...";

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

/// How much of a name could be made readable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readable {
    Whole,
    /// Without the arguments of the template.
    InPart,
}

/// Whether the name has one of the prefixes of the mangling schemes that [`demangle`] knows.
pub(crate) fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_R") || dlang::is_mangled(name)
}

/// Whether a name is as in the source, or can be made so without losing a part.
pub(crate) fn is_readable(name: &str) -> bool {
    !is_mangled(name) || in_full(name, &mut String::new()) == Some(Readable::Whole)
}

/// Whether a readable name was made of all of a mangled one.
pub(crate) fn is_whole(mangled: &str, readable: &str) -> bool {
    mangled != readable && !readable.contains(LEFT_OUT)
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
        out.push_str(&shortened(name));
    }
    if out.len() > MAX_TEXT {
        *out = shortened(out).into_owned();
    }
    out
}

/// Appends the name as in the source. `None` if it stays as it is.
fn in_full(name: &str, out: &mut String) -> Option<Readable> {
    if !is_mangled(name) || name.len() > MAX_MANGLED {
        return None;
    }
    if dlang::is_mangled(name) {
        out.push_str(&dlang::demangle(name, MAX_NAME)?);
        return Some(Readable::Whole);
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return write!(Bounded(out), "{rust:#}").ok().map(|()| Readable::Whole);
    }
    let options = ParseOptions::default().recursion_limit(MAX_DEPTH);
    let Ok((symbol, tail)) = BorrowedSymbol::with_tail_and_options(name.as_bytes(), &options) else {
        return unscoped_template(name, out);
    };
    let options = DemangleOptions::default().recursion_limit(MAX_DEPTH);
    match symbol.structured_demangle(&mut Bounded(out), &options) {
        Ok(()) if tail.is_empty() => Some(Readable::Whole),
        // Suffixes of compilers that the scheme does not cover: `.llvm.123`, `.cold`.
        Ok(()) if tail.starts_with(b".") => {
            out.push_str(&String::from_utf8_lossy(tail));
            Some(Readable::Whole)
        }
        _ => unscoped_template(name, out),
    }
}

/// `NAME<...#HASH>` for a template function outside of classes, such as `std::swap`, if the demangler does not know its arguments or its
/// result. The hash of the mangled name distinguishes instances.
fn unscoped_template(mangled: &str, out: &mut String) -> Option<Readable> {
    let rest = mangled.strip_prefix("_Z")?;
    let rest = rest.strip_prefix('L').unwrap_or(rest);
    let (scope, rest) = rest.strip_prefix("St").map_or(("", rest), |rest| ("std::", rest));
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = rest.get(..digits)?.parse().ok()?;
    let rest = &rest[digits..];
    let name = rest.get(..length)?;
    rest[length..].starts_with('I').then(|| {
        out.clear();
        [scope, name, LEFT_OUT, &mark(mangled.as_bytes()), ">"].iter().for_each(|part| out.push_str(part));
        Readable::InPart
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash;

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
                "std::swap<...#HASH>",
            ),
            ("_Z9999999999999999999I", "_Z9999999999999999999I"),
            ("_Z9aI", "_Z9aI"),
            ("_Z", "_Z"),
            ("_ZN", "_ZN"),
            ("_D4acme3fooFiZv", "acme.foo(int)"),
            ("_Dmain", "_Dmain"),
            ("main", "main"),
            ("runtime.mallocgc", "runtime.mallocgc"),
        ] {
            assert_eq!(
                demangle(mangled),
                name.replace("HASH", &format!("{:016x}", hash(mangled.as_bytes())))
            );
        }
        for (name, readable) in [
            ("main", true),
            ("_ZN5space3fooEibc", true),
            ("_D4acme3fooFiZv", true),
            ("_ZN", false),
            ("_Z9aI", false),
        ] {
            assert_eq!(is_readable(name), readable, "{name}");
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
        assert_eq!(demangle(&deep), shortened(&deep));
        let long = format!("_ZN{}E", "1a".repeat(20_000));
        assert_eq!(demangle(&long), shortened(&long));
    }

    #[test]
    fn instances_of_a_constrained_template_stay_different() {
        // `template <std::integral T> T hot(T)`, as clang 19 writes it.
        let [one, other] = ["j", "m"].map(|of| format!("_Z3hotITkSt8integral{of}ET_S0_"));
        assert_ne!(demangle(&one), demangle(&other));
        let [one, other] = ["j", "m"].map(|of| format!("_Z3hotI{of}Qsr3stdE8integralIT_EES0_S0_"));
        assert_ne!(demangle(&one), demangle(&other));
        // Names that differ behind their first 4,096 bytes, or are longer than 64 kB.
        for length in [3_000, 40_000] {
            let [one, other] = ["1b", "1c"].map(|end| format!("_ZN{}{end}Ev", "1a".repeat(length)));
            assert_ne!(demangle(&one), demangle(&other));
            assert!(demangle(&one).len() <= MAX_TEXT);
        }
    }
}

//! Readable names of D: qualified names, arguments of templates, and types of parameters, as `c++filt --format=dlang` writes them.
//!
//! Guaranteed: a name is understood up to its last byte or stays as it is. Work and memory are bounded: back references can double a
//! type each time.

use std::fmt::Write as _;

/// Nested types, templates and names.
const MAX_DEPTH: u32 = 64;
/// Types and names of one symbol.
const MAX_STEPS: u32 = 1 << 14;

/// Whether a name has the form of the scheme. `_Dmain` and names of C do not.
pub(crate) fn is_mangled(name: &str) -> bool {
    name.strip_prefix("_D").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// The name as in the source. `None` if it is not understood, or longer than `max` bytes.
pub(crate) fn demangle(name: &str, max: usize) -> Option<String> {
    let mut parser =
        Parser { name: name.as_bytes(), at: 0, depth: 0, steps: 0, last_reference: usize::MAX, max };
    let mut out = String::new();
    parser.symbol(&mut out)?;
    (parser.at == name.len()).then_some(out)
}

struct Parser<'n> {
    name: &'n [u8],
    at: usize,
    depth: u32,
    steps: u32,
    /// Where the back reference is that is being followed. Those in it must be before it.
    last_reference: usize,
    max: usize,
}

impl Parser<'_> {
    fn peek(&self) -> u8 {
        self.name.get(self.at).copied().unwrap_or(0)
    }

    fn next(&mut self) -> u8 {
        let byte = self.peek();
        self.at += 1;
        byte
    }

    fn takes(&mut self, text: &[u8]) -> bool {
        let is_here = self.name.get(self.at..).is_some_and(|rest| rest.starts_with(text));
        self.at += if is_here { text.len() } else { 0 };
        is_here
    }

    /// One level deeper, within the limits.
    fn nested(
        &mut self,
        out: &mut String,
        parse: impl FnOnce(&mut Self, &mut String) -> Option<()>,
    ) -> Option<()> {
        self.steps += 1;
        if self.depth >= MAX_DEPTH || self.steps > MAX_STEPS || out.len() > self.max {
            return None;
        }
        self.depth += 1;
        let parsed = parse(self, out);
        self.depth -= 1;
        parsed.filter(|()| out.len() <= self.max)
    }

    fn number(&mut self) -> Option<usize> {
        let digits = self.name.get(self.at..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = std::str::from_utf8(self.name.get(self.at..self.at + digits)?).ok()?;
        self.at += digits;
        text.parse().ok()
    }

    /// `_D`, a qualified name, and its type, which is not shown; `Z` in place of the type of what the compiler made.
    fn symbol(&mut self, out: &mut String) -> Option<()> {
        if !self.takes(b"_D") {
            return None;
        }
        self.nested(out, |this, out| this.qualified(out, true))?;
        if self.takes(b"Z") {
            return Some(());
        }
        self.type_of(&mut String::new())
    }

    /// Names with dots between them. Functions have the types of their parameters.
    fn qualified(&mut self, out: &mut String, with_modifiers: bool) -> Option<()> {
        let mut is_first = true;
        loop {
            if self.peek() == b'0' {
                while self.peek() == b'0' {
                    self.at += 1;
                }
            } else {
                if !std::mem::take(&mut is_first) {
                    out.push('.');
                }
                self.identifier(out)?;
                self.parameters_of_name(out, with_modifiers);
            }
            if !self.is_at_name() {
                return (!is_first).then_some(());
            }
        }
    }

    /// The parameters behind the name of a function. Takes nothing if the bytes are the type of a variable.
    fn parameters_of_name(&mut self, out: &mut String, with_modifiers: bool) {
        if self.peek() != b'M' && !is_convention(self.peek()) {
            return;
        }
        let (at, length) = (self.at, out.len());
        let mut modifiers = String::new();
        if self.takes(b"M") {
            self.modifiers(&mut modifiers);
        }
        let parsed = self.function(out, &mut String::new());
        if parsed.is_none() || self.at >= self.name.len() {
            self.at = at;
            out.truncate(length);
        } else if with_modifiers {
            out.push_str(&modifiers);
        }
    }

    fn is_at_name(&self) -> bool {
        match self.peek() {
            b'0'..=b'9' => true,
            b'_' => matches!(self.name.get(self.at + 1..), Some([b'_', b'T' | b'U', ..])),
            b'Q' => {
                let target = self.reference_at(self.at).map(|(target, _)| target);
                target.and_then(|target| self.name.get(target)).is_some_and(u8::is_ascii_digit)
            }
            _ => false,
        }
    }

    /// Where the back reference at a position leads to, and the position behind it.
    fn reference_at(&self, at: usize) -> Option<(usize, usize)> {
        let mut distance = 0usize;
        let digits = self.name.get(at + 1..)?;
        for (index, byte) in digits.iter().enumerate() {
            distance = distance.checked_mul(26)?;
            match byte {
                b'A'..=b'Z' => distance = distance.checked_add(usize::from(byte - b'A'))?,
                b'a'..=b'z' => {
                    distance = distance.checked_add(usize::from(byte - b'a'))?;
                    let target = at.checked_sub(distance).filter(|_| distance > 0)?;
                    return Some((target, at + 2 + index));
                }
                _ => return None,
            }
        }
        None
    }

    fn identifier(&mut self, out: &mut String) -> Option<()> {
        if self.peek() == b'Q' {
            let (target, behind) = self.reference_at(self.at)?;
            self.at = target;
            let length = self.number()?;
            self.plain_name(length, out)?;
            self.at = behind;
            return Some(());
        }
        if self.peek() == b'_' {
            return self.template(out);
        }
        let length = self.number().filter(|length| *length > 0)?;
        let name = self.name.get(self.at..self.at.checked_add(length)?)?;
        if length >= 5 && (name.starts_with(b"__T") || name.starts_with(b"__U")) {
            let end = self.at + length;
            self.template(out)?;
            return (self.at == end).then_some(());
        }
        // A parent that makes equal names in one function different.
        if let Some(digits @ [_, ..]) = name.strip_prefix(b"__S")
            && digits.iter().all(u8::is_ascii_digit)
        {
            self.at += length;
            return self.nested(out, Self::identifier);
        }
        self.plain_name(length, out)
    }

    fn plain_name(&mut self, length: usize, out: &mut String) -> Option<()> {
        let name = self.name.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        let name = std::str::from_utf8(name).ok()?;
        if out.len() + name.len() > self.max {
            return None;
        }
        out.push_str(match name {
            "__ctor" => "this",
            "__dtor" => "~this",
            "__postblit" => "this(this)",
            name => name,
        });
        Some(())
    }

    /// `__T` or `__U`, the name, the arguments, and `Z`.
    fn template(&mut self, out: &mut String) -> Option<()> {
        if !self.takes(b"__T") && !self.takes(b"__U") || !self.is_at_name() || self.peek() == b'0' {
            return None;
        }
        self.nested(out, |this, out| {
            this.identifier(out)?;
            out.push_str("!(");
            let mut is_first = true;
            while !this.takes(b"Z") {
                if !std::mem::take(&mut is_first) {
                    out.push_str(", ");
                }
                this.takes(b"H");
                match this.next() {
                    b'S' if this.name.get(this.at..)?.starts_with(b"_D") => this.symbol(out)?,
                    b'S' => this.nested(out, |this, out| this.qualified(out, false))?,
                    b'T' => this.type_of(out)?,
                    b'V' => this.value_argument(out)?,
                    b'X' => {
                        let length = this.number()?;
                        let text = this.name.get(this.at..this.at.checked_add(length)?)?;
                        out.push_str(std::str::from_utf8(text).ok()?);
                        this.at += length;
                    }
                    _ => return None,
                }
            }
            out.push(')');
            Some(())
        })
    }

    /// The type of a value, which is not shown, and the value.
    fn value_argument(&mut self, out: &mut String) -> Option<()> {
        let kind = match self.peek() {
            b'Q' => *self.name.get(self.reference_at(self.at)?.0)?,
            kind => kind,
        };
        self.type_of(&mut String::new())?;
        self.value(kind, out)
    }

    fn value(&mut self, kind: u8, out: &mut String) -> Option<()> {
        match self.peek() {
            b'n' => {
                self.at += 1;
                out.push_str("null");
            }
            b'N' => {
                self.at += 1;
                out.push('-');
                self.integer(kind, out)?;
            }
            b'i' => {
                self.at += 1;
                self.integer(kind, out)?;
            }
            b'0'..=b'9' => self.integer(kind, out)?,
            b'a' | b'w' | b'd' => self.string(out)?,
            b'A' => {
                self.at += 1;
                let count = self.number()?;
                out.push('[');
                for index in 0..count {
                    if index > 0 {
                        out.push_str(", ");
                    }
                    self.nested(out, |this, out| this.value(0, out))?;
                }
                out.push(']');
            }
            _ => return None,
        }
        Some(())
    }

    fn integer(&mut self, kind: u8, out: &mut String) -> Option<()> {
        // Characters are written in several ways.
        if matches!(kind, b'a' | b'u' | b'w') {
            return None;
        }
        let number = self.number()?;
        match kind {
            b'b' => out.push_str(if number == 0 { "false" } else { "true" }),
            _ => write!(out, "{number}").ok()?,
        }
        out.push_str(match kind {
            b'h' | b't' | b'k' => "u",
            b'l' => "L",
            b'm' => "uL",
            _ => "",
        });
        Some(())
    }

    /// A text in hexadecimal digits: its kind, its length, `_`, the digits.
    fn string(&mut self, out: &mut String) -> Option<()> {
        let kind = self.next();
        let length = self.number()?;
        if !self.takes(b"_") {
            return None;
        }
        let digits = self.name.get(self.at..self.at.checked_add(length.checked_mul(2)?)?)?;
        out.push('"');
        for pair in digits.as_chunks::<2>().0 {
            let byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
            match byte {
                b' '..=b'~' => out.push(char::from(byte)),
                _ => write!(out, "\\x{byte:02x}").ok()?,
            }
        }
        out.push('"');
        if kind != b'a' {
            out.push(char::from(kind));
        }
        self.at += digits.len();
        Some(())
    }

    /// A calling convention, attributes and parameters.
    fn function(&mut self, out: &mut String, attributes: &mut String) -> Option<()> {
        if !is_convention(self.next()) {
            return None;
        }
        while let Some([b'N', kind @ (b'a'..=b'f' | b'i' | b'j' | b'l' | b'm')]) =
            self.name.get(self.at..).and_then(<[u8]>::first_chunk)
        {
            attributes.push_str(match kind {
                b'a' => "pure ",
                b'b' => "nothrow ",
                b'c' => "ref ",
                b'd' => "@property ",
                b'e' => "@trusted ",
                b'f' => "@safe ",
                b'i' => "@nogc ",
                b'j' => "return ",
                b'l' => "scope ",
                _ => "@live ",
            });
            self.at += 2;
        }
        out.push('(');
        self.nested(out, Self::parameters)?;
        out.push(')');
        Some(())
    }

    fn parameters(&mut self, out: &mut String) -> Option<()> {
        let mut is_first = true;
        loop {
            if self.takes(b"Z") {
                return Some(());
            }
            if self.takes(b"X") {
                out.push_str("...");
                return Some(());
            }
            let is_last = self.takes(b"Y");
            if !std::mem::take(&mut is_first) {
                out.push_str(", ");
            }
            if is_last {
                out.push_str("...");
                return Some(());
            }
            for (mark, word) in [
                (&b"M"[..], "scope "),
                (b"Nk", "return "),
                (b"I", "in "),
                (b"J", "out "),
                (b"K", "ref "),
                (b"L", "lazy "),
            ] {
                if self.takes(mark) {
                    out.push_str(word);
                }
            }
            self.type_of(out)?;
        }
    }

    /// The modifiers of `this` or of a delegate.
    fn modifiers(&mut self, out: &mut String) {
        for (mark, word) in
            [(&b"O"[..], " shared"), (b"x", " const"), (b"y", " immutable"), (b"Ng", " inout")]
        {
            if self.takes(mark) {
                out.push_str(word);
            }
        }
        // `inout` may be followed by `const`.
        if self.takes(b"x") {
            out.push_str(" const");
        }
    }

    fn type_of(&mut self, out: &mut String) -> Option<()> {
        self.nested(out, Self::any_type)
    }

    fn within(&mut self, before: &str, out: &mut String) -> Option<()> {
        out.push_str(before);
        self.type_of(out)?;
        out.push(')');
        Some(())
    }

    fn any_type(&mut self, out: &mut String) -> Option<()> {
        let kind = self.next();
        match kind {
            b'O' => return self.within("shared(", out),
            b'x' => return self.within("const(", out),
            b'y' => return self.within("immutable(", out),
            b'N' => match self.next() {
                b'g' => return self.within("inout(", out),
                b'h' => return self.within("__vector(", out),
                b'n' => out.push_str("typeof(*null)"),
                _ => return None,
            },
            b'A' => {
                self.type_of(out)?;
                out.push_str("[]");
            }
            b'G' => {
                let length = self.number()?;
                self.type_of(out)?;
                write!(out, "[{length}]").ok()?;
            }
            b'H' => {
                let mut key = String::new();
                self.type_of(&mut key)?;
                self.type_of(out)?;
                write!(out, "[{key}]").ok()?;
            }
            b'P' if !is_convention(self.peek()) => {
                self.type_of(out)?;
                out.push('*');
            }
            b'P' => self.function_type("function", "", out)?,
            _ if is_convention(kind) => {
                self.at -= 1;
                self.function_type("function", "", out)?;
            }
            b'D' => {
                let mut modifiers = String::new();
                self.modifiers(&mut modifiers);
                match self.peek() {
                    b'Q' => {
                        self.referenced(out, |this, out| this.function_type("delegate", &modifiers, out))?
                    }
                    _ => self.function_type("delegate", &modifiers, out)?,
                }
            }
            b'C' | b'S' | b'E' | b'T' => return self.qualified(out, false),
            b'B' => {
                let count = self.number()?;
                out.push_str("Tuple!(");
                for index in 0..count {
                    if index > 0 {
                        out.push_str(", ");
                    }
                    self.type_of(out)?;
                }
                out.push(')');
            }
            b'Q' => {
                self.at -= 1;
                return self.referenced(out, Self::any_type);
            }
            b'z' => out.push_str(match self.next() {
                b'i' => "cent",
                b'k' => "ucent",
                _ => return None,
            }),
            _ => out.push_str(basic(kind)?),
        }
        Some(())
    }

    /// The type of a function, with its result first.
    fn function_type(&mut self, kind: &str, modifiers: &str, out: &mut String) -> Option<()> {
        out.push_str(match self.peek() {
            b'U' => "extern(C) ",
            b'W' => "extern(Windows) ",
            b'V' => "extern(Pascal) ",
            b'R' => "extern(C++) ",
            b'Y' => "extern(Objective-C) ",
            _ => "",
        });
        let (mut parameters, mut attributes) = (String::new(), String::new());
        self.function(&mut parameters, &mut attributes)?;
        self.type_of(out)?;
        for part in [&*parameters, " ", &attributes, kind, modifiers] {
            out.push_str(part);
        }
        Some(())
    }

    /// The type that a back reference leads to.
    fn referenced(
        &mut self,
        out: &mut String,
        parse: impl FnOnce(&mut Self, &mut String) -> Option<()>,
    ) -> Option<()> {
        let at = self.at;
        if at >= self.last_reference {
            return None;
        }
        let (target, behind) = self.reference_at(at)?;
        let before = std::mem::replace(&mut self.last_reference, at);
        self.at = target;
        self.nested(out, parse)?;
        self.last_reference = before;
        self.at = behind;
        Some(())
    }
}

/// Whether a function type begins with this letter: the calling conventions of D, C, Windows, Pascal, C++ and Objective-C.
fn is_convention(letter: u8) -> bool {
    matches!(letter, b'F' | b'U' | b'W' | b'V' | b'R' | b'Y')
}

fn basic(kind: u8) -> Option<&'static str> {
    Some(match kind {
        b'n' => "typeof(null)",
        b'v' => "void",
        b'g' => "byte",
        b'h' => "ubyte",
        b's' => "short",
        b't' => "ushort",
        b'i' => "int",
        b'k' => "uint",
        b'l' => "long",
        b'm' => "ulong",
        b'f' => "float",
        b'd' => "double",
        b'e' => "real",
        b'o' => "ifloat",
        b'p' => "idouble",
        b'j' => "ireal",
        b'q' => "cfloat",
        b'r' => "cdouble",
        b'c' => "creal",
        b'b' => "bool",
        b'a' => "char",
        b'u' => "wchar",
        b'w' => "dchar",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Beside `c++filt --format=dlang`.
    #[test]
    fn names_are_those_of_cppfilt() {
        for (mangled, name) in [
            ("_D4acme3fooFiZv", "acme.foo(int)"),
            ("_D4acme3fooFdZv", "acme.foo(double)"),
            ("_D4acme5Class6__ctorMFAyaZC4acme5Class", "acme.Class.this(immutable(char)[])"),
            ("_D4acme6Holder3getMxFNaNbNiNfZi", "acme.Holder.get() const"),
            ("_D4acme__T3maxTiTlZQjFilZl", "acme.max!(int, long).max(int, long)"),
            ("_D4acme__T4fillVki5ZQkFKG3iZv", "acme.fill!(5u).fill(ref int[3])"),
            (
                "_D4acme3useFPFiZvDFdZdHAyaiZv",
                "acme.use(void(int) function, double(double) delegate, int[immutable(char)[]])",
            ),
            (
                "_D3std5stdio__T7writelnTAyaZQnFNfQjZv",
                "std.stdio.writeln!(immutable(char)[]).writeln(immutable(char)[])",
            ),
            ("_D4acme5valuei", "acme.value"),
            ("_D4acme4main5innerMFZv", "acme.main.inner()"),
        ] {
            assert_eq!(demangle(mangled, 4096).as_deref(), Some(name), "{mangled}");
        }
    }

    #[test]
    fn names_that_are_not_understood_stay() {
        for name in [
            "_Dmain",
            "_D",
            "_D4",
            "_D9acme",
            "_D4acme3fooF",
            "_D4acme3fooFiZ",
            "_D4acme3fooFQaZv",
            "_D4acme3fooFiZvx",
        ] {
            assert_eq!(demangle(name, 4096), None, "{name}");
        }
        assert!(!is_mangled("_Dmain") && !is_mangled("_Direct_IO") && is_mangled("_D4acme3fooFiZv"));
        assert_eq!(demangle("_D4acme3fooFiZv", 5), None, "too long");
    }

    #[test]
    fn references_that_double_each_time_are_bounded() {
        // Each tuple has the one before twice.
        let mut name = String::from("_D1fFB2ii");
        for _ in 0..60 {
            let at = name.len();
            name.push_str("B2");
            let distance = |from: usize| {
                let distance = from - (at - 4);
                char::from(b'a' + u8::try_from(distance.min(25)).unwrap())
            };
            let (first, second) = (distance(name.len()), distance(name.len() + 2));
            name.push_str(&format!("Q{first}Q{second}"));
        }
        name.push_str("Zv");
        assert!(demangle(&name, 16 << 10).is_none_or(|name| name.len() <= 16 << 10));
    }

    proptest! {
        #[test]
        fn any_name_ends(name in "_D[0-9][0-9a-zA-Z_]{0,60}") {
            let _ = demangle(&name, 4096);
        }
    }
}

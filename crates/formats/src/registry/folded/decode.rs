//! Text to model: folded stacks of any tool.

use profile::{Builder, Function, LocationId, Mapping, MappingId, Profile, ValueType};

/// Why bytes are no folded stacks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A byte sequence that is no text.
    #[error("the folded stacks are not UTF-8 at offset {at}")]
    #[non_exhaustive]
    Text {
        /// Bytes before it.
        at: usize,
    },
    /// A line without a value behind its last blank.
    #[error("line {line} of the folded stacks, at offset {at}, does not end in a blank and a whole number")]
    #[non_exhaustive]
    Value {
        /// Number of the line, from 1 on.
        line: usize,
        /// Bytes before it.
        at: usize,
    },
}

/// What other tools append to the names of frames, and the mapping that says the same. Tools that follow `stackcollapse-perf.pl --all` do so.
const ANNOTATIONS: [(&str, &str); 2] = [("_[k]", "[kernel.kallsyms]"), ("_[j]", "[jit]")];

/// Reads folded stacks: in each line frames from the root to the leaf with `;` between them, a blank, and a number. Empty lines, and
/// comments that begin with `#`, are skipped. The profile has one value, `samples` in `count`, and its locations have a name but no address.
///
/// # Errors
/// [`DecodeError`], which tells the place.
pub fn decode(bytes: &[u8]) -> Result<Profile, DecodeError> {
    let text = std::str::from_utf8(bytes).map_err(|error| DecodeError::Text { at: error.valid_up_to() })?;
    let samples = ValueType::new("samples", "count");
    let mut stacks = Stacks { builder: Builder::new(std::slice::from_ref(&samples), samples.clone(), 1) };
    let mut at = 0;
    for (line, content) in (1..).zip(text.split_inclusive('\n')) {
        let stack = content.trim_end_matches(['\n', '\r']);
        if !is_skipped(stack) {
            stacks.add(stack).ok_or(DecodeError::Value { line, at })?;
        }
        at += content.len();
    }
    Ok(stacks.builder.finish(0, 0, Vec::new()))
}

/// Whether bytes look like folded stacks: the first line that is no comment ends in a blank and a number.
#[must_use]
pub fn is_folded(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|byte| *byte == b'\n').map(std::str::from_utf8);
    let stack = lines.find(|line| !line.is_ok_and(is_skipped));
    stack.is_some_and(|line| line.is_ok_and(|line| split(line).is_some()))
}

/// Whether a line is empty or a comment. The name of a function may begin with `#` too.
fn is_skipped(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#') && split(line).is_none()
}

/// The frames and the value of a line.
fn split(line: &str) -> Option<(&str, i64)> {
    let (stack, value) = line.trim_end().rsplit_once([' ', '\t'])?;
    Some((stack, value.parse().ok().filter(|value| *value >= 0)?))
}

struct Stacks {
    builder: Builder,
}

impl Stacks {
    /// Adds the stack of a line. None: the line has no value.
    fn add(&mut self, line: &str) -> Option<()> {
        let (stack, value) = split(line)?;
        let frames = stack.split(';').map(str::trim).filter(|name| !name.is_empty());
        let mut locations: Vec<LocationId> = frames.map(|name| self.location(name)).collect();
        locations.reverse();
        self.builder.add(Vec::new(), locations, &[value]);
        Some(())
    }

    fn location(&mut self, name: &str) -> LocationId {
        let annotated = ANNOTATIONS.iter().find_map(|(mark, file)| Some((name.strip_suffix(mark)?, *file)));
        let (name, file) = match annotated {
            Some((name, file)) => (name, file),
            None if name.starts_with('[') => return self.builder.synthetic(name),
            None => (name, ""),
        };
        let mapping: MappingId =
            self.builder.mapping(Mapping { filename: file.to_owned(), ..Mapping::default() });
        let function =
            Function { name: name.to_owned(), system_name: name.to_owned(), ..Function::default() };
        let function = self.builder.function(function);
        self.builder.location(Some(mapping), 0, vec![profile::Line { function, line: 0, column: 0 }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EncodeOptions, Encoder as _, Merge};

    fn encoded(profile: &Profile) -> String {
        let mut out = Vec::new();
        super::super::Folded.encode(profile, &EncodeOptions::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_was_read_is_written_again() {
        let text = "[no stack] 4\nmain;f(int, char) const;g 12\nmain;h 0x1;[truncated: fault] 3\n";
        assert_eq!(encoded(&decode(text.as_bytes()).unwrap()), text);
    }

    #[test]
    fn equal_stacks_are_added_up_and_comments_skipped() {
        let text = "# made by hand\r\n\nmain;f 1\r\n  \nmain;f 2";
        assert_eq!(encoded(&decode(text.as_bytes()).unwrap()), "main;f 3\n");
    }

    #[test]
    fn annotations_of_other_tools_are_mappings() {
        let profile = decode(b"main;sys_read_[k] 1\nmain;Foo::bar_[j] 1\n").unwrap();
        assert_eq!(encoded(&profile), "main;Foo::bar 1\nmain;sys_read 1\n");
        let files: Vec<_> = profile.mappings.iter().map(|mapping| mapping.filename.as_str()).collect();
        assert_eq!(files, ["", "[kernel.kallsyms]", "[jit]"]);
        let mut svg = Vec::new();
        let options = EncodeOptions { merge: Merge::All, ..EncodeOptions::default() };
        crate::flamegraph::FlameGraph.encode(&profile, &options, &mut svg).unwrap();
        assert!(String::from_utf8(svg).unwrap().contains("sys_read"));
    }

    #[test]
    fn an_error_tells_the_place() {
        let told = |bytes: &[u8]| decode(bytes).unwrap_err().to_string();
        assert!(told(b"main 1\nmain;f\n").starts_with("line 2 of the folded stacks, at offset 7, "));
        assert!(told(b"main -1").starts_with("line 1 "));
        assert!(told(b"main 99999999999999999999").starts_with("line 1 "));
        assert_eq!(told(b"ma\xff 1"), "the folded stacks are not UTF-8 at offset 2");
    }

    proptest::proptest! {
        #[test]
        fn what_is_read_keeps_its_sum(text in "([ab;_\\[\\]k# \r\t]{0,9} ?[0-9]{0,3}\n?){0,9}") {
            if let Ok(profile) = decode(text.as_bytes()) {
                let sum = |of: &Profile| of.samples.iter().map(|sample| sample.values[0]).sum::<i64>();
                assert!(is_folded(text.as_bytes()) || profile.samples.is_empty());
                assert_eq!(sum(&decode(encoded(&profile).as_bytes()).unwrap()), sum(&profile));
            }
        }
    }

    #[test]
    fn folded_stacks_are_told_from_other_bytes() {
        for folded in [&b"main 1"[..], b"\n# x\na;b c 12\n\xff"] {
            assert!(is_folded(folded));
        }
        for other in [&b""[..], b"\n\n", b"main", b"\x1f\x8b\x08 1x", b"\n\x04\x08\x01\x10\x02"] {
            assert!(!is_folded(other), "{other:?}");
        }
    }
}

//! Versions of CPython, and the families whose frames are alike.

use std::fmt;

/// A version of CPython, such as 3.11.7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 3 in 3.11.7
    pub major: u8,
    /// 11 in 3.11.7
    pub minor: u8,
    /// 7 in 3.11.7
    pub micro: u8,
}

/// How finished a version is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Alpha or beta: data structures still change from one to the next.
    Early,
    /// Release candidate or release.
    Stable,
}

/// Versions whose frames are walked in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// 3.8 to 3.10: each frame is an object and has an evaluator frame of its own.
    HeapFrames,
    /// 3.11: an evaluator frame runs several Python frames, the outermost of which is marked as its entry.
    EntryFrames,
    /// 3.12: a shim, a frame without a function, lies outside of the outermost frame of an evaluator frame.
    Shims,
    /// 3.13 to 3.15: as [`Family::Shims`], and the interpreter itself tells most offsets.
    DebugOffsets,
}

/// The level of a release in `PY_VERSION_HEX`: 0xA alpha, 0xB beta, 0xC candidate, 0xF release.
const CANDIDATE: u8 = 0xc;

impl Version {
    /// Reads the form of `PY_VERSION_HEX`: 0x030b07f0 is the release 3.11.7.
    #[must_use]
    pub fn from_hex(hex: u32) -> (Self, Stage) {
        let [last, micro, minor, major] = hex.to_le_bytes();
        let stage = if last >> 4 < CANDIDATE { Stage::Early } else { Stage::Stable };
        (Self { major, minor, micro }, stage)
    }

    /// Reads the form of `PY_VERSION`: "3.11.7", "3.12.0rc1", "3.9.18+". `None` if the text is anything else.
    #[must_use]
    pub fn from_text(text: &[u8]) -> Option<(Self, Stage)> {
        let text = text.strip_suffix(b"+").unwrap_or(text);
        let (major, rest) = number(text)?;
        let (minor, rest) = number(rest.strip_prefix(b".")?)?;
        let (micro, level) = number(rest.strip_prefix(b".")?)?;
        let is_numbered = |prefix: &[u8]| {
            level.strip_prefix(prefix).and_then(number).is_some_and(|(_, rest)| rest.is_empty())
        };
        let stage = if level.is_empty() || is_numbered(b"rc") {
            Stage::Stable
        } else if is_numbered(b"a") || is_numbered(b"b") {
            Stage::Early
        } else {
            return None;
        };
        Some((Self { major, minor, micro }, stage))
    }

    /// `None` for versions whose frames are not known.
    #[must_use]
    pub fn family(self) -> Option<Family> {
        match (self.major, self.minor) {
            (3, 8..=10) => Some(Family::HeapFrames),
            (3, 11) => Some(Family::EntryFrames),
            (3, 12) => Some(Family::Shims),
            (3, 13..=15) => Some(Family::DebugOffsets),
            _ => None,
        }
    }
}

/// The number of up to three digits with which the text begins, and what follows it.
fn number(text: &[u8]) -> Option<(u8, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(digits)?;
    let is_plain = !digits.is_empty() && (digits.len() == 1 || digits.first() != Some(&b'0'));
    let value = std::str::from_utf8(digits).ok()?.parse().ok()?;
    is_plain.then_some((value, rest))
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.micro)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn version(major: u8, minor: u8, micro: u8) -> Version {
        Version { major, minor, micro }
    }

    #[test]
    fn both_forms_are_read() {
        assert_eq!(Version::from_hex(0x030b_07f0), (version(3, 11, 7), Stage::Stable));
        assert_eq!(Version::from_hex(0x030d_00c2), (version(3, 13, 0), Stage::Stable));
        assert_eq!(Version::from_hex(0x030e_00b4), (version(3, 14, 0), Stage::Early));
        for (text, stage) in [
            ("3.9.18", Stage::Stable),
            ("3.9.18+", Stage::Stable),
            ("3.9.18rc1", Stage::Stable),
            ("3.9.18a3", Stage::Early),
            ("3.9.18b2+", Stage::Early),
        ] {
            assert_eq!(Version::from_text(text.as_bytes()), Some((version(3, 9, 18), stage)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_version() {
        for text in [
            "", "3", "3.9", "3.9.", "3.9.x", "3.9.18 ", "3.9.18.1", "3.9.999", "3.9.18c1", "3.9.18rc",
            "03.9.1", "%.80s",
        ] {
            assert_eq!(Version::from_text(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn only_known_versions_have_a_family() {
        let families = [7, 8, 10, 11, 12, 13, 15, 16].map(|minor| version(3, minor, 0).family());
        assert_eq!(
            families,
            [
                None,
                Some(Family::HeapFrames),
                Some(Family::HeapFrames),
                Some(Family::EntryFrames),
                Some(Family::Shims),
                Some(Family::DebugOffsets),
                Some(Family::DebugOffsets),
                None
            ]
        );
        assert_eq!((version(2, 11, 0).family(), version(4, 11, 0).family()), (None, None));
        assert_eq!(version(3, 11, 7).to_string(), "3.11.7");
    }
}

//! GNU build-ids: the identity of a linked file.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A GNU build-id: 4 to 32 bytes. `Display` is lower-case hex.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct BuildId(Box<[u8]>);

impl TryFrom<Vec<u8>> for BuildId {
    type Error = BuildIdError;

    fn try_from(bytes: Vec<u8>) -> Result<Self, BuildIdError> {
        Self::new(&bytes)
    }
}

impl From<BuildId> for Vec<u8> {
    fn from(id: BuildId) -> Self {
        id.0.into_vec()
    }
}

/// Why bytes or text are not a build-id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildIdError {
    /// Shorter than 4 or longer than 32 bytes.
    Length(usize),
    /// A character that is not a hex digit, or an odd number of them.
    Digit,
}

impl fmt::Display for BuildIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(n) => write!(f, "a build-id has 4 to 32 bytes, not {n}"),
            Self::Digit => f.write_str("a build-id consists of pairs of hex digits"),
        }
    }
}

impl std::error::Error for BuildIdError {}

impl BuildId {
    /// Takes the bytes of the note's descriptor.
    ///
    /// # Errors
    /// [`BuildIdError::Length`] outside of 4 to 32 bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, BuildIdError> {
        if (4..=32).contains(&bytes.len()) {
            Ok(Self(bytes.into()))
        } else {
            Err(BuildIdError::Length(bytes.len()))
        }
    }

    /// The directory below one of debug files that has a directory for each first byte of build-ids.
    pub const FOLDER: &'static str = ".build-id";

    /// Where a file of this build lies below a directory of debug files: `.build-id/NN/REST`, and the suffix that tells its kind. NN are the
    /// first two digits.
    #[must_use]
    pub fn path(&self, suffix: &str) -> String {
        let hex = self.to_string();
        let (begin, rest) = hex.split_at(2);
        format!("{}/{begin}/{rest}{suffix}", Self::FOLDER)
    }

    /// The raw bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

impl FromStr for BuildId {
    type Err = BuildIdError;

    fn from_str(text: &str) -> Result<Self, BuildIdError> {
        if !text.is_ascii() || !text.len().is_multiple_of(2) {
            return Err(BuildIdError::Digit);
        }
        let bytes: Result<Vec<u8>, _> =
            (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16)).collect();
        Self::new(&bytes.map_err(|_| BuildIdError::Digit)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_goes_both_ways() {
        let id: BuildId = "00ffA0b1".parse().unwrap();
        assert_eq!(id.to_string(), "00ffa0b1");
        assert_eq!(id.as_bytes(), [0, 0xff, 0xa0, 0xb1]);
    }

    #[test]
    fn files_lie_in_a_directory_of_the_first_byte() {
        let id: BuildId = "00ffA0b1".parse().unwrap();
        assert_eq!([id.path(""), id.path(".debug")], [".build-id/00/ffa0b1", ".build-id/00/ffa0b1.debug"]);
    }

    #[test]
    fn other_bytes_and_texts_are_refused() {
        assert_eq!("00ffa0".parse::<BuildId>(), Err(BuildIdError::Length(3)));
        assert_eq!("00ffa0b".parse::<BuildId>(), Err(BuildIdError::Digit));
        assert_eq!("00ffa0zz".parse::<BuildId>(), Err(BuildIdError::Digit));
        assert_eq!("../../é".parse::<BuildId>(), Err(BuildIdError::Digit));
        assert_eq!(BuildId::new(&[0; 33]), Err(BuildIdError::Length(33)));
    }
}

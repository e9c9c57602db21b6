//! Names in the cache: what can be fetched, where it lies, and what a name that is found there means.
//!
//! The index of the cache is its directory. Names in it may come from anybody: those that are not of one of the forms here are left alone.

use std::path::PathBuf;

use profile::BuildId;

/// What can be fetched of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Its debug file.
    Debuginfo,
    /// The program itself.
    Executable,
}

impl Kind {
    /// The last word of the URL.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Debuginfo => "debuginfo",
            Self::Executable => "executable",
        }
    }

    /// What follows the build-id in the name of the file.
    fn suffix(self) -> &'static str {
        match self {
            Self::Debuginfo => ".debug",
            Self::Executable => "",
        }
    }

    /// The same in the name of the marker that says that no server has it.
    fn missing_suffix(self) -> &'static str {
        match self {
            Self::Debuginfo => ".missing",
            Self::Executable => ".executable.missing",
        }
    }
}

/// A file that can be fetched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Artifact {
    /// What of the program.
    pub kind: Kind,
    /// Which program.
    pub build_id: BuildId,
}

impl Artifact {
    /// The name of a file in its directory.
    fn name(&self, suffix: &str) -> String {
        let path = self.build_id.path(suffix);
        path.rsplit('/').next().unwrap_or_default().to_owned()
    }

    /// Its directory, from the directory of the cache.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        let mut path = PathBuf::from(self.build_id.path(""));
        path.pop();
        path
    }

    /// Its name in its directory.
    #[must_use]
    pub fn file_name(&self) -> String {
        self.name(self.kind.suffix())
    }

    /// The name of the marker that says that no server has it.
    #[must_use]
    pub fn missing_name(&self) -> String {
        self.name(self.kind.missing_suffix())
    }

    /// A name for the file while it is written.
    pub(crate) fn temporary_name(&self, number: u64) -> String {
        format!(".{}.{}.{number}.tmp", self.file_name(), std::process::id())
    }
}

/// What a name in a directory of the cache means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file that was fetched.
    File(Artifact),
    /// No server had this.
    Missing(Artifact),
    /// A file that is being written, or was when its process was killed.
    Temporary,
}

impl Entry {
    /// Recognizes an entry of the cache by the name of its file and the name of its directory. `None`: the cache did not make that file.
    #[must_use]
    pub fn parse(folder: &[u8], name: &[u8]) -> Option<Self> {
        let (folder, name) = (std::str::from_utf8(folder).ok()?, std::str::from_utf8(name).ok()?);
        let is_hex = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if folder.len() != 2 || !is_hex(folder) {
            return None;
        }
        if name.starts_with('.') {
            return name.ends_with(".tmp").then_some(Self::Temporary);
        }
        let (rest, suffix) = name.split_at(name.find('.').unwrap_or(name.len()));
        if !is_hex(rest) {
            return None;
        }
        let build_id = format!("{folder}{rest}").parse().ok()?;
        let of = |kind| Artifact { kind, build_id };
        match suffix {
            ".debug" => Some(Self::File(of(Kind::Debuginfo))),
            "" => Some(Self::File(of(Kind::Executable))),
            ".missing" => Some(Self::Missing(of(Kind::Debuginfo))),
            ".executable.missing" => Some(Self::Missing(of(Kind::Executable))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for kind in [Kind::Debuginfo, Kind::Executable] {
            for hex in ["01020304", &"ab".repeat(20), &"0f".repeat(32)] {
                let artifact = Artifact { kind, build_id: hex.parse().unwrap() };
                let folder = artifact.folder();
                let folder = folder.file_name().unwrap().as_encoded_bytes();
                let parse = |name: String| Entry::parse(folder, name.as_bytes());
                assert_eq!(parse(artifact.file_name()), Some(Entry::File(artifact.clone())));
                assert_eq!(parse(artifact.missing_name()), Some(Entry::Missing(artifact.clone())));
                assert_eq!(parse(artifact.temporary_name(3)), Some(Entry::Temporary));
            }
        }
    }

    #[test]
    fn other_names_are_left_alone() {
        for (folder, name) in [
            ("01", "0203"),
            ("0", "1020304"),
            ("zz", "020304"),
            ("01", "0203zz"),
            ("01", "020304.txt"),
            ("01", "020304.debug.debug"),
            ("01", "../../../etc/passwd"),
            ("01", ".lock"),
            ("01", ""),
            ("AB", "CDEF0102"),
            ("01", "02030"),
        ] {
            assert_eq!(Entry::parse(folder.as_bytes(), name.as_bytes()), None, "{folder}/{name}");
        }
        assert_eq!(Entry::parse(b"01", &[0xff; 10]), None);
        assert_eq!(Entry::parse(b"01", "02".repeat(32).as_bytes()), None, "33 bytes");
    }
}

//! Automatic file names: `<comm>-<ts>-on-cpu.pb.gz`, with `-2`, `-3` … before the extension if that file exists.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::kind::OutputKind;

/// The longest part of a process name in a file name. It keeps the file name below the usual limit of 255 bytes.
const MAX_PREFIX: usize = 128;

/// The subject of an automatic name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject<'a> {
    /// A process: its `comm`, or the base name of a command. The PID is used if the name is empty.
    Process {
        /// The name; any bytes.
        name: &'a [u8],
        /// The PID.
        pid: u32,
    },
    /// The whole system: the file name has no process name.
    System,
}

/// A file name that gets a number when the file is created, if it is not free without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoName {
    directory: PathBuf,
    stem: String,
    /// The last part of the stem.
    word: &'static str,
    extension: &'static str,
}

/// A file name with a place for a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Numbered {
    /// The part before the number.
    stem: OsString,
    /// The extension with its dot.
    extension: OsString,
}

impl Numbered {
    /// A file name with more text and the number before its extension.
    pub(super) fn of(name: &OsStr, more: &str) -> Self {
        let (mut stem, extension) = split_extension(name);
        stem.push(more);
        Self { stem, extension }
    }

    /// The name with this number; number 1 is left out.
    pub(super) fn with(&self, number: u32) -> OsString {
        let mut name = self.stem.clone();
        if number > 1 {
            name.push(format!("-{number}"));
        }
        name.push(&self.extension);
        name
    }
}

/// The automatic name that the command line uses for an output, in the current directory. `timestamp` is the local start
/// time, `YYYYMMDDHHMM`.
///
/// ```
/// use perfagent::{OutputKind, Subject, auto_name};
/// let name = auto_name(Subject::Process { name: b"myapp", pid: 7 }, "202604021430", OutputKind::CpuProfile);
/// assert_eq!(name.path(1).to_str(), Some("myapp-202604021430-on-cpu.pb.gz"));
/// assert_eq!(name.path(2).to_str(), Some("myapp-202604021430-on-cpu-2.pb.gz"));
/// ```
#[must_use]
pub fn auto_name(subject: Subject<'_>, timestamp: &str, kind: OutputKind) -> AutoName {
    let (word, extension) = kind.auto_parts();
    let stem = match subject {
        Subject::Process { name, pid } => format!("{}-{timestamp}-{word}", sanitize(name, pid)),
        Subject::System => format!("{timestamp}-{word}"),
    };
    AutoName { directory: PathBuf::new(), stem, word, extension }
}

impl AutoName {
    /// The same name in another directory.
    #[must_use]
    pub fn in_directory(self, directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), ..self }
    }

    /// The same name, of a profile of this event.
    pub(crate) fn of_event(self, event: &str) -> Self {
        self.of_word(&file_word(event))
    }

    /// The same name, of the profile that this word stands for.
    pub(super) fn of_word(self, word: &str) -> Self {
        let before = self.stem.strip_suffix(self.word).unwrap_or_default();
        Self { stem: format!("{before}{word}"), ..self }
    }

    /// The same name for one interval of a capture that is cut. `time` is the start of the interval, `YYYYMMDDTHHMMSS.mmmZ`.
    pub(super) fn of_interval(&self, time: &str) -> Self {
        Self { stem: format!("{}-{time}", self.stem), ..self.clone() }
    }

    /// The path with this number; number 1 is left out.
    #[must_use]
    pub fn path(&self, number: u32) -> PathBuf {
        self.directory.join(self.file_name(number))
    }

    /// The directory; empty for the current one.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The last name of the path with this number.
    pub(super) fn file_name(&self, number: u32) -> OsString {
        self.numbered().with(number)
    }

    /// The last name of the path.
    pub(super) fn numbered(&self) -> Numbered {
        let Self { stem, extension, .. } = self;
        Numbered { stem: stem.into(), extension: format!(".{extension}").into() }
    }
}

/// A text as a part of a file name.
pub(super) fn file_word(text: &str) -> String {
    sanitize(text.as_bytes(), 0)
}

/// Replaces bytes other than `A-Z a-z 0-9 . _ -`, and a leading `.` or `-`, by `_`.
fn sanitize(name: &[u8], pid: u32) -> String {
    if name.is_empty() {
        return format!("pid{pid}");
    }
    let keep = |(index, byte): (usize, &u8)| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' => char::from(*byte),
        b'.' | b'-' if index > 0 => char::from(*byte),
        _ => '_',
    };
    name.iter().take(MAX_PREFIX).enumerate().map(keep).collect()
}

/// The path with more text before its extension.
pub(super) fn before_extension(path: &Path, more: &str) -> PathBuf {
    let Some(name) = path.file_name() else { return path.to_owned() };
    let (mut stem, extension) = split_extension(name);
    stem.push(more);
    stem.push(extension);
    path.with_file_name(stem)
}

/// A file name without its extension, and the extension with its dot. The extension is the longest one of a known format, or else the text after
/// the last dot.
pub(super) fn split_extension(name: &OsStr) -> (OsString, OsString) {
    let bytes = name.as_bytes();
    let perf_data = bytes.ends_with(b".perf.data").then_some("perf.data");
    let known = perf_data.or_else(|| formats::registry::extension_of(Path::new(name)));
    let dot = match known {
        Some(extension) => bytes.len().checked_sub(extension.len() + 1),
        None => bytes.iter().rposition(|byte| *byte == b'.'),
    };
    let (stem, extension) = bytes.split_at(dot.filter(|dot| *dot > 0).unwrap_or(bytes.len()));
    (OsStr::from_bytes(stem).to_owned(), OsStr::from_bytes(extension).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rule() {
        let path = |subject| auto_name(subject, "202604021430", OutputKind::CpuProfile).path(1);
        assert_eq!(path(Subject::System).to_str(), Some("202604021430-on-cpu.pb.gz"));
        for (comm, prefix) in [
            (&b"myapp"[..], "myapp"),
            (b"a/../b c", "a_.._b_c"),
            (b".hidden", "_hidden"),
            (b"-rf", "_rf"),
            (b"--", "_-"),
            (b"..", "_."),
            (b"", "pid77"),
            (b"\xff\n\0", "___"),
            ("é".as_bytes(), "__"),
            (b"kworker/0:1", "kworker_0_1"),
        ] {
            let expected = format!("{prefix}-202604021430-on-cpu.pb.gz");
            assert_eq!(path(Subject::Process { name: comm, pid: 77 }).to_str(), Some(expected.as_str()));
        }
    }

    #[test]
    fn a_long_name_still_fits_a_file_name() {
        let name = [b'x'; 4096];
        let path =
            auto_name(Subject::Process { name: &name, pid: 1 }, "202604021430", OutputKind::CpuProfile);
        assert!(path.path(u32::MAX).as_os_str().len() < 200);
    }

    #[test]
    fn an_event_takes_the_place_of_the_mode() {
        let name = auto_name(Subject::System, "202604021430", OutputKind::CpuProfile);
        let path = name.of_event("lib/page-faults").path(2);
        assert_eq!(path.to_str(), Some("202604021430-lib_page-faults-2.pb.gz"));
    }

    #[test]
    fn the_number_goes_before_the_extension() {
        let name = auto_name(Subject::System, "202604021430", OutputKind::CpuProfile).in_directory("/out");
        assert_eq!(name.path(12).to_str(), Some("/out/202604021430-on-cpu-12.pb.gz"));
    }

    #[test]
    fn mode_and_time_go_before_the_extension() {
        let named = |path: &str| before_extension(Path::new(path), "-T").to_string_lossy().into_owned();
        assert_eq!(named("/a.b/cpu.pb.gz"), "/a.b/cpu-T.pb.gz");
        assert_eq!(named("flame.svg"), "flame-T.svg");
        assert_eq!([named("x.perf.data"), named("perf.data")], ["x-T.perf.data", "perf-T.data"]);
        assert_eq!(named("x.y.z"), "x.y-T.z");
        assert_eq!([named("plain"), named(".hidden")], ["plain-T", ".hidden-T"]);
        let foreign = before_extension(Path::new(OsStr::from_bytes(b"\xff.svg")), "-T");
        assert_eq!(foreign.as_os_str().as_bytes(), b"\xff-T.svg");
    }
}

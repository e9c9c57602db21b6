//! Writes all outputs of a capture, or of one interval.

use std::io;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use recording::{Mode, SymbolizedRecording};

use super::encode::{Contents, encode, encode_profile};
use super::file::{Finished, OutputFile, publish_all};
use super::kind::OutputKind;
use super::report::OutputReport;
use super::target::{FileTarget, OutputTarget};
use super::temporary::TemporaryFiles;
use crate::{CancelToken, Error};

/// The outputs of a capture.
pub(crate) struct Outputs {
    targets: Vec<(OutputKind, OutputTarget)>,
    temporary: TemporaryFiles,
}

impl Outputs {
    pub(crate) fn new(targets: Vec<(OutputKind, OutputTarget)>, temporary: TemporaryFiles) -> Self {
        Self { targets, temporary }
    }

    /// Writes all outputs. `give_up` ends the wait for readers of FIFOs.
    pub(crate) fn write(self, contents: &Contents<'_>, give_up: &CancelToken) -> Vec<OutputReport> {
        write_all(self.targets, contents, &self.temporary, give_up)
    }

    /// The files to write for each interval of a capture that is cut.
    pub(crate) fn of_intervals(&self) -> IntervalOutputs {
        let file = |(kind, target): &(OutputKind, OutputTarget)| match target {
            OutputTarget::File(file) if kind.is_of_intervals() => Some((*kind, file.clone())),
            _ => None,
        };
        IntervalOutputs {
            files: self.targets.iter().filter_map(file).collect(),
            temporary: self.temporary.clone(),
        }
    }

    /// The outputs of the whole capture, without those of its intervals.
    pub(crate) fn of_capture(self) -> Self {
        let targets = self.targets.into_iter().filter(|(kind, _)| !kind.is_of_intervals()).collect();
        Self { targets, ..self }
    }
}

/// The files to write for each interval.
pub(crate) struct IntervalOutputs {
    files: Vec<(OutputKind, FileTarget)>,
    temporary: TemporaryFiles,
}

impl IntervalOutputs {
    /// Writes the files of one interval. Their names contain its start time.
    pub(crate) fn write(&self, symbolized: &SymbolizedRecording, give_up: &CancelToken) -> Vec<OutputReport> {
        let time = interval_time(symbolized.recording.span.start_ns);
        let target = |file: &FileTarget| OutputTarget::File(file.of_interval(&time));
        let targets = self.files.iter().map(|(kind, file)| (*kind, target(file))).collect();
        write_all(targets, &Contents { recording: symbolized, metrics: None }, &self.temporary, give_up)
    }
}

/// Local start time of an interval, `YYYYMMDDTHHMMSS.mmm`.
fn interval_time(start_ns: i64) -> String {
    let start = Timestamp::from_nanosecond(start_ns.into()).unwrap_or_default();
    start.to_zoned(TimeZone::system()).strftime("%Y%m%dT%H%M%S.%3f").to_string()
}

fn write_all(
    targets: Vec<(OutputKind, OutputTarget)>,
    contents: &Contents<'_>,
    temporary: &TemporaryFiles,
    give_up: &CancelToken,
) -> Vec<OutputReport> {
    let names: Vec<_> = targets.iter().map(|(kind, target)| (*kind, target.describe())).collect();
    let written = targets.into_iter().map(|(kind, target)| {
        let mut file = OutputFile::open(target, temporary, give_up)?;
        encode(kind, contents, &mut file)?;
        file.finish()
    });
    let finished = publish_all(written.collect());
    names.into_iter().zip(finished).map(|((kind, which), finished)| report(kind, which, finished)).collect()
}

fn report(kind: OutputKind, which: String, finished: io::Result<Finished>) -> OutputReport {
    match finished {
        Ok(finished) => OutputReport { kind, path: finished.path, bytes: finished.bytes, result: Ok(()) },
        Err(source) => {
            OutputReport { kind, path: None, bytes: 0, result: Err(Error::Output { which, source }) }
        }
    }
}

/// Writes the profile of one mode of a recording in a format of the registry. Returns the number of bytes.
pub(crate) fn write_profile(
    symbolized: &SymbolizedRecording,
    mode: Mode,
    format: &str,
    target: FileTarget,
    temporary: &TemporaryFiles,
) -> Result<u64, Error> {
    let which = target.describe();
    let written = OutputFile::open(OutputTarget::File(target), temporary, &CancelToken::new())
        .and_then(|mut file| encode_profile(symbolized, mode, format, &mut file).map(|()| file))
        .and_then(OutputFile::finish);
    let finished = publish_all(vec![written]).into_iter().next();
    let finished = finished.unwrap_or_else(|| Err(io::Error::other("nothing was written")));
    finished.map(|finished| finished.bytes).map_err(|source| Error::Output { which, source })
}

//! The file as a stream of records, in the order that readers need.
//!
//! Readers put the records of two rounds in order: across the end of a round, no record may be older than the newest of the round before the
//! last. That time is the floor; what comes later than that gets it as its time.

use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use perf_data::{Event, Features, Process, Record, Stamp, Writer};

use crate::output::InPlace;

/// What became of a file: its path, and why it is not complete.
pub(crate) type Written = (PathBuf, Result<(), io::Error>);

/// A file that grows until it can no longer be written.
#[derive(Debug)]
pub(super) struct Records {
    path: PathBuf,
    state: State,
    /// Nothing older may be written.
    floor_ns: u64,
    /// The newest of this round, and of the one before.
    newest_ns: [u64; 2],
    sample_times: Option<(u64, u64)>,
}

#[derive(Debug)]
enum State {
    Open(Writer<std::fs::File>),
    Failed(io::Error),
}

impl Records {
    /// Begins a file. One that cannot be created, or takes no bytes, ends this output and nothing else.
    pub(super) fn begin(place: &InPlace, started: SystemTime, events: Vec<Event>, start_ns: u64) -> Self {
        let (path, created) = place.create(started);
        let begun = created.and_then(|file| Ok(Writer::begin(file, events)?));
        let state = begun.map_or_else(State::Failed, State::Open);
        Self { path, state, floor_ns: start_ns, newest_ns: [start_ns; 2], sample_times: None }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    pub(super) fn floor_ns(&self) -> u64 {
        self.floor_ns
    }

    /// Writes a record at its time, or at the floor.
    pub(super) fn push(&mut self, stamp: Stamp, record: &Record<'_>) {
        let time_ns = stamp.time_ns.max(self.floor_ns);
        self.newest_ns[0] = self.newest_ns[0].max(time_ns);
        if let Record::Sample(_) = record {
            let (first, last) = self.sample_times.unwrap_or((time_ns, time_ns));
            self.sample_times = Some((first.min(time_ns), last.max(time_ns)));
        }
        self.write(|writer| writer.push(&Stamp { time_ns, ..stamp }, record));
    }

    /// Ends a round. `lost`: samples that are missing from it.
    pub(super) fn end_round(&mut self, lost: u64, id: u64) {
        if lost > 0 {
            let stamp = Stamp { of: Process::default(), time_ns: self.newest_ns[0], cpu: 0, id };
            self.push(stamp, &Record::Lost { lost });
        }
        self.floor_ns = self.newest_ns[1];
        self.newest_ns[1] = self.newest_ns[0];
        self.write(Writer::end_round);
    }

    /// Ends the file.
    pub(super) fn finish(self, features: Features) -> Written {
        let features = Features { sample_times: self.sample_times, ..features };
        let finished = match self.state {
            State::Open(writer) => writer.finish(&features).map(drop).map_err(io::Error::from),
            State::Failed(error) => Err(error),
        };
        (self.path, finished)
    }

    /// Ends the file, and goes on with another one. False: the file could not be written, and there is no other one.
    pub(super) fn next(&mut self, features: Features, begin: impl FnOnce() -> Self) -> bool {
        let failed = State::Failed(io::Error::other("nothing was written"));
        let unfinished =
            Self { path: self.path.clone(), state: std::mem::replace(&mut self.state, failed), ..*self };
        match unfinished.finish(features) {
            (_, Ok(())) => *self = begin(),
            (_, Err(error)) => self.state = State::Failed(error),
        }
        self.is_open()
    }

    fn write(&mut self, write: impl FnOnce(&mut Writer<std::fs::File>) -> Result<(), perf_data::Error>) {
        if let State::Open(writer) = &mut self.state
            && let Err(error) = write(writer)
        {
            self.state = State::Failed(error.into());
        }
    }
}

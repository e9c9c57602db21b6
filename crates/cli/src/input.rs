//! The files that subcommands read: profiles and recordings.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::AsFd as _;
use std::path::Path;

use perfagent::{Mode, NamingOutcome, PerfDataFile, Recording, Symbolizer, WrittenProfile};

use crate::messages;

/// The first bytes of a recording.
const RECORDING: [u8; 8] = *b"\x89perfrec";

/// The first bytes of a perf.data file.
const PERF_DATA: [u8; 8] = *b"PERFILE2";

/// What a file is.
pub enum Input {
    Profile(Box<WrittenProfile>),
    Recording(Recording),
    PerfData(Box<PerfDataFile>),
}

/// Reads a file; `-` is standard input. The error names the file.
pub fn read(path: &Path) -> Result<Input, String> {
    let told = |reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
    let file =
        if path == "-" { io::stdin().as_fd().try_clone_to_owned().map(File::from) } else { File::open(path) };
    let mut file = file.map_err(|error| told(&error))?;
    let is_regular = file.metadata().is_ok_and(|of| of.is_file());
    if is_regular && PerfDataFile::is_one(&mut file).map_err(|error| told(&error))? {
        let read = PerfDataFile::read(file).map_err(|error| told(&error))?;
        return Ok(Input::PerfData(Box::new(read)));
    }
    of(file).map_err(|reason| told(&reason))
}

fn of(mut input: impl Read) -> Result<Input, String> {
    let mut begin = Vec::new();
    input.by_ref().take(RECORDING.len() as u64).read_to_end(&mut begin).map_err(|error| error.to_string())?;
    let is_recording = begin == RECORDING;
    if begin == PERF_DATA {
        return Err("perf.data cannot be read from a pipe: give the file".to_owned());
    }
    let whole = begin.as_slice().chain(input);
    if is_recording {
        return Recording::read_from(BufReader::new(whole))
            .map(Input::Recording)
            .map_err(|error| error.to_string());
    }
    WrittenProfile::read_from(whole)
        .map(|profile| Input::Profile(Box::new(profile)))
        .map_err(|error| error.to_string())
}

/// The mode of a recording that an option names, or the first one. The error has a hint.
pub fn mode_of(recording: &Recording, wanted: Option<&str>) -> Result<Mode, (String, String)> {
    let modes = recording.modes();
    let mode = match wanted {
        Some(name) => modes.iter().find(|mode| mode.name() == name),
        None => modes.first(),
    };
    mode.copied().ok_or_else(|| {
        let names: Vec<_> = modes.iter().map(|mode| mode.name()).collect();
        let hint =
            if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
        (format!("the recording has no profile of mode {}", wanted.unwrap_or("any")), hint)
    })
}

/// The profile in a file: itself, or that of a mode of a recording. The error has a hint.
pub fn profile(path: &Path, mode: Option<&str>) -> Result<WrittenProfile, (String, Option<String>)> {
    match read(path).map_err(|error| (error, Some(KINDS.to_owned())))? {
        Input::PerfData(mut file) => of_perf_data(&mut file, mode)
            .map_err(|(error, hint)| (format!("{}: {error}", path.display()), Some(hint))),
        Input::Profile(profile) if mode.is_none() => Ok(*profile),
        Input::Profile(_) => {
            let error = format!("{}: --mode chooses among the profiles of a recording", path.display());
            Err((error, Some("this file is one profile: leave --mode out".to_owned())))
        }
        Input::Recording(recording) => {
            let mode = mode_of(&recording, mode).map_err(|(error, hint)| (error, Some(hint)))?;
            let profile = recording.profile(mode).map(WrittenProfile::from);
            profile.ok_or_else(|| ("the recording has no such profile".to_owned(), None))
        }
    }
}

/// The profile of the event that an option names, or of the first one with samples. The error has a hint.
fn of_perf_data(file: &mut PerfDataFile, wanted: Option<&str>) -> Result<WrittenProfile, (String, String)> {
    let events = file.events();
    // `cycles` is `cycles:u` too, as perf calls those of programs alone.
    let is_wanted = |name: &str, wanted: &str| name == wanted || name.split(':').next() == Some(wanted);
    let chosen = match wanted {
        Some(wanted) => events.iter().position(|event| is_wanted(&event.name, wanted)),
        None => Some(events.iter().position(|event| event.samples > 0).unwrap_or(0)),
    };
    let listed = |all: Vec<&str>| all.join(", ");
    let Some(chosen) = chosen else {
        let names = listed(events.iter().map(|event| event.name.as_str()).collect());
        return Err((format!("it has no event {}", wanted.unwrap_or("")), format!("it has {names}")));
    };
    let others = events.iter().enumerate().filter(|(number, event)| *number != chosen && event.samples > 0);
    let others: Vec<_> = others.map(|(_, event)| event.name.as_str()).collect();
    let shown = events.get(chosen).map_or("", |event| event.name.as_str());
    if wanted.is_none() && !others.is_empty() {
        messages::note(&format!("the event is {shown}, not {} (--mode)", listed(others)));
    }
    let (profile, outcome) = file.profile(chosen, &Symbolizer::new());
    file.told().iter().for_each(|line| messages::warning(line, None));
    tell_names(&outcome);
    Ok(profile)
}

fn tell_names(outcome: &NamingOutcome) {
    outcome.told.iter().for_each(|line| messages::warning(line, None));
    if outcome.unnamed > 0 {
        let places = outcome.named + outcome.unnamed;
        messages::note(&format!("{} of {places} places have no name", outcome.unnamed));
    }
}

/// What subcommands that take any profile can read.
const KINDS: &str = "the files that can be read are pprof (.pb.gz), folded stacks, perf.data and recordings (--recording-output)";

/// The number of the value that `--value` names.
pub fn value(profile: &WrittenProfile, wanted: Option<&str>) -> Result<Option<usize>, (String, String)> {
    let Some(wanted) = wanted else { return Ok(None) };
    let types = &profile.profile().sample_types;
    types.iter().position(|of| of.kind == wanted).map(Some).ok_or_else(|| {
        let known: Vec<_> = types.iter().map(|of| of.kind.as_str()).collect();
        (format!("--value {wanted}: the profile has no such value"), format!("it has {}", known.join(", ")))
    })
}

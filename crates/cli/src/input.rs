//! The files that subcommands read: profiles and recordings.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use perfagent::{Mode, NamingOutcome, PerfDataFile, Recording, Symbolizer, WrittenProfile};

use crate::{later_names, messages};

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

/// Reads a file; `-` is standard input. The files behind perf.data are those of the symbolizer. The error names the file.
pub fn read(path: &Path, symbolizer: &Symbolizer) -> Result<Input, String> {
    let told = |reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
    let file =
        if path == "-" { io::stdin().as_fd().try_clone_to_owned().map(File::from) } else { File::open(path) };
    let mut file = file.map_err(|error| told(&error))?;
    let is_regular = file.metadata().is_ok_and(|of| of.is_file());
    if is_regular && PerfDataFile::is_one(&mut file).map_err(|error| told(&error))? {
        let read = PerfDataFile::read(file, symbolizer).map_err(|error| told(&error))?;
        return Ok(Input::PerfData(Box::new(read)));
    }
    of(file, symbolizer).map_err(|reason| told(&reason))
}

fn of(mut input: impl Read, symbolizer: &Symbolizer) -> Result<Input, String> {
    let mut begin = Vec::new();
    input.by_ref().take(RECORDING.len() as u64).read_to_end(&mut begin).map_err(|error| error.to_string())?;
    let is_recording = begin == RECORDING;
    let whole = begin.as_slice().chain(input);
    if begin == PERF_DATA {
        return PerfDataFile::read_stream(whole, symbolizer)
            .map(|file| Input::PerfData(Box::new(file)))
            .map_err(|error| error.to_string());
    }
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
    let modes = recording.named_modes();
    let mode = match wanted {
        Some(name) => {
            let by_word = modes.iter().find(|(_, word)| word == name);
            by_word.or_else(|| modes.iter().find(|(mode, _)| mode.name() == name))
        }
        None => modes.first(),
    };
    mode.map(|(mode, _)| *mode).ok_or_else(|| {
        let names: Vec<_> = modes.iter().map(|(_, word)| word.as_str()).collect();
        let hint =
            if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
        (format!("the recording has no profile of mode {}", wanted.unwrap_or("any")), hint)
    })
}

/// The profile in a file: itself, or that of a mode of a recording. The error has a hint.
pub fn profile(path: &Path, mode: Option<&str>) -> Result<WrittenProfile, (String, Option<String>)> {
    profile_with(path, mode, &[])
}

/// The same. `symbol_dirs`: where the files behind perf.data are; other profiles have their names already, and are refused with them.
pub fn profile_with(
    path: &Path,
    mode: Option<&str>,
    symbol_dirs: &[PathBuf],
) -> Result<WrittenProfile, (String, Option<String>)> {
    let symbolizer = later_names::with_dirs(symbol_dirs).map_err(|error| (error, None))?;
    let input = read(path, &symbolizer).map_err(|error| (error, Some(KINDS.to_owned())))?;
    if !symbol_dirs.is_empty() && !matches!(input, Input::PerfData(_)) {
        let error = format!("{}: --symbol-dir is for perf.data, and this file is none", path.display());
        return Err((error, Some("perf-agent symbolize names pprof files and recordings".to_owned())));
    }
    match input {
        Input::PerfData(mut file) => of_perf_data(&mut file, mode, &symbolizer)
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
fn of_perf_data(
    file: &mut PerfDataFile,
    wanted: Option<&str>,
    symbolizer: &Symbolizer,
) -> Result<WrittenProfile, (String, String)> {
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
    let (profile, outcome) = file.profile(chosen, symbolizer);
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

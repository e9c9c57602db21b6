//! The files that subcommands read: profiles and recordings.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use perfagent::{Mode, Recording, WrittenProfile};

/// The first bytes of a recording.
const RECORDING: [u8; 8] = *b"\x89perfrec";

/// What a file is.
pub enum Input {
    Profile(Box<WrittenProfile>),
    Recording(Recording),
}

/// Reads a file; `-` is standard input. The error names the file.
pub fn read(path: &Path) -> Result<Input, String> {
    let told = |reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
    if path == "-" {
        return of(io::stdin().lock()).map_err(|reason| told(&reason));
    }
    let file = File::open(path).map_err(|error| told(&error))?;
    of(file).map_err(|reason| told(&reason))
}

fn of(mut input: impl Read) -> Result<Input, String> {
    let mut begin = Vec::new();
    input.by_ref().take(RECORDING.len() as u64).read_to_end(&mut begin).map_err(|error| error.to_string())?;
    let is_recording = begin == RECORDING;
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

/// What subcommands that take any profile can read.
const KINDS: &str =
    "the files that can be read are pprof (.pb.gz), folded stacks and recordings (--recording-output)";

/// The number of the value that `--value` names.
pub fn value(profile: &WrittenProfile, wanted: Option<&str>) -> Result<Option<usize>, (String, String)> {
    let Some(wanted) = wanted else { return Ok(None) };
    let types = &profile.profile().sample_types;
    types.iter().position(|of| of.kind == wanted).map(Some).ok_or_else(|| {
        let known: Vec<_> = types.iter().map(|of| of.kind.as_str()).collect();
        (format!("--value {wanted}: the profile has no such value"), format!("it has {}", known.join(", ")))
    })
}

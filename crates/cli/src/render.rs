//! `perf-agent render`: outputs from a recording, later and elsewhere.

use std::ffi::OsStr;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

use perfagent::{FileTarget, Mode, OutputKind, Recording, Symbolizer};

use crate::args::RenderArgs;
use crate::exit_status::ExitStatuses;
use crate::signals::Interrupts;
use crate::{ending, input, later_names, library_types, messages, written_output};

/// The profile that `--output` writes, and how.
struct Single<'a> {
    mode: Mode,
    format: &'static str,
    path: &'a OsStr,
}

/// Reads the recording and writes the given outputs; without an output, prints the ledgers.
pub fn run(args: &RenderArgs, interrupts: &Interrupts, statuses: ExitStatuses) -> ExitCode {
    let recording = match read(&args.recording) {
        Ok(recording) => recording,
        Err(reason) => {
            let hint =
                "a recording is written by --recording-output; a file that was cut off or changed is refused";
            messages::error(&format!("{}: {reason}", args.recording.display()), Some(hint));
            return ExitCode::from(statuses.failed);
        }
    };
    let single = match args.output.as_ref().map(|path| single(args, path.as_ref(), &recording)).transpose() {
        Ok(single) => single,
        Err((error, hint)) => {
            messages::error(&error, Some(&hint));
            return ExitCode::from(statuses.rejected);
        }
    };
    let outputs: Vec<_> = outputs(args).collect();
    let binary = outputs.iter().find(|(kind, to)| kind.is_binary() && *to == FileTarget::Stdout);
    let binary = binary.map(|(kind, _)| kind.option());
    let single_is_binary = single.as_ref().is_some_and(|to| to.format == "pprof" && to.path == "-");
    if let Some(option) = binary.or(single_is_binary.then_some("--output"))
        && written_output::is_refused(option)
    {
        return ExitCode::from(statuses.rejected);
    }
    let recording = if args.resymbolize == Some(true) {
        match later_names::symbolizer(&args.symbols, Symbolizer::new()) {
            Ok(symbolizer) => later_names::of_recording(recording, &symbolizer),
            Err(error) => {
                messages::library_error(&error);
                return ExitCode::from(statuses.rejected);
            }
        }
    } else {
        recording
    };
    let recording = recording.drawn(library_types::drawing(&args.files.drawing));
    if outputs.is_empty() && single.is_none() {
        ending::advice(&recording.advice());
        print_ledgers(&recording);
        return ExitCode::SUCCESS;
    }
    let mut complete = true;
    if let Some(Single { mode, format, path }) = single {
        let written =
            recording.write_profile(mode, format, FileTarget::from_word(path), &interrupts.temporary_files);
        match written {
            Ok(bytes) if path != "-" => ending::wrote(Path::new(path), bytes),
            Ok(_) => {}
            Err(error) => {
                messages::library_error(&error);
                complete = false;
            }
        }
    }
    for output in recording.write_outputs(outputs, &interrupts.temporary_files) {
        match (&output.result, &output.path) {
            (Ok(()), Some(path)) => ending::wrote(path, output.bytes),
            (Ok(()), None) => {}
            (Err(error), _) => {
                messages::library_error(error);
                complete = false;
            }
        }
    }
    if complete { ExitCode::SUCCESS } else { ExitCode::from(statuses.failed) }
}

fn read(path: &Path) -> Result<Recording, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    Recording::read_from(BufReader::new(file)).map_err(|error| error.to_string())
}

/// The outputs of recordings.
const KINDS: [OutputKind; 9] = [
    OutputKind::CpuProfile,
    OutputKind::OffCpuProfile,
    OutputKind::WallProfile,
    OutputKind::LockReport,
    OutputKind::HeapProfile,
    OutputKind::Folded,
    OutputKind::FlameGraph,
    OutputKind::Html,
    OutputKind::Recording,
];

/// The outputs that have an option of their own.
fn outputs(args: &RenderArgs) -> impl Iterator<Item = (OutputKind, FileTarget)> {
    args.files.given().filter_map(|(name, path)| {
        let kind = KINDS.into_iter().find(|kind| kind.option().strip_prefix("--") == Some(name));
        Some((kind?, FileTarget::from_word(path.as_ref())))
    })
}

/// What `--output` means, or the error and the hint.
fn single<'a>(
    args: &RenderArgs,
    path: &'a OsStr,
    recording: &Recording,
) -> Result<Single<'a>, (String, String)> {
    let formats = || Recording::formats().collect::<Vec<_>>().join(", ");
    let format = match &args.format {
        Some(name) => Recording::formats().find(|known| known == name).ok_or_else(|| {
            (format!("--format `{name}` is no format"), format!("the formats are {}", formats()))
        })?,
        None => Recording::format_of(Path::new(path)).ok_or_else(|| {
            let path = Path::new(path).display();
            (format!("--output {path}: no format has this extension"), format!("add --format: {}", formats()))
        })?,
    };
    Ok(Single { mode: input::mode_of(recording, args.mode.as_deref())?, format, path })
}

/// Prints the ledger of each profile.
fn print_ledgers(recording: &Recording) {
    for (mode, word) in recording.named_modes() {
        ending::print_ledger(&format!("ledger of {word}:"), recording.ledger(mode));
    }
}

//! `perf-agent convert`: a profile in another format.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use perfagent::{FileTarget, Recording, WrittenProfile};

use crate::exit_status::ExitStatuses;
use crate::signals::Interrupts;
use crate::written_args::ConvertArgs;
use crate::{input, library_types, messages, written_output};

/// Reads the file and writes it anew.
pub fn run(args: &ConvertArgs, interrupts: &Interrupts, statuses: ExitStatuses) -> ExitCode {
    let output: &OsStr = args.output.as_ref();
    let format = match format_of(args) {
        Ok(format) => format,
        Err((error, hint)) => {
            messages::error(&error, Some(&hint));
            return ExitCode::from(statuses.rejected);
        }
    };
    if output == "-" && format == "pprof" && written_output::is_refused("--output") {
        return ExitCode::from(statuses.rejected);
    }
    let profile = match input::profile_with(&args.input, args.mode.as_deref(), &args.symbol_dir) {
        Ok(profile) => profile,
        Err((error, hint)) => {
            messages::error(&error, hint.as_deref());
            return ExitCode::from(statuses.failed);
        }
    };
    let value = match input::value(&profile, args.value.as_deref()) {
        Ok(value) => value,
        Err((error, hint)) => {
            messages::error(&error, Some(&hint));
            return ExitCode::from(statuses.rejected);
        }
    };
    tell_what_is_lost(&profile, value, format);
    let target = FileTarget::from_word(output);
    let written = profile.write_as(
        format,
        value,
        library_types::drawing(&args.drawing),
        target,
        &interrupts.temporary_files,
    );
    written_output::end(output, written, statuses)
}

/// The format of the output, or the error and the hint.
fn format_of(args: &ConvertArgs) -> Result<&'static str, (String, String)> {
    let known = || Recording::formats().collect::<Vec<_>>().join(", ");
    if let Some(name) = &args.format {
        return Recording::formats().find(|format| format == name).ok_or_else(|| {
            (format!("--format `{name}` is no format"), format!("the formats are {}", known()))
        });
    }
    let path = Path::new(AsRef::<OsStr>::as_ref(&args.output));
    Recording::format_of(path).ok_or_else(|| {
        let path = path.display();
        (format!("--output {path}: no format has this extension"), format!("add --format: {}", known()))
    })
}

/// Tells which values of the profile the format does not take.
fn tell_what_is_lost(profile: &WrittenProfile, value: Option<usize>, format: &str) {
    let types = &profile.profile().sample_types;
    if types.len() < 2 || matches!(format, "pprof" | "ndjson" | "html") {
        return;
    }
    let shown = value.unwrap_or_else(|| profile.profile().default_value());
    let kind = |number: usize| types.get(number).map_or("", |of| of.kind.as_str());
    let others: Vec<_> = (0..types.len()).filter(|number| *number != shown).map(kind).collect();
    let line = format!("the output has {}, not {} (--value)", kind(shown), others.join(", "));
    messages::note(&line);
}

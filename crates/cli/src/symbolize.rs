//! `perf-agent symbolize`: names for a profile or a recording that was written already, later and elsewhere.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use perfagent::{Error, FileTarget, OutputKind, Symbolizer};

use crate::args::SymbolizeArgs;
use crate::exit_status::ExitStatuses;
use crate::input::{self, Input};
use crate::signals::Interrupts;
use crate::{later_names, messages, written_output};

/// Reads the file, looks up names, and writes the result.
pub fn run(args: &SymbolizeArgs, interrupts: &Interrupts, statuses: ExitStatuses) -> ExitCode {
    let output: &OsStr = args.output.as_ref();
    if output == "-" && written_output::is_refused("--output") {
        return ExitCode::from(statuses.rejected);
    }
    let symbolizer = match later_names::with_dirs(&args.symbol_dir) {
        Ok(symbolizer) => symbolizer.cancelled_by(&interrupts.stop),
        Err(error) => {
            messages::error(
                &error,
                Some("a directory like /usr/lib/debug, or one with the files themselves"),
            );
            return ExitCode::from(statuses.rejected);
        }
    };
    let symbolizer = with_kernel(args, symbolizer).and_then(|it| later_names::symbolizer(&args.symbols, it));
    let symbolizer = match symbolizer {
        Ok(symbolizer) => symbolizer,
        Err(error) => {
            messages::library_error(&error);
            return ExitCode::from(statuses.rejected);
        }
    };
    let input = match input::read(&args.input, &symbolizer) {
        Ok(input) => input,
        Err(error) => {
            let hint = "symbolize takes pprof files (.pb.gz) and recordings (--recording-output)";
            messages::error(&error, Some(hint));
            return ExitCode::from(statuses.failed);
        }
    };
    let input = match input {
        Input::PerfData(_) => {
            let error = format!("{}: symbolize takes no perf.data", args.input.display());
            let hint = "perf-agent convert names what it reads: convert the file to pprof, and symbolize that with other files";
            messages::error(&error, Some(hint));
            return ExitCode::from(statuses.failed);
        }
        Input::Profile(profile) => Ok(profile),
        Input::Recording(recording) => Err(recording),
    };
    let target = FileTarget::from_word(output);
    let temporary = &interrupts.temporary_files;
    let written = match input {
        Ok(profile) => {
            let (named, outcome) = profile.symbolize(&symbolizer);
            outcome.told.iter().for_each(|line| messages::warning(line, None));
            if outcome.abandoned > 0 {
                let line = format!(
                    "the search for names was ended: {} places were not looked up",
                    outcome.abandoned
                );
                messages::warning(&line, None);
            }
            let places = outcome.named + outcome.unnamed;
            messages::note(&format!("{} of {places} places without a name have one now", outcome.named));
            if outcome.unnamed > 0 {
                let files = "give directories with the files or debug files of these build-ids by --symbol-dir, or a server by --debuginfod-url";
                let kernel = "give the vmlinux of the kernel by --vmlinux, or its System.map or a copy of /proc/kallsyms by --system-map";
                let hint = if outcome.unnamed == outcome.unnamed_in_kernel { kernel } else { files };
                let line = match outcome.unnamed_in_kernel {
                    0 => format!("{} places have no name still", outcome.unnamed),
                    count => format!(
                        "{} places have no name still, {count} of them in the kernel",
                        outcome.unnamed
                    ),
                };
                messages::warning(&line, Some(hint));
            }
            named.write(target, temporary)
        }
        Err(recording) => {
            let named = later_names::of_recording(recording, &symbolizer);
            let mut reports = named.write_outputs([(OutputKind::Recording, target)], temporary);
            match reports.pop() {
                Some(report) => report.result.map(|()| report.bytes),
                None => Ok(0),
            }
        }
    };
    written_output::end(output, written, statuses)
}

fn with_kernel(args: &SymbolizeArgs, symbolizer: Symbolizer) -> Result<Symbolizer, Error> {
    let symbolizer = match &args.vmlinux {
        Some(path) => symbolizer.vmlinux(absolute(path))?,
        None => symbolizer,
    };
    match &args.system_map {
        Some(path) => symbolizer.system_map(absolute(path)),
        None => Ok(symbolizer),
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

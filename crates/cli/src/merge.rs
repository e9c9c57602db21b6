//! `perf-agent merge`: several profiles as one.

use std::ffi::OsStr;
use std::process::ExitCode;

use perfagent::{FileTarget, WrittenProfile};

use crate::exit_status::ExitStatuses;
use crate::signals::Interrupts;
use crate::written_args::MergeArgs;
use crate::{input, messages, written_output};

/// Adds up the profiles and writes the sum.
pub fn run(args: &MergeArgs, interrupts: &Interrupts, statuses: ExitStatuses) -> ExitCode {
    let output: &OsStr = args.output.as_ref();
    if output == "-" && written_output::is_refused("--output") {
        return ExitCode::from(statuses.rejected);
    }
    let mut profiles = Vec::new();
    for path in &args.inputs {
        match input::profile(path, args.mode.as_deref()) {
            Ok(profile) => profiles.push((path.display().to_string(), profile)),
            Err((error, hint)) => {
                messages::error(&error, hint.as_deref());
                return ExitCode::from(statuses.failed);
            }
        }
    }
    let target = FileTarget::from_word(output);
    let written =
        WrittenProfile::merge(profiles).and_then(|merged| merged.write(target, &interrupts.temporary_files));
    written_output::end(output, written, statuses)
}

//! The output of the only kind of capture that runs: which output it is follows from that kind and from the extension.

use std::path::Path;

use super::facts::Facts;
use super::request::Request;
use super::setting::Setting;
use crate::error::Error;
use crate::output::{FileTarget, OutputKind};

const OPTION: &str = "-o";

/// Turns the output into one with an option of its own, if that is certain. Otherwise [`check`] refuses it.
pub(super) fn settle(request: &mut Request) {
    let Some(kind) = request.single_output.value().and_then(|file| kind_of(request, file)) else { return };
    let file = std::mem::take(&mut request.single_output);
    request.output(kind).file.set(file);
}

/// Refuses an output that several kinds of capture could fill, and one in a format that no capture writes.
pub(super) fn check(request: &Request, _: &Facts) -> Result<(), Error> {
    let Setting::Value(file) = &request.single_output else { return Ok(()) };
    let modes = modes(request);
    if let [_] = modes[..] {
        let reason = format!("{OPTION} {}: a capture does not write this format", file.describe());
        let hint = "write a recording (-o FILE.perf-agent), and this format from it with `perf-agent render`";
        return Err(Error::invalid(OPTION, reason, hint));
    }
    let options: Vec<_> = modes.iter().map(|kind| kind.option()).collect();
    let reason = format!("{OPTION} is the output of one mode, and there are {}", modes.len());
    Err(Error::invalid(OPTION, reason, format!("give each its own: {}", options.join(", "))))
}

/// The usual outputs of the kinds of capture that run.
fn modes(request: &Request) -> Vec<OutputKind> {
    let all = [
        (request.profile.is_on(), OutputKind::CpuProfile),
        (request.takes_heap(), OutputKind::HeapProfile),
        (request.off_cpu.is_on(), OutputKind::OffCpuProfile),
        (request.pmu.is_on(), OutputKind::PmuReport),
        (request.locks.is_on(), OutputKind::LockReport),
    ];
    all.into_iter().filter_map(|(is_on, kind)| is_on.then_some(kind)).collect()
}

fn kind_of(request: &Request, file: &FileTarget) -> Option<OutputKind> {
    let [usual] = modes(request)[..] else { return None };
    let extension = match file {
        FileTarget::Path(path) if usual != OutputKind::PmuReport => extension_of(path),
        _ => None,
    };
    match extension {
        None | Some("pb.gz") => Some(usual),
        Some("folded") => Some(OutputKind::Folded),
        Some("svg") => Some(OutputKind::FlameGraph),
        Some("html" | "htm") => Some(OutputKind::Html),
        Some(RECORDING) => Some(OutputKind::Recording),
        Some(PERF_DATA) => Some(OutputKind::PerfData),
        Some(_) => None,
    }
}

const RECORDING: &str = "perf-agent";
/// It is also the usual name of such a file.
const PERF_DATA: &str = "perf.data";

/// The extension, if it is that of an output of captures or of a format.
fn extension_of(path: &Path) -> Option<&'static str> {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let before = |extension: &str| name.strip_suffix(extension.as_bytes());
    if before(".perf.data").is_some() || before(PERF_DATA) == Some(b"") {
        return Some(PERF_DATA);
    }
    let recording = path.extension().is_some_and(|extension| extension == RECORDING);
    if recording { Some(RECORDING) } else { formats::registry::extension_of(path) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Agent, AgentBuilder};

    /// The outputs of a request whose single output has this path.
    fn settled(builder: AgentBuilder, path: &str) -> (Vec<OutputKind>, Result<(), String>) {
        let mut request = builder.output(path).into_request();
        settle(&mut request);
        let refused = check(&request, &Facts::read()).map_err(|error| error.to_string());
        (request.outputs.into_keys().collect(), refused)
    }

    #[test]
    fn the_kind_follows_from_the_mode_and_the_extension() {
        let on = || Agent::builder().pid(1).with_cpu_profile();
        let off = || Agent::builder().pid(1).with_off_cpu_profile();
        let pmu = || Agent::builder().pid(1).pmu();
        for (builder, path, kind) in [
            (on(), "x", OutputKind::CpuProfile),
            (on(), "x.pb.gz", OutputKind::CpuProfile),
            (on(), "x.y", OutputKind::CpuProfile),
            (off(), "x.pb.gz", OutputKind::OffCpuProfile),
            (off(), "x.svg", OutputKind::FlameGraph),
            (on(), "x.folded", OutputKind::Folded),
            (on(), "x.html", OutputKind::Html),
            (on(), "x.perf-agent", OutputKind::Recording),
            (on(), "x.perf.data", OutputKind::PerfData),
            (on(), "a.b/perf.data", OutputKind::PerfData),
            (on(), "x.data", OutputKind::CpuProfile),
            (on(), "xperf.data", OutputKind::CpuProfile),
            (pmu(), "x.svg", OutputKind::PmuReport),
        ] {
            assert_eq!(settled(builder, path), (vec![kind], Ok(())), "{path}");
        }
    }

    #[test]
    fn one_output_is_not_for_two_modes_or_other_formats() {
        let both = Agent::builder().pid(1).with_cpu_profile().with_off_cpu_profile();
        let (outputs, refused) = settled(both, "x");
        assert!(outputs.is_empty() && refused.unwrap_err().contains("one mode, and there are 2"));
        let (_, refused) = settled(Agent::builder().pid(1).with_cpu_profile(), "x.ndjson");
        assert!(refused.unwrap_err().contains("does not write this format"));
    }
}

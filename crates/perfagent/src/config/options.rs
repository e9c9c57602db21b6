//! Options as text, as on the command line. This table turns all of them into values.

use std::ffi::OsStr;

use super::request::Request;
use super::setting::Setting;
use super::size::parse_size;
use events::counting::CounterSpec;
use metrics::endpoint::ListenAddress;

use super::event::SampledEvent;
use super::{HeapMode, PmuFormat, PythonFrames, Unwind, parse_duration};
use crate::OffCpuState;
use crate::output::{FileTarget, OutputKind};

/// How the text of an option changes the request.
enum Apply {
    /// `true` or `false`.
    Flag(fn(&mut Request) -> &mut Setting<bool>),
    /// A value.
    Value(fn(&mut Request, &str)),
    /// A path of an output, which may be any bytes.
    Output(OutputKind),
    /// The same, of the only kind of capture.
    SingleOutput,
}

/// All textual options, without the dashes.
const OPTIONS: &[(&str, Apply)] = &[
    ("profile", Apply::Flag(|r| &mut r.profile)),
    ("event", Apply::Value(|r, text| r.events.push(SampledEvent::parse(text).map_err(|_| text.to_owned())))),
    ("heap", Apply::Value(|r, text| r.heap.set(read(text, HeapMode::parse(text).ok())))),
    ("offcpu", Apply::Flag(|r| &mut r.off_cpu)),
    ("wakers", Apply::Flag(|r| &mut r.wakers)),
    ("pmu", Apply::Flag(|r| &mut r.pmu)),
    ("locks", Apply::Flag(|r| &mut r.locks)),
    ("per-pid", Apply::Flag(|r| &mut r.per_pid)),
    ("pmu-events", Apply::Value(|r, text| r.pmu_events.set(read(text, CounterSpec::parse_list(text).ok())))),
    ("pmu-format", Apply::Value(|r, text| r.pmu_format.set(read(text, pmu_format(text))))),
    (
        "metrics-listen",
        Apply::Value(|r, text| r.metrics_listen.set(read(text, ListenAddress::parse(text).ok()))),
    ),
    ("offcpu-states", Apply::Value(|r, text| r.off_cpu_states.set(read(text, states(text))))),
    ("min-block", Apply::Value(|r, text| r.min_block.set(read(text, parse_duration(text).ok())))),
    ("all", Apply::Flag(|r| &mut r.system_wide)),
    ("kernel-stacks", Apply::Flag(|r| &mut r.kernel_stacks)),
    ("per-thread", Apply::Flag(|r| &mut r.per_thread)),
    ("self-check", Apply::Flag(|r| &mut r.self_check)),
    ("java-perf-map", Apply::Flag(|r| &mut r.java_perf_map)),
    ("dotnet-perf-map", Apply::Flag(|r| &mut r.dotnet_perf_map)),
    ("pid", Apply::Value(|r, text| r.pids.extend(pids(text)))),
    ("comm", Apply::Value(|r, text| r.comms.push(text.to_owned()))),
    ("tid", Apply::Value(|r, text| r.tids.extend(pids(text)))),
    ("cgroup", Apply::Value(|r, text| r.cgroup.set(Setting::Value(text.to_owned())))),
    ("no-children", Apply::Flag(|r| &mut r.no_children)),
    ("duration", Apply::Value(|r, text| r.duration.set(read(text, parse_duration(text).ok())))),
    ("sample-rate", Apply::Value(|r, text| r.sample_rate.set(read(text, text.parse().ok())))),
    ("unwind", Apply::Value(|r, text| r.unwind.set(read(text, unwind(text))))),
    ("python", Apply::Value(|r, text| r.python.set(read(text, PythonFrames::of_name(text))))),
    ("inject-python", Apply::Flag(|r| &mut r.inject_python)),
    ("tag", Apply::Value(|r, text| r.tags.push(tag(text)))),
    ("max-stacks", Apply::Value(|r, text| r.max_stacks.set(read(text, size(text))))),
    ("table-memory", Apply::Value(|r, text| r.table_memory.set(read(text, size(text))))),
    ("ring-size", Apply::Value(|r, text| r.ring_bytes.set(read(text, size(text))))),
    ("max-memory", Apply::Value(|r, text| r.max_memory_bytes.set(read(text, parse_size(text))))),
    ("profile-output", Apply::Output(OutputKind::CpuProfile)),
    ("heap-output", Apply::Output(OutputKind::HeapProfile)),
    ("offcpu-output", Apply::Output(OutputKind::OffCpuProfile)),
    ("wall-output", Apply::Output(OutputKind::WallProfile)),
    ("pmu-output", Apply::Output(OutputKind::PmuReport)),
    ("locks-output", Apply::Output(OutputKind::LockReport)),
    ("folded-output", Apply::Output(OutputKind::Folded)),
    ("flamegraph-output", Apply::Output(OutputKind::FlameGraph)),
    ("html-output", Apply::Output(OutputKind::Html)),
    ("recording-output", Apply::Output(OutputKind::Recording)),
    ("perf-data-output", Apply::Output(OutputKind::PerfData)),
    ("output", Apply::SingleOutput),
    ("debuginfod-url", Apply::Value(|r, text| r.debuginfod = std::mem::take(&mut r.debuginfod).url(text))),
    ("symbol-cache-dir", Apply::Value(|r, text| r.debuginfod.cache_dir.set(Setting::Value(text.into())))),
    (
        "symbol-cache-max",
        Apply::Value(|r, text| r.debuginfod = std::mem::take(&mut r.debuginfod).cache_max_text(text)),
    ),
    (
        "symbol-fetch-timeout",
        Apply::Value(|r, text| r.debuginfod = std::mem::take(&mut r.debuginfod).fetch_timeout_text(text)),
    ),
    ("symbol-fail-closed", Apply::Flag(|r| &mut r.debuginfod.fail_closed)),
    ("rotate", Apply::Value(|r, text| r.rotate.set(read(text, parse_duration(text).ok())))),
];

fn read<T>(text: &str, value: Option<T>) -> Setting<T> {
    value.map_or_else(|| Setting::Unreadable(text.to_owned()), Setting::Value)
}

/// Reads numbers with commas or blanks between them. A text without a number is kept as it is.
fn pids(text: &str) -> Vec<Result<u32, String>> {
    let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    let pids: Vec<_> = words.map(|word| word.parse().map_err(|_| word.to_owned())).collect();
    if pids.is_empty() { vec![Err(text.to_owned())] } else { pids }
}

fn tag(text: &str) -> Result<(String, String), String> {
    text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())).ok_or_else(|| text.to_owned())
}

fn unwind(text: &str) -> Option<Unwind> {
    Unwind::NAMES.iter().find(|(name, _)| *name == text).map(|(_, mode)| *mode)
}

/// Reads a comma-separated list of states. Sorts it and removes duplicates.
fn states(text: &str) -> Option<Vec<OffCpuState>> {
    let state =
        |word: &str| OffCpuState::NAMES.iter().find(|(name, _)| *name == word).map(|(_, state)| *state);
    let mut states: Vec<OffCpuState> = text.split(',').map(state).collect::<Option<_>>()?;
    states.sort_unstable();
    states.dedup();
    Some(states)
}

fn pmu_format(text: &str) -> Option<PmuFormat> {
    match text {
        "text" => Some(PmuFormat::Text),
        "json" => Some(PmuFormat::Json),
        _ => None,
    }
}

fn size(text: &str) -> Option<u32> {
    parse_size(text).and_then(|bytes| u32::try_from(bytes).ok())
}

/// Sets one textual option in the request. Unreadable values are kept for the checks.
pub(super) fn apply(request: &mut Request, name: &str, value: &OsStr) {
    let Some((_, apply)) = OPTIONS.iter().find(|(known, _)| *known == name) else {
        request.malformed.push((format!("--{name}"), "there is no such option".to_owned()));
        return;
    };
    let text = value.to_string_lossy();
    match apply {
        Apply::Flag(setting) => match text.as_ref() {
            "true" => setting(request).set(Setting::Value(true)),
            "false" => setting(request).set(Setting::Value(false)),
            _ => {
                let reason = format!("`{text}` is neither true nor false");
                request.malformed.push((format!("--{name}"), reason));
            }
        },
        Apply::Value(set) if value.to_str().is_some() => set(request, &text),
        Apply::Value(_) => {
            let reason = format!("`{text}` is not valid UTF-8");
            request.malformed.push((format!("--{name}"), reason));
        }
        Apply::SingleOutput => {
            request.single_output.set(Setting::Value(FileTarget::from_word(value)));
        }
        Apply::Output(kind) => {
            request.output(*kind).file.set(Setting::Value(FileTarget::from_word(value)));
        }
    }
}

//! The builder: setters may come in any order, and are checked together at the end.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::request::{DefaultEnricher, Request};
use super::setting::Setting;
use metrics::MetricsExporter;

use super::{
    Config, Debuginfod, HeapMode, Labels, Plan, PmuFormat, ProcessInfo, PythonFrames, Unwind, checks,
};
use crate::OffCpuState;
use crate::error::Error;
use crate::hooks::{CompiledTable, ExecutedProgram};
use crate::output::{Drawing, FileTarget, OutputKind, Sink, TemporaryFiles};
use crate::symbol_source::SymbolSource;

/// Describes a capture. Setters may come in any order; [`build`](Self::build) refuses contradictions. `A` is the type that
/// `build` returns: see [`AgentBuilder`](crate::AgentBuilder).
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<A> {
    request: Request,
    make: fn(Plan) -> A,
}

impl<A> std::fmt::Debug for Builder<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentBuilder").finish_non_exhaustive()
    }
}

impl<A> Builder<A> {
    /// An empty description. `make` turns the checked plan into the result of `build`.
    pub(crate) fn new(make: fn(Plan) -> A) -> Self {
        Self { request: Request::default(), make }
    }

    /// Adds a target process by its PID in the caller's PID namespace, with its descendants.
    pub fn pid(mut self, pid: u32) -> Self {
        self.request.pids.push(Ok(pid));
        self
    }

    /// Adds several target processes.
    pub fn pids(mut self, pids: impl IntoIterator<Item = u32>) -> Self {
        self.request.pids.extend(pids.into_iter().map(Ok));
        self
    }

    /// Adds as targets all processes that have exactly this name when the capture starts.
    pub fn comm(mut self, name: &str) -> Self {
        self.request.comms.push(name.to_owned());
        self
    }

    /// Take samples of this thread only, by its number in the caller's PID namespace; adds up. The thread must be one of a target.
    pub fn tid(mut self, tid: u32) -> Self {
        self.request.tids.push(Ok(tid));
        self
    }

    /// Take samples of one control group of version 2, and of those below it, only: its directory, its path in the hierarchy,
    /// or the id of a container.
    pub fn cgroup(mut self, group: &str) -> Self {
        self.request.cgroup.set(Setting::Value(group.to_owned()));
        self
    }

    /// Leave out the descendants of the targets, living at the start or forked later; off by default.
    pub fn no_children(mut self, on: bool) -> Self {
        self.request.no_children.set(Setting::Value(on));
        self
    }

    /// Profile all processes of the system and kernel threads.
    pub fn system_wide(mut self) -> Self {
        self.request.system_wide.set(Setting::Value(true));
        self
    }

    /// Start this command and profile it from its first instruction on.
    pub fn command(mut self, command: Command) -> Self {
        self.request.commands.push(command);
        self
    }

    /// Take an on-CPU profile and write it to this file: a path, or an automatic name (see [`crate::auto_name`]).
    pub fn cpu_profile(self, file: impl Into<FileTarget>) -> Self {
        self.with_cpu_profile().output_file(OutputKind::CpuProfile, file.into())
    }

    /// Take an on-CPU profile and write it to this sink.
    pub fn cpu_profile_to(self, sink: impl Sink + 'static) -> Self {
        self.with_cpu_profile().output_sink(OutputKind::CpuProfile, Box::new(sink))
    }

    /// Take an on-CPU profile without a pprof file. The report has it as a value; [`folded`](Self::folded) and
    /// [`flamegraph`](Self::flamegraph) write it in other formats.
    pub fn with_cpu_profile(mut self) -> Self {
        self.request.profile.set(Setting::Value(true));
        self
    }

    /// Sample this event instead of time on CPUs: `EVENT [period=N]`, as `page-faults` or `context-switches period=10`. The profile
    /// then counts the event, with the stack of the thread that causes it. Needs the on-CPU profile, whose place it takes. It adds up: each of
    /// at most six events has a profile of its own, [`Mode::Event`](crate::Mode::Event) the first one, [`Mode::FurtherEvent`](crate::Mode::FurtherEvent)
    /// the others.
    pub fn event(self, event: &str) -> Self {
        self.option("event", event)
    }

    /// Record allocations of the targets in place of samples: objects and bytes by stack, allocated and in use at the end.
    pub fn heap(mut self, mode: HeapMode) -> Self {
        self.request.heap.set(Setting::Value(Some(mode)));
        self
    }

    /// Write the profile of [`heap`](Self::heap) to this file: a path, or an automatic name.
    pub fn heap_output(self, file: impl Into<FileTarget>) -> Self {
        self.output_file(OutputKind::HeapProfile, file.into())
    }

    /// Take an off-CPU profile and write it to this file: a path, or an automatic name.
    pub fn off_cpu_profile(self, file: impl Into<FileTarget>) -> Self {
        self.with_off_cpu_profile().output_file(OutputKind::OffCpuProfile, file.into())
    }

    /// Take an off-CPU profile and write it to this sink.
    pub fn off_cpu_profile_to(self, sink: impl Sink + 'static) -> Self {
        self.with_off_cpu_profile().output_sink(OutputKind::OffCpuProfile, Box::new(sink))
    }

    /// Take an off-CPU profile without a file. The report has it as a value.
    pub fn with_off_cpu_profile(mut self) -> Self {
        self.request.off_cpu.set(Setting::Value(true));
        self
    }

    /// The states whose time is in the off-CPU profile; blocked and iowait by default.
    pub fn off_cpu_states(mut self, states: impl IntoIterator<Item = OffCpuState>) -> Self {
        let states: BTreeSet<OffCpuState> = states.into_iter().collect();
        self.request.off_cpu_states.set(Setting::Value(states.into_iter().collect()));
        self
    }

    /// Off-CPU intervals shorter than this are only counted; 0 by default.
    pub fn min_block(mut self, length: Duration) -> Self {
        self.request.min_block.set(Setting::Value(length));
        self
    }

    /// Cut the capture every `every` and write one set of outputs for each interval. Their names contain its start time:
    /// `NAME-TIME.EXT`. The outputs must be files. The report of the metrics covers the whole capture.
    pub fn rotate(mut self, every: Duration) -> Self {
        self.request.rotate.set(Setting::Value(every));
        self
    }

    /// Record the waker that ends each off-CPU interval: process, thread and stack; off by default.
    pub fn wakers(mut self, on: bool) -> Self {
        self.request.wakers.set(Setting::Value(on));
        self
    }

    /// Also write on-CPU and off-CPU time as one profile, whose sum is threads x time. Needs both profiles.
    pub fn wall_profile(self, file: impl Into<FileTarget>) -> Self {
        self.output_file(OutputKind::WallProfile, file.into())
    }

    /// As [`wall_profile`](Self::wall_profile), to a sink.
    pub fn wall_profile_to(self, sink: impl Sink + 'static) -> Self {
        self.output_sink(OutputKind::WallProfile, Box::new(sink))
    }

    /// Take scheduler statistics and count events. They are available during the capture and in the report.
    pub fn pmu(mut self) -> Self {
        self.request.pmu.set(Setting::Value(true));
        self
    }

    /// Record which locks threads wait for, who held them and who ended the waits. The report has it as a value; see
    /// [`lock_report`](Self::lock_report).
    pub fn with_locks(mut self) -> Self {
        self.request.locks.set(Setting::Value(true));
        self
    }

    /// As [`with_locks`](Self::with_locks), and write what was found to this file: as text, or as a profile of contentions and their delay
    /// if the name ends with `.pb.gz`.
    pub fn lock_report(self, file: impl Into<FileTarget>) -> Self {
        self.with_locks().output_file(OutputKind::LockReport, file.into())
    }

    /// As [`lock_report`](Self::lock_report), as text, to a sink.
    pub fn lock_report_to(self, sink: impl Sink + 'static) -> Self {
        self.with_locks().output_sink(OutputKind::LockReport, Box::new(sink))
    }

    /// The events to count, by name; cycles, instructions and cache-misses by default.
    pub fn pmu_events<S: AsRef<str>>(self, events: impl IntoIterator<Item = S>) -> Self {
        let events: Vec<String> = events.into_iter().map(|event| event.as_ref().to_owned()).collect();
        self.option("pmu-events", events.join(","))
    }

    /// With the whole system as target: also take statistics of each process.
    pub fn per_pid(mut self) -> Self {
        self.request.per_pid.set(Setting::Value(true));
        self
    }

    /// Write the report of the metrics to this file.
    pub fn pmu_report(mut self, file: impl Into<FileTarget>, format: PmuFormat) -> Self {
        self.request.pmu_format.set(Setting::Value(format));
        self.output_file(OutputKind::PmuReport, file.into())
    }

    /// Write the report of the metrics to this file, in the format of the option `pmu-format`; text by default.
    pub fn pmu_output(self, file: impl Into<FileTarget>) -> Self {
        self.output_file(OutputKind::PmuReport, file.into())
    }

    /// Write the report of the metrics to this sink.
    pub fn pmu_report_to(mut self, sink: impl Sink + 'static, format: PmuFormat) -> Self {
        self.request.pmu_format.set(Setting::Value(format));
        self.output_sink(OutputKind::PmuReport, Box::new(sink))
    }

    /// Adds an exporter. It receives the metrics at the end, and at each [`metrics_interval`](Self::metrics_interval). Each
    /// exporter runs on its own thread. At the end the agent waits at most 5 s for all exporters; a warning names those
    /// that have not returned.
    pub fn metrics_exporter(mut self, exporter: impl MetricsExporter + Send + 'static) -> Self {
        self.request.exporters.add(exporter);
        self
    }

    /// How often exporters are called during the capture. By default they are called only at its end.
    pub fn metrics_interval(mut self, interval: Duration) -> Self {
        self.request.metrics_interval.set(Setting::Value(interval));
        self
    }

    /// Serve metrics over HTTP during the capture, at this address: `HOST:PORT`, or `:PORT` for this machine only.
    pub fn metrics_listen(self, address: &str) -> Self {
        self.option("metrics-listen", address)
    }

    /// Also write folded stacks. If several profiles are taken, each has a file of its own, `NAME.MODE.EXT`; a device or a FIFO gets the
    /// on-CPU profile.
    pub fn folded(self, file: impl Into<FileTarget>) -> Self {
        self.output_file(OutputKind::Folded, file.into())
    }

    /// As [`folded`](Self::folded), of the first profile, to a sink.
    pub fn folded_to(self, sink: impl Sink + 'static) -> Self {
        self.output_sink(OutputKind::Folded, Box::new(sink))
    }

    /// Also write an SVG flame graph, as [`folded`](Self::folded) writes folded stacks.
    pub fn flamegraph(self, file: impl Into<FileTarget>) -> Self {
        self.output_file(OutputKind::FlameGraph, file.into())
    }

    /// As [`flamegraph`](Self::flamegraph), of the first profile, to a sink.
    pub fn flamegraph_to(self, sink: impl Sink + 'static) -> Self {
        self.output_sink(OutputKind::FlameGraph, Box::new(sink))
    }

    /// Also write an HTML report, as [`folded`](Self::folded) writes folded stacks: one page that a browser opens from disk.
    pub fn html(self, file: impl Into<FileTarget>) -> Self {
        self.output_file(OutputKind::Html, file.into())
    }

    /// As [`html`](Self::html), of the first profile, to a sink.
    pub fn html_to(self, sink: impl Sink + 'static) -> Self {
        self.output_sink(OutputKind::Html, Box::new(sink))
    }

    /// Also write the recording, from which every other output can be made later: see [`Recording`](crate::Recording). Needs a profile.
    pub fn recording_output(self, file: impl Into<FileTarget>) -> Self {
        self.output_file(OutputKind::Recording, file.into())
    }

    /// As [`recording_output`](Self::recording_output), to a sink.
    pub fn recording_output_to(self, sink: impl Sink + 'static) -> Self {
        self.output_sink(OutputKind::Recording, Box::new(sink))
    }

    /// Also write each on-CPU sample with its time, CPU and thread as perf.data, the format of `perf record`, into this file. It grows while
    /// the capture runs, and what is in it stays if the process is killed. Needs the on-CPU profile.
    pub fn perf_data(self, file: impl Into<PathBuf>) -> Self {
        self.output_file(OutputKind::PerfData, FileTarget::Path(file.into()))
    }

    /// Write the output of the only kind of capture to this file: the profile in the format of the file's extension (pprof,
    /// folded stacks, SVG, recording; pprof if the extension is of no format), or the report of the metrics.
    pub fn output(mut self, file: impl Into<FileTarget>) -> Self {
        self.request.single_output.set(Setting::Value(file.into()));
        self
    }

    fn output_file(mut self, kind: OutputKind, file: FileTarget) -> Self {
        self.request.output(kind).file.set(Setting::Value(file));
        self
    }

    fn output_sink(mut self, kind: OutputKind, sink: Box<dyn Sink>) -> Self {
        self.request.output(kind).sinks.push(sink);
        self
    }

    /// Samples per second and CPU; 99 by default.
    pub fn sample_rate(mut self, hz: u32) -> Self {
        self.request.sample_rate.set(Setting::Value(hz));
        self
    }

    /// How user stacks are walked; [`Unwind::Auto`] by default.
    pub fn unwind(mut self, unwind: Unwind) -> Self {
        self.request.unwind.set(Setting::Value(unwind));
        self
    }

    /// What stacks show of programs in Python; [`PythonFrames::Auto`] by default.
    pub fn python(mut self, frames: PythonFrames) -> Self {
        self.request.python.set(Setting::Value(frames));
        self
    }

    /// Switch the perf trampoline of CPython 3.12 and later on in the processes of the capture, before the first sample, and off again after the
    /// last one; off by default. It needs an on-CPU profile and `cap_sys_ptrace`, and calls functions of the interpreter in a thread of each
    /// process. A process that was given by [`pid`](Self::pid) and cannot be switched fails the start with [`Error::Inject`]; others are counted:
    /// see [`Agent::python_stats`](crate::Agent::python_stats).
    pub fn inject_python(mut self, on: bool) -> Self {
        self.request.inject_python.set(Setting::Value(on));
        self
    }

    /// Add kernel frames; off by default.
    pub fn kernel_stacks(mut self, on: bool) -> Self {
        self.request.kernel_stacks.set(Setting::Value(on));
        self
    }

    /// Whether to add kernel frames of this target and of its children, as [`kernel_stacks`](Self::kernel_stacks) does for all targets.
    /// It holds for a process that is given by the same number to [`pid`](Self::pid) or, later, to
    /// [`Agent::add_pid`](crate::Agent::add_pid).
    pub fn target_kernel_stacks(mut self, pid: u32, on: bool) -> Self {
        self.request.target_kernel_stacks.entry(pid).or_default().set(Setting::Value(on));
        self
    }

    /// Count threads separately, with the labels `tid` and `thread`; off by default.
    pub fn per_thread(mut self, on: bool) -> Self {
        self.request.per_thread.set(Setting::Value(on));
        self
    }

    /// How flame graphs and folded stacks are drawn.
    pub fn drawing(mut self, drawing: Drawing) -> Self {
        self.request.drawing = drawing;
        self
    }

    /// Also record each on-CPU sample by itself, with its time, CPU and thread: `Recording::singles` of the model behind
    /// [`crate::Recording`]. Profiles do not change. Off by default: each sample then costs a message from the kernel, and
    /// memory. An interval keeps at most a million samples; the rest is counted as lost there.
    pub fn single_samples(mut self, on: bool) -> Self {
        self.request.single_samples.set(Setting::Value(on));
        self
    }

    /// Adds CPUs to sample; all online CPUs by default. The ledger of the profile names them. It affects on-CPU sampling
    /// only: off-CPU profiles, scheduler statistics and counters always cover all CPUs.
    pub fn cpus(mut self, cpus: impl IntoIterator<Item = u32>) -> Self {
        self.request.cpus.get_or_insert_default().extend(cpus);
        self
    }

    /// Adds a profile comment `K=V`.
    pub fn tag(mut self, key: &str, value: &str) -> Self {
        self.request.tags.push(Ok((key.to_owned(), value.to_owned())));
        self
    }

    /// Adds several profile comments.
    pub fn tags<K: AsRef<str>, V: AsRef<str>>(self, tags: impl IntoIterator<Item = (K, V)>) -> Self {
        tags.into_iter().fold(self, |builder, (key, value)| builder.tag(key.as_ref(), value.as_ref()))
    }

    /// Adds a fixed label to all samples. It overrides labels of enrichers.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        let before = self.request.labels.insert(key.to_owned(), value.to_owned());
        if before.is_some_and(|before| before != value) {
            self.request.label_contradiction = Some(key.to_owned());
        }
        self
    }

    /// Adds several fixed labels.
    pub fn labels(self, labels: Labels) -> Self {
        labels.iter().fold(self, |builder, (key, value)| builder.label(key, value))
    }

    /// Replaces the agent's own enricher. It is called once for each program that a process runs, not on the sampling path.
    pub fn label_enricher(
        mut self,
        enricher: impl Fn(&ProcessInfo) -> Labels + Send + Sync + 'static,
    ) -> Self {
        self.request.default_enricher = match self.request.default_enricher {
            DefaultEnricher::Kept => DefaultEnricher::Replaced(Arc::new(enricher)),
            _ => DefaultEnricher::Contradiction,
        };
        self
    }

    /// Removes the agent's own enricher.
    pub fn no_label_enricher(mut self) -> Self {
        self.request.default_enricher = match self.request.default_enricher {
            DefaultEnricher::Kept | DefaultEnricher::Removed => DefaultEnricher::Removed,
            _ => DefaultEnricher::Contradiction,
        };
        self
    }

    /// Adds an enricher. It runs after the other enrichers and overrides equal keys.
    pub fn add_label_enricher(
        mut self,
        enricher: impl Fn(&ProcessInfo) -> Labels + Send + Sync + 'static,
    ) -> Self {
        self.request.added_enrichers.push(Arc::new(enricher));
        self
    }

    /// Adds a function that is called for each compiled unwind table with its file, its rows and the compile time, for
    /// measurements. It runs on a separate thread. If it panics, it is not called again, and the report has a warning.
    pub fn on_table_compiled(mut self, hook: impl FnMut(&CompiledTable) + Send + 'static) -> Self {
        self.request.table_hooks.add(hook);
        self
    }

    /// Adds a function that is called when a process of the targets executes another program while the capture runs. It runs on
    /// a separate thread, with the programs of one process in order. If it panics, it is not called again, and the report has a warning.
    pub fn on_exec(mut self, hook: impl FnMut(&ExecutedProgram) + Send + 'static) -> Self {
        self.request.exec_hooks.add(hook);
        self
    }

    /// Adds a source of names. It is asked before those of perf-agent, and after those that were added before: see
    /// [`symbol_source`](mod@crate::symbol_source). It moves to the thread that looks names up. If it panics, the sources behind it are
    /// asked, and the report has a warning.
    pub fn symbol_source(mut self, source: impl SymbolSource + Send + 'static) -> Self {
        self.request.symbol_sources.add(source);
        self
    }

    /// Ask each JVM that is recorded (HotSpot, JDK 17 and later) to write its perf map, when its code is first seen, while new code is seen,
    /// and at the end, as `jcmd PID Compiler.perfmap` does; off by default. The map stays in the `/tmp` of the JVM.
    pub fn java_perf_map(mut self, on: bool) -> Self {
        self.request.java_perf_map.set(Setting::Value(on));
        self
    }

    /// Ask each .NET process that is recorded (.NET 8 and later) through its diagnostics socket to write its perf map, from when its code is first
    /// seen until the end of the capture; off by default. A process that writes one anyway is left as it is. The map stays in its `/tmp`.
    pub fn dotnet_perf_map(mut self, on: bool) -> Self {
        self.request.dotnet_perf_map.set(Setting::Value(on));
        self
    }

    /// Adds a debuginfod server from which debug files are fetched that this machine does not have; the first one is asked first. Without
    /// a server nothing is contacted.
    pub fn debuginfod_url(self, url: impl Into<String>) -> Self {
        self.with_debuginfod(|fetching| fetching.url(url))
    }

    /// Take the servers of the environment variable `DEBUGINFOD_URLS` if no server is added; off by default.
    pub fn debuginfod_from_env(self, on: bool) -> Self {
        self.with_debuginfod(|fetching| fetching.from_env(on))
    }

    /// The directory for fetched debug files; by default `perf-agent/debuginfod` in the user's cache directory.
    pub fn symbol_cache_dir(self, dir: impl Into<PathBuf>) -> Self {
        self.with_debuginfod(|fetching| fetching.cache_dir(dir))
    }

    /// Bytes that fetched files may have together; 2 GiB by default.
    pub fn symbol_cache_max_bytes(self, bytes: u64) -> Self {
        self.with_debuginfod(|fetching| fetching.cache_max_bytes(bytes))
    }

    /// The time for one file, all servers and repetitions included; 30 s by default.
    pub fn symbol_fetch_timeout(self, time: Duration) -> Self {
        self.with_debuginfod(|fetching| fetching.fetch_timeout(time))
    }

    /// Give no names from elsewhere to frames in a file whose debug file is wanted and does not come; off by default.
    pub fn symbol_fail_closed(self, on: bool) -> Self {
        self.with_debuginfod(|fetching| fetching.fail_closed(on))
    }

    fn with_debuginfod(mut self, change: impl FnOnce(Debuginfod) -> Debuginfod) -> Self {
        self.request.debuginfod = change(std::mem::take(&mut self.request.debuginfod));
        self
    }

    /// Distinct stacks that the kernel holds between two drains; 65,536 by default. Samples beyond that are counted as lost.
    pub fn max_stacks(mut self, stacks: u32) -> Self {
        self.request.max_stacks.set(Setting::Value(stacks));
        self
    }

    /// Bytes for stacks, frames, names of threads and so on of the capture, or of an interval of it, all together; 256 MiB by default.
    /// Keys of sums, and single samples, may take as much again, of each. Samples whose stack finds no room are counted as lost.
    pub fn max_memory_bytes(mut self, bytes: u64) -> Self {
        self.request.max_memory_bytes.set(Setting::Value(bytes));
        self
    }

    /// Size in bytes of the ring that carries new stacks, a power of two; 4 MiB by default, 32 MiB with allocations. Samples whose stack does not fit
    /// are counted as lost.
    pub fn ring_bytes(mut self, bytes: u32) -> Self {
        self.request.ring_bytes.set(Setting::Value(bytes));
        self
    }

    /// Kernel memory in bytes for unwind tables and the mappings of processes, taken as it is needed; 32 MiB by default. The table of
    /// processes has one place for each 2 KiB of it, at least 16,384.
    pub fn table_memory(mut self, bytes: u32) -> Self {
        self.request.table_memory.set(Setting::Value(bytes));
        self
    }

    /// Cache unwind tables in this directory. It is created if it is missing, and must belong to this user alone. The
    /// default is `perf-agent/unwind` in `$XDG_CACHE_HOME`, else in `$HOME/.cache`; without both there is no cache.
    pub fn table_cache_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.request.table_cache_dir.set(Setting::Value(directory.into()));
        self
    }

    /// Check each reuse of a memo by a full walk (ledger keys `memo.checked`, `memo.differed`). For tests: it makes samples
    /// more expensive.
    pub fn self_check(mut self, on: bool) -> Self {
        self.request.self_check.set(Setting::Value(on));
        self
    }

    /// Keep the agent's temporary files in this list, so that a host program that must exit at once can remove them.
    pub fn temporary_files(mut self, list: &TemporaryFiles) -> Self {
        self.request.temporary_files = list.clone();
        self
    }

    /// Sets any option of the command line by its name without the dashes: `option("duration", "1m30s")`. Flags take `true`
    /// and `false`. `build` refuses unknown names and invalid values, as the command line does.
    pub fn option(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        super::options::apply(&mut self.request, name, value.as_ref());
        self
    }

    /// Checks the description, and returns the result. It changes nothing on the system.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`] for the first thing that is wrong.
    pub fn build(self) -> Result<A, Error> {
        checks::check(self.request).map(self.make)
    }

    /// Checks everything as `build` does, and returns the configuration that would be in effect.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`] for the first thing that is wrong.
    pub fn effective_config(self) -> Result<Config, Error> {
        checks::check(self.request).map(|plan| plan.config)
    }

    #[cfg(test)]
    pub(super) fn into_request(self) -> Request {
        self.request
    }
}

//! The samples of an event as a profile.

use std::collections::HashMap;

use profile::{
    Builder, FileOffset, Function, KERNEL_MAPPING, Label, Line, LocationId, Mapping, MappingId, Moment,
    Profile, Svma, ValueType,
};

use crate::files::{Files, FoundName};
use crate::import::Imported;
use crate::stacks::{Place, Within};

/// As in captures: all code of the kernel is above this.
const KERNEL_START: u64 = 0xff00_0000_0000_0000;
/// The page of legacy system calls of x86-64.
const VSYSCALL_PAGE: u64 = 0xffff_ffff_ff60_0000;
/// The name under which perf-agent writes waits.
const OFF_CPU: &str = "off-cpu";

/// A file without a build-id that has frames in a profile: which one it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundIdentity {
    /// Bytes.
    pub size: u64,
    /// Last change, ns since the epoch.
    pub mtime_ns: i64,
}

/// A profile, and what more is known of its files.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct EventProfile {
    /// The profile. Its locations in files and in the kernel have no names.
    pub profile: Profile,
    /// By number of the mapping: which file was found for it.
    pub identities: Vec<Option<FoundIdentity>>,
}

/// The profile of an event.
pub(crate) fn profile(imported: &mut Imported, event: usize, by: &mut dyn Files) -> EventProfile {
    let attr = imported.attrs.all.get(event).cloned().unwrap_or_default();
    let nanoseconds = |kind: &str| ValueType::new(kind, "nanoseconds");
    // `cpu-clock:u` is the clock too.
    let name = attr.name.split(':').next().filter(|name| !name.is_empty()).unwrap_or(&attr.name);
    let (count, value) = match name {
        OFF_CPU => ("blocks", nanoseconds("offcpu")),
        _ if attr.is_clock() => ("samples", nanoseconds("cpu")),
        name => ("samples", ValueType::new(name, "count")),
    };
    let types = [ValueType::new(count, "count"), value.clone()];
    let mut out = Locations {
        builder: Builder::new(&types, value, i64::try_from(attr.period()).unwrap_or(i64::MAX)),
        known: HashMap::new(),
        identities: Vec::new(),
        kernel: Vec::new(),
    };
    let sums: Vec<_> = imported
        .stacks
        .of_event(event)
        .map(|(number, task, stack, sum)| (number, task, stack.to_vec(), sum))
        .collect();
    let mut numbers = HashMap::new();
    if imported.kernel.build_id.is_none() {
        imported.kernel.build_id = by.kernel();
    }
    for (number, task, stack, sum) in sums {
        let locations = stack.iter().map(|number| out.location(*number, imported, by)).collect();
        let text = |key: &str, number| Label::str(key, imported.processes.name(number));
        let labels = vec![
            Label::num("pid", task.pid.into()),
            text("comm", task.process),
            Label::num("tid", task.tid.into()),
            text("thread", task.thread),
        ];
        let value = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let sample = out.builder.add(labels, locations, &[value(sum.samples), value(sum.periods)]);
        numbers.insert(number, sample);
    }
    let first = imported.first_time.unwrap_or_default();
    for (number, time, period) in imported.stacks.times() {
        let Some(sample) = numbers.get(&number).copied() else { continue };
        let at_ns = i64::try_from(time.saturating_sub(first)).unwrap_or(i64::MAX);
        // The period of a wait is how long it lasted.
        let lasted_ns = if name == OFF_CPU { period } else { 0 };
        out.builder.add_moment(Moment { at_ns, lasted_ns, sample });
    }
    let comments = comments(imported, &attr.name, &out.kernel);
    let span = imported.last_time.saturating_sub(imported.first_time.unwrap_or(imported.last_time));
    let profile = out.builder.finish(0, i64::try_from(span).unwrap_or(i64::MAX), comments);
    out.identities.resize(profile.mappings.len(), None);
    EventProfile { profile, identities: out.identities }
}

struct Locations {
    builder: Builder,
    known: HashMap<u32, LocationId>,
    identities: Vec<Option<FoundIdentity>>,
    /// Addresses of kernel code.
    kernel: Vec<u64>,
}

impl Locations {
    fn location(&mut self, number: u32, imported: &mut Imported, by: &mut dyn Files) -> LocationId {
        if let Some(known) = self.known.get(&number) {
            return *known;
        }
        let place = imported.stacks.place(number);
        let location = match place {
            Some(place) => self.enter(place, imported, by),
            None => self.builder.synthetic("[unknown]"),
        };
        self.known.insert(number, location);
        location
    }

    fn enter(&mut self, place: Place, imported: &mut Imported, by: &mut dyn Files) -> LocationId {
        let Place { within, address } = place;
        match within {
            Within::File(file) | Within::Vdso(file) => {
                let identity = imported
                    .files
                    .found(file, by)
                    .map(|found| FoundIdentity { size: found.size, mtime_ns: found.mtime_ns });
                let Some((mapping, address)) = imported.files.mapping(file, address, by) else {
                    return self.named("[unknown]", None, address);
                };
                let mapping = self.builder.mapping(mapping);
                let position = mapping.0 as usize;
                if self.identities.len() <= position {
                    self.identities.resize(position + 1, None);
                }
                self.identities[position] = identity;
                let is_known_vdso = matches!(within, Within::Vdso(_)) && identity.is_some();
                let name = if is_known_vdso { by.vdso_name(address) } else { None };
                let lines = name.map(|name| self.line(name)).into_iter().collect();
                self.builder.location(Some(mapping), address, lines)
            }
            Within::Kernel => {
                self.kernel.push(address);
                let mapping = self.builder.mapping(Mapping {
                    start: Svma(KERNEL_START),
                    limit: Svma(u64::MAX),
                    file_offset: FileOffset(0),
                    filename: KERNEL_MAPPING.to_owned(),
                    build_id: imported.kernel.build_id.clone(),
                });
                self.builder.location(Some(mapping), address, Vec::new())
            }
            Within::Anonymous { pid, start, end } => {
                let mapping =
                    self.builder.mapping(Mapping { filename: "[jit]".to_owned(), ..Mapping::default() });
                match by.jit_name(pid, address, start..end) {
                    Some(name) => {
                        let line = self.line(name);
                        self.builder.location(Some(mapping), address, vec![line])
                    }
                    None => self.named("[jit]", Some(mapping), address),
                }
            }
            Within::Unknown if address >= VSYSCALL_PAGE => self.named("[vsyscall]", None, address),
            Within::Unknown => self.named("[unknown]", None, address),
            Within::Cut(cut) => self.builder.synthetic(cut.name()),
        }
    }

    fn line(&mut self, name: FoundName) -> Line {
        Line { function: self.builder.function(name.function), line: name.line, column: 0 }
    }

    fn named(&mut self, name: &str, mapping: Option<MappingId>, address: u64) -> LocationId {
        let function =
            Function { name: name.to_owned(), system_name: name.to_owned(), ..Function::default() };
        let function = self.builder.function(function);
        self.builder.location(mapping, address, vec![Line { function, line: 0, column: 0 }])
    }
}

/// What the file tells besides, and what later look-ups of kernel code need: the same comments as those of captures.
fn comments(imported: &Imported, event: &str, kernel: &[u64]) -> Vec<String> {
    let features = &imported.features;
    let mut comments = Vec::new();
    let mut put = |key: &str, value: &str| {
        if !value.is_empty() {
            comments.push(format!("{key}={value}"));
        }
    };
    put("perf.event", event);
    put("perf.hostname", &features.hostname);
    put("perf.arch", &features.arch);
    put("perf.version", &features.version);
    put("perf.cmdline", &features.command.join(" "));
    put("perf.lost", &imported.lost.to_string());
    if !kernel.is_empty() {
        put("perf-agent.kernel.release", &features.release);
        for (key, mark) in [("text", imported.kernel.text), ("stext", imported.kernel.stext)] {
            if let Some(address) = mark {
                put(&format!("perf-agent.kernel.{key}"), &format!("{address:#x}"));
            }
        }
        for (start, size, name, build_id) in &imported.kernel.modules {
            if kernel.iter().any(|address| (*start..start.saturating_add(*size)).contains(address)) {
                let build_id = build_id.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
                put("perf-agent.kernel.module", &format!("{start:#x} {size} {build_id} {name}"));
            }
        }
    }
    comments
}

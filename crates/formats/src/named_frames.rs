//! Locations and owners of samples as named frames, which folded stacks and flame graphs show.

use std::borrow::Cow;
use std::collections::BTreeSet;

use profile::{Label, LabelValue, Location, LocationId, MappingId, Profile, Sample};

use crate::Merge;

/// What kind of code a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameKind {
    /// Not code: a process or thread.
    Owner,
    /// Machine code of a file.
    Native,
    /// A function whose code is part of its caller's.
    Inlined,
    /// A function that an interpreter runs.
    Interpreted,
    /// Code that a runtime made.
    Jit,
    /// The kernel.
    Kernel,
    /// A fact about the stack, as `[truncated: …]`, or code in no file.
    Fact,
}

/// A frame as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedFrame {
    /// One line of text without `;`.
    pub name: String,
    /// What it is.
    pub kind: FrameKind,
}

/// Turns the samples of a profile into named frames.
pub struct NamedFrames {
    /// By number of the location, outermost first.
    of_locations: Vec<Vec<NamedFrame>>,
    /// Whether stacks begin with a frame for their process, and for their thread.
    with_process: bool,
    with_thread: bool,
    merge: Merge,
}

impl NamedFrames {
    /// The frames of a profile, whose stacks begin with the owners that `merge` asks for.
    #[must_use]
    pub fn new(profile: &Profile, merge: Merge) -> Self {
        let of_locations = profile.locations.iter().map(|location| frames_at(profile, location)).collect();
        let several = |key: &str| {
            profile.samples.iter().filter_map(|sample| label(sample, key)).collect::<BTreeSet<_>>().len() > 1
        };
        let (with_process, with_thread) = match merge {
            Merge::Pid => (several("pid"), several("tid")),
            Merge::Comm => (several("comm"), false),
            Merge::All => (false, false),
        };
        Self { of_locations, with_process, with_thread, merge }
    }

    /// The frames of several profiles that are shown together: if stacks of one begin with an owner, those of all do.
    pub(crate) fn of_several(profiles: &[&Profile], merge: Merge) -> Vec<Self> {
        let mut all: Vec<Self> = profiles.iter().map(|profile| Self::new(profile, merge)).collect();
        let with_process = all.iter().any(|of| of.with_process);
        let with_thread = all.iter().any(|of| of.with_thread);
        for of in &mut all {
            (of.with_process, of.with_thread) = (with_process, with_thread);
        }
        all
    }

    /// The process, and the thread, of a sample, as far as they are shown.
    pub(crate) fn owners(&self, sample: &Sample) -> Vec<NamedFrame> {
        let process = match self.merge {
            Merge::Pid => numbered(sample, "comm", "pid"),
            _ => text(sample, "comm").map(escaped).map(Cow::into_owned),
        };
        let process = process.filter(|_| self.with_process);
        let thread = numbered(sample, "thread", "tid").filter(|_| self.with_thread);
        let owner = |name| NamedFrame { name, kind: FrameKind::Owner };
        process.into_iter().chain(thread).map(owner).collect()
    }

    /// The frames of a sample's locations, outermost first.
    pub(crate) fn stack<'a>(&'a self, sample: &'a Sample) -> impl Iterator<Item = &'a NamedFrame> {
        sample.locations.iter().rev().flat_map(|location| self.at(*location))
    }

    /// The frames of a location, outermost first.
    #[must_use]
    pub fn at(&self, location: LocationId) -> &[NamedFrame] {
        self.of_locations.get(location.0 as usize).map_or(&[], Vec::as_slice)
    }
}

fn label<'a>(sample: &'a Sample, key: &str) -> Option<&'a LabelValue> {
    sample.labels.iter().find(|l: &&Label| l.key == key).map(|l| &l.value)
}

fn text<'a>(sample: &'a Sample, key: &str) -> Option<&'a str> {
    match label(sample, key)? {
        LabelValue::Str(text) => Some(text),
        LabelValue::Num(_) => None,
    }
}

/// `NAME (NUMBER)`; none without a number.
fn numbered(sample: &Sample, name_key: &str, id_key: &str) -> Option<String> {
    let id = match label(sample, id_key)? {
        LabelValue::Num(id) => id.to_string(),
        LabelValue::Str(id) => id.clone(),
    };
    let frame = text(sample, name_key).map_or_else(|| format!("({id})"), |name| format!("{name} ({id})"));
    Some(escaped(&frame).into_owned())
}

/// All frames of one location, outermost first.
fn frames_at(profile: &Profile, location: &Location) -> Vec<NamedFrame> {
    let mapping = location.mapping.and_then(|MappingId(index)| profile.mappings.get(index as usize));
    let file = mapping.map(|mapping| mapping.filename.as_str());
    let last = location.lines.len().saturating_sub(1);
    let mut frames: Vec<NamedFrame> = Vec::new();
    for (position, line) in location.lines.iter().enumerate().rev() {
        let function = profile.functions.get(line.function.0 as usize);
        let name = profile.shown_name(location, line);
        let has_source = function.is_some_and(|function| !function.filename.is_empty());
        let kind = match file {
            Some("[kernel.kallsyms]") => FrameKind::Kernel,
            None if profile.is_interpreted(location) => FrameKind::Interpreted,
            _ if position < last => FrameKind::Inlined,
            Some("[jit]") => FrameKind::Jit,
            Some(_) => FrameKind::Native,
            None if has_source => FrameKind::Jit,
            None => FrameKind::Fact,
        };
        let name =
            if name.is_empty() { unnamed(file, location.address) } else { escaped(&name).into_owned() };
        frames.push(NamedFrame { name, kind });
    }
    if frames.is_empty() {
        let kind = match file {
            Some("[kernel.kallsyms]") => FrameKind::Kernel,
            Some("[jit]") => FrameKind::Jit,
            Some(_) => FrameKind::Native,
            None => FrameKind::Fact,
        };
        frames.push(NamedFrame { name: unnamed(file, location.address), kind });
    }
    frames
}

/// `[FILE+0xADDRESS]`, with the file's last path component.
fn unnamed(file: Option<&str>, address: u64) -> String {
    let file = file.map_or("unknown", |path| path.rsplit('/').next().unwrap_or(path));
    let file = file.trim_start_matches('[').trim_end_matches(']');
    escaped(&format!("[{file}+{address:#x}]")).into_owned()
}

/// In a name, `:` replaces `;`, which separates frames, and a visible escape replaces a hidden character, such as the
/// line break that separates stacks. Blanks stay: readers end the stack at the last blank of the line.
fn escaped(name: &str) -> Cow<'_, str> {
    if !name.contains(|c: char| c == ';' || profile::is_hidden(c)) {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            ';' => out.push(':'),
            c if profile::is_hidden(c) => profile::push_escaped(&mut out, c),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

//! Folded stacks: one line per distinct stack, `root;…;leaf VALUE`, as flame graph tools read them.
//!
//! Lines are sorted and distinct, and their values add up to the profile's sum. An inlined function is a frame of its own.
//! If the profile has several processes, each stack begins with a frame `COMM (PID)`; if its `tid` labels name several
//! threads, a frame `THREAD (TID)` follows.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Write};

use crate::{EncodeOptions, Encoder};
use profile::{Function, Label, LabelValue, Location, MappingId, Profile, Sample};

/// Folded stacks as a registered format.
pub struct Folded;

impl Encoder for Folded {
    fn name(&self) -> &'static str {
        "folded"
    }

    fn extensions(&self) -> &[&'static str] {
        &["folded"]
    }

    fn encode(&self, profile: &Profile, options: &EncodeOptions, out: &mut dyn Write) -> io::Result<()> {
        write(profile, options.value_index(profile), out)
    }
}

/// Writes the stacks with their value number `value_index`. Stacks whose sum is zero are left out.
///
/// # Errors
/// Those of `out`; [`io::ErrorKind::InvalidInput`] if the profile has no value of that number.
pub fn write(profile: &Profile, value_index: usize, out: &mut dyn Write) -> io::Result<()> {
    for (stack, value) in stacks(profile, value_index)? {
        writeln!(out, "{stack} {value}")?;
    }
    Ok(())
}

/// The sum of each folded stack.
pub(crate) fn stacks(profile: &Profile, value_index: usize) -> io::Result<BTreeMap<String, i64>> {
    if value_index >= profile.sample_types.len() {
        let message = format!(
            "write folded stacks of value {value_index}: the profile has {} values",
            profile.sample_types.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let names: Vec<String> = profile.locations.iter().map(|l| location_frames(profile, l)).collect();
    let several_processes = distinct(profile, "pid") > 1;
    let several_threads = distinct(profile, "tid") > 1;
    let mut stacks = BTreeMap::new();
    for sample in &profile.samples {
        let value = sample.values.get(value_index).copied().unwrap_or(0);
        if value == 0 {
            continue;
        }
        let mut stack = String::new();
        if several_processes {
            push_owner(&mut stack, sample, "comm", "pid");
        }
        if several_threads {
            push_owner(&mut stack, sample, "thread", "tid");
        }
        for location in sample.locations.iter().rev() {
            if let Some(frames) = names.get(location.0 as usize) {
                push_frame(&mut stack, frames);
            }
        }
        if stack.is_empty() {
            stack.push_str("[no stack]");
        }
        let sum: &mut i64 = stacks.entry(stack).or_default();
        *sum = sum.saturating_add(value);
    }
    Ok(stacks)
}

fn push_frame(stack: &mut String, frame: &str) {
    if !stack.is_empty() {
        stack.push(';');
    }
    stack.push_str(frame);
}

fn label<'a>(sample: &'a Sample, key: &str) -> Option<&'a LabelValue> {
    sample.labels.iter().find(|l: &&Label| l.key == key).map(|l| &l.value)
}

fn distinct(profile: &Profile, key: &str) -> usize {
    profile.samples.iter().filter_map(|s| label(s, key)).collect::<BTreeSet<_>>().len()
}

fn push_owner(stack: &mut String, sample: &Sample, name_key: &str, id_key: &str) {
    let id = match label(sample, id_key) {
        Some(LabelValue::Num(id)) => id.to_string(),
        Some(LabelValue::Str(id)) => id.clone(),
        None => return,
    };
    let frame = match label(sample, name_key) {
        Some(LabelValue::Str(name)) => format!("{name} ({id})"),
        _ => format!("({id})"),
    };
    push_frame(stack, &escaped(&frame));
}

/// All frames of one location, outermost first, joined by `;`.
fn location_frames(profile: &Profile, location: &Location) -> String {
    let mut frames = String::new();
    for line in location.lines.iter().rev() {
        let name =
            profile.functions.get(line.function.0 as usize).map(Function::shown_name).unwrap_or_default();
        push_frame(&mut frames, &if name.is_empty() { unnamed(profile, location) } else { escaped(&name) });
    }
    if frames.is_empty() {
        frames.push_str(&unnamed(profile, location));
    }
    frames
}

/// `[FILE+0xADDRESS]`, with the file's last path component.
fn unnamed<'a>(profile: &Profile, location: &Location) -> Cow<'a, str> {
    let file = location
        .mapping
        .and_then(|MappingId(index)| profile.mappings.get(index as usize))
        .map_or("unknown", |m| m.filename.rsplit('/').next().unwrap_or(&m.filename));
    let file = file.trim_start_matches('[').trim_end_matches(']');
    escaped(&format!("[{file}+{:#x}]", location.address)).into_owned().into()
}

/// In a name, `:` replaces `;`, which separates frames, and a visible escape replaces a control character, such as the
/// line break that separates stacks. Blanks stay: readers end the stack at the last blank of the line.
fn escaped(name: &str) -> Cow<'_, str> {
    if !name.contains(|c: char| c == ';' || c.is_control()) {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            ';' => out.push(':'),
            c if c.is_control() => {
                let _ = write!(out, "{}", c.escape_default());
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

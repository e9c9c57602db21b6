//! From a recording with names to a [`Profile`].

mod assembly;
mod heap;
mod labels;
mod locations;

use std::collections::BTreeMap;
use std::slice;

use profile::{Label, Profile, ValueType};
use recording::{Event, Mode, Recording, SymbolizedRecording};

use self::assembly::Assembly;
use crate::figures::signed;
use crate::locks::LockNames;
use crate::selection;
use crate::wall_time::OnCpuTime;

/// The profile of a mode. Its comments are the tags of the capture and the given entries of its ledger. [`Mode::Pmu`] has no samples.
#[must_use]
pub fn profile(symbolized: &SymbolizedRecording, mode: Mode, ledger: &[(String, String)]) -> Profile {
    let assembly = match mode {
        Mode::OnCpu | Mode::Event | Mode::FurtherEvent(_) => sampled(symbolized, mode),
        Mode::OffCpu => off_cpu(symbolized),
        Mode::Wall => wall(symbolized),
        Mode::Locks => locks(symbolized),
        Mode::Heap => heap::of(symbolized),
        _ => Assembly::begin(symbolized, &[], ValueType::default(), 0),
    };
    let recording = &symbolized.recording;
    let tags = recording.settings.tags.iter().map(|(key, value)| format!("{key}={value}"));
    let entries = ledger.iter().map(|(key, value)| format!("perf-agent.{key}={value}"));
    assembly.finish(tags.chain(entries).collect())
}

/// Samples, each of which stands for a period of time, or of the event that was sampled. The value of such an event is scaled by the
/// period too.
fn sampled(symbolized: &SymbolizedRecording, mode: Mode) -> Assembly<'_> {
    let recording = &symbolized.recording;
    let (event, id) = (recording.settings.event_of(mode), mode.sampled_event().unwrap_or_default());
    let value = match event {
        Some(event) => ValueType::new(event.kind(), event.period_unit.name()),
        None => ValueType::new("cpu", "nanoseconds"),
    };
    let mut types = vec![ValueType::new("samples", "count"), value.clone()];
    let summed = event.and_then(Event::summed);
    types.extend(summed.map(|summed| ValueType::new(&summed.name, summed.unit.name())));
    let mut assembly = Assembly::begin(symbolized, &types, value, selection::period(recording, id));
    let mut numbers = BTreeMap::new();
    for entry in selection::shown_in(recording, mode) {
        let locations = assembly.locations(&entry);
        let labels = labels::of(recording, entry.at.task);
        let scaled = |value: u64| signed(value).saturating_mul(signed(entry.period));
        let values = [signed(entry.count), scaled(entry.count), scaled(entry.value)];
        let number = assembly.add(labels, locations, values.get(..types.len()).unwrap_or(&values));
        numbers.insert((entry.stack_id, None), number);
    }
    assembly.add_moments(id, &numbers);
    assembly
}

/// Off-CPU intervals with their time, in the states that were asked for.
fn off_cpu(symbolized: &SymbolizedRecording) -> Assembly<'_> {
    let recording = &symbolized.recording;
    let off_cpu = ValueType::new("offcpu", "nanoseconds");
    let types = [ValueType::new("blocks", "count"), off_cpu.clone()];
    let mut assembly = Assembly::begin(symbolized, &types, off_cpu, 1);
    let mut numbers = BTreeMap::new();
    for entry in selection::shown_in(recording, Mode::OffCpu) {
        let Some(state) = entry.at.state.off_cpu() else { continue };
        let locations = assembly.locations(&entry);
        let mut labels = labels::of(recording, entry.at.task);
        labels.push(Label::str("state", state.name()));
        let number = assembly.add(labels, locations, &[signed(entry.count), signed(entry.time_ns)]);
        numbers.insert((entry.stack_id, entry.waker_id), number);
    }
    if !has_lost_wakers(recording) {
        assembly.add_moments(selection::SCHEDULER, &numbers);
    }
    assembly
}

/// Whether counts have wakers, but no single wait has: recordings of earlier versions are so. Which of the stacks a wait belongs to is not known then.
fn has_lost_wakers(recording: &Recording) -> bool {
    let mut singles = recording.singles.iter().flat_map(|singles| &singles.samples);
    selection::shown(recording).any(|entry| entry.waker_id.is_some()) && singles.all(|of| of.waker.is_none())
}

/// Waits for locks, at the stacks of the waiters, with what they waited for as labels.
fn locks(symbolized: &SymbolizedRecording) -> Assembly<'_> {
    let recording = &symbolized.recording;
    let delay = ValueType::new("delay", "nanoseconds");
    let types = [ValueType::new("contentions", "count"), delay.clone()];
    let mut assembly = Assembly::begin(symbolized, &types, delay, 1);
    let names = LockNames::new(symbolized);
    for waits in selection::lock_waits(recording) {
        let (entry, class) = (&waits.entry, names.class_of(&waits));
        let locations = match class.is_of_kernel() {
            true => assembly.locations_with_kernel(entry),
            false => assembly.locations(entry),
        };
        let mut labels = labels::of(recording, entry.at.task);
        labels.push(Label::str("lock", &names.of(&waits)));
        labels.push(Label::str("class", class.name()));
        assembly.add(labels, locations, &[signed(entry.count), signed(entry.time_ns)]);
    }
    assembly
}

/// All time of all threads, on CPUs and off them.
fn wall(symbolized: &SymbolizedRecording) -> Assembly<'_> {
    let recording = &symbolized.recording;
    let wall = ValueType::new("wall", "nanoseconds");
    let mut assembly = Assembly::begin(symbolized, slice::from_ref(&wall), wall.clone(), 1);
    let times = OnCpuTime::of(recording);
    for entry in selection::shown(recording) {
        let Some(time) = times.of_entry(&entry).filter(|time| time.is_any()) else { continue };
        let locations = assembly.locations(&entry);
        for (ns, state) in [(time.time_ns, time.state.name()), (time.runnable_ns, "runqueue")] {
            if ns > 0 {
                let mut labels = labels::of(recording, entry.at.task);
                labels.push(Label::str("state", state));
                assembly.add(labels, locations.clone(), &[signed(ns)]);
            }
        }
    }
    for (task, time_ns) in times.between_samples() {
        let Some(task) = recording.task(task) else { continue };
        let mut labels = labels::of(recording, task);
        labels.push(Label::str("state", "on-cpu"));
        let location = assembly.fact("[on CPU between two samples]");
        assembly.add(labels, vec![location], &[signed(time_ns)]);
    }
    assembly
}

#[cfg(test)]
mod tests;

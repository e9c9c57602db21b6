//! From a recording with names to a [`Profile`].

mod assembly;
mod heap;
mod labels;
mod locations;

use std::collections::BTreeMap;
use std::slice;

use profile::{Label, Profile, ValueType};
use recording::{Mode, State, SymbolizedRecording};

use self::assembly::Assembly;
use crate::figures::signed;
use crate::selection;
use crate::wall_time::OnCpuTime;

/// The profile of a mode. Its comments are the tags of the capture and the given entries of its ledger. [`Mode::Pmu`] has no samples.
#[must_use]
pub fn profile(symbolized: &SymbolizedRecording, mode: Mode, ledger: &[(String, String)]) -> Profile {
    let assembly = match mode {
        Mode::OnCpu | Mode::Event => sampled(symbolized),
        Mode::OffCpu => off_cpu(symbolized),
        Mode::Wall => wall(symbolized),
        Mode::Heap => heap::of(symbolized),
        _ => Assembly::begin(symbolized, &[], ValueType::default(), 0),
    };
    let recording = &symbolized.recording;
    let tags = recording.settings.tags.iter().map(|(key, value)| format!("{key}={value}"));
    let entries = ledger.iter().map(|(key, value)| format!("perf-agent.{key}={value}"));
    assembly.finish(tags.chain(entries).collect())
}

/// Samples, each of which stands for a period of time, or of the event that was sampled.
fn sampled(symbolized: &SymbolizedRecording) -> Assembly<'_> {
    let recording = &symbolized.recording;
    let value = match &recording.settings.event {
        Some(event) => ValueType::new(event.kind(), event.period_unit.name()),
        None => ValueType::new("cpu", "nanoseconds"),
    };
    let types = [ValueType::new("samples", "count"), value.clone()];
    let mut assembly = Assembly::begin(symbolized, &types, value, selection::period(recording));
    let mut numbers = BTreeMap::new();
    for entry in selection::shown(recording).filter(|entry| entry.at.state == State::Sampled) {
        let locations = assembly.locations(&entry);
        let labels = labels::of(recording, entry.at.task);
        let value = signed(entry.count).saturating_mul(signed(entry.period));
        let number = assembly.add(labels, locations, &[signed(entry.count), value]);
        numbers.insert(entry.stack_id, number);
    }
    assembly.add_moments(selection::SAMPLED, &numbers);
    assembly
}

/// Off-CPU intervals with their time, in the states that were asked for.
fn off_cpu(symbolized: &SymbolizedRecording) -> Assembly<'_> {
    let recording = &symbolized.recording;
    let off_cpu = ValueType::new("offcpu", "nanoseconds");
    let types = [ValueType::new("blocks", "count"), off_cpu.clone()];
    let mut assembly = Assembly::begin(symbolized, &types, off_cpu, 1);
    for entry in selection::shown(recording) {
        let Some(state) = entry.at.state.off_cpu() else { continue };
        if !recording.settings.shows(Mode::OffCpu, entry.at.state) {
            continue;
        }
        let locations = assembly.locations(&entry);
        let mut labels = labels::of(recording, entry.at.task);
        labels.push(Label::str("state", state.name()));
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

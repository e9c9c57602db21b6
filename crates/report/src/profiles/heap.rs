//! The profile of allocations: per stack the objects and bytes that it allocated, and those of them that were not freed.

use std::collections::HashMap;

use profile::ValueType;
use recording::{StackId, State, SymbolizedRecording, TaskId};

use super::assembly::Assembly;
use super::labels;
use crate::figures::signed;
use crate::selection;

/// Objects and their bytes.
#[derive(Clone, Copy, Default)]
struct Amount {
    objects: u64,
    bytes: u64,
}

/// The profile with the values of pprof's heap profiles. What is in use is told by default; of windows, what was allocated.
pub(super) fn of(symbolized: &SymbolizedRecording) -> Assembly<'_> {
    let recording = &symbolized.recording;
    let types = [
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
        ("inuse_objects", "count"),
        ("inuse_space", "bytes"),
    ];
    let types = types.map(|(kind, unit)| ValueType::new(kind, unit));
    // What is in use follows from all allocations and all frees only.
    let shown = if recording.accounting.heap_windows > 0 { 2 } else { types.len() };
    let mut assembly = Assembly::begin(
        symbolized,
        types.get(..shown).unwrap_or(&types),
        ValueType::new("space", "bytes"),
        1,
    );
    let mut freed: HashMap<(TaskId, StackId), Amount> = HashMap::new();
    for entry in selection::shown(recording).filter(|entry| entry.at.state == State::Freed) {
        let Some(at) = recording.task_stack(entry.stack_id) else { continue };
        freed.insert((at.task, at.stack), Amount { objects: entry.count, bytes: entry.time_ns });
    }
    for entry in selection::shown(recording).filter(|entry| entry.at.state == State::Sampled) {
        let Some(at) = recording.task_stack(entry.stack_id) else { continue };
        let gone = freed.get(&(at.task, at.stack)).copied().unwrap_or_default();
        let locations = assembly.locations(&entry);
        let labels = labels::of(recording, entry.at.task);
        let (objects, bytes) = (entry.count, entry.time_ns);
        let values = [objects, bytes, objects.saturating_sub(gone.objects), bytes.saturating_sub(gone.bytes)];
        assembly.add(labels, locations, values.map(signed).get(..shown).unwrap_or_default());
    }
    assembly
}

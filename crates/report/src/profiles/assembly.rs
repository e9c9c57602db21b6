//! A profile while samples are added.

use std::collections::BTreeMap;

use profile::{Avma, Builder, KERNEL_MAPPING, Label, LocationId, MappingId, Moment, Profile, ValueType};
use recording::{EventId, Recording, SymbolizedRecording, TaskStackId, kernel_comments};

use super::locations::Locations;
use crate::figures::signed;
use crate::selection::{self, Entry};
use crate::stack_lines::{StackLine, StackLines};

/// A stack, and that of the waker.
pub(super) type Stacks = (TaskStackId, Option<TaskStackId>);

/// A profile of a recording while samples are added.
pub(super) struct Assembly<'a> {
    recording: &'a Recording,
    builder: Builder,
    locations: Locations<'a>,
    stack_lines: StackLines<'a>,
    /// The lines of the last stack; kept for its memory.
    lines: Vec<StackLine<'a>>,
}

impl<'a> Assembly<'a> {
    /// An empty profile. The executable of the first target is its first mapping, as tools expect.
    pub(super) fn begin(
        symbolized: &'a SymbolizedRecording,
        types: &[ValueType],
        period_type: ValueType,
        period: u64,
    ) -> Self {
        let SymbolizedRecording { recording, names, .. } = symbolized;
        let mut builder = Builder::new(types, period_type, signed(period));
        let mut locations = Locations::new(recording, names);
        if let Some(main) = recording.main {
            locations.mapping(main, &mut builder);
        }
        let stack_lines = StackLines::new(recording, names);
        Self { recording, builder, locations, stack_lines, lines: Vec::new() }
    }

    /// The locations of a count, leaf first, those of its waker after them.
    pub(super) fn locations(&mut self, entry: &Entry<'a>) -> Vec<LocationId> {
        self.locations_by(self.stack_lines, entry)
    }

    /// The same with kernel frames in any case.
    pub(super) fn locations_with_kernel(&mut self, entry: &Entry<'a>) -> Vec<LocationId> {
        self.locations_by(self.stack_lines.with_kernel(), entry)
    }

    fn locations_by(&mut self, stack_lines: StackLines<'a>, entry: &Entry<'a>) -> Vec<LocationId> {
        let Self { builder, locations, lines, .. } = self;
        stack_lines.fill(entry, lines);
        let location = |line: &StackLine<'_>| match line {
            StackLine::Frame(frame) => locations.of(*frame, builder),
            StackLine::Fact(fact) => builder.synthetic(fact),
        };
        lines.iter().map(location).collect()
    }

    /// The location that stands for a fact.
    pub(super) fn fact(&mut self, fact: &str) -> LocationId {
        self.builder.synthetic(fact)
    }

    /// Adds a sample. Gives its number in the profile.
    pub(super) fn add(&mut self, labels: Vec<Label>, locations: Vec<LocationId>, values: &[i64]) -> u32 {
        self.builder.add(labels, locations, values)
    }

    /// Adds the times of single samples of an event. `numbers`: those of the samples, by their stacks and those of their wakers.
    pub(super) fn add_moments(&mut self, event: EventId, numbers: &BTreeMap<Stacks, u32>) {
        let singles = self.recording.singles.iter().flat_map(|singles| &singles.samples);
        for single in singles.filter(|single| single.event == event) {
            if let Some(number) = numbers.get(&(single.stack, single.waker)) {
                let lasted_ns = single.values.get(selection::TIME).copied().unwrap_or_default();
                self.builder.add_moment(Moment { at_ns: single.at_ns, lasted_ns, sample: *number });
            }
        }
    }

    /// The finished profile. If it has kernel frames, its comments tell of the kernel too.
    pub(super) fn finish(self, comments: Vec<String>) -> Profile {
        let Self { recording, builder, .. } = self;
        let span = recording.span;
        let mut profile = builder.finish(span.start_ns, signed(span.duration_ns), comments);
        let addresses = kernel_addresses(&profile);
        if !addresses.is_empty() {
            profile.comments.extend(kernel_comments::write(&recording.kernel, &addresses));
        }
        profile
    }
}

fn kernel_addresses(profile: &Profile) -> Vec<Avma> {
    let is_kernel = |mapping: Option<MappingId>| {
        let mapping = mapping.and_then(|MappingId(number)| profile.mappings.get(number as usize));
        mapping.is_some_and(|mapping| mapping.filename == KERNEL_MAPPING)
    };
    let kernel = profile.locations.iter().filter(|location| is_kernel(location.mapping));
    kernel.map(|location| Avma(location.address)).collect()
}

//! Mappings, functions, locations, frames and owners of a window, each stored once.

use std::collections::HashMap;

use profile::{
    Function, FunctionId, Interner, Label, Line, Location, LocationId, Mapping, MappingId, Profile,
};

use super::owner::{Owner, process_name};
use crate::frames::{self, Frame};

/// What stacks consist of.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    pub(crate) mappings: Interner<Mapping>,
    pub(crate) functions: Interner<Function>,
    pub(crate) locations: Interner<Location>,
    frames: Interner<Frame>,
    frame_keys: Vec<u64>,
    /// By number of the location, outermost first.
    of_locations: Vec<Box<[u32]>>,
    owners: Vec<Owner>,
    by_labels: HashMap<Vec<Label>, u32>,
    bytes: usize,
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            mappings: Interner::with_limit(u32::MAX),
            functions: Interner::with_limit(u32::MAX),
            locations: Interner::with_limit(u32::MAX),
            frames: Interner::with_limit(u32::MAX),
            frame_keys: Vec::new(),
            of_locations: Vec::new(),
            owners: Vec::new(),
            by_labels: HashMap::new(),
            bytes: 0,
        }
    }
}

impl Tables {
    /// Takes in what a profile consists of. Gives the number here of each of its locations.
    pub(super) fn take_in(&mut self, profile: &Profile) -> Vec<LocationId> {
        let frames = frames::of_locations(profile);
        let place = |location: (&Location, Vec<Frame>)| {
            let mapping = location.0.mapping.and_then(|id| profile.mappings.get(id.0 as usize));
            let function = |id: FunctionId| profile.functions.get(id.0 as usize);
            self.location(location.0, mapping, function, &location.1)
        };
        profile.locations.iter().zip(frames).map(place).collect()
    }

    /// Takes in one location of other tables.
    pub(super) fn take_over(&mut self, other: &Self, id: LocationId) -> LocationId {
        let Some(location) = other.locations.get(id.0) else { return id };
        let mapping = location.mapping.and_then(|id| other.mappings.get(id.0));
        let frames: Vec<Frame> =
            other.frames_at(id).iter().map(|number| other.frame(*number).clone()).collect();
        self.location(location, mapping, |id| other.functions.get(id.0), &frames)
    }

    fn location<'a>(
        &mut self,
        of: &Location,
        mapping: Option<&Mapping>,
        function: impl Fn(FunctionId) -> Option<&'a Function>,
        frames: &[Frame],
    ) -> LocationId {
        let mapping = mapping.map(|mapping| {
            let known = self.mappings.len();
            let number = self.mappings.number(mapping.clone()).unwrap_or(u32::MAX);
            if self.mappings.len() > known {
                self.bytes += mapping.filename.len() + 160;
            }
            MappingId(number)
        });
        let mut lines = Vec::with_capacity(of.lines.len());
        for line in &of.lines {
            let Some(function) = function(line.function) else { continue };
            let known = self.functions.len();
            let number = self.functions.number(function.clone()).unwrap_or(u32::MAX);
            if self.functions.len() > known {
                self.bytes +=
                    function.name.len() + function.system_name.len() + function.filename.len() + 128;
            }
            lines.push(Line { function: FunctionId(number), ..*line });
        }
        let location = Location { mapping, address: of.address, lines };
        let number = self.locations.number(location).unwrap_or(u32::MAX);
        if self.of_locations.len() < self.locations.len() {
            self.bytes += of.lines.len() * 32 + 96;
            let numbers = frames.iter().map(|frame| self.frame_number(frame.clone())).collect();
            self.of_locations.push(numbers);
        }
        LocationId(number)
    }

    fn frame_number(&mut self, frame: Frame) -> u32 {
        let (key, bytes) = (frame.key(), frame.bytes());
        let number = self.frames.number(frame).unwrap_or(u32::MAX);
        if self.frame_keys.len() < self.frames.len() {
            self.frame_keys.push(key);
            self.bytes += bytes;
        }
        number
    }

    /// The number of the owner with these labels.
    pub(super) fn owner(&mut self, labels: &[Label]) -> u32 {
        if let Some(known) = self.by_labels.get(labels) {
            return *known;
        }
        let process = self.frame_number(Frame::owner(&process_name(labels)));
        let owner = Owner::of(labels, process);
        let next = u32::try_from(self.owners.len()).unwrap_or(u32::MAX);
        self.bytes += labels.iter().map(|label| label.key.len() * 2 + 160).sum::<usize>() + 200;
        self.owners.push(owner);
        self.by_labels.insert(labels.to_vec(), next);
        next
    }

    /// Frames from the process to the innermost one.
    pub(super) fn path(&mut self, owner: u32, locations: &[LocationId]) -> Box<[u32]> {
        let process = self.owner_numbered(owner).process;
        let frames = locations.iter().rev().flat_map(|id| self.frames_at(*id)).copied();
        let path: Box<[u32]> = std::iter::once(process).chain(frames).collect();
        self.bytes += path.len() * 8 + 160;
        path
    }

    fn frames_at(&self, id: LocationId) -> &[u32] {
        self.of_locations.get(id.0 as usize).map_or(&[], |frames| frames)
    }

    pub(super) fn owner_numbered(&self, number: u32) -> &Owner {
        &self.owners[number as usize]
    }

    pub(super) fn frame(&self, number: u32) -> &Frame {
        // Numbers come from this table alone.
        self.frames.get(number).unwrap_or_else(|| unreachable!("frame {number} of {}", self.frames.len()))
    }

    pub(super) fn frame_key(&self, number: u32) -> u64 {
        self.frame_keys.get(number as usize).copied().unwrap_or(0)
    }

    pub(super) fn frames(&self) -> usize {
        self.frames.len()
    }

    /// The number of a location that stands for a fact.
    pub(super) fn fact(&mut self, name: &str) -> LocationId {
        let function =
            Function { name: name.to_owned(), system_name: name.to_owned(), ..Function::default() };
        let line = Line { function: FunctionId(0), line: 0, column: 0 };
        let location = Location { mapping: None, address: 0, lines: vec![line] };
        let frame = Frame {
            name: name.to_owned(),
            file: String::new(),
            kind: formats::FrameKind::Fact,
            place: String::new(),
        };
        self.location(&location, None, |_| Some(&function), &[frame])
    }

    /// About the memory that the tables and the stacks take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

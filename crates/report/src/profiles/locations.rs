//! Frames as locations of a profile.

use std::collections::HashMap;

use profile::{Builder, FileOffset, Function, KERNEL_MAPPING, Line, LocationId, Mapping, MappingId, Svma};
use recording::{CodeMappingId, Frame, FrameId, NameLine, Names, Recording};

/// Kernel addresses are all above this; of both architectures' layouts the lower one.
const KERNEL_START: u64 = 0xff00_0000_0000_0000;

/// Enters each frame once into a profile.
pub(super) struct Locations<'a> {
    recording: &'a Recording,
    names: &'a Names,
    /// By number of the frame.
    known: Vec<Option<LocationId>>,
    mappings: HashMap<CodeMappingId, MappingId>,
    kernel: Option<MappingId>,
}

impl<'a> Locations<'a> {
    pub(super) fn new(recording: &'a Recording, names: &'a Names) -> Self {
        let known = vec![None; recording.frames.len()];
        Self { recording, names, known, mappings: HashMap::new(), kernel: None }
    }

    /// The location of a frame.
    pub(super) fn of(&mut self, id: FrameId, builder: &mut Builder) -> LocationId {
        let position = id.0 as usize;
        if let Some(Some(location)) = self.known.get(position) {
            return *location;
        }
        let location = self.enter(id, builder);
        if let Some(known) = self.known.get_mut(position) {
            *known = Some(location);
        }
        location
    }

    /// The mapping with this number, as profiles have it.
    pub(super) fn mapping(&mut self, id: CodeMappingId, builder: &mut Builder) -> Option<MappingId> {
        if let Some(mapping) = self.mappings.get(&id) {
            return Some(*mapping);
        }
        let (mapping, module) = self.recording.mapping(id)?;
        let mapping = builder.mapping(mapping.of(module));
        self.mappings.insert(id, mapping);
        Some(mapping)
    }

    fn enter(&mut self, id: FrameId, builder: &mut Builder) -> LocationId {
        let lines = self.names.of(id);
        // Names and lines are those at the stored address: a location is never both an instruction and a return address.
        match self.recording.frame(id) {
            Some(Frame::Native { mapping: of, svma, exact }) => match self.mapping(*of, builder) {
                Some(mapping) => {
                    let lines = match self.by_start(*of, id).filter(|_| lines.len() == 0) {
                        Some(function) => {
                            vec![Line { function: builder.function(function), line: 0, column: 0 }]
                        }
                        None => enter_lines(lines, builder),
                    };
                    builder.location(Some(mapping), Frame::lookup(svma.0, *exact), lines)
                }
                None => unknown(svma.0, builder),
            },
            Some(Frame::Kernel { address, exact }) => {
                let mapping = self.kernel_mapping(builder);
                let lines = enter_lines(lines, builder);
                builder.location(Some(mapping), Frame::lookup(*address, *exact), lines)
            }
            Some(Frame::Jit { address, exact, .. }) => {
                let mapping = builder.mapping(Mapping { filename: "[jit]".to_owned(), ..Mapping::default() });
                // A named place is one with its function, wherever in memory the program put the code.
                let (address, lines) = if lines.len() == 0 {
                    (Frame::lookup(address.0, *exact), enter_name("[jit]", builder))
                } else {
                    (0, enter_lines(lines, builder))
                };
                builder.location(Some(mapping), address, lines)
            }
            Some(Frame::Interpreted { .. }) if lines.len() > 0 => {
                let lines = enter_lines(lines, builder);
                builder.location(None, 0, lines)
            }
            Some(Frame::Interpreted { .. }) => builder.synthetic("[interpreted]"),
            Some(Frame::Unknown { address }) => unknown(address.0, builder),
            None => unknown(0, builder),
        }
    }

    /// The function of a frame without a name, if its start is known.
    fn by_start(&self, mapping: CodeMappingId, id: FrameId) -> Option<Function> {
        let (_, module) = self.recording.mapping(mapping)?;
        Some(Function::by_start(&module.path, self.names.start(id)?))
    }

    fn kernel_mapping(&mut self, builder: &mut Builder) -> MappingId {
        *self.kernel.get_or_insert_with(|| {
            builder.mapping(Mapping {
                start: Svma(KERNEL_START),
                limit: Svma(u64::MAX),
                file_offset: FileOffset(0),
                filename: KERNEL_MAPPING.to_owned(),
                build_id: self.recording.kernel.build_id.clone(),
            })
        })
    }
}

/// Of the addresses that no process maps, those from here on are the page of legacy system calls of x86-64.
const VSYSCALL_PAGE: u64 = 0xffff_ffff_ff60_0000;

fn unknown(address: u64, builder: &mut Builder) -> LocationId {
    let name = if address >= VSYSCALL_PAGE { "[vsyscall]" } else { "[unknown]" };
    let lines = enter_name(name, builder);
    builder.location(None, address, lines)
}

fn enter_name(name: &str, builder: &mut Builder) -> Vec<Line> {
    enter_lines([NameLine { name, system_name: name, ..NameLine::default() }].into_iter(), builder)
}

fn enter_lines<'n>(lines: impl Iterator<Item = NameLine<'n>>, builder: &mut Builder) -> Vec<Line> {
    let line = |line: NameLine<'_>| Line {
        function: builder.function(line.into()),
        line: line.line,
        column: line.column,
    };
    lines.map(line).collect()
}

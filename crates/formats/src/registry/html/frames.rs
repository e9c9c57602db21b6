//! The distinct frames of the profiles of a page, each with what is known about its function.

use indexmap::IndexSet;
use profile::{Location, MappingId, Profile, Sample, visible};

use crate::named_frames::{FrameKind, NamedFrames};

/// A frame of the report.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Frame {
    pub(super) name: String,
    pub(super) kind: FrameKind,
    /// Source file of the declaration; empty if unknown.
    pub(super) file: String,
    /// Line of the declaration; 0 if unknown.
    pub(super) line: u32,
    /// The file with the code; empty if there is none.
    pub(super) module: String,
}

/// The number of a frame in a [`FrameSet`].
pub(super) type FrameId = u32;

/// Longer stacks lose the frames next to their leaf.
const MAX_DEPTH: usize = 4096;

/// The distinct frames of all profiles of a page.
pub(super) struct FrameSet {
    all: IndexSet<Frame>,
    /// The frame that stands for frames beyond [`MAX_DEPTH`].
    deeper: FrameId,
}

impl FrameSet {
    pub(super) fn new() -> Self {
        let mut all = IndexSet::new();
        let deeper = number(&mut all, bare("[deeper frames are left out]".to_owned(), FrameKind::Fact));
        Self { all, deeper }
    }

    /// All frames, by their number.
    pub(super) fn all(self) -> IndexSet<Frame> {
        self.all
    }
}

/// The frames of one profile.
pub(super) struct Frames {
    named: NamedFrames,
    /// By number of the location, outermost first.
    of_locations: Vec<Vec<FrameId>>,
}

impl Frames {
    pub(super) fn new(profile: &Profile, named: NamedFrames, set: &mut FrameSet) -> Self {
        let mut of_locations = Vec::new();
        for (position, location) in profile.locations.iter().enumerate() {
            let frames = frames_at(profile, &named, position, location);
            of_locations.push(frames.map(|frame| number(&mut set.all, frame)).collect());
        }
        Self { named, of_locations }
    }

    /// The frames of a sample, outermost first, those of its process and thread before them.
    pub(super) fn stack(&self, sample: &Sample, set: &mut FrameSet, into: &mut Vec<FrameId>) {
        into.clear();
        for owner in self.named.owners(sample) {
            into.push(number(&mut set.all, bare(owner.name, FrameKind::Owner)));
        }
        for location in sample.locations.iter().rev() {
            let frames = self.of_locations.get(location.0 as usize).map_or(&[][..], Vec::as_slice);
            let room = MAX_DEPTH.saturating_sub(into.len());
            into.extend(frames.iter().take(room));
            if frames.len() > room {
                into.push(set.deeper);
                return;
            }
        }
        if into.is_empty() {
            into.push(number(&mut set.all, bare("[no stack]".to_owned(), FrameKind::Fact)));
        }
    }
}

fn number(all: &mut IndexSet<Frame>, frame: Frame) -> FrameId {
    u32::try_from(all.insert_full(frame).0).unwrap_or(u32::MAX)
}

fn bare(name: String, kind: FrameKind) -> Frame {
    Frame { name, kind, file: String::new(), line: 0, module: String::new() }
}

fn frames_at<'a>(
    profile: &'a Profile,
    named: &'a NamedFrames,
    position: usize,
    location: &'a Location,
) -> impl Iterator<Item = Frame> + 'a {
    let mapping = location.mapping.and_then(|MappingId(index)| profile.mappings.get(index as usize));
    let module = mapping.map_or_else(String::new, |mapping| visible(&mapping.filename).into_owned());
    let id = profile::LocationId(u32::try_from(position).unwrap_or(u32::MAX));
    // A location without a line has one frame all the same.
    let mut lines = location.lines.iter().rev();
    named.at(id).iter().map(move |frame| {
        let line = lines.next();
        let function = line.and_then(|line| profile.functions.get(line.function.0 as usize));
        Frame {
            name: frame.name.clone(),
            kind: frame.kind,
            file: function.map_or_else(String::new, |of| visible(&of.filename).into_owned()),
            line: function.map_or(0, |of| of.start_line),
            module: module.clone(),
        }
    })
}

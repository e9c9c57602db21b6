//! Frames as they are shown: a name, the file it comes from, the kind of code.

use std::hash::{DefaultHasher, Hash, Hasher};

use formats::{FrameKind, Merge, NamedFrames};
use profile::{Location, LocationId, MappingId, Profile, visible};

/// A function as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Frame {
    pub(crate) name: String,
    /// The last component of the path of its file; empty if there is none. Of a function of an interpreter, its source file with the folder, and the
    /// line of its declaration: `views/cart.py:41`.
    pub(crate) file: String,
    pub(crate) kind: FrameKind,
    /// The whole path of that source file.
    pub(crate) place: String,
}

impl Frame {
    /// A process, by its name and number.
    pub(crate) fn owner(name: &str) -> Self {
        Self {
            name: visible(name).into_owned(),
            file: String::new(),
            kind: FrameKind::Owner,
            place: String::new(),
        }
    }

    /// A number that stays the same while the view runs.
    pub(crate) fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.name.len() + self.file.len() + self.place.len() + 120
    }
}

/// The key of something below something else.
pub(crate) fn below(parent: u64, key: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (parent, key).hash(&mut hasher);
    hasher.finish()
}

/// The frames of each location of a profile, outermost first. Those without a name are one frame for each file.
pub(crate) fn of_locations(profile: &Profile) -> Vec<Vec<Frame>> {
    let named = NamedFrames::new(profile, Merge::All);
    let frames = |(number, location): (u32, &Location)| {
        let file = file_of(profile, location);
        if let Some(frame) = interpreted(profile, location) {
            return vec![frame];
        }
        let is_nameless = |name: &str| name.is_empty() || location.lines.is_empty();
        let frame = |frame: &formats::NamedFrame| Frame {
            name: match is_nameless(&frame.name) {
                true if file.is_empty() => "[no name]".to_owned(),
                true => format!("[no name in {file}]"),
                false => frame.name.clone(),
            },
            file: file.clone(),
            kind: frame.kind,
            place: String::new(),
        };
        named.at(LocationId(number)).iter().map(frame).collect()
    };
    (0u32..).zip(&profile.locations).map(frames).collect()
}

/// The frame of a function that an interpreter runs; none of other locations.
fn interpreted(profile: &Profile, location: &Location) -> Option<Frame> {
    let [line] = location.lines.as_slice() else { return None };
    let function =
        profile.functions.get(line.function.0 as usize).filter(|_| profile.is_interpreted(location))?;
    let place = function.place();
    let folder = place.rsplit_once('/').map_or(0, |(folder, _)| folder.rfind('/').map_or(0, |at| at + 1));
    Some(Frame {
        name: visible(&function.name).into_owned(),
        file: visible(place.get(folder..).unwrap_or_default()).into_owned(),
        kind: FrameKind::Interpreted,
        place,
    })
}

fn file_of(profile: &Profile, location: &Location) -> String {
    let mapping = location.mapping.and_then(|MappingId(number)| profile.mappings.get(number as usize));
    let path = mapping.map_or("", |mapping| mapping.filename.as_str());
    let name =
        if path == profile::KERNEL_MAPPING { "[kernel]" } else { path.rsplit('/').next().unwrap_or(path) };
    visible(name).into_owned()
}

#[cfg(test)]
mod tests {
    use profile::{Builder, Function, Line, ValueType};

    use super::*;

    #[test]
    fn functions_of_interpreters_have_their_source_as_file() {
        let count = ValueType::new("samples", "count");
        let mut builder = Builder::new(std::slice::from_ref(&count), count.clone(), 1);
        let paths = ["/srv/shop/views/cart.py", "/opt/shop/views/cart.py"];
        for path in paths {
            let (name, filename) = ("Cart.total".to_owned(), path.to_owned());
            let function =
                builder.function(Function { name, filename, start_line: 41, ..Function::default() });
            let id = builder.location(None, 0, vec![Line { function, line: 43, column: 0 }]);
            builder.add(Vec::new(), vec![id], &[1]);
        }
        let frames = of_locations(&builder.finish(0, 0, Vec::new())).concat();
        let shown = frames.iter().map(|frame| (frame.name.as_str(), frame.file.as_str(), frame.kind));
        let expected = ("Cart.total", "views/cart.py:41", FrameKind::Interpreted);
        assert!(shown.eq([expected; 2]), "{frames:?}");
        assert_ne!(frames[0].key(), frames[1].key(), "files of two folders are two");
    }
}

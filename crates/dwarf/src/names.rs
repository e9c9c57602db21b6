//! Entries of functions: names, the line of the declaration, and references between entries.

use std::rc::Rc;
use std::sync::Arc;

use gimli::constants as dw;
use gimli::{AttributeValue, DebugAddrBase, DebugRngListsBase};
use hashbrown::HashMap;

use crate::abbreviations::Abbreviations;
use crate::limits::Work;
use crate::scopes::Scopes;
use crate::texts::{TextId, Texts};
use crate::view::{Root, Space, Value, View, small};

/// Which sections an entry is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// Those of the file.
    Main,
    /// Those of the supplementary file (made by `dwz`).
    Supplementary,
    /// Those of a split unit.
    Split,
}

/// An entry: its sections and its position in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EntryRef {
    pub place: Place,
    pub at: usize,
}

impl EntryRef {
    /// What a reference means in a unit that starts at a position. `own` is any entry of that unit.
    pub fn of(value: Value<'_>, own: Self, unit: usize) -> Option<Self> {
        Some(match value {
            AttributeValue::UnitRef(offset) => Self { place: own.place, at: unit.checked_add(offset.0)? },
            AttributeValue::DebugInfoRef(offset) => Self { place: own.place, at: offset.0 },
            AttributeValue::DebugInfoRefSup(offset) => Self { place: Place::Supplementary, at: offset.0 },
            _ => return None,
        })
    }
}

/// What is known of a function.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Description {
    /// The linkage name or, where there is none that can be read, the qualified name in the source.
    pub name: Option<TextId>,
    /// The line of its declaration, or 0.
    pub line: u32,
}

/// Bytes of abbreviations, units and strings that are kept.
const MAX_KEPT_ABBREVIATIONS: usize = 8 << 20;
const MAX_KEPT_VIEWS: usize = 4096;
const MAX_KEPT_SCOPES: usize = 8;
const MAX_KEPT_STRINGS: usize = 1 << 18;
/// Bytes of a name that cost as much as one step of a scan.
const BYTES_PER_WORK: usize = 8;
/// Functions whose names are found without a search: at least so many, at most so many.
const RECENT: [usize; 2] = [1 << 9, 1 << 15];

/// What one look-up leaves for the next one of the same file. It holds no bytes of the file.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// By place, position and encoding of the unit.
    abbreviations: HashMap<(Place, usize, gimli::Encoding), Arc<Abbreviations>>,
    /// Bytes of [`Self::abbreviations`] in the file.
    read: usize,
    /// Linkage names by place and offset in the section of strings, and whether they can be made readable.
    strings: HashMap<(Place, usize), Option<(TextId, bool)>>,
}

/// Bytes in memory for one byte of abbreviations in the file, about.
const ABBREVIATION_GROWTH: usize = 16;

impl Kept {
    /// About the bytes that dropping this would free.
    pub fn heap_bytes(&self) -> usize {
        self.read * ABBREVIATION_GROWTH
            + self.strings.capacity() * size_of::<((Place, usize), Option<(TextId, bool)>)>()
    }
}

/// The sections of a file, and what was read of them for a look-up.
pub(crate) struct Context<'a> {
    pub main: Rc<Space<'a>>,
    pub supplementary: Option<Rc<Space<'a>>>,
    pub split: Option<Rc<Space<'a>>>,
    views: HashMap<(Place, usize), Option<Rc<View<'a>>>>,
    /// The one that an entry was read of last: most references stay in a unit.
    last_view: Option<(Place, Rc<View<'a>>)>,
    kept: Kept,
    /// Some of what was found, by the lower bits of positions: a unit inlines few functions many times.
    recent: Box<[Option<(EntryRef, Description)>]>,
    /// Scopes of some units, by place and position.
    scopes: HashMap<(Place, usize), Rc<Scopes>>,
    /// Whether a linkage name can be made readable.
    is_readable: fn(&str) -> bool,
    /// What split units take from their skeleton.
    relocated: Option<(u64, DebugAddrBase, DebugRngListsBase)>,
}

impl<'a> Context<'a> {
    pub fn new(
        main: Rc<Space<'a>>,
        supplementary: Option<Rc<Space<'a>>>,
        split: Option<Rc<Space<'a>>>,
        is_readable: fn(&str) -> bool,
    ) -> Self {
        Self {
            main,
            supplementary,
            split,
            views: HashMap::new(),
            last_view: None,
            kept: Kept::default(),
            recent: vec![None; RECENT[0]].into_boxed_slice(),
            scopes: HashMap::new(),
            is_readable,
            relocated: None,
        }
    }

    /// Uses what an earlier look-up in the same file left.
    pub fn with_kept(self, kept: Kept) -> Self {
        Self { kept, ..self }
    }

    /// Remembers as many functions as are worth it for a look-up of so many addresses.
    pub fn for_addresses(mut self, count: usize) -> Self {
        let size = count.next_power_of_two().clamp(RECENT[0], RECENT[1]);
        self.recent = vec![None; size].into_boxed_slice();
        self
    }

    /// What the next look-up in the same file can use.
    pub fn into_kept(self) -> Kept {
        self.kept
    }

    /// Tells what split units take from their skeleton: its first address, and the bases of addresses and, before DWARF 5, of ranges.
    pub fn relocate(&mut self, low_pc: u64, addresses: DebugAddrBase, rnglists: DebugRngListsBase) {
        self.relocated = Some((low_pc, addresses, rnglists));
    }

    fn space(&self, place: Place) -> Option<&Rc<Space<'a>>> {
        match place {
            Place::Main => Some(&self.main),
            Place::Supplementary => self.supplementary.as_ref(),
            Place::Split => self.split.as_ref(),
        }
    }

    /// A unit by its number. `None` if it cannot be read.
    pub fn view(&mut self, place: Place, unit: usize, work: &mut Work) -> Option<Rc<View<'a>>> {
        if let Some(view) = self.views.get(&(place, unit)) {
            return view.clone();
        }
        if self.views.len() >= MAX_KEPT_VIEWS {
            self.views.clear();
        }
        let view = self.read_view(place, unit, work).map(Rc::new);
        self.views.insert((place, unit), view.clone());
        view
    }

    /// Whether a linkage name can be made readable.
    pub fn is_readable(&self, name: &str) -> bool {
        (self.is_readable)(name)
    }

    /// The scopes of a unit.
    pub fn scopes(&mut self, place: Place, view: &View<'a>, work: &mut Work) -> Rc<Scopes> {
        let key = (place, view.head.start);
        if let Some(known) = self.scopes.get(&key) {
            return Rc::clone(known);
        }
        if self.scopes.len() >= MAX_KEPT_SCOPES {
            self.scopes.clear();
        }
        let read = Rc::new(Scopes::read(view, work));
        self.scopes.insert(key, Rc::clone(&read));
        read
    }

    /// The unit that an entry is in.
    pub fn view_of(&mut self, entry: EntryRef, work: &mut Work) -> Option<Rc<View<'a>>> {
        if let Some((place, view)) = &self.last_view
            && *place == entry.place
            && (view.head.entries..view.head.end).contains(&entry.at)
        {
            return Some(Rc::clone(view));
        }
        let unit = self.space(entry.place)?.units.at(entry.at)?;
        let view = self.view(entry.place, unit, work)?;
        self.last_view = Some((entry.place, Rc::clone(&view)));
        Some(view)
    }

    fn read_view(&mut self, place: Place, unit: usize, work: &mut Work) -> Option<View<'a>> {
        let space = Rc::clone(self.space(place)?);
        let head = *space.units.heads.get(unit)?;
        let abbreviations = self.abbreviations(place, &space, head.abbreviations, head.encoding, work)?;
        let mut root = Root::read_known(&space, &head, &abbreviations, work)?;
        if let (Place::Split, Some((low_pc, addresses, rnglists))) = (place, self.relocated) {
            (root.low_pc, root.addresses) = (low_pc, addresses);
            if head.encoding.version < 5 {
                root.rnglists = rnglists;
            }
        }
        Some(View { space, head, root, abbreviations })
    }

    fn abbreviations(
        &mut self,
        place: Place,
        space: &Space<'a>,
        at: usize,
        encoding: gimli::Encoding,
        work: &mut Work,
    ) -> Option<Arc<Abbreviations>> {
        let key = (place, at, encoding);
        if let Some(known) = self.kept.abbreviations.get(&key) {
            return Some(Arc::clone(known));
        }
        let read = Arc::new(Abbreviations::read(space.abbrev, at, encoding));
        if self.kept.read > MAX_KEPT_ABBREVIATIONS {
            // Views hold theirs.
            self.kept.abbreviations.clear();
            self.views.clear();
            self.kept.read = 0;
        }
        self.kept.read += read.read;
        self.kept.abbreviations.insert(key, Arc::clone(&read));
        work.take(8 * read.read).then_some(read)
    }

    /// What was found of the function that an entry is about, if it is remembered.
    pub fn recent(&self, entry: EntryRef) -> Option<Description> {
        // The number of places is a power of two.
        let place = entry.at & (self.recent.len() - 1);
        let known = self.recent.get(place)?.as_ref().filter(|(known, _)| *known == entry);
        known.map(|(_, described)| *described)
    }

    /// Remembers what was found of the function that an entry is about.
    pub fn remember(&mut self, entry: EntryRef, described: Description) {
        let place = entry.at & (self.recent.len() - 1);
        if let Some(recent) = self.recent.get_mut(place) {
            *recent = Some((entry, described));
        }
    }

    /// What one entry says of its function. The name in the source is read where the linkage name cannot be read.
    pub fn entry(&mut self, entry: EntryRef, texts: &mut Texts, work: &mut Work) -> Option<Entry<'a>> {
        let view = self.view_of(entry, work)?;
        let mut at = entry.at;
        let shape = view.shape(&mut at)??;
        let mut read = Entry::default();
        let (mut name, mut linkage_name) = (None, None);
        view.attributes(shape, &mut at, work, |attribute, value| match attribute {
            dw::DW_AT_name => name = Some(value),
            dw::DW_AT_linkage_name | dw::DW_AT_MIPS_linkage_name => linkage_name = Some(value),
            dw::DW_AT_decl_line => read.line = small(value),
            dw::DW_AT_abstract_origin | dw::DW_AT_specification => {
                read.origin = read.origin.or(EntryRef::of(value, entry, view.head.start));
            }
            _ => {}
        })?;
        read.linkage_name =
            linkage_name.and_then(|value| self.linkage_name(&view, entry.place, value, texts, work));
        if read.linkage_name.is_none_or(|(_, is_readable)| !is_readable) {
            read.name = name.and_then(|value| view.string(value)).map(|name| name.slice());
        }
        Some(read)
    }

    /// The number of a linkage name, and whether it can be made readable.
    fn linkage_name(
        &mut self,
        view: &View<'a>,
        place: Place,
        value: Value<'a>,
        texts: &mut Texts,
        work: &mut Work,
    ) -> Option<(TextId, bool)> {
        // A text ends at a zero, so that the same place has the same number, without another look at it.
        let key = match value {
            AttributeValue::DebugStrRef(offset) => Some((place, offset.0)),
            _ => None,
        };
        if let Some(known) = key.and_then(|key| self.kept.strings.get(&key)) {
            return *known;
        }
        let bytes = view.string(value).map(|name| name.slice()).filter(|name| !name.is_empty());
        let bytes = bytes.filter(|name| work.take(name.len() / BYTES_PER_WORK));
        let id = bytes.and_then(|name| texts.enter(name));
        let entered = id.map(|id| (id, self.is_readable(texts.get(id).unwrap_or_default())));
        if let Some(key) = key {
            if self.kept.strings.len() >= MAX_KEPT_STRINGS {
                self.kept.strings.clear();
            }
            self.kept.strings.insert(key, entered);
        }
        entered
    }
}

/// What one entry says of its function.
#[derive(Debug, Default)]
pub(crate) struct Entry<'a> {
    /// With whether it can be made readable.
    pub linkage_name: Option<(TextId, bool)>,
    pub name: Option<&'a [u8]>,
    pub line: u32,
    pub origin: Option<EntryRef>,
}

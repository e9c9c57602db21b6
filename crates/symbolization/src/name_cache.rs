//! Names that were found in earlier intervals, so that a capture of many intervals looks each place up once.
//!
//! Kept by generation: an interval begins a generation if the newest one is old enough, a name that is used moves into the newest one, and
//! the oldest one is dropped whole. So short intervals do not forget what they use now and then, for which a large file would be read
//! anew. Of modules alone: kernel addresses are cheap to look up, and a perf map may say something else later.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use profile::Svma;
use recording::{FrameId, Module, Names};
use symbols::SourceLine;

use crate::line;

/// Generations that are kept: names that were used in none of them are dropped.
const GENERATIONS: usize = 3;
/// A generation lasts for this long at least.
const GENERATION_TIME: Duration = Duration::from_secs(10);
/// Text of all lines in a generation together; equal texts are counted again.
const MAX_TEXT: usize = 64 << 20;

/// The lines at a place, and where its function begins if it has no name and that is known.
pub(crate) type Known = (Vec<SourceLine>, Option<Svma>);

/// The names of places in modules.
pub(crate) struct NameCache {
    /// The newest one first.
    generations: VecDeque<Generation>,
    /// When the newest one began.
    began: Instant,
    max_places: usize,
}

#[derive(Default)]
struct Generation {
    /// Numbers in `names`; a number without lines is a place that has no name.
    modules: HashMap<Module, HashMap<Svma, FrameId>>,
    names: Names,
    places: u32,
    text: usize,
}

impl Generation {
    fn get(&self, module: &Module, svma: Svma) -> Option<Known> {
        let number = self.modules.get(module)?.get(&svma)?;
        Some((self.names.of(*number).map(line::owned).collect(), self.names.start(*number)))
    }

    fn put(&mut self, module: &Module, svma: Svma, lines: &[SourceLine], start: Option<Svma>) {
        let number = FrameId(self.places);
        self.places += 1;
        self.text += lines.iter().map(text_of).sum::<usize>();
        self.names.enter(number, lines.iter().map(line::borrowed));
        if let Some(start) = start {
            self.names.enter_start(number, start);
        }
        // The table may be full.
        if !lines.is_empty() && !self.names.has(number) {
            return;
        }
        match self.modules.get_mut(module) {
            Some(places) => drop(places.insert(svma, number)),
            None => drop(self.modules.insert(module.clone(), HashMap::from([(svma, number)]))),
        }
    }

    fn has_room(&self, max_places: usize) -> bool {
        (self.places as usize) < max_places && self.text < MAX_TEXT
    }
}

impl NameCache {
    /// For at most so many places.
    pub(crate) fn new(max_places: usize) -> Self {
        Self { generations: VecDeque::new(), began: Instant::now(), max_places: max_places / GENERATIONS }
    }

    /// An interval begins at this time.
    pub(crate) fn begin_interval(&mut self, now: Instant) {
        let age = now.saturating_duration_since(self.began);
        if self.generations.is_empty() || age >= GENERATION_TIME {
            self.began = now;
            self.generations.truncate(GENERATIONS - 1);
            self.generations.push_front(Generation::default());
        }
    }

    /// What is known of a place: no lines if it has no name. `None` if nobody looked it up lately.
    pub(crate) fn get(&mut self, module: &Module, svma: Svma) -> Option<Known> {
        let (generation, (lines, start)) = self
            .generations
            .iter()
            .enumerate()
            .find_map(|(number, generation)| Some((number, generation.get(module, svma)?)))?;
        if generation > 0 {
            self.put(module, svma, &lines, start);
        }
        Some((lines, start))
    }

    /// Keeps what was found at a place, if there is room. A file that could not be told from others is not kept.
    pub(crate) fn put(&mut self, module: &Module, svma: Svma, lines: &[SourceLine], start: Option<Svma>) {
        if !is_told_apart(module) {
            return;
        }
        let max_places = self.max_places;
        if let Some(newest) = self.generations.front_mut().filter(|newest| newest.has_room(max_places)) {
            newest.put(module, svma, lines, start);
        }
    }
}

/// Whether equal modules are one file.
pub(crate) fn is_told_apart(module: &Module) -> bool {
    module.build_id.is_some() || module.identity.size > 0
}

fn text_of(line: &SourceLine) -> usize {
    line.name.len() + line.system_name.len() + line.file.len()
}

#[cfg(test)]
mod tests {
    use recording::{FileIdentity, ModuleKind};

    use super::*;

    fn module(path: &str) -> Module {
        let identity = FileIdentity { size: 1, ..FileIdentity::default() };
        Module { path: path.to_owned(), build_id: None, kind: ModuleKind::Elf, identity }
    }

    fn lines(name: &str) -> Vec<SourceLine> {
        vec![SourceLine { name: name.into(), line: 7, ..SourceLine::default() }]
    }

    #[test]
    fn a_name_is_kept_as_long_as_it_is_used_and_two_generations_longer() {
        let (mut cache, module, mut now) = (NameCache::new(100), module("/a"), Instant::now());
        let mut begin_after = |cache: &mut NameCache, time| {
            now += time;
            cache.begin_interval(now);
        };
        cache.begin_interval(Instant::now());
        cache.put(&module, Svma(1), &lines("one"), None);
        cache.put(&module, Svma(2), &[], None);
        for _ in 0..5 {
            begin_after(&mut cache, GENERATION_TIME);
            assert_eq!(cache.get(&module, Svma(1)), Some((lines("one"), None)));
        }
        assert_eq!(cache.get(&module, Svma(2)), None, "unused");
        (0..9).for_each(|_| begin_after(&mut cache, GENERATION_TIME / 10));
        begin_after(&mut cache, GENERATION_TIME);
        begin_after(&mut cache, GENERATION_TIME);
        assert_eq!(
            cache.get(&module, Svma(1)),
            Some((lines("one"), None)),
            "short intervals begin no generation"
        );
        (0..3).for_each(|_| begin_after(&mut cache, GENERATION_TIME));
        assert_eq!(cache.get(&module, Svma(1)), None);
    }

    #[test]
    fn a_place_without_a_name_and_an_unknown_place_are_told_apart() {
        let (mut cache, module) = (NameCache::new(100), module("/a"));
        cache.begin_interval(Instant::now());
        cache.put(&module, Svma(1), &[], Some(Svma(7)));
        assert_eq!(
            (cache.get(&module, Svma(1)), cache.get(&module, Svma(2))),
            (Some((Vec::new(), Some(Svma(7)))), None)
        );
    }

    #[test]
    fn only_files_that_can_be_told_apart_are_kept_and_only_so_many_places() {
        let (mut cache, mut unknown) = (NameCache::new(30), module("/a"));
        cache.begin_interval(Instant::now());
        unknown.identity.size = 0;
        cache.put(&unknown, Svma(1), &lines("one"), None);
        assert_eq!(cache.get(&unknown, Svma(1)), None);
        let (a, b) = (module("/a"), module("/b"));
        cache.put(&a, Svma(1), &lines("of a"), None);
        assert_eq!(cache.get(&b, Svma(1)), None);
        (0..100).for_each(|svma| cache.put(&b, Svma(svma), &lines("of b"), None));
        assert_eq!((0..100).filter(|svma| cache.get(&b, Svma(*svma)).is_some()).count(), 9);
    }
}

//! Names of code that was made at run time: from the perf map of the very program that made it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use profile::Avma;
use symbols::{PerfMap, PerfMapError, PerfMapOwner, SourceLine};

use super::super::stacks::PlaceId;
use crate::CancelToken;
use crate::processes::ExecInstance;

/// What is kept of maps, but for the one in use: more are read again when they are needed.
const KEPT_BYTES: usize = 64 << 20;
const KEPT_MAPS: usize = 64;
/// So many shortfalls are told.
const MAX_TOLD: usize = 8;

/// A program that makes code at run time.
pub(in super::super) struct JitProgram {
    instance: Arc<ExecInstance>,
    /// Taken at the first sight of such code: later the process may be gone.
    owner: Option<PerfMapOwner>,
}

impl JitProgram {
    /// Of a program that most probably runs. `may_hold`: whether a descriptor may be kept for it.
    pub(in super::super) fn at_first_sight(instance: &Arc<ExecInstance>, may_hold: bool) -> Self {
        let owner = instance.perf_map_owner().filter(|owner| may_hold || !owner.holds_folder());
        Self { instance: Arc::clone(instance), owner }
    }

    /// Whether a descriptor is kept for it.
    pub(in super::super) fn holds_folder(&self) -> bool {
        self.owner.as_ref().is_some_and(PerfMapOwner::holds_folder)
    }

    /// Opens its map. None: its process is gone, and nothing was kept of it.
    fn open(&self) -> Option<Result<PerfMap, PerfMapError>> {
        let ended = self.instance.ended();
        match &self.owner {
            Some(owner) => Some(PerfMap::open(owner, ended)),
            None => Some(PerfMap::open(&self.instance.perf_map_owner()?, ended)),
        }
    }
}

/// Places that no map named so far.
struct Missing {
    program: Arc<JitProgram>,
    places: Vec<(PlaceId, Avma)>,
}

/// The perf maps of programs, by their numbers.
#[derive(Default)]
pub(super) struct PerfMaps {
    /// The one that was used last stands last.
    maps: Vec<(u32, PerfMap)>,
    /// Looked for again at the end, when the runtime may have written more.
    missing: HashMap<u32, Missing>,
    /// What of a map is not used, and why.
    shortfalls: HashMap<u32, String>,
    /// Of these maps that is not told.
    untold: HashSet<u32>,
    /// Bytes that were read of maps that were let go.
    spent: HashMap<u32, u64>,
}

impl PerfMaps {
    /// Those that are found; the others are looked for again by [`Self::find_rest`]. `abandon` ends it early.
    pub(super) fn find(
        &mut self,
        number: u32,
        program: &Arc<JitProgram>,
        places: Vec<(PlaceId, Avma)>,
        abandon: &CancelToken,
    ) -> Vec<(PlaceId, Vec<SourceLine>)> {
        let mut found = Vec::new();
        let mut missing = places;
        if let Some(map) = self.map(number, program) {
            look_up(map, &mut missing, &mut found, abandon);
            // Once for all of them: the map may be large, and change all the time.
            if !missing.is_empty() && !abandon.is_cancelled() && map.refresh() {
                look_up(map, &mut missing, &mut found, abandon);
            }
            self.note_unread(number, program.instance.pid);
        }
        if !missing.is_empty() {
            let new = || Missing { program: Arc::clone(program), places: Vec::new() };
            self.missing.entry(number).or_insert_with(new).places.extend(missing);
        }
        self.release();
        found
    }

    /// The map of a program, now the last one.
    fn map(&mut self, number: u32, program: &Arc<JitProgram>) -> Option<&mut PerfMap> {
        if let Some(at) = self.maps.iter().position(|(known, _)| *known == number) {
            let known = self.maps.remove(at);
            self.maps.push(known);
            let (_, map) = self.maps.last_mut()?;
            if let Some(ended) = program.instance.ended() {
                map.end(ended);
            }
            return Some(map);
        }
        if self.spent.get(&number).is_some_and(|spent| *spent >= PerfMap::MAX_READ) {
            self.tell(number, spent_text(program.instance.pid));
            return None;
        }
        match program.open()? {
            Ok(map) => {
                self.shortfalls.remove(&number);
                self.untold.remove(&number);
                self.maps.push((number, map));
            }
            // Most have none.
            Err(PerfMapError::Missing { .. }) => return None,
            Err(error) => {
                self.tell(number, error.to_string());
                return None;
            }
        }
        self.maps.last_mut().map(|(_, map)| map)
    }

    fn note_unread(&mut self, number: u32, pid: u32) {
        let Some((_, map)) = self.maps.last() else { return };
        let counts = [
            (map.malformed_lines(), "malformed lines"),
            (map.entries_beyond_limit(), "entries and"),
            (map.bytes_beyond_limit(), "bytes beyond the limits"),
        ];
        if map.is_spent() {
            self.tell(number, spent_text(pid));
        } else if counts.iter().any(|(count, _)| *count > 0) {
            let counts = counts.map(|(count, what)| format!("{count} {what}")).join(", ");
            self.tell(number, format!("of the perf map of process {pid} not all is used: {counts}"));
        }
    }

    fn tell(&mut self, number: u32, shortfall: String) {
        if self.shortfalls.len() < MAX_TOLD || self.shortfalls.contains_key(&number) {
            self.untold.remove(&number);
            self.shortfalls.insert(number, shortfall);
        } else {
            self.untold.insert(number);
        }
    }

    /// Lets go of maps that were not used for longest until the rest is small enough.
    fn release(&mut self) {
        let Some((_, others)) = self.maps.split_last() else { return };
        let mut total: usize = others.iter().map(|(_, map)| map.heap_bytes()).sum();
        let mut released = 0;
        for (_, map) in others {
            if total <= KEPT_BYTES && others.len() - released < KEPT_MAPS {
                break;
            }
            total -= map.heap_bytes();
            released += 1;
        }
        for (number, map) in self.maps.drain(..released) {
            *self.spent.entry(number).or_default() += map.bytes_read();
        }
    }

    /// Looks once more; what is not found now either has no name. `abandon` ends it early, and the rest is left out.
    pub(super) fn find_rest(&mut self, abandon: &CancelToken) -> Vec<(PlaceId, Vec<SourceLine>)> {
        let missing = std::mem::take(&mut self.missing);
        let mut all = Vec::new();
        for (number, Missing { program, places }) in missing {
            all.extend(self.find(number, &program, places, abandon));
            if abandon.is_cancelled() {
                return all;
            }
        }
        let unnamed = self.missing.drain().flat_map(|(_, missing)| missing.places);
        all.extend(unnamed.map(|(id, _)| (id, Vec::new())));
        all
    }

    /// What was not used of maps that are there, and why.
    pub(super) fn shortfalls(&self) -> Vec<String> {
        let mut told: Vec<_> = self.shortfalls.values().cloned().collect();
        told.sort();
        if !self.untold.is_empty() {
            told.push(format!(
                "perf maps of {} more programs are not used, or not wholly",
                self.untold.len()
            ));
        }
        told
    }
}

/// Moves the places that the map names from `missing` to `found`.
fn look_up(
    map: &PerfMap,
    missing: &mut Vec<(PlaceId, Avma)>,
    found: &mut Vec<(PlaceId, Vec<SourceLine>)>,
    abandon: &CancelToken,
) {
    missing.retain(|(id, address)| {
        let entry = if abandon.is_cancelled() { None } else { map.lookup(*address) };
        let is_missing = entry.is_none();
        found.extend(entry.map(|entry| (*id, vec![entry.line])));
        is_missing
    });
}

fn spent_text(pid: u32) -> String {
    let limit = PerfMap::MAX_READ >> 30;
    format!(
        "of the perf map of process {pid} not all is used: it is written anew again and again, and {limit} GiB were read"
    )
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::{Child, Command};
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::processes::monotonic_ns;

    /// A process and the map with its number.
    struct Sleeper(Child);

    impl Sleeper {
        fn start() -> Self {
            Self(Command::new("sleep").arg("600").spawn().unwrap())
        }

        fn write(&self, text: &str, at: SystemTime) {
            let path = self.map();
            std::fs::write(&path, text).unwrap();
            File::options().write(true).open(path).unwrap().set_modified(at).unwrap();
        }

        fn map(&self) -> String {
            format!("/tmp/perf-{}.map", self.0.id())
        }

        fn program(&self, instance: ExecInstance) -> Arc<JitProgram> {
            Arc::new(JitProgram::at_first_sight(&Arc::new(instance), true))
        }

        fn start_ticks(&self) -> u64 {
            process::task::start_time(self.0.id()).unwrap()
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
            let _ = std::fs::remove_file(self.map());
        }
    }

    fn name(maps: &mut PerfMaps, number: u32, program: &Arc<JitProgram>) -> Option<String> {
        let found = maps.find(number, program, vec![(0, Avma(0x10))], &CancelToken::new());
        found.into_iter().next().map(|(_, lines)| lines[0].name.clone())
    }

    #[test]
    fn each_program_of_a_process_has_its_own_map() {
        let sleeper = Sleeper::start();
        let (pid, ticks) = (sleeper.0.id(), sleeper.start_ticks());
        let ago_ns = |s: u64| monotonic_ns().saturating_sub(s * 1_000_000_000);
        let ago = |s| SystemTime::now() - Duration::from_secs(s);
        // The second began by an exec, which was the end of the first.
        let exec_ns = ago_ns(10);
        let first = sleeper.program(ExecInstance::begun(pid, ticks, ago_ns(20)));
        let second = sleeper.program(ExecInstance::begun(pid, ticks, exec_ns));
        let mut maps = PerfMaps::default();
        sleeper.write("10 10 of_first\n", ago(15));
        assert_eq!(name(&mut maps, 1, &first).as_deref(), Some("of_first"));
        assert_eq!(name(&mut maps, 2, &second), None, "it was written before");
        assert!(maps.shortfalls()[0].contains("before this program began"), "{:?}", maps.shortfalls());
        first.instance.end(exec_ns);
        sleeper.write("10 10 of_second_\n", ago(5));
        assert_eq!(name(&mut maps, 2, &second).as_deref(), Some("of_second_"));
        assert_eq!(
            name(&mut maps, 1, &first).as_deref(),
            Some("of_first"),
            "what was read in its time stays"
        );
        assert_eq!(maps.shortfalls(), [] as [String; 0]);
        assert_eq!(name(&mut PerfMaps::default(), 1, &first), None, "too late");
        assert_eq!(
            maps.find_rest(&CancelToken::new()).into_iter().map(|(_, lines)| lines.len()).sum::<usize>(),
            1
        );
    }

    #[test]
    fn a_map_is_found_after_the_end_of_its_process_and_not_by_the_next() {
        let sleeper = Sleeper::start();
        let (pid, ticks) = (sleeper.0.id(), sleeper.start_ticks());
        let program = sleeper.program(ExecInstance::met(pid, ticks));
        let strangers = sleeper.program(ExecInstance::met(pid, ticks + 1));
        sleeper.write("10 10 name\n", SystemTime::now());
        assert_eq!(name(&mut PerfMaps::default(), 1, &strangers), None);
        // Its map is still there when it is not.
        let path = sleeper.map();
        let kept = std::fs::read(&path).unwrap();
        drop(sleeper);
        std::fs::write(&path, kept).unwrap();
        let found = name(&mut PerfMaps::default(), 1, &program);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found.as_deref(), Some("name"));
    }

    #[test]
    fn what_is_not_used_of_a_map_is_told() {
        let sleeper = Sleeper::start();
        let program = sleeper.program(ExecInstance::met(sleeper.0.id(), sleeper.start_ticks()));
        sleeper.write("nonsense\n10 10 name\n", SystemTime::now());
        let mut maps = PerfMaps::default();
        assert_eq!(name(&mut maps, 1, &program).as_deref(), Some("name"));
        assert!(maps.shortfalls()[0].contains("1 malformed lines"), "{:?}", maps.shortfalls());
    }

    #[test]
    fn shortfalls_that_are_not_told_are_counted() {
        let mut maps = PerfMaps::default();
        let last = u32::try_from(MAX_TOLD).unwrap() + 2;
        for number in (0..last).chain(0..last) {
            maps.tell(number, format!("map {number}"));
        }
        let told = maps.shortfalls();
        assert_eq!(told.len(), MAX_TOLD + 1);
        assert!(told[MAX_TOLD].contains("of 2 more programs"), "{told:?}");
    }

    #[test]
    fn what_was_abandoned_is_left_out() {
        let sleeper = Sleeper::start();
        let program = sleeper.program(ExecInstance::met(sleeper.0.id(), sleeper.start_ticks()));
        sleeper.write("10 10 name\n", SystemTime::now());
        let (mut maps, abandon) = (PerfMaps::default(), CancelToken::new());
        assert_eq!(maps.find(1, &program, vec![(0, Avma(0x20))], &abandon).len(), 0);
        abandon.cancel();
        assert_eq!(maps.find(1, &program, vec![(1, Avma(0x10))], &abandon).len(), 0);
        assert_eq!(maps.find_rest(&abandon).len(), 0);
    }

    #[test]
    fn a_map_that_was_read_too_often_is_not_read_again() {
        let sleeper = Sleeper::start();
        let program = sleeper.program(ExecInstance::met(sleeper.0.id(), sleeper.start_ticks()));
        sleeper.write("10 10 name\n", SystemTime::now());
        let mut maps = PerfMaps::default();
        maps.spent.insert(1, PerfMap::MAX_READ);
        assert_eq!(name(&mut maps, 1, &program), None);
        assert!(maps.shortfalls()[0].contains("1 GiB were read"), "{:?}", maps.shortfalls());
    }

    #[test]
    fn few_maps_stay_open() {
        let sleeper = Sleeper::start();
        let program = sleeper.program(ExecInstance::met(sleeper.0.id(), sleeper.start_ticks()));
        sleeper.write("10 10 name\n", SystemTime::now());
        let mut maps = PerfMaps::default();
        for number in 0..500 {
            assert!(name(&mut maps, number, &program).is_some());
        }
        assert!(maps.maps.len() <= KEPT_MAPS + 1, "{}", maps.maps.len());
        assert!(name(&mut maps, 0, &program).is_some());
    }
}

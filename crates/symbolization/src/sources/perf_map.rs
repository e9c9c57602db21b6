//! Names of code that was made at run time: from the perf map of the program that made it.

use profile::Avma;
use symbols::{PerfMap, PerfMapError, SourceLine, perf_map_shortfall, spent_perf_map};

use crate::request::{JitProgram, JitRequest, ProgramId, Request};
use crate::source::{Answer, SymbolSource};

use super::file_thread::FileThread;
use super::kept_files::{KeptFile, KeptFiles};
use super::shortfalls::Shortfalls;

/// The perf maps of programs, read on a thread of their own.
pub(super) struct PerfMapFiles {
    thread: FileThread<PerfMaps, ProgramId>,
    /// Look-ups in this interval whose file system did not answer.
    unanswered: u64,
}

/// The perf maps that were read.
#[derive(Default)]
struct PerfMaps {
    maps: KeptFiles<PerfMap>,
    shortfalls: Shortfalls,
}

impl KeptFile for PerfMap {
    fn heap_bytes(&self) -> usize {
        self.heap_bytes()
    }

    fn bytes_read(&self) -> u64 {
        self.bytes_read()
    }
}

impl Default for PerfMapFiles {
    fn default() -> Self {
        Self { thread: FileThread::new(PerfMaps::default), unanswered: 0 }
    }
}

impl SymbolSource for PerfMapFiles {
    fn name(&self) -> &str {
        "perf map"
    }

    fn lookup(&mut self, request: &Request) -> Answer {
        let Request::Jit(request @ JitRequest { program, live: Some(_), .. }) = request else {
            return Answer::NotMine;
        };
        let (id, request) = (ProgramId::from(&**program), request.clone());
        let found = self.thread.call(id, move |maps| maps.lookup(id, &request));
        self.unanswered += u64::from(found.is_err());
        found.ok().flatten().map_or(Answer::NotMine, Answer::Names)
    }

    fn end_interval(&mut self) -> Vec<String> {
        // It reads no file, so it is about no program.
        let nobody = ProgramId { pid: 0, began_ns: 0 };
        let mut told = self
            .thread
            .tell(nobody, |maps: &mut PerfMaps| maps.shortfalls.take("perf maps"))
            .unwrap_or_default();
        if std::mem::take(&mut self.unanswered) > 0 {
            told.push("perf maps whose file system does not answer are not used".to_owned());
        }
        told
    }
}

impl PerfMaps {
    fn lookup(&mut self, id: ProgramId, request: &JitRequest) -> Option<Vec<Vec<SourceLine>>> {
        let live = &**request.live.as_ref()?;
        // A map that is there already may have been written long ago, for another profiler.
        let is_first = self.maps.take_up(id).is_none();
        let names = self.find(id, live, &request.addresses);
        let lacks = names.as_ref().is_none_or(|names| names.iter().any(Vec::is_empty));
        let asks = is_first || lacks || request.is_last;
        let names = match asks && self.renew(id, live, request.is_last) {
            true => self.find(id, live, &request.addresses),
            false => names,
        };
        self.maps.release();
        names
    }

    fn find(
        &mut self,
        id: ProgramId,
        live: &dyn JitProgram,
        addresses: &[Avma],
    ) -> Option<Vec<Vec<SourceLine>>> {
        let map = self.map(id, live)?;
        let mut names = vec![Vec::new(); addresses.len()];
        look_up(map, addresses, &mut names);
        // Once for all of them: the map may be large, and change all the time.
        if names.iter().any(Vec::is_empty) && map.refresh() {
            look_up(map, addresses, &mut names);
        }
        self.note_unread(id);
        Some(names)
    }

    /// Lets the program write its map again where that is wanted. True if it did.
    fn renew(&mut self, id: ProgramId, live: &dyn JitProgram, is_last: bool) -> bool {
        match live.renew(is_last) {
            None => false,
            Some(Ok(())) => {
                // Names that are known may be those of code that is gone.
                if let Some(map) = self.maps.take_up(id) {
                    map.read_anew();
                }
                true
            }
            Some(Err(why)) => {
                self.shortfalls.tell(id, format!("process {} was not asked for its perf map: {why}", id.pid));
                false
            }
        }
    }

    /// The map of a program, now the last one.
    fn map(&mut self, id: ProgramId, live: &dyn JitProgram) -> Option<&mut PerfMap> {
        if self.maps.take_up(id).is_none() {
            if self.maps.spent(id) >= PerfMap::MAX_READ {
                self.shortfalls.tell(id, spent_perf_map(id.pid));
                return None;
            }
            match live.open()? {
                Ok(map) => {
                    self.shortfalls.forget(id);
                    self.maps.add(id, map);
                }
                // Most have none.
                Err(PerfMapError::Missing { .. }) => return None,
                Err(error) => {
                    self.shortfalls.tell(id, error.to_string());
                    return None;
                }
            }
        }
        let map = self.maps.last()?;
        if let Some(ended) = live.ended() {
            map.end(ended);
        }
        if let Some(code) = live.code() {
            map.within(code);
        }
        Some(map)
    }

    fn note_unread(&mut self, id: ProgramId) {
        let Some(map) = self.maps.last() else { return };
        if let Some(shortfall) = perf_map_shortfall(map, id.pid) {
            self.shortfalls.tell(id, shortfall);
        }
    }
}

fn look_up(map: &PerfMap, addresses: &[Avma], names: &mut [Vec<SourceLine>]) {
    for (address, lines) in addresses.iter().zip(names).filter(|(_, lines)| lines.is_empty()) {
        lines.extend(map.lookup(*address).map(|entry| entry.line));
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::{Child, Command};
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, SystemTime};

    use recording::ExecInstance;
    use symbols::PerfMapOwner;

    use super::*;

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

        fn program(&self, began: SystemTime) -> Arc<Program> {
            let pid = self.0.id();
            let owner = PerfMapOwner::of(pid, pid, began).unwrap();
            Arc::new(Program { owner, ended: Mutex::default() })
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
            let _ = std::fs::remove_file(self.map());
        }
    }

    struct Program {
        owner: PerfMapOwner,
        ended: Mutex<Option<SystemTime>>,
    }

    impl JitProgram for Program {
        fn ended(&self) -> Option<SystemTime> {
            *self.ended.lock().unwrap()
        }

        fn open(&self) -> Option<Result<PerfMap, PerfMapError>> {
            Some(PerfMap::open(&self.owner, self.ended()))
        }
    }

    fn ago(seconds: u64) -> SystemTime {
        SystemTime::now() - Duration::from_secs(seconds)
    }

    fn name(maps: &mut PerfMaps, number: i64, live: &Arc<Program>) -> Option<String> {
        look_up_once(maps, number, live.clone(), false)
    }

    fn look_up_once(
        maps: &mut PerfMaps,
        number: i64,
        live: Arc<dyn JitProgram>,
        is_last: bool,
    ) -> Option<String> {
        let program = ExecInstance { pid: 7, began_ns: number, ended_ns: None, labels: Vec::new() };
        let request = JitRequest {
            program: Arc::new(program),
            live: Some(live),
            addresses: vec![Avma(0x10)],
            seen_ns: vec![0],
            is_last,
        };
        let names = maps.lookup(ProgramId::from(&*request.program), &request)?;
        names[0].first().map(|line| line.name.to_string())
    }

    fn told(maps: &mut PerfMaps) -> Vec<String> {
        maps.shortfalls.take("perf maps")
    }

    #[test]
    fn each_program_of_a_process_has_its_own_map() {
        let sleeper = Sleeper::start();
        // The second began by an exec, which was the end of the first.
        let exec = ago(10);
        let (first, second) = (sleeper.program(ago(20)), sleeper.program(exec));
        let mut maps = PerfMaps::default();
        sleeper.write("10 10 of_first\n", ago(15));
        assert_eq!(name(&mut maps, 1, &first).as_deref(), Some("of_first"));
        assert_eq!(name(&mut maps, 2, &second), None, "it was written before");
        let shortfalls = told(&mut maps);
        assert!(shortfalls[0].contains("before this program began"), "{shortfalls:?}");
        *first.ended.lock().unwrap() = Some(exec);
        sleeper.write("10 10 of_second_\n", ago(5));
        assert_eq!(name(&mut maps, 2, &second).as_deref(), Some("of_second_"));
        assert_eq!(
            name(&mut maps, 1, &first).as_deref(),
            Some("of_first"),
            "what was read in its time stays"
        );
        assert_eq!(told(&mut maps), [] as [String; 0]);
        assert_eq!(name(&mut PerfMaps::default(), 1, &first), None, "too late");
    }

    #[test]
    fn a_map_is_found_after_the_end_of_its_process() {
        let sleeper = Sleeper::start();
        let program = sleeper.program(ago(20));
        sleeper.write("10 10 name\n", SystemTime::now());
        let path = sleeper.map();
        let kept = std::fs::read(&path).unwrap();
        drop(sleeper);
        std::fs::write(&path, kept).unwrap();
        let found = name(&mut PerfMaps::default(), 1, &program);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found.as_deref(), Some("name"));
    }

    #[test]
    fn what_a_runtime_adds_is_read_until_its_program_has_ended() {
        let sleeper = Sleeper::start();
        let program = sleeper.program(ago(20));
        let mut maps = PerfMaps::default();
        sleeper.write("30 10 other\n", ago(15));
        assert_eq!(name(&mut maps, 1, &program), None);
        sleeper.write("30 10 other\n10 10 name\n", ago(2));
        assert_eq!(name(&mut maps, 1, &program).as_deref(), Some("name"));
        *program.ended.lock().unwrap() = Some(ago(10));
        assert_eq!(name(&mut maps, 1, &program), None, "another program wrote it");
    }

    #[test]
    fn unused_parts_of_a_map_are_told_once_for_each_interval() {
        let sleeper = Sleeper::start();
        let program = sleeper.program(ago(20));
        sleeper.write("nonsense\n10 10 name\n", SystemTime::now());
        let mut maps = PerfMaps::default();
        assert_eq!(name(&mut maps, 1, &program).as_deref(), Some("name"));
        let shortfalls = told(&mut maps);
        assert!(shortfalls[0].contains("1 malformed lines"), "{shortfalls:?}");
        assert!(told(&mut maps).is_empty(), "nobody asked in this interval");
        assert!(name(&mut maps, 1, &program).is_some());
        assert_eq!(told(&mut maps), shortfalls);
    }

    #[test]
    fn a_map_that_was_read_too_often_is_not_read_again() {
        let sleeper = Sleeper::start();
        let program = sleeper.program(ago(20));
        sleeper.write("10 10 name\n", SystemTime::now());
        let mut maps = PerfMaps::default();
        maps.maps.add_spent(ProgramId { pid: 7, began_ns: 1 }, PerfMap::MAX_READ);
        assert_eq!(name(&mut maps, 1, &program), None);
        assert!(told(&mut maps)[0].contains("1 GiB were read"));
    }

    /// Writes its map when it is asked to: another name each time.
    struct Asked {
        program: Arc<Program>,
        path: String,
        times: Mutex<u32>,
    }

    impl JitProgram for Asked {
        fn ended(&self) -> Option<SystemTime> {
            None
        }

        fn open(&self) -> Option<Result<PerfMap, PerfMapError>> {
            self.program.open()
        }

        fn renew(&self, is_last: bool) -> Option<Result<(), String>> {
            let mut times = self.times.lock().unwrap();
            *times += 1;
            if *times > 2 {
                return Some(Err("it is stopped".to_owned()));
            }
            assert_eq!(is_last, *times == 2);
            std::fs::write(&self.path, format!("10 10 name{times}\n")).unwrap();
            Some(Ok(()))
        }
    }

    #[test]
    fn a_program_is_asked_for_its_map_while_names_are_missing_and_at_the_end() {
        let sleeper = Sleeper::start();
        let program = sleeper.program(ago(20));
        let asked = Arc::new(Asked { program, path: sleeper.map(), times: Mutex::default() });
        let mut maps = PerfMaps::default();
        // Of an earlier request of another profiler.
        sleeper.write("10 10 name0\n", SystemTime::now());
        let mut name = |is_last| look_up_once(&mut maps, 1, asked.clone(), is_last);
        assert_eq!(name(false).as_deref(), Some("name1"));
        assert_eq!(name(false).as_deref(), Some("name1"), "no name is missing");
        assert_eq!(name(true).as_deref(), Some("name2"), "the later one counts");
        assert_eq!(name(true).as_deref(), Some("name2"));
        let told = told(&mut maps);
        assert!(told[0].contains("process 7 was not asked") && told[0].contains("stopped"), "{told:?}");
    }
}

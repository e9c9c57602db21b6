use super::*;
use crate::input::Device;
use crate::requests::{LARGE_FILE, MAX_BLOCKED};

const FILE: &str = "/lib64/ld-linux-x86-64.so.2";

type ReadFile = Box<dyn Fn() -> io::Result<Box<dyn Content>> + Send>;

struct Given {
    stamps: Mutex<Vec<Stamp>>,
    size: u64,
    device: Option<Device>,
    read: ReadFile,
}

impl Input for Given {
    fn stamp(&self) -> Option<Stamp> {
        let mut stamps = self.stamps.lock().unwrap();
        if stamps.len() > 1 { stamps.pop() } else { stamps.last().copied() }
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn doubtful_device(&self) -> Option<Device> {
        self.device
    }

    fn read(&self) -> io::Result<Box<dyn Content>> {
        (self.read)()
    }
}

fn given(read: ReadFile) -> Given {
    Given { stamps: Mutex::default(), size: 0, device: None, read }
}

fn real_file() -> Given {
    given(Box::new(|| std::fs::read(FILE).map(|bytes| Box::new(bytes) as Box<dyn Content>)))
}

fn absent() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

fn ask(folder: &std::path::Path, file: Given) -> Answer {
    let cache = Cache::at(&folder.join("cache")).unwrap();
    let (compiler, answers) = Compiler::start(2, Some(cache), spawn_thread).unwrap();
    assert!(compiler.submit(7, 0, Box::new(file)));
    answers.recv().unwrap()
}

fn bytes(content: &[u8]) -> Given {
    let content = content.to_vec();
    let size = content.len() as u64;
    Given { size, ..given(Box::new(move || Ok(Box::new(content.clone()) as Box<dyn Content>))) }
}

/// Unreadable parts were replaced.
struct Torn(Vec<u8>);

impl Content for Torn {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn is_whole(&self) -> bool {
        false
    }
}

/// Too large to be found by content.
fn large_file() -> Given {
    let mut content = std::fs::read(FILE).unwrap();
    content.resize(COPIED_FILE + 1, 0);
    bytes(&content)
}

#[test]
fn equal_content_shares_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let content = std::fs::read(FILE).unwrap();
    let expected = unwind::compile(&content).unwrap();
    for source in [Source::Compiled, Source::Cached] {
        let answer = ask(folder.path(), bytes(&content));
        assert_eq!((answer.key, answer.source), (7, source));
        assert_eq!(*answer.table.unwrap(), expected);
    }
    assert_eq!(ask(folder.path(), large_file()).source, Source::Compiled);
    assert_eq!(ask(folder.path(), large_file()).source, Source::Compiled, "only its stamp would tell");
}

#[test]
fn a_build_id_is_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let genuine = std::fs::read(FILE).unwrap();
    // The same build-id, but other unwind information.
    let mut forged = genuine.clone();
    let file = object::File::parse(&*genuine).unwrap();
    let (start, len) =
        object::ObjectSection::file_range(&object::Object::section_by_name(&file, ".eh_frame").unwrap())
            .unwrap();
    forged[start as usize + len as usize / 2..][..len as usize / 4].fill(0);
    let expected = unwind::compile(&genuine).unwrap();
    let stamp = Stamp { device: 1, inode: 2, size: 3, mtime_ns: 4, ctime_ns: 5 };
    let at = |inode, content: &[u8]| {
        let stamps = Mutex::new(vec![Stamp { inode, ..stamp }]);
        Given { stamps, ..bytes(content) }
    };
    for round in 0..2 {
        let wrong = ask(folder.path(), at(8, &forged));
        assert_ne!(*wrong.table.unwrap(), expected);
        let right = ask(folder.path(), at(9, &genuine));
        assert_eq!(*right.table.unwrap(), expected);
        let source = [Source::Compiled, Source::Cached][round];
        assert_eq!((wrong.source, right.source), (source, source), "each has its own");
    }
}

#[test]
fn files_are_found_by_their_stamp() {
    let folder = tempfile::tempdir().unwrap();
    let stamp = Stamp { device: 1, inode: 2, size: 3, mtime_ns: 4, ctime_ns: 5 };
    let replaced = Stamp { ctime_ns: 6, ..stamp };
    let fresh = Stamp { ctime_ns: i64::MAX, ..stamp };
    let ask = |before: Stamp, after: Stamp| {
        ask(folder.path(), Given { stamps: Mutex::new(vec![after, before]), ..large_file() }).source
    };
    assert_eq!(ask(stamp, replaced), Source::Compiled, "and not kept: it changed meanwhile");
    assert_eq!(ask(stamp, stamp), Source::Compiled);
    assert_eq!(ask(stamp, stamp), Source::Cached);
    assert_eq!(ask(replaced, replaced), Source::Compiled);
    assert_eq!(ask(replaced, replaced), Source::Cached);
    assert_eq!(ask(stamp, stamp), Source::Compiled, "the newer content took its place");
    for _ in 0..2 {
        assert_eq!(ask(fresh, fresh), Source::Compiled, "it may change again without a new time");
    }
}

#[test]
fn a_table_found_by_content_is_then_found_by_stamp() {
    let folder = tempfile::tempdir().unwrap();
    let content = std::fs::read(FILE).unwrap();
    let stamp = Stamp { device: 1, inode: 2, size: 3, mtime_ns: 4, ctime_ns: 5 };
    let stamped = |file: Given| Given { stamps: Mutex::new(vec![stamp]), ..file };
    assert_eq!(ask(folder.path(), bytes(&content)).source, Source::Compiled);
    assert_eq!(ask(folder.path(), stamped(bytes(&content))).source, Source::Cached);
    let unread = stamped(given(Box::new(|| Err(absent()))));
    assert_eq!(ask(folder.path(), unread).source, Source::Cached, "without reading it");
}

#[test]
fn an_incomplete_file_gives_no_table() {
    let folder = tempfile::tempdir().unwrap();
    let stamp = Stamp { device: 1, inode: 2, size: 3, mtime_ns: 4, ctime_ns: 5 };
    let small = std::fs::read(FILE).unwrap();
    let mut large = small.clone();
    large.resize(COPIED_FILE + 1, 0);
    for (inode, content) in [(2, small), (3, large)] {
        let stamped = |file: Given| Given { stamps: Mutex::new(vec![Stamp { inode, ..stamp }]), ..file };
        let copy = content.clone();
        let torn = move || given(Box::new(move || Ok(Box::new(Torn(copy.clone())) as Box<dyn Content>)));
        let answer = ask(folder.path(), stamped(torn.clone()()));
        assert!(matches!(answer.table, Err(Error::Incomplete)), "{answer:?}");
        let (compiler, answers) = Compiler::start(1, None, spawn_thread).unwrap();
        assert!(compiler.submit(7, 0, Box::new(torn())));
        assert!(matches!(answers.recv().unwrap().table, Err(Error::Incomplete)));
        assert_eq!(ask(folder.path(), stamped(bytes(&content))).source, Source::Compiled, "nothing was kept");
        assert_eq!(ask(folder.path(), stamped(bytes(&content))).source, Source::Cached);
    }
}

#[test]
fn every_failure_is_an_answer() {
    let (compiler, answers) = Compiler::start(1, None, spawn_thread).unwrap();
    let jobs: [(u64, Given); 4] = [
        (1, given(Box::new(|| Err(absent())))),
        (2, given(Box::new(|| Ok(Box::new(b"not ELF".to_vec()))))),
        (3, given(Box::new(|| panic!("a defect")))),
        (4, real_file()),
    ];
    for (key, file) in jobs {
        assert!(compiler.submit(key, 0, Box::new(file)));
    }
    let mut seen: Vec<_> = answers.iter().take(4).collect();
    seen.sort_by_key(|answer| answer.key);
    assert!(matches!(seen[0].table, Err(Error::Read(_))));
    assert!(matches!(seen[1].table, Err(Error::Compile(unwind::Error::NotElf))));
    assert!(matches!(seen[2].table, Err(Error::Panicked)));
    assert!(seen[3].table.is_ok());
}

/// A request that blocks a worker until released.
fn waiting() -> (mpsc::Sender<()>, Given) {
    let (hold, held) = mpsc::channel::<()>();
    let read: ReadFile = Box::new(move || {
        held.recv().ok();
        Err(absent())
    });
    (hold, given(read))
}

/// Waits until a worker has taken all requests.
fn until_taken(compiler: &Compiler) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while compiler.shared.lock().queue.len() > 0 {
        assert!(Instant::now() < deadline, "no worker takes it");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn bumped_requests_go_first_and_duplicates_are_refused() {
    let (compiler, answers) = Compiler::start(1, None, spawn_thread).unwrap();
    let (hold, wait) = waiting();
    assert!(compiler.submit(0, 100, Box::new(wait)));
    until_taken(&compiler);
    for key in 1..=3 {
        assert!(compiler.submit(key, 0, Box::new(real_file())));
    }
    assert!(!compiler.submit(3, 0, Box::new(real_file())));
    assert!(compiler.bump(3) && !compiler.bump(9));
    assert_eq!(compiler.pending(), 4);
    hold.send(()).unwrap();
    let order: Vec<_> = answers.iter().take(4).map(|answer| answer.key).collect();
    assert_eq!(order, [0, 3, 1, 2]);
}

#[test]
fn large_files_are_compiled_one_at_a_time() {
    let (compiler, answers) = Compiler::start(2, None, spawn_thread).unwrap();
    let large = |file: Given| Box::new(Given { size: LARGE_FILE + 1, ..file });
    let (hold, wait) = waiting();
    assert!(compiler.submit(0, 9, large(wait)));
    until_taken(&compiler);
    assert!(compiler.submit(1, 9, large(real_file())));
    assert!(compiler.submit(2, 0, Box::new(real_file())));
    // The free worker would take the other large one first, because of its priority.
    assert_eq!(answers.recv().unwrap().key, 2, "small ones pass by");
    hold.send(()).unwrap();
    // The second worker may begin before the first one has sent its answer.
    let both: std::collections::BTreeSet<_> = answers.iter().take(2).map(|answer| answer.key).collect();
    assert!(both.iter().eq(&[0, 1]), "{both:?}");
}

#[test]
fn workers_are_named_and_end() {
    let names = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&names);
    let (compiler, answers) = Compiler::start(2, None, move |name, body| {
        theirs.lock().unwrap().push(name.clone());
        spawn_thread(name, body)
    })
    .unwrap();
    drop(compiler);
    // The channel closes when the last worker has ended.
    assert!(answers.recv().is_err());
    assert_eq!(*names.lock().unwrap(), ["perfagent-uw0", "perfagent-uw1"]);
}

const SILENT: Device = (0, 40);

/// A request for a file of a device that may not answer.
fn of(device: Device, file: Given) -> Box<Given> {
    Box::new(Given { device: Some(device), ..file })
}

/// Gives files up until this one is.
fn until_given_up(compiler: &mut Compiler, key: u64) -> Vec<u64> {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut given_up = Vec::new();
    while !given_up.contains(&key) {
        assert!(Instant::now() < deadline, "{given_up:?}");
        given_up.extend(compiler.give_up(Duration::from_millis(20)));
        std::thread::sleep(Duration::from_millis(1));
    }
    given_up
}

#[test]
fn a_device_that_does_not_answer_costs_its_own_files() {
    for threads in [1, 2] {
        let (mut compiler, answers) = Compiler::start(threads, None, spawn_thread).unwrap();
        let (hold, wait) = waiting();
        assert!(compiler.submit(0, 9, of(SILENT, Given { size: LARGE_FILE + 1, ..wait })));
        until_taken(&compiler);
        assert!(compiler.submit(1, 9, of(SILENT, real_file())));
        // Files of this machine wait for it with one worker alone.
        assert!(compiler.submit(2, 0, Box::new(real_file())));
        if threads > 1 {
            assert_eq!(answers.recv().unwrap().key, 2);
        }
        assert_eq!(until_given_up(&mut compiler, 0), [0, 1]);
        if threads == 1 {
            assert_eq!(answers.recv().unwrap().key, 2, "another worker took its place");
        }
        assert!(compiler.submit(3, 9, Box::new(Given { size: LARGE_FILE + 1, ..real_file() })));
        assert_eq!(answers.recv().unwrap().key, 3, "large ones are compiled again");
        assert!(compiler.submit(4, 9, of((0, 41), real_file())));
        assert_eq!(answers.recv().unwrap().key, 4, "another device");
        assert!(compiler.submit(5, 9, of(SILENT, real_file())));
        assert_eq!(compiler.give_up(Duration::from_secs(60)), [5], "nobody reads it");
        assert_eq!(compiler.pending(), 0);
        hold.send(()).unwrap();
        assert_eq!(answers.recv().unwrap().key, 0, "late, but an answer");
        assert!(compiler.submit(6, 9, of(SILENT, real_file())));
        assert_eq!(answers.recv().unwrap().key, 6, "it answers again");
        drop(compiler);
        assert!(answers.recv().is_err(), "all workers have ended");
    }
}

#[test]
fn blocked_workers_are_replaced_up_to_a_limit() {
    let started = Arc::new(Mutex::new(0));
    let theirs = Arc::clone(&started);
    let (mut compiler, answers) = Compiler::start(2, None, move |name, body| {
        *theirs.lock().unwrap() += 1;
        spawn_thread(name, body)
    })
    .unwrap();
    let mut held = Vec::new();
    for number in 0..MAX_BLOCKED as u64 + 3 {
        let (hold, wait) = waiting();
        held.push(hold);
        assert!(compiler.submit(number, 0, of((0, 100 + number as u32), wait)));
    }
    let given_up = until_given_up(&mut compiler, MAX_BLOCKED as u64 + 2);
    assert_eq!(given_up, Vec::from_iter(0..MAX_BLOCKED as u64 + 3), "the last three were not read");
    assert_eq!(*started.lock().unwrap(), 2 + MAX_BLOCKED);
    assert!(compiler.submit(1000, 0, Box::new(real_file())));
    assert_eq!(answers.recv().unwrap().key, 1000, "one is left for files of this machine");
    drop(held);
}

#[test]
fn a_slow_file_that_gets_on_is_not_given_up() {
    /// Reports each part that was read, and waits for permission to go on.
    struct Slow {
        bytes: Vec<u8>,
        read: mpsc::Sender<()>,
        go: Arc<Mutex<Receiver<()>>>,
    }

    impl Content for Slow {
        fn bytes(&self) -> &[u8] {
            &self.bytes
        }

        fn release(&self) {
            self.read.send(()).ok();
            self.go.lock().unwrap().recv().ok();
        }
    }
    const PATIENCE: Duration = Duration::from_secs(5);
    // Large enough to be read in several parts.
    let content = std::fs::read("/proc/self/exe").unwrap();
    let (compiler, answers) = Compiler::start(1, None, spawn_thread).unwrap();
    let ((read, parts), (go, gone)) = (mpsc::channel(), mpsc::channel());
    let gone = Arc::new(Mutex::new(gone));
    let open: ReadFile = Box::new(move || {
        let (bytes, read, go) = (content.clone(), read.clone(), Arc::clone(&gone));
        Ok(Box::new(Slow { bytes, read, go }))
    });
    let (mut moved, mut count) = (Instant::now(), 0);
    assert!(compiler.submit(7, 0, of(SILENT, given(open))));
    // The worker drops the file at the end.
    while parts.recv().is_ok() {
        // The file got on at `moved` or later.
        let given_up = compiler.shared.lock().give_up(PATIENCE, moved + PATIENCE - Duration::from_nanos(1));
        assert_eq!(given_up.keys, [0; 0], "part {count}");
        count += 1;
        moved = Instant::now();
        go.send(()).unwrap();
    }
    assert!(count > 1, "{count} parts");
    assert!(answers.recv().unwrap().table.is_ok());
}

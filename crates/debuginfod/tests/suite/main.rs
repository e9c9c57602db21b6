//! Fetching from servers with faults, and caches that processes share.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod server;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use debuginfod::{Cause, Fetched, Fetcher, Settings, Status, Want};
use server::{Does, Server};

/// The time for a file in these tests: only servers that keep one waiting use it up.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The time for a file from these servers.
const SHORT: Duration = Duration::from_secs(1);

fn settings(cache: &Path, urls: &[String]) -> Settings {
    Settings {
        servers: urls.iter().map(|url| url.parse().unwrap()).collect(),
        cache_dir: Some(cache.to_owned()),
        timeout: TIMEOUT,
        cache_max: 64 << 20,
        ..Settings::default()
    }
}

/// The want of a program of these tests by its number.
fn want(number: u8) -> Want {
    Want { build_id: format!("{number:02x}").repeat(20).parse().unwrap(), or_executable: false }
}

/// Asks and waits.
fn fetch(fetcher: &Fetcher, want: &Want) -> Result<Fetched, Cause> {
    let _ = fetcher.ask(want);
    fetcher.wait(&|| false);
    match fetcher.ask(want) {
        Status::Done(result) => result,
        Status::Pending => panic!("it is still on its way"),
    }
}

/// Files and markers in a cache.
fn files(cache: &Path) -> Vec<(PathBuf, u64)> {
    let folders = std::fs::read_dir(cache.join(".build-id")).into_iter().flatten().flatten();
    let all = folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten());
    let all = all.filter(|file| file.file_name() != ".lock");
    all.filter_map(|file| Some((file.path(), file.metadata().ok()?.len()))).collect()
}

#[test]
fn a_file_is_fetched_once_and_the_next_run_asks_nobody() {
    let (cache, server) = (tempfile::tempdir().unwrap(), Server::that(Does::Answers));
    let fetcher = Fetcher::new(settings(cache.path(), &[server.url()]));
    for _ in 0..10 {
        let _ = fetcher.ask(&want(1));
    }
    let fetched = fetch(&fetcher, &want(1)).unwrap();
    assert_eq!(std::fs::read(fetched.path()).unwrap().len(), server::PROGRAM.len());
    let figures = fetcher.figures();
    assert_eq!((server.requests(), figures.fetched, figures.misses, figures.hits), (1, 1, 1, 0));
    assert_eq!((figures.bytes, figures.cache_bytes), (server::PROGRAM.len() as u64, figures.bytes));
    let next = Fetcher::new(settings(cache.path(), &[server.url()]));
    fetch(&next, &want(1)).unwrap();
    assert_eq!((server.requests(), next.figures().hits, next.figures().fetched), (1, 1, 0));
}

#[test]
fn a_file_in_the_cache_of_another_client_is_not_fetched() {
    let (cache, theirs, server) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), Server::that(Does::Answers));
    let build_id = elf::Layout::parse(&server::PROGRAM).unwrap().build_id(&server::PROGRAM).unwrap();
    let folder = theirs.path().join(build_id.to_string());
    std::fs::DirBuilder::new().mode(0o700).create(&folder).unwrap();
    std::fs::write(folder.join("debuginfo"), &*server::PROGRAM).unwrap();
    let client_cache = Some(theirs.path().to_owned());
    let fetcher = Fetcher::new(Settings { client_cache, ..settings(cache.path(), &[server.url()]) });
    fetch(&fetcher, &Want { build_id, or_executable: false }).unwrap();
    let figures = fetcher.figures();
    assert_eq!((server.requests(), figures.hits, figures.fetched, files(cache.path()).len()), (0, 1, 0, 0));
    fetch(&fetcher, &want(1)).unwrap();
    assert_eq!(server.requests(), 1, "what is not there is fetched");
}

#[test]
fn each_fault_has_its_cause_ends_in_time_and_leaves_the_cache_clean() {
    use Does::{
        Babbles, Drips, Endless, Fails, Huge, Mixes, NotFound, Redirects, Silent, Truncates,
        TruncatesSilently,
    };
    let faults = [
        (NotFound, Cause::NotFound),
        (Fails(500), Cause::Error),
        (Fails(403), Cause::Error),
        (Fails(200), Cause::Mismatch),
        (Drips, Cause::Timeout),
        (Silent, Cause::Timeout),
        (Truncates, Cause::Error),
        (TruncatesSilently, Cause::Mismatch),
        (Mixes, Cause::Mismatch),
        (Endless, Cause::TooLarge),
        (Huge, Cause::TooLarge),
        (Redirects, Cause::Error),
        (Babbles, Cause::Error),
    ];
    let good = Server::that(Does::Answers);
    for (does, cause) in faults {
        let (cache, server) = (tempfile::tempdir().unwrap(), Server::that(does));
        let begun = Instant::now();
        let timeout = if matches!(does, Drips | Silent) { SHORT } else { TIMEOUT };
        let of_server = settings(cache.path(), &[server.url()]);
        let fetcher = Fetcher::new(Settings { timeout, cache_max: 1 << 20, ..of_server });
        assert_eq!(fetch(&fetcher, &want(1)).err(), Some(cause), "{does:?}");
        let figures = fetcher.figures();
        let counts =
            [figures.not_found, figures.errors, figures.timeouts, figures.too_large, figures.mismatch];
        assert_eq!((counts.iter().sum::<u64>(), figures.fetched), (1, 0), "{does:?}: {figures:?}");
        drop(fetcher);
        assert!(begun.elapsed() < TIMEOUT, "{does:?}: {:?}", begun.elapsed());
        let left = files(cache.path());
        let marker = left.iter().all(|(path, _)| path.extension().is_some_and(|of| of == "missing"));
        assert!(marker && left.len() == usize::from(does == NotFound), "{does:?}: {left:?}");
        let next = Fetcher::new(settings(cache.path(), &[good.url()]));
        assert!(fetch(&next, &want(1)).is_ok(), "{does:?}");
    }
}

#[test]
fn nobody_listens_or_speaks_another_protocol() {
    let (cache, plain) = (tempfile::tempdir().unwrap(), Server::that(Does::Answers));
    for url in ["http://127.0.0.1:1".to_owned(), plain.url().replace("http://", "https://")] {
        let fetcher = Fetcher::new(settings(cache.path(), std::slice::from_ref(&url)));
        assert_eq!(fetch(&fetcher, &want(1)).err(), Some(Cause::Error), "{url}");
        assert!(files(cache.path()).is_empty());
    }
}

#[test]
fn a_failure_that_passes_is_tried_again_and_the_next_server_is_asked() {
    let cache = tempfile::tempdir().unwrap();
    let once = Server::that(Does::FailsOnce);
    let fetcher = Fetcher::new(settings(cache.path(), &[once.url()]));
    fetch(&fetcher, &want(1)).unwrap();
    assert_eq!((fetcher.figures().retries, once.requests()), (1, 2));
    for first in [Does::NotFound, Does::Mixes, Does::Fails(400)] {
        let cache = tempfile::tempdir().unwrap();
        let (first, second) = (Server::that(first), Server::that(Does::Answers));
        let fetcher = Fetcher::new(settings(cache.path(), &[first.url(), second.url()]));
        fetch(&fetcher, &want(2)).unwrap();
        assert_eq!((first.requests(), second.requests()), (1, 1));
    }
}

#[test]
fn a_missing_file_is_asked_for_once_in_ten_minutes() {
    let (cache, server) = (tempfile::tempdir().unwrap(), Server::that(Does::NotFound));
    for _ in 0..3 {
        let fetcher = Fetcher::new(settings(cache.path(), &[server.url()]));
        assert_eq!(fetch(&fetcher, &want(1)).err(), Some(Cause::NotFound));
        assert_eq!(fetcher.figures().not_found, 1);
    }
    assert_eq!(server.requests(), 1);
}

#[test]
fn a_program_that_nobody_here_can_read_is_fetched_itself() {
    let (cache, server) = (tempfile::tempdir().unwrap(), Server::that(Does::NotFound));
    let fetcher = Fetcher::new(settings(cache.path(), &[server.url()]));
    let want = Want { or_executable: true, ..want(1) };
    assert_eq!(fetch(&fetcher, &want).err(), Some(Cause::NotFound));
    assert_eq!(server.requests(), 2, "debuginfo, then executable");
}

#[test]
fn a_server_that_fails_three_times_in_a_row_is_left_alone() {
    let (cache, server) = (tempfile::tempdir().unwrap(), Server::that(Does::Fails(400)));
    let fetcher = Fetcher::new(settings(cache.path(), &[server.url()]));
    for number in 1..=8 {
        assert_eq!(fetch(&fetcher, &want(number)).err(), Some(Cause::Error));
    }
    assert_eq!((server.requests(), fetcher.figures().errors), (3, 8));
}

#[test]
fn a_wait_can_be_given_up_and_the_end_does_not_wait_for_a_server() {
    let (cache, server) = (tempfile::tempdir().unwrap(), Server::that(Does::Silent));
    let timeout = Duration::from_secs(60);
    let fetcher = Fetcher::new(Settings { timeout, ..settings(cache.path(), &[server.url()]) });
    let begun = Instant::now();
    let _ = fetcher.ask(&want(1));
    fetcher.wait(&|| begun.elapsed() > Duration::from_millis(300));
    assert!(matches!(fetcher.ask(&want(1)), Status::Pending));
    drop(fetcher);
    assert!(begun.elapsed() < timeout, "{:?}", begun.elapsed());
    assert!(files(cache.path()).is_empty());
}

#[test]
fn a_damaged_file_of_the_cache_is_fetched_again() {
    let (cache, server) = (tempfile::tempdir().unwrap(), Server::that(Does::Answers));
    fetch(&Fetcher::new(settings(cache.path(), &[server.url()])), &want(1)).unwrap();
    let (path, _) = files(cache.path()).remove(0);
    std::fs::write(&path, b"\x7fELF and no more").unwrap();
    fetch(&Fetcher::new(settings(cache.path(), &[server.url()])), &want(1)).unwrap();
    assert_eq!(server.requests(), 2);
    assert_eq!(std::fs::read(path).unwrap().len(), server::PROGRAM.len());
}

const CHILD: &str = "DEBUGINFOD_TEST_CHILD";
/// Programs that each process of the tests below asks for.
const PROGRAMS: u8 = 16;

/// The body of the processes below; without their variable, nothing.
#[test]
fn child() {
    let Ok(text) = std::env::var(CHILD) else { return };
    let parts: Vec<&str> = text.split('|').collect();
    let [cache, url, max, first] = parts[..] else { panic!("{text}") };
    let fetcher = Fetcher::new(Settings {
        timeout: Duration::from_secs(300),
        cache_max: max.parse().unwrap(),
        ..settings(Path::new(cache), &[url.to_owned()])
    });
    let first: u8 = first.parse().unwrap();
    for number in 0..PROGRAMS {
        let fetched = fetch(&fetcher, &want((first + number) % PROGRAMS + 1)).unwrap();
        assert!(std::fs::read(fetched.path()).unwrap().len() == server::PROGRAM.len());
    }
}

fn four_processes(cache: &Path, url: &str, max: u64) -> Vec<Child> {
    let child = |first: u8| {
        let of = format!("{}|{url}|{max}|{}", cache.display(), first * 4);
        let mut child = testkit::own_test("child");
        child.env(CHILD, of).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    (0..4).map(child).collect()
}

/// Waits for processes whose test passes; a failure is in their output.
fn await_success(children: Vec<Child>) {
    for child in children {
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
}

#[test]
fn four_processes_fetch_each_file_once() {
    let (cache, server) = (tempfile::tempdir().unwrap(), Server::that(Does::Answers));
    await_success(four_processes(cache.path(), &server.url(), 64 << 20));
    assert_eq!((server.requests(), files(cache.path()).len()), (PROGRAMS.into(), PROGRAMS.into()));
}

#[test]
fn four_processes_together_keep_the_bound_of_the_cache() {
    let (cache, server) = (tempfile::tempdir().unwrap(), Server::that(Does::Answers));
    let max = server::PROGRAM.len() as u64 * 3 + 1000;
    let mut children = four_processes(cache.path(), &server.url(), max);
    let mut largest = 0;
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        let locked = std::fs::File::options().write(true).open(cache.path().join(".lock"));
        // Between two changes: a list that is read during one may have the old and the new files.
        let Ok(locked) = locked else { continue };
        rustix::fs::flock(&locked, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let named = files(cache.path())
            .into_iter()
            .filter(|(path, _)| path.extension().is_some_and(|of| of == "debug"));
        largest = largest.max(named.map(|(_, len)| len).sum::<u64>());
        // The processes need it more often than this test.
        drop(locked);
        std::thread::sleep(Duration::from_millis(2));
    }
    await_success(children);
    assert!((1..=max).contains(&largest), "{largest} of {max}");
    assert!(files(cache.path()).iter().all(|(path, _)| path.extension().is_some_and(|of| of == "debug")));
}

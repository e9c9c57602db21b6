use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use super::*;
use crate::pool::{MAX_BLOCKED_OF_DEVICE, MAX_WORKERS, WORKERS};
use crate::resolve::Mapping;

const LONG: Duration = testkit::PATIENCE;
/// Files of devices from this one on are not answered before the test says so.
const SILENT: u32 = 100;

/// Devices without an answer, and how often they were asked.
#[derive(Default)]
struct Devices {
    answering: Mutex<HashSet<u32>>,
    changed: Condvar,
    blocked: AtomicUsize,
}

impl Devices {
    fn open(&self, device: u32) -> RegionKind {
        if device >= SILENT {
            self.blocked.fetch_add(1, Ordering::SeqCst);
            let answering = self.answering.lock().unwrap();
            drop(self.changed.wait_while(answering, |answering| !answering.contains(&device)).unwrap());
            self.blocked.fetch_sub(1, Ordering::SeqCst);
        }
        RegionKind::Anonymous
    }

    fn answer(&self, devices: impl IntoIterator<Item = u32>) {
        self.answering.lock().unwrap().extend(devices);
        self.changed.notify_all();
    }
}

fn opener(patience: Duration) -> (Opener, Arc<Devices>) {
    let devices = Arc::new(Devices::default());
    let theirs = Arc::clone(&devices);
    let open = move |request: &OpenRequest| theirs.open(request.file().wanted().1);
    let spawn: Spawn = Box::new(|body| std::thread::Builder::new().spawn(body).map(drop));
    let files = Arc::new(Files::with_budget(0));
    (Opener::with(files, Arc::new(open), spawn, patience).unwrap(), devices)
}

fn ask(opener: &mut Opener, device: u32, inode: u64) -> Arc<OpeningFile> {
    // Without a block device.
    let file = (0, device, inode);
    let path = Cow::Borrowed(&b"/a/file"[..]);
    let mapping = Mapping { start: 0, end: 4096, offset: 0, file, path, head: None };
    let request = OpenRequest::new(1, Path::new("/proc/1"), None, &mapping);
    let file = Arc::clone(request.file());
    opener.ask(request);
    file
}

fn failure(file: &OpeningFile) -> Option<OpenFailure> {
    file.answer().and_then(RegionKind::file).and_then(|file| file.failure())
}

#[test]
fn answers_are_entered_when_they_are_taken() {
    let (mut opener, _) = opener(LONG);
    let files: Vec<_> = (0..100).map(|inode| ask(&mut opener, 1, inode)).collect();
    assert!(opener.was_asked() && files.iter().all(|file| !file.is_answered()));
    assert_eq!(opener.take(LONG).answered, 100);
    assert!(files.iter().all(|file| file.is_answered()));
    assert!(!opener.was_asked() && opener.pending() == 0);
    assert_eq!(opener.take(LONG).answered, 0, "without waiting: nothing is awaited");
}

#[test]
fn a_silent_device_holds_up_its_own_files_only_and_blocks_few_workers() {
    let (mut opener, devices) = opener(LONG);
    let silent: Vec<_> = (0..20).map(|inode| ask(&mut opener, SILENT, inode)).collect();
    let other = ask(&mut opener, 1, 1);
    let begun = Instant::now();
    while !other.is_answered() {
        assert!(begun.elapsed() < LONG);
        opener.take(Duration::from_millis(5));
    }
    // Workers took its files before enough of them counted as blocked; no further one does.
    let blocked = devices.blocked.load(Ordering::SeqCst);
    assert!(blocked < WORKERS + MAX_BLOCKED_OF_DEVICE, "{blocked} workers are blocked");
    assert!(silent.iter().all(|file| !file.is_answered()) && opener.pending() == 20);
    devices.answer([SILENT]);
    while opener.pending() > 0 {
        assert!(begun.elapsed() < LONG);
        opener.take(Duration::from_millis(5));
    }
}

#[test]
fn the_number_of_workers_has_a_limit_whatever_is_silent() {
    let (mut opener, devices) = opener(LONG);
    let silent: Vec<_> = (0..60).map(|number| ask(&mut opener, SILENT + number, 1)).collect();
    testkit::until("all workers are blocked", || {
        opener.take(Duration::from_millis(20));
        devices.blocked.load(Ordering::SeqCst) == MAX_WORKERS
    });
    // A further worker would be started by each of these.
    (0..5).for_each(|_| drop(opener.take(Duration::from_millis(20))));
    assert_eq!(devices.blocked.load(Ordering::SeqCst), MAX_WORKERS);
    assert!(silent.iter().all(|file| !file.is_answered()));
    opener.pool.set_patience(Duration::ZERO);
    assert_eq!(opener.take(LONG).answered, 60);
    assert!(silent.iter().all(|file| failure(file) == Some(OpenFailure::NoAnswer)));
    assert_eq!(opener.files.counts().no_answer, 60);
    devices.answer(SILENT..SILENT + 60);
}

#[test]
fn a_file_that_was_given_up_may_answer_late_and_its_device_is_asked_again() {
    let (mut opener, devices) = opener(LONG);
    let late = ask(&mut opener, SILENT, 1);
    testkit::until("a worker is blocked", || devices.blocked.load(Ordering::SeqCst) == 1);
    opener.pool.set_patience(Duration::ZERO);
    opener.take(Duration::ZERO);
    assert_eq!(failure(&late), Some(OpenFailure::NoAnswer));
    // Further files of the device do not wait for their own time.
    opener.pool.set_patience(LONG);
    let further = ask(&mut opener, SILENT, 2);
    opener.take(Duration::ZERO);
    assert_eq!(failure(&further), Some(OpenFailure::NoAnswer));
    assert_eq!(devices.blocked.load(Ordering::SeqCst), 1);
    devices.answer([SILENT]);
    let mut opened = Opened::default();
    testkit::until("the late answer", || {
        opened = opener.take(Duration::from_millis(5));
        !opened.late.is_empty()
    });
    assert!(Arc::ptr_eq(&opened.late[0], &late));
    let again = ask(&mut opener, SILENT, 1);
    testkit::until("the answer", || {
        opener.take(Duration::from_millis(5));
        again.is_answered()
    });
    assert_eq!(failure(&again), None);
}

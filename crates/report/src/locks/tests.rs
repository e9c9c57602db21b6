use profile::Svma;
use recording::{
    Attached, CodeMapping, EventId, FileIdentity, Frame, Key, LockKey, LockKind, Module, ModuleKind, Object,
    Role, State, TaskStackId, Values, WalkEnd,
};

use super::*;
use crate::test_recording::TestRecording;

const MUTEX: [&str; 2] = ["__lll_lock_wait", "___pthread_mutex_lock"];

/// A recording of locks alone, while it is made.
struct Locks {
    capture: TestRecording,
    keys: u64,
}

impl Locks {
    fn new() -> Self {
        let mut capture = TestRecording::new();
        capture.settings.locks = true;
        (capture.settings.cpu_profile, capture.settings.off_cpu_profile) = (false, false);
        capture.settings.wall_profile = false;
        Self { capture, keys: 0 }
    }

    fn stack(&mut self, functions: &[&str], state: State) -> TaskStackId {
        let frames: Vec<_> = functions.iter().map(|name| self.capture.frame(name)).collect();
        self.capture.stack(&[], &frames, WalkEnd::Root, state)
    }

    fn waker(&mut self, thread: &str, functions: &[&str]) -> TaskStackId {
        let task = self.capture.waker(1, thread);
        let frames: Vec<_> = functions.iter().map(|name| self.capture.frame(name)).collect();
        self.capture.stack_of(task, &[], &frames, WalkEnd::Root, State::Waker)
    }

    /// The variable that a lock is.
    fn variable(&mut self, name: &str) -> TaskStackId {
        let builder = &mut self.capture.builder;
        let (path, kind) = ("/bin/target".to_owned(), ModuleKind::Elf);
        let module =
            builder.module(Module { path, build_id: None, kind, identity: FileIdentity::default() }).unwrap();
        let mapping = CodeMapping {
            module,
            start: Svma(0x20000),
            limit: Svma(0x30000),
            file_offset: profile::FileOffset(0x20000),
        };
        let mapping = builder.mapping(mapping).unwrap();
        let frame = builder.frame(Frame::Native { mapping, svma: Svma(0x20010), exact: true }).unwrap();
        self.capture.name(frame, name);
        self.capture.stack(&[], &[frame], WalkEnd::Root, State::Blocked)
    }

    fn key_of(&mut self, stack: TaskStackId) -> u64 {
        self.keys += 1;
        let key = Key { event: EventId(1), stack, pid: 7, exec_id: 1, once: false };
        self.capture.builder.enter(self.keys, key);
        self.keys
    }

    /// Waits for a lock: where, the lock and the variable that it is, links, number, time and the longest.
    fn waits(
        &mut self,
        at: TaskStackId,
        (address, place): (u64, Option<TaskStackId>),
        links: &[(Role, TaskStackId)],
        values: [u64; 3],
    ) {
        let stack = self.key_of(at);
        let links = links.iter().map(|(role, stack)| (*role, self.key_of(*stack))).collect();
        self.enter(
            EventId::LOCKS,
            stack,
            (address, place),
            Attached { links, ..Attached::default() },
            values,
        );
    }

    fn lengths(&mut self, at: TaskStackId, address: u64, bucket: u32, waits: u64) {
        let stack = self.key_of(at);
        let attached = Attached { time_bin: Some(bucket), ..Attached::default() };
        self.enter(EventId::LOCK_LENGTHS, stack, (address, None), attached, [waits, 0, 0]);
    }

    fn enter(
        &mut self,
        event: EventId,
        stack: u64,
        (address, place): (u64, Option<TaskStackId>),
        attached: Attached,
        values: [u64; 3],
    ) {
        self.keys += 1;
        let object = Some(Object { address, lock: Some(LockKind::WaitBitset) });
        let attached = Attached { object, ..attached };
        let key = LockKey { event, state: State::Blocked, stack, pid: 7, exec_id: 1, attached, place };
        self.capture.builder.enter_lock(self.keys, key);
        if values[0] > 0 {
            self.capture.builder.add(self.keys, event, State::Blocked, Values(values));
        } else {
            self.capture.builder.add_open(self.keys, Values(values));
        }
    }
}

/// A lock that is a variable, with owners and wakers; one without a name; and a thread that waits for work.
fn some() -> Locks {
    let mut locks = Locks::new();
    let lookup = locks.stack(&[&MUTEX[..], &["lookup", "worker"]].concat(), State::Blocked);
    let evict = locks.stack(&[&MUTEX[..], &["evict", "janitor"]].concat(), State::Blocked);
    let fsync = locks.stack(&["fsync", "flush_page", "janitor"], State::Blocked);
    let running = locks.capture.stack(&[], &[], WalkEnd::NoUserStack, State::OnCpu);
    let janitor = locks.waker("janitor", &["___pthread_mutex_unlock", "evict", "janitor"]);
    let work = locks.stack(&["___pthread_cond_wait", "next_job", "worker"], State::Blocked);
    let accept = locks.waker("accept", &["pthread_cond_signal", "submit", "accept_loop"]);
    let lock = (0x7000, Some(locks.variable("cache_lock+0x10")));
    locks.waits(lookup, lock, &[(Role::Owner, fsync), (Role::Releaser, janitor)], [60, 6_000_000, 900_000]);
    locks.waits(lookup, lock, &[(Role::Owner, running), (Role::Releaser, janitor)], [30, 1_500_000, 80_000]);
    locks.waits(evict, lock, &[(Role::Waker, janitor)], [10, 500_000, 70_000]);
    locks.lengths(lookup, 0x7000, 99, 90);
    locks.lengths(evict, 0x7000, 100, 9);
    locks.lengths(evict, 0x7000, 142, 1);
    locks.waits(evict, (0x9000, None), &[], [1, 2_000, 2_000]);
    locks.waits(work, (0xa000, None), &[(Role::Releaser, accept)], [5, 50_000_000_000, 20_000_000_000]);
    locks.waits(work, (0xb000, None), &[], [0, 10_000_000_000, 0]);
    locks
}

#[test]
fn waits_are_added_up_by_lock_and_other_waits_by_place() {
    let report = locks(&some().capture.finish()).unwrap();
    let [cache, other] = &report.held[..] else { panic!("{report:#?}") };
    assert_eq!(
        (cache.name.as_str(), cache.class, cache.file.as_deref()),
        ("cache_lock+0x10", LockClass::Mutex, Some("target"))
    );
    assert_eq!((cache.waits, cache.time_ns, cache.longest_ns, cache.released), (100, 8_000_000, 900_000, 90));
    assert_eq!((cache.process.as_str(), cache.pid), ("target", Some(7)));
    assert!(cache.p99_ns.is_some_and(|p99| p99 < 900_000 && p99 > 10_000), "{:?}", cache.p99_ns);
    let waiters: Vec<_> = cache.waiters.iter().map(|of| (of.functions.join(" "), of.waits)).collect();
    assert_eq!(waiters, [("lookup worker".to_owned(), 90), ("evict janitor".to_owned(), 10)]);
    let fsync = ["fsync", "flush_page", "janitor"].map(str::to_owned).to_vec();
    let owners = [(HeldBy::Waiting(fsync), 60), (HeldBy::Running, 30), (HeldBy::Unknown, 10)];
    assert_eq!(cache.owners, owners);
    let wakers: Vec<_> =
        cache.wakers.iter().map(|of| (of.thread.as_deref(), of.functions.join(" "), of.waits)).collect();
    assert_eq!(wakers, [(Some("janitor"), "evict janitor".to_owned(), 100)]);
    assert_eq!((other.name.as_str(), other.waits, other.p99_ns), ("0x9000", 1, None));
    let [work] = &report.others[..] else { panic!("{report:#?}") };
    assert_eq!(
        (work.class, work.waits, work.locks, work.time_ns),
        (LockClass::Condition, 5, 2, 60_000_000_000)
    );
    assert_eq!(work.name, "next_job < worker");
}

impl Locks {
    /// A stack of another process with this number.
    fn stack_in(&mut self, pid: u32, functions: &[&str]) -> TaskStackId {
        let labels = vec![profile::Label::str("comm", "target")];
        let task = self.capture.builder.task(Some(pid), labels, None).unwrap();
        let frames: Vec<_> = functions.iter().map(|name| self.capture.frame(name)).collect();
        self.capture.stack_of(task, &[], &frames, WalkEnd::Root, State::Blocked)
    }

    /// The place of a lock in memory that processes share.
    fn shared(&mut self, inode: u64, offset: u64) -> TaskStackId {
        let builder = &mut self.capture.builder;
        let identity = FileIdentity { inode, ..FileIdentity::default() };
        let (path, kind) = ("/memfd:lock (deleted)".to_owned(), ModuleKind::NotElf);
        let module = builder.module(Module { path, build_id: None, kind, identity }).unwrap();
        let (start, limit, file_offset) = (Svma(0), Svma(u64::MAX), profile::FileOffset(0));
        let mapping = builder.mapping(CodeMapping { module, start, limit, file_offset }).unwrap();
        let frame = builder.frame(Frame::Native { mapping, svma: Svma(offset), exact: true }).unwrap();
        self.capture.stack(&[], &[frame], WalkEnd::Root, State::Blocked)
    }
}

#[test]
fn a_lock_belongs_to_its_process_unless_its_memory_is_shared() {
    let mut locks = Locks::new();
    let functions = [&MUTEX[..], &["work"]].concat();
    let [one, other] = [7, 8].map(|pid| locks.stack_in(pid, &functions));
    for (stack, waits) in [(one, 5), (other, 6)] {
        locks.waits(stack, (0x5000, None), &[], [waits, 1_000, 1_000]);
    }
    let (place, elsewhere) = (locks.shared(40, 0x2100), locks.shared(41, 0x2100));
    for (stack, address, waits) in [(one, 0x7000, 10), (other, 0x8000, 20)] {
        locks.waits(stack, (address, Some(place)), &[], [waits, 9_000, 1_000]);
    }
    locks.waits(one, (0x7000, Some(elsewhere)), &[], [1, 100, 100]);
    let report = super::locks(&locks.capture.finish()).unwrap();
    let rows: Vec<_> =
        report.held.iter().map(|row| (&*row.name, row.waits, row.locks, row.processes, row.pid)).collect();
    assert_eq!(
        rows,
        [
            ("memfd:lock+0x2100", 30, 1, 2, None),
            ("0x5000", 6, 1, 1, Some(8)),
            ("0x5000", 5, 1, 1, Some(7)),
            ("memfd:lock+0x2100", 1, 1, 1, Some(7)),
        ]
    );
}

#[test]
fn a_time_limit_that_interrupts_a_thread_is_not_ended_by_the_thread() {
    let mut locks = Locks::new();
    let waiter = locks.stack(&[&MUTEX[..], &["work"]].concat(), State::Blocked);
    let task = locks.capture.waker(9, "bystander");
    let kernel = ["futex_wait_wakeup", "asm_sysvec_apic_timer_interrupt", "do_syscall_64"]
        .map(|name| locks.capture.kernel_frame(name));
    let frames = [locks.capture.frame("elsewhere")];
    let mut waker =
        |kernel: &[_]| locks.capture.stack_of(task, kernel, &frames, WalkEnd::Root, State::WakerInSoftirq);
    let (interrupt, call) = (waker(&kernel), waker(&kernel[2..]));
    locks.waits(waiter, (0x5000, None), &[(Role::Releaser, interrupt)], [7, 700, 100]);
    locks.waits(waiter, (0x5000, None), &[(Role::Releaser, call)], [2, 200, 100]);
    let symbolized = locks.capture.finish();
    let report = super::locks(&symbolized).unwrap();
    let [row] = &report.held[..] else { panic!("{report:#?}") };
    assert_eq!((row.waits, row.released), (9, 2));
    let wakers: Vec<_> =
        row.wakers.iter().map(|of| (of.thread.as_deref(), of.functions.join(" "), of.waits)).collect();
    assert_eq!(
        wakers,
        [
            (None, "[interrupt: a time limit was over]".to_owned(), 7),
            (Some("bystander"), "elsewhere".to_owned(), 2)
        ]
    );
    let ledger = &crate::Report::of(&symbolized, crate::EndedBy::Request).ledgers[0];
    assert_eq!(ledger.released, 2);
}

#[test]
fn the_text_tells_the_lock_that_costs_most_first() {
    let text = lock_text(&locks(&some().capture.finish()).unwrap());
    let expected = "\
101 waits for locks that another thread held, 8.00 ms in all; 89.1 % ended by the thread that let go

mutex cache_lock+0x10 in target, target (pid 7)
  100 waits, 8.00 ms in all (100 %), longest 900 us, p99 ";
    assert!(text.contains(expected), "{text}");
    for line in [
        "  waits in        90   7.50 ms  lookup < worker",
        "                  10    500 us  evict < janitor",
        "  held by         60            a thread off its CPU in fsync < flush_page < janitor",
        "                  30            a thread on a CPU",
        "                  10            not seen: it had let go again",
        "  let go by      100   8.00 ms  evict < janitor (thread janitor)",
        "\nmutex 0x9000, target (pid 7)\n  1 wait, 2.00 us in all (0 %), longest 2.00 us, p99 -\n",
        "   60.0 s         5    20.0 s         -  condition  next_job < worker\n",
        "ended by submit < accept_loop (thread accept)",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("missing"), "{text}");
}

#[test]
fn losses_and_an_empty_recording_are_told() {
    let mut empty = Locks::new();
    empty.capture.accounting.scheduler.locks_lost = 3;
    let text = lock_text(&locks(&empty.capture.finish()).unwrap());
    assert!(
        text.contains("No thread waited for a lock.") && text.contains("3 waits are missing here"),
        "{text}"
    );
    assert_eq!(locks(&TestRecording::new().finish()), None, "no locks were recorded");
}

#[test]
fn profile_and_ledger_have_the_waits_of_the_report() {
    let mut waits = some();
    waits.capture.accounting.scheduler.lock_waits = 106;
    waits.capture.accounting.scheduler.samples = 1000;
    let symbolized = waits.capture.finish();
    let profile = crate::profile(&symbolized, Mode::Locks, &[]);
    let samples = crate::test_recording::samples(&profile);
    let cache: Vec<_> =
        samples.iter().filter(|sample| sample.contains("lock=cache_lock+0x10,class=mutex")).collect();
    assert_eq!(cache.len(), 2, "{samples:#?}");
    assert!(
        cache[0].starts_with("__lll_lock_wait;___pthread_mutex_lock;")
            && cache[0].contains("pid=7,comm=target")
    );
    let values = |at: usize| profile.samples.iter().map(|sample| sample.values[at]).sum::<i64>();
    assert_eq!((values(0), values(1)), (106, 60_008_002_000));
    let report = crate::Report::of(&symbolized, crate::EndedBy::Request);
    let [ledger] = &report.ledgers[..] else { panic!("{:?}", report.ledgers.len()) };
    let entries = ledger.entries();
    let value = |key: &str| entries.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str());
    assert_eq!(
        [value("mode"), value("event"), value("samples")],
        [Some("locks"), Some("futex"), Some("106")]
    );
    assert_eq!([value("owners_seen"), value("released"), value("lost")], [Some("90"), Some("95"), Some("0")]);
    assert_eq!(value("locks_ms"), Some("60008"));
}

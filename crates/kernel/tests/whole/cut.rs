//! A capture that is cut again and again has the same sums over all its intervals as a capture beside it that is not cut, and
//! the time of every thread in each interval. Without privileges these skip and say so.

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use kernel::{Cut, Event, Kernel, Message, Schema, State, Sums};

use crate::alone;
use crate::following::{following, now_ns};

fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

fn own_tid() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

fn spin(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::black_box(0);
    }
}

/// One interval: sums by key, and what the cut at its end gave.
#[derive(Default)]
struct Interval {
    sums: HashMap<u64, Sums>,
    cut: Cut,
    from_ns: u64,
    to_ns: u64,
}

/// The programs, recording the threads of this process.
struct Recorder {
    kernel: Kernel,
    tids: HashMap<u64, u32>,
    intervals: Vec<Interval>,
    open: Interval,
    /// Waits of the threads of a test that were too short.
    skipped: u64,
}

impl Recorder {
    fn start(min_block: Duration, start_ns: u64) -> Option<Self> {
        let mut kernel = following(min_block, start_ns)?;
        let asleep = kernel.enter_threads(start_ns).unwrap();
        let open = Interval { from_ns: start_ns, ..Interval::default() };
        let mut recorder = Self { kernel, tids: HashMap::new(), intervals: Vec::new(), open, skipped: 0 };
        recorder.hear(asleep);
        Some(recorder)
    }

    fn hear(&mut self, messages: Vec<Message>) {
        for message in messages {
            match message {
                Message::Stack(stack) => self.tids.insert(stack.hash, stack.tid),
                Message::Raw(raw) => self.tids.insert(raw.stack.hash, raw.stack.tid),
                _ => None,
            };
        }
    }

    fn receive(&mut self) {
        let messages = self.kernel.receive().unwrap();
        self.hear(messages);
    }

    fn drain(&mut self) {
        self.receive();
        let sums = &mut self.open.sums;
        self.kernel.drain(|key, more| add(sums, key, more)).unwrap();
    }

    fn cut(&mut self) {
        self.receive();
        let sums = &mut self.open.sums;
        let cut = self.kernel.cut(|key, more| add(sums, key, more)).unwrap();
        self.receive();
        let next = Interval { from_ns: cut.at_ns, ..Interval::default() };
        let mut ended = std::mem::replace(&mut self.open, next);
        (ended.to_ns, ended.cut) = (cut.at_ns, cut);
        self.intervals.push(ended);
    }

    fn end(&mut self) {
        self.kernel.leave_threads(now_ns()).unwrap();
        let sums = &mut self.open.sums;
        self.kernel.drain_all(|key, more| add(sums, key, more)).unwrap();
        self.receive();
        self.intervals.push(std::mem::take(&mut self.open));
    }

    /// Count and time of a thread by state, in one interval.
    fn of_thread(&self, interval: &Interval, tid: u32) -> HashMap<State, (u64, u64)> {
        let mut found: HashMap<State, (u64, u64)> = HashMap::new();
        let sums = interval.sums.iter().filter(|(_, sums)| sums.count() > 0);
        let sums = sums.map(|(key, sums)| (*key, sums.count(), sums.values[1]));
        for (key, count, value) in sums.chain(interval.cut.open.iter().map(|open| (open.key, 0, open.value)))
        {
            if self.tids.get(&key) == Some(&tid) {
                let sum = found.entry(State::of_key(key)).or_default();
                (sum.0, sum.1) = (sum.0 + count, sum.1 + value);
            }
        }
        found
    }

    /// The same over all intervals.
    fn of_thread_in_all(&self, tid: u32) -> HashMap<State, (u64, u64)> {
        let mut all: HashMap<State, (u64, u64)> = HashMap::new();
        for (state, (count, value)) in
            self.intervals.iter().flat_map(|interval| self.of_thread(interval, tid))
        {
            let sum = all.entry(state).or_default();
            (sum.0, sum.1) = (sum.0 + count, sum.1 + value);
        }
        all
    }
}

fn add(all: &mut HashMap<u64, Sums>, key: u64, more: Sums) {
    let sums = all.entry(key).or_default();
    sums.values = Schema::of(Event::Scheduler).join(sums.values, more.values);
}

fn is_near(a: u64, b: u64, part: f64, ns: u64) -> bool {
    a.abs_diff(b) as f64 <= (part * a.max(b) as f64).max(ns as f64)
}

/// Runs `work` in threads, given with their names, beside a recorder that is cut and one that is not. Gives both, and the
/// numbers of the threads by name.
fn record(
    min_block: Duration,
    work: &(dyn Fn(&str, &AtomicBool) + Sync),
    names: &[&'static str],
    cuts: impl Iterator<Item = Duration>,
) -> Option<(Recorder, Recorder, HashMap<&'static str, u32>)> {
    let start_ns = now_ns();
    let mut uncut = Recorder::start(min_block, start_ns)?;
    let mut cut = Recorder::start(min_block, start_ns)?;
    let skipped = |recorder: &Recorder| recorder.kernel.off_cpu_counters().skipped_min_block;
    let before = [&cut, &uncut].map(skipped);
    let stop = AtomicBool::new(false);
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        for name in names {
            let (tell, stop) = (tell.clone(), &stop);
            scope.spawn(move || {
                tell.send((*name, own_tid())).unwrap();
                work(name, stop);
            });
        }
        for (number, pause) in cuts.enumerate() {
            thread::sleep(pause);
            cut.cut();
            uncut.receive();
            if number % 4 == 1 {
                cut.drain();
                uncut.drain();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    // After a thread has reported its end, the kernel needs some time to remove it.
    thread::sleep(ms(100));
    [cut.skipped, uncut.skipped] = [skipped(&cut) - before[0], skipped(&uncut) - before[1]];
    cut.end();
    uncut.end();
    drop(tell);
    Some((cut, uncut, told.iter().collect()))
}

#[test]
fn the_intervals_together_have_what_one_capture_has() {
    let _alone = alone();
    let work = |name: &str, stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            match name {
                "sleeps" => thread::sleep(ms(70)),
                "sleeps long" => thread::sleep(ms(700)),
                "spins" => spin(ms(10)),
                // Often enough that some of its switches are near a seam.
                "hurries" => thread::sleep(Duration::from_micros(20)),
                "waits" => {
                    thread::park_timeout(ms(20_000));
                    return;
                }
                _ => {
                    // Threads that come and go, across the seams too.
                    thread::sleep(ms(3));
                    thread::scope(|scope| {
                        scope.spawn(|| {
                            spin(ms(5));
                            thread::sleep(ms(40));
                        });
                    });
                }
            }
        }
    };
    // Only its own end lets the last one go.
    let parked: Mutex<Option<thread::Thread>> = Mutex::new(None);
    let work = |name: &str, stop: &AtomicBool| {
        if name == "waits" {
            *parked.lock().unwrap() = Some(thread::current());
        }
        work(name, stop);
    };
    let names = ["sleeps", "sleeps long", "spins", "hurries", "waits", "makes threads"];
    let cuts = (0..20).map(|number: u64| {
        if number == 19 {
            parked.lock().unwrap().take().unwrap().unpark();
        }
        ms(100 + number * 73 % 200)
    });
    let Some((cut, uncut, tids)) = record(Duration::ZERO, &work, &names, cuts) else { return };

    for (name, tid) in &tids {
        let (pieces, whole) = (cut.of_thread_in_all(*tid), uncut.of_thread_in_all(*tid));
        for state in [State::Blocked, State::OnCpu, State::Preempted, State::NotRunYet] {
            let [pieces, whole] = [&pieces, &whole].map(|of| of.get(&state).copied().unwrap_or_default());
            assert_eq!(pieces.0, whole.0, "{name}: counts of {state:?}");
            assert!(
                // One of both sees each switch a little later.
                is_near(pieces.1, whole.1, 0.01, 100_000 * (whole.0 + 10)),
                "{name}: {state:?} {} ns in pieces, {} ns as a whole",
                pieces.1,
                whole.1
            );
        }
    }
    // Each interval has exactly the time of each thread that there was.
    let last = cut.intervals.len() - 2;
    let mut inexact = Vec::new();
    // A busy machine may let that thread wait for a CPU until it parks.
    let mut parks = false;
    for (number, interval) in cut.intervals.iter().enumerate().take(last).skip(1) {
        let length = interval.to_ns - interval.from_ns;
        let times = tids.iter().map(|(name, tid)| {
            let time = cut.of_thread(interval, *tid).values().map(|(_, ns)| ns).sum();
            (*name, time, length)
        });
        let all =
            interval.sums.values().filter(|sums| sums.count() > 0).map(|sums| sums.values[1]).sum::<u64>()
                + interval.cut.open.iter().map(|open| open.value).sum::<u64>();
        for (what, time, expected) in times.chain([("all", all, interval.cut.off_cpu.lifetime_ns)]) {
            assert!(is_near(time, expected, 0.01, 10_000_000), "{what}, {number}: {time} of {expected} ns");
            if time != expected {
                inexact.push((number, what, time, expected));
            }
        }
        let blocked =
            cut.of_thread(interval, tids["waits"]).get(&State::Blocked).copied().unwrap_or_default();
        assert!(blocked == (0, length) || !parks, "{blocked:?} of {length}");
        parks |= blocked.1 > 0;
    }
    assert!(parks);
    // Not where this process was held up in the moment in which it writes a seam down: both sides of one seam, at most.
    let seams = inexact.last().zip(inexact.first()).map_or(0, |(last, first)| last.0 - first.0);
    assert!(seams < 2, "{inexact:?}");
    let keys = cut.intervals.iter().flat_map(|interval| interval.sums.keys());
    let events: Vec<_> = keys.map(|key| Event::of_key(*key)).collect();
    let is_scheduler = |event: &Option<Event>| *event == Some(Event::Scheduler);
    assert!(events.len() > 10 && events.iter().all(is_scheduler), "{events:?}");
    // Counters are cut with the sums.
    let recorded = |interval: &Interval| -> u64 {
        let waits = interval.sums.iter().filter(|(key, _)| State::of_key(**key) != State::OnCpu);
        waits.map(|(_, sums)| sums.count()).sum()
    };
    for interval in &cut.intervals[..=last] {
        assert_eq!(recorded(interval), interval.cut.off_cpu.samples);
        assert_eq!(interval.cut.off_cpu.lost() + interval.cut.off_cpu.seams_lost, 0);
    }
    let all = cut.kernel.off_cpu_counters();
    assert_eq!(cut.intervals.iter().map(recorded).sum::<u64>(), all.samples);
}

/// Sets the limit of descriptors; gives the limit before.
fn limit_descriptors(limit: libc::rlim_t) -> libc::rlim_t {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both take a live struct.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits), 0);
        let before = limits.rlim_cur;
        limits.rlim_cur = limit;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits), 0);
        before
    }
}

#[test]
fn an_interval_goes_on_when_its_cut_is_refused() {
    let _alone = alone();
    let start_ns = now_ns();
    let Some(mut recorder) = Recorder::start(Duration::ZERO, start_ns) else { return };
    let (end, ended) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            tell.send(own_tid()).unwrap();
            ended.recv().unwrap_err();
        });
        let tid = told.recv().unwrap();
        thread::sleep(ms(20));
        recorder.cut();
        thread::sleep(ms(20));
        let next = std::fs::File::open("/dev/null").unwrap().as_raw_fd();
        let limit = limit_descriptors(next as libc::rlim_t);
        let refused = recorder.kernel.cut(|_, _| ());
        limit_descriptors(limit);
        refused.unwrap_err();
        thread::sleep(ms(20));
        recorder.cut();
        let interval = &recorder.intervals[1];
        let blocked = recorder.of_thread(interval, tid)[&State::Blocked];
        assert_eq!(blocked, (0, interval.to_ns - interval.from_ns));
        drop(end);
    });
}

#[test]
fn an_interval_is_long_enough_as_a_whole_or_not_at_all() {
    let _alone = alone();
    let work = |name: &str, stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(ms(if name == "short" { 20 } else { 150 }));
        }
    };
    let cuts = (0..50).map(|number: u64| ms(20 + number * 7 % 30));
    let Some((cut, uncut, tids)) = record(ms(60), &work, &["short", "long"], cuts) else { return };
    let of = |recorder: &Recorder, name: &str| {
        recorder.of_thread_in_all(tids[name]).get(&State::Blocked).copied().unwrap_or_default()
    };
    for name in ["short", "long"] {
        let (pieces, whole) = (of(&cut, name), of(&uncut, name));
        assert!(
            pieces.0 == whole.0 && is_near(pieces.1, whole.1, 0.01, 200_000),
            "{name}: {pieces:?} {whole:?}"
        );
    }
    let long = of(&uncut, "long");
    assert!(long.0 > 5, "waits of the thread `long`: {long:?}");
    // The key of a wait is told while it may still become long enough, and no time with it.
    let mut open = cut.intervals.iter().flat_map(|interval| &interval.cut.open);
    let has_short = open.any(|open| cut.tids.get(&open.key) == Some(&tids["short"]) && open.value == 0);
    assert!(has_short, "no wait of the thread `short` without a time");
    assert!(
        uncut.skipped > 20 && is_near(cut.skipped, uncut.skipped, 0.05, 2),
        "{} {}",
        cut.skipped,
        uncut.skipped
    );
}

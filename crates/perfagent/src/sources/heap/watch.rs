//! Recording for as long as it is cheap: on a thread of its own, which has the probes.
//!
//! At first every call is recorded. When that costs more than it may, the breakpoints are taken out, and from then on they are inserted for short windows only, at random
//! moments about a second apart, and less often where even that is too dear. Windows show shares, not totals, and not what is in use.

use std::hash::{BuildHasher, Hasher};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kernel::HeapCounter;

use super::family::Family;
use super::price::{Bill, CpuTime, Work};
use super::probe_set::ProbeSet;
use super::programs::Programs;
use crate::{Error, Warning, WarningKind};

/// Time between two looks at the price while a capture is young, and later.
const LOOK_OFTEN: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_millis(200);
/// A capture is young for this long.
const YOUNG: Duration = Duration::from_secs(1);
/// Least time between two windows, to which a random time comes.
const EACH: Duration = Duration::from_millis(500);
const RANDOM: Duration = Duration::from_secs(1);
/// The longest window.
const WINDOW: Duration = Duration::from_millis(20);
/// Calls that end a window.
const WINDOW_CALLS: u64 = 8192;
/// Time between two looks at the calls of a window.
const WINDOW_LOOK: Duration = Duration::from_millis(1);

/// What the thread is asked for.
enum Order {
    AddProcess(u32),
    AddSet(ProbeSet),
    Stop,
}

/// What the thread tells.
#[derive(Default)]
struct Told {
    windows: u64,
    warnings: Vec<Warning>,
}

/// The thread, as the source sees it. Dropping it ends the recording.
pub(super) struct Watch {
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
    told: Arc<Mutex<Told>>,
}

/// What the thread has.
struct Watcher {
    sets: Vec<ProbeSet>,
    programs: Programs,
    counter: HeapCounter,
    family: Family,
    of_a_call: Duration,
    told: Arc<Mutex<Told>>,
}

impl Watch {
    /// Goes on with sets that are attached already.
    pub(super) fn start(
        sets: Vec<ProbeSet>,
        programs: Programs,
        counter: HeapCounter,
        family: Family,
        of_a_call: Duration,
    ) -> Result<Self, Error> {
        let (orders, receiver) = channel();
        let told = Arc::new(Mutex::new(Told::default()));
        let watcher = Watcher { sets, programs, counter, family, of_a_call, told: Arc::clone(&told) };
        let thread = sys::thread::spawn_quiet_thread("heap", move || watcher.run(&receiver));
        let thread = thread.map_err(|source| Error::System {
            attempt: "start a thread that watches the price of --heap".to_owned(),
            source,
        })?;
        Ok(Self { orders, thread: Some(thread), told })
    }

    pub(super) fn add_process(&self, pid: u32) {
        // Without the thread nothing is recorded any more.
        let _ended = self.orders.send(Order::AddProcess(pid));
    }

    pub(super) fn add_set(&self, set: ProbeSet) {
        let _ended = self.orders.send(Order::AddSet(set));
    }

    /// Ends the recording: no breakpoint is left.
    pub(super) fn stop(&mut self) {
        let _ended = self.orders.send(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }

    /// Windows so far; 0: everything was recorded.
    pub(super) fn windows(&self) -> u64 {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).windows
    }

    pub(super) fn take_warnings(&self) -> Vec<Warning> {
        std::mem::take(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner).warnings)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Watcher {
    fn run(mut self, orders: &Receiver<Order>) {
        let (mut times, mut bill) = (CpuTime::default(), Bill::default());
        let mut before = self.work(&mut times);
        if self.record_all(orders, &mut times, &mut before, &mut bill).is_none() {
            return;
        }
        self.close_soon();
        self.tell(|told| {
            // From the first moment without breakpoints on, totals are not known.
            told.windows = 1;
            let message = format!(
                "heap: recording allocations has taken the targets about {} ms of CPU time, more than 5 %: from now on only short \
                 windows about a second apart are recorded; the profile tells shares, not totals, and not what is in use",
                bill.cost_ms()
            );
            told.warnings.push(Warning::new(WarningKind::Capture, message, "--heap=exact records everything at any price"));
        });
        while self.wait(orders, EACH).is_some() {
            let now = self.work(&mut times);
            bill.add(now.since(before), self.of_a_call);
            before = now;
            // Inserting and removing breakpoints takes a busy machine long, and the calls meanwhile are dear too: they are paid for first.
            if !bill.is_too_dear() && self.record_window(orders).is_none() {
                return;
            }
        }
    }

    fn tell(&self, tell: impl FnOnce(&mut Told)) {
        tell(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits. None: it is to end.
    fn wait(&mut self, orders: &Receiver<Order>, time: Duration) -> Option<()> {
        let by = Instant::now() + time;
        loop {
            match orders.recv_timeout(by.saturating_duration_since(Instant::now())) {
                Ok(Order::AddProcess(pid)) => self.family.add(pid),
                Ok(Order::AddSet(set)) => self.sets.push(set),
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    self.close();
                    return None;
                }
                Err(RecvTimeoutError::Timeout) => return Some(()),
            }
        }
    }

    fn work(&mut self, times: &mut CpuTime) -> Work {
        Work { calls: self.counter.calls(), cpu_ns: times.look(&self.family.living()) }
    }

    /// Records all calls until that is too dear. None: it is to end.
    fn record_all(
        &mut self,
        orders: &Receiver<Order>,
        times: &mut CpuTime,
        before: &mut Work,
        bill: &mut Bill,
    ) -> Option<()> {
        let begun = Instant::now();
        loop {
            self.wait(orders, if begun.elapsed() < YOUNG { LOOK_OFTEN } else { LOOK })?;
            let now = self.work(times);
            bill.add(now.since(*before), self.of_a_call);
            *before = now;
            if bill.is_too_dear() {
                return Some(());
            }
        }
    }

    /// Records a window at a random moment of the next time. None: it is to end.
    fn record_window(&mut self, orders: &Receiver<Order>) -> Option<()> {
        self.wait(orders, Duration::from_nanos(random() % RANDOM.as_nanos() as u64))?;
        let (calls, begun) = (self.counter.calls(), Instant::now());
        if self.open() {
            while begun.elapsed() < WINDOW && self.counter.calls().wrapping_sub(calls) < WINDOW_CALLS {
                self.wait(orders, WINDOW_LOOK)?;
            }
        }
        self.close_soon();
        self.tell(|told| told.windows += 1);
        Some(())
    }

    /// Inserts the breakpoints of what allocates. False: no process is left.
    fn open(&mut self) -> bool {
        let living = self.family.living();
        let opened = self.sets.iter_mut().map(|set| set.open_window(&|| living.clone(), &self.programs));
        opened.fold(false, |any, one| any | one)
    }

    fn close(&mut self) {
        self.sets.iter_mut().for_each(ProbeSet::close);
    }

    fn close_soon(&mut self) {
        self.sets.iter_mut().for_each(ProbeSet::close_soon);
    }
}

fn random() -> u64 {
    // The standard library's keys are random.
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

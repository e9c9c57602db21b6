//! The monitor: registrations, and the run that delivers.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use rustix::time::ClockId;
use sys::clock::kernel_time;

use super::counts::MonitorStats;
use super::delivery::Delivery;
use super::error::MonitorError;
use super::item::{EventId, Item};
use super::merge::Merge;
use super::request::EventRequest;
use super::rings;
use super::state::State;

/// Rounds are not shorter: the kernel may stop between the time of a record and its place in the ring.
const SHORTEST_ROUND: Duration = Duration::from_millis(1);
/// How often losses are told.
const LOSSES_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub clock: ClockId,
    pub queue_bytes: usize,
    pub max_delay: Duration,
    pub on_exited: bool,
}

/// Delivers events of the kernel in order of time. Clones are the same monitor; the last one closes it.
///
/// It is stopped until [`run`](Self::run) is called. All other functions may be called from any thread, and from inside of the callback.
#[derive(Clone, Debug)]
pub struct EventMonitor(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    settings: Settings,
    /// None after the monitor was closed.
    state: Mutex<Option<State>>,
    /// The thread that runs it.
    runner: Mutex<Option<ThreadId>>,
    ended: Condvar,
    stop: AtomicBool,
    close: AtomicBool,
    /// Held while the callback runs.
    calling: Mutex<()>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EventMonitor {
    pub(crate) fn of(state: State, settings: Settings) -> Self {
        Self(Arc::new(Shared {
            settings,
            state: Mutex::new(Some(state)),
            runner: Mutex::new(None),
            ended: Condvar::new(),
            stop: AtomicBool::new(false),
            close: AtomicBool::new(false),
            calling: Mutex::new(()),
        }))
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> Result<T, MonitorError>) -> Result<T, MonitorError> {
        lock(&self.0.state).as_mut().map_or(Err(MonitorError::Closed), act)
    }

    fn is_runner(&self) -> bool {
        *lock(&self.0.runner) == Some(std::thread::current().id())
    }

    /// Opens an event and, unless it was asked for otherwise, enables it. A failure leaves nothing behind.
    ///
    /// # Errors
    /// [`MonitorError`] if there is no such event, if its attribute or filter is refused, or if it cannot be opened.
    pub fn register(&self, request: EventRequest) -> Result<EventId, MonitorError> {
        self.with(|state| state.register(request))
    }

    /// Closes an event. The callback is not called for it again, except for the call from which this is called.
    ///
    /// # Errors
    /// [`MonitorError::NotRegistered`].
    pub fn unregister(&self, id: EventId) -> Result<(), MonitorError> {
        self.with(|state| state.unregister(id))?;
        if !self.is_runner() {
            // A call that has begun ends first.
            drop(lock(&self.0.calling));
        }
        Ok(())
    }

    /// Enables an event.
    ///
    /// # Errors
    /// [`MonitorError::NotRegistered`], or the kernel's error.
    pub fn enable(&self, id: EventId) -> Result<(), MonitorError> {
        self.with(|state| state.enable(id, true))
    }

    /// Disables an event. What happens until it is enabled is not delivered.
    ///
    /// # Errors
    /// As [`enable`](Self::enable).
    pub fn disable(&self, id: EventId) -> Result<(), MonitorError> {
        self.with(|state| state.enable(id, false))
    }

    /// Enables all events.
    ///
    /// # Errors
    /// The first error, after all were tried.
    pub fn enable_all(&self) -> Result<(), MonitorError> {
        self.with(|state| state.enable_all(true))
    }

    /// Disables all events.
    ///
    /// # Errors
    /// The first error, after all were tried.
    pub fn disable_all(&self) -> Result<(), MonitorError> {
        self.with(|state| state.enable_all(false))
    }

    /// Sets, replaces or, with an empty text, removes the filter of an event. What happens meanwhile is delivered once.
    ///
    /// # Errors
    /// [`MonitorError::Filter`] if the kernel refuses it; then the old one stays.
    pub fn set_filter(&self, id: EventId, text: &str) -> Result<(), MonitorError> {
        let clock = self.0.settings.clock;
        self.with(|state| state.set_filter(id, text, || kernel_time(clock)))
    }

    /// What became of all records so far. Empty after the monitor was closed.
    #[must_use]
    pub fn stats(&self) -> MonitorStats {
        lock(&self.0.state).as_ref().map(State::stats).unwrap_or_default()
    }

    /// Whether it delivers: all its enabled events are counted and delivered from now on.
    #[must_use]
    pub fn is_running(&self) -> bool {
        lock(&self.0.state).as_ref().is_some_and(|state| state.running)
    }

    /// The CPUs that are followed.
    #[must_use]
    pub fn cpus(&self) -> Vec<u32> {
        lock(&self.0.state).as_ref().map(|state| state.rings.cpus()).unwrap_or_default()
    }

    /// Delivers until it is stopped or closed, or until all that is followed has ended. What the rings hold at the end is delivered too.
    ///
    /// # Errors
    /// [`MonitorError::AlreadyRunning`], [`MonitorError::Closed`], or the kernel's error at the start.
    pub fn run(&self, mut callback: impl FnMut(&Item<'_>)) -> Result<(), MonitorError> {
        self.begin()?;
        let ending = Ending(self);
        let mut delivery = Delivery::default();
        let mut merge = Merge::default();
        let started = self.with(|state| {
            delivery.counts_lost = state.rings.common.counts_lost;
            let duplicated = |fd: &OwnedFd| fd.try_clone();
            let descriptor = duplicated(state.rings.descriptor());
            let descriptor =
                descriptor.map_err(|source| MonitorError::System { attempt: "wait for rings", source })?;
            state.switch(true).map(|()| descriptor)
        });
        let mut told = Instant::now();
        let mut call = |item: &Item<'_>| {
            let _calling = lock(&self.0.calling);
            callback(item);
        };
        let result = started.map(|descriptor| {
            while !self.0.stop.load(Ordering::Acquire) {
                let began = Instant::now();
                let ready = rings::wait(descriptor.as_fd(), self.0.settings.max_delay);
                std::thread::sleep(SHORTEST_ROUND.saturating_sub(began.elapsed()));
                let now = kernel_time(self.0.settings.clock);
                let followed = self.with(|state| {
                    let alive = state.rings.woken(&ready) && !state.sources.cgroups_are_gone();
                    state.collect(&mut merge);
                    delivery.targets = state.targets();
                    Ok(alive)
                });
                delivery.wall_offset_ns = kernel_time(ClockId::Realtime).cast_signed() - now.cast_signed();
                merge.end_round(now, self.0.settings.queue_bytes, |ordered| {
                    delivery.record(ordered, &mut call)
                });
                if told.elapsed() >= LOSSES_EVERY {
                    told = Instant::now();
                    self.tell_losses(&delivery, merge.handed_out_ns(), &mut call);
                }
                match followed {
                    Ok(true) => {}
                    Ok(false) if !self.0.settings.on_exited => {}
                    _ => break,
                }
            }
        });
        let stopped = self.with(|state| {
            let stopped = state.switch(false);
            state.collect(&mut merge);
            delivery.targets = state.targets();
            stopped
        });
        merge.finish(|ordered| delivery.record(ordered, &mut call));
        self.tell_losses(&delivery, merge.handed_out_ns(), &mut call);
        drop(ending);
        result.and(stopped)
    }

    fn tell_losses(&self, delivery: &Delivery, time_ns: u64, call: &mut dyn FnMut(&Item<'_>)) {
        let losses = self.with(|state| Ok(state.losses())).unwrap_or_default();
        losses.into_iter().for_each(|loss| delivery.loss(loss, time_ns, call));
    }

    fn begin(&self) -> Result<(), MonitorError> {
        let mut runner = lock(&self.0.runner);
        if runner.is_some() {
            return Err(MonitorError::AlreadyRunning);
        }
        if lock(&self.0.state).is_none() {
            return Err(MonitorError::Closed);
        }
        self.0.stop.store(false, Ordering::Release);
        *runner = Some(std::thread::current().id());
        Ok(())
    }

    /// [`run`](Self::run) on a thread of its own.
    ///
    /// # Errors
    /// The system's error if no thread can be made.
    pub fn spawn(
        &self,
        callback: impl FnMut(&Item<'_>) + Send + 'static,
    ) -> io::Result<std::thread::JoinHandle<Result<(), MonitorError>>> {
        let monitor = self.clone();
        std::thread::Builder::new().name("events".to_owned()).spawn(move || monitor.run(callback))
    }

    /// Ends the run: events are disabled, and what the rings hold is delivered. `wait`: until the run has returned. Does nothing if it does not
    /// run.
    ///
    /// # Errors
    /// [`MonitorError::WouldDeadlock`] if the callback itself waits. It stops nevertheless.
    pub fn stop(&self, wait: bool) -> Result<(), MonitorError> {
        let mut runner = lock(&self.0.runner);
        if runner.is_none() {
            return Ok(());
        }
        self.0.stop.store(true, Ordering::Release);
        if let Some(state) = lock(&self.0.state).as_ref() {
            let _it_ends_at_the_next_round = rustix::io::write(state.rings.waker(), &1u64.to_ne_bytes());
        }
        if wait && *runner == Some(std::thread::current().id()) {
            return Err(MonitorError::WouldDeadlock);
        }
        while wait && runner.is_some() {
            runner = self.0.ended.wait(runner).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Stops, and closes everything. Nothing is left. A second time it does nothing.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub fn close(&self, wait: bool) -> Result<(), MonitorError> {
        self.0.close.store(true, Ordering::Release);
        let stopped = self.stop(wait);
        let runner = lock(&self.0.runner);
        if runner.is_none() {
            *lock(&self.0.state) = None;
        }
        stopped
    }
}

/// Ends a run, also one whose callback panics.
struct Ending<'a>(&'a EventMonitor);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let shared = &self.0.0;
        let mut runner = lock(&shared.runner);
        let mut state = lock(&shared.state);
        if shared.close.load(Ordering::Acquire) {
            *state = None;
        } else if let Some(state) = state.as_mut().filter(|state| state.running) {
            let _of_a_panic = state.switch(false);
        }
        *runner = None;
        shared.ended.notify_all();
    }
}

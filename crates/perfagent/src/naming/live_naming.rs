//! Hands new frames over to be named, interval by interval.

use std::sync::{Arc, Mutex, PoisonError};

use metrics::{Health, SymbolizeHealth};
use recording::{Frame, Names};
use symbolization::{
    AbandonToken, Deliveries, FrameContext, LateNames, Lookup, Options, PendingNames, Sources, Symbolization,
};

use crate::config::Fetching;
use crate::symbol_source::GivenSources;
use crate::{CancelToken, Error, priority};

/// Contents of files that are kept for the next delivery, in bytes.
const KEPT_BYTES: usize = 32 << 20;

/// The thread that looks names up, and the frames of the present interval that it was given.
pub(crate) struct Naming {
    symbolization: Symbolization,
    /// Names of the present interval.
    pending: PendingNames,
    deliveries: Deliveries,
    /// Frames of ended intervals that no source could be asked about.
    nowhere_before: u64,
    /// How long look-ups take.
    times: Arc<Mutex<SymbolizeHealth>>,
}

impl Naming {
    /// Starts the thread. `abandon` ends it early. The sources of the host program are asked first. `fetching`: where debug files come from
    /// that this machine does not have, and what is kept for later runs.
    pub(crate) fn start(
        abandon: &CancelToken,
        given: GivenSources,
        fetching: &Fetching,
    ) -> Result<Self, Error> {
        let cancelled = abandon.clone();
        let mut options = Options { fetch: fetching.fetch(), ..Options::default() };
        options.symbols.records = fetching.record_store();
        options.symbols.cache_bytes = KEPT_BYTES;
        let times = Arc::new(Mutex::new(SymbolizeHealth::default()));
        let theirs = Arc::clone(&times);
        let observe = move |lookup, taken_ns| {
            let mut times = theirs.lock().unwrap_or_else(PoisonError::into_inner);
            match lookup {
                Lookup::User => times.user.record(taken_ns),
                Lookup::Kernel => times.kernel.record(taken_ns),
            }
        };
        let spawn = |body: Box<dyn FnOnce() + Send>| {
            sys::thread::spawn_quiet_thread("names", move || {
                priority::go_with_others();
                body();
            })
        };
        let token = AbandonToken::when(move || cancelled.is_cancelled());
        let sources = given.before(Sources::standard(&options));
        let symbolization = Symbolization::start(sources, &options, token, observe, spawn)
            .map_err(|source| Error::System { attempt: "start the thread for names".to_owned(), source })?;
        let pending = symbolization.begin_interval();
        Ok(Self { symbolization, pending, deliveries: Deliveries::new(), nowhere_before: 0, times })
    }

    /// Hands over new frames. Frames in a file wait if other frames in it were handed over a short time ago.
    pub(crate) fn send_new<'a>(
        &mut self,
        frames: impl Iterator<Item = &'a Frame>,
        context: &impl FrameContext,
    ) {
        for work in self.deliveries.take_due(frames, context) {
            self.pending.submit(work);
        }
    }

    /// Hands over all frames that are left and ends the interval. Its names are found while the next one goes on.
    pub(crate) fn end_interval<'a>(
        &mut self,
        frames: impl Iterator<Item = &'a Frame>,
        context: &impl FrameContext,
    ) -> LateNames {
        for work in self.deliveries.take_rest(frames, context) {
            self.pending.submit(work);
        }
        self.nowhere_before += self.deliveries.nowhere();
        self.deliveries = Deliveries::new();
        std::mem::replace(&mut self.pending, self.symbolization.begin_interval()).end()
    }

    /// Adds what was looked up so far.
    pub(crate) fn tell(&self, health: &mut Health) {
        let figures = self.symbolization.figures();
        let mut how = self.times.lock().unwrap_or_else(PoisonError::into_inner).clone();
        how.kernel_batches = figures.kernel_batches;
        how.kernel_input_ips = figures.kernel_input_ips;
        how.kernel_batch_failures = figures.kernel_batch_failures;
        how.kernel_raw_addr_frames = figures.kernel_raw_addr_frames;
        health.frames_symbolized = figures.named;
        health.frames_unsymbolized = figures.unnamed + self.nowhere_before + self.deliveries.nowhere();
        health.symbolize = Some(how);
    }

    /// Waits for the names of the last interval, which come after those of all others, and ends the thread. `tell_left` is called again and
    /// again with the number of frames that are still to be looked up.
    pub(crate) fn finish(self, last: &LateNames, tell_left: impl Fn(u64)) -> Names {
        let names = last.wait(|| false, tell_left);
        drop(self.pending);
        self.symbolization.finish();
        names
    }
}

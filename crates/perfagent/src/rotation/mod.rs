//! Cutting a running capture again and again: one thread cuts, another one takes the recordings when their names are complete. So the
//! length of an interval does not depend on how long names take.

mod pending;
mod rotated;
mod rotator;

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use self::pending::PendingIntervals;
pub(crate) use self::rotated::Rotated;
pub(crate) use self::rotator::{Cutting, Rotator};
use crate::output::{IntervalOutputs, Profiles};
use crate::{CancelToken, Error, Recording};

/// Time between two checks whether a thread has ended.
const END_CHECK: Duration = Duration::from_millis(1);

/// Cuts a capture periodically. Dropping it ends that, and not the capture. The drop waits until the intervals that were cut are named and
/// taken.
#[derive(Debug)]
pub struct Rotation {
    stop: Option<Sender<()>>,
    cutter: Option<JoinHandle<()>>,
    taker: Option<JoinHandle<Rotated>>,
    pending: Arc<PendingIntervals>,
}

impl Rotation {
    /// Cuts again and again, and gives each interval to `each`.
    pub(crate) fn start(
        rotator: Rotator,
        cutting: Cutting,
        mut each: impl FnMut(Recording) + Send + 'static,
    ) -> Result<Self, Error> {
        Self::start_with(rotator, cutting, Rotated::default(), move |rotated, recording| {
            rotated.add(&recording);
            each(recording);
        })
    }

    /// Cuts again and again. `each` adds the intervals to `rotated` itself.
    fn start_with(
        rotator: Rotator,
        cutting: Cutting,
        rotated: Rotated,
        each: impl FnMut(&mut Rotated, Recording) + Send + 'static,
    ) -> Result<Self, Error> {
        let failed = |source| Error::System { attempt: "start a thread that cuts".to_owned(), source };
        let pending = Arc::new(PendingIntervals::default());
        let (stop, stopped) = channel();
        let queue = Arc::clone(&pending);
        let taker = sys::thread::spawn_quiet_thread("intervals", move || take_all(&queue, rotated, each));
        let taker = taker.map_err(failed)?;
        let queue = Arc::clone(&pending);
        let cutter = sys::thread::spawn_quiet_thread("rotate", move || {
            rotator.run(cutting, &stopped, &queue);
            queue.close();
        });
        let cutter = cutter.inspect_err(|_| pending.close()).map_err(failed)?;
        Ok(Self { stop: Some(stop), cutter: Some(cutter), taker: Some(taker), pending })
    }

    /// Writes one set of outputs per interval.
    pub(crate) fn of_outputs(
        rotator: Rotator,
        cutting: Cutting,
        outputs: IntervalOutputs,
        give_up: CancelToken,
    ) -> Result<Self, Error> {
        let rotated = Rotated::summing_up();
        Self::start_with(rotator, cutting, rotated, move |rotated, recording| {
            let profiles = Profiles::of(recording.model());
            rotated.add_with(&recording, &profiles);
            let mut written = outputs.write(&profiles, &give_up);
            written.retain(|output| output.result.is_err());
            rotated.add_failed(written);
        })
    }

    /// Cuts no more, after the interval that is being cut. `meanwhile` is called again and again.
    pub(crate) fn stop_cutting(&mut self, meanwhile: impl Fn()) {
        self.stop();
        wait(self.cutter.take(), meanwhile);
    }

    /// Ends it when all intervals that were cut have been taken. `meanwhile` is called again and again.
    pub(crate) fn finish(mut self, meanwhile: impl Fn()) -> Rotated {
        self.stop_cutting(&meanwhile);
        wait(self.taker.take(), meanwhile).unwrap_or_default()
    }

    fn stop(&mut self) {
        drop(self.stop.take());
        self.pending.end();
    }
}

impl Drop for Rotation {
    fn drop(&mut self) {
        self.stop();
        // The function that takes the recordings may drop the handle; its thread cannot wait for itself.
        if self.taker.as_ref().is_some_and(|taker| taker.thread().id() != std::thread::current().id()) {
            wait(self.cutter.take(), || {});
            wait(self.taker.take(), || {});
        }
    }
}

/// Waits for a thread. `None` if it panicked.
fn wait<T>(thread: Option<JoinHandle<T>>, meanwhile: impl Fn()) -> Option<T> {
    while thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
        meanwhile();
        std::thread::sleep(END_CHECK);
    }
    thread?.join().ok()
}

/// Ends the rotation if the function that takes the recordings panics.
struct Taking<'a>(&'a PendingIntervals);

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

fn take_all(
    pending: &PendingIntervals,
    mut rotated: Rotated,
    mut each: impl FnMut(&mut Rotated, Recording),
) -> Rotated {
    let _taking = Taking(pending);
    while let Some(recording) = pending.next() {
        each(&mut rotated, recording);
    }
    rotated
}

//! What the thread still has to look up, by interval.
//!
//! The oldest interval comes first. Places of later intervals in the same module are looked up with its places, because each look-up in a
//! large file may read its debug information anew. So the thread catches up with intervals that are shorter than one look-up.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};

use profile::Svma;
use recording::{FrameId, Module};

use crate::interval::Interval;
use crate::name_cache;
use crate::work::{ModuleHandle, Work};

/// What is sent to the thread. Intervals are held weakly: nobody waits for the names of a dropped one.
pub(super) enum Message {
    /// Places of an interval.
    Work { interval: Weak<Interval>, work: Work },
    /// Nothing more comes of an interval.
    End { interval: Weak<Interval>, done: Sender<()> },
}

/// The places of an interval in one module.
type IntervalPlaces = (Arc<Interval>, Vec<(FrameId, Svma)>);

/// What the thread does next.
pub(super) enum Step {
    /// An interval begins for the thread.
    Begin,
    /// Look up the places of one interval.
    Work(Arc<Interval>, Work),
    /// Look up the places of several intervals in one module.
    Module(ModuleHandle, Vec<IntervalPlaces>),
    /// All places of an interval were looked up.
    End(Arc<Interval>, Sender<()>),
}

/// What is left of one interval.
struct Queue {
    interval: Weak<Interval>,
    works: VecDeque<Work>,
    end: Option<Sender<()>>,
    /// Some of its places were looked up.
    begun: bool,
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.works.is_empty() && self.end.is_none()
    }

    /// Takes the places in a module.
    fn take_in(&mut self, module: &Module) -> Vec<(FrameId, Svma)> {
        let mut taken = Vec::new();
        self.works.retain_mut(|work| match work {
            Work::Module { module: other, places } if *other.module == *module => {
                taken.append(places);
                false
            }
            _ => true,
        });
        taken
    }
}

/// The intervals with work left, the oldest first.
#[derive(Default)]
pub(super) struct Backlog(VecDeque<Queue>);

impl Backlog {
    /// Adds what was sent.
    pub(super) fn add(&mut self, message: Message) {
        match message {
            Message::Work { interval, work } => self.queue(interval).works.push_back(work),
            Message::End { interval, done } => self.queue(interval).end = Some(done),
        }
    }

    fn queue(&mut self, interval: Weak<Interval>) -> &mut Queue {
        let known = self.0.iter().position(|queue| queue.interval.ptr_eq(&interval));
        let at = known.unwrap_or_else(|| {
            self.0.push_back(Queue { interval, works: VecDeque::new(), end: None, begun: false });
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// What to do next; none if there is nothing to do.
    pub(super) fn next(&mut self) -> Option<Step> {
        self.0.retain(|queue| queue.interval.strong_count() > 0);
        let at = self.0.iter().position(|queue| !queue.is_idle())?;
        let queue = &mut self.0[at];
        // Its owner may drop it at any moment.
        let Some(interval) = queue.interval.upgrade() else { return self.next() };
        if !std::mem::replace(&mut queue.begun, true) {
            return Some(Step::Begin);
        }
        match queue.works.pop_front() {
            Some(Work::Module { module, places }) if name_cache::is_told_apart(&module.module) => {
                Some(self.in_module(at, interval, module, places))
            }
            Some(work) => Some(Step::Work(interval, work)),
            None => {
                let ended = self.0.remove(at)?;
                Some(Step::End(interval, ended.end?))
            }
        }
    }

    /// The places of one interval in a module, and those of all others.
    fn in_module(
        &mut self,
        at: usize,
        interval: Arc<Interval>,
        module: ModuleHandle,
        places: Vec<(FrameId, Svma)>,
    ) -> Step {
        let mut all = vec![(interval, places)];
        for queue in self.0.range_mut(at..) {
            let Some(interval) = queue.interval.upgrade() else { continue };
            let places = queue.take_in(&module.module);
            if !places.is_empty() {
                queue.begun = true;
                all.push((interval, places));
            }
        }
        Step::Module(module, all)
    }
}

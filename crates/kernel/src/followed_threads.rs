//! Following threads through the scheduler, from the moment when its programs are attached to the last interval. Their names, and the
//! iterators over all threads, are in `thread_iter.rs`.

use libbpf_rs::Link;

use crate::abi::control;
use crate::control_words::ControlWords;
use crate::counters::{Counters, Skipped};
use crate::programs::Programs;
use crate::table_pool::TablePool;
use crate::thread_iter::{self, ThreadIter};
use crate::{Error, Message, Settings, object};

/// The programs that follow threads, as far as they are attached.
pub(crate) struct FollowedThreads {
    words: ControlWords,
    programs: Vec<&'static str>,
    follows_exits: bool,
    /// Intervals of threads are recorded, and split at a cut.
    splits: bool,
    /// Links of the programs. They are detached before the others.
    links: Vec<Link>,
    /// The link of the program that sees threads exit, which is detached after those.
    exits_link: Vec<Link>,
    /// Skipped runs up to the last cut, and up to the beginning of the cut that is being made.
    skipped: Skipped,
    skipped_now: Skipped,
}

impl FollowedThreads {
    pub(crate) fn new(settings: &Settings, words: ControlWords) -> Self {
        Self {
            words,
            programs: thread_iter::programs(settings),
            follows_exits: thread_iter::follows_exits(settings),
            splits: settings.splits_intervals(),
            links: Vec::new(),
            exits_link: Vec::new(),
            skipped: Skipped::default(),
            skipped_now: Skipped::default(),
        }
    }

    /// Attaches the programs. Until [`Self::enter`] they know new threads only.
    pub(crate) fn attach(&mut self, programs: &mut Programs) -> Result<(), Error> {
        self.links.extend(object::attach(programs.object_mut(), &self.programs)?);
        if self.follows_exits {
            self.exits_link = object::attach(programs.object_mut(), &[thread_iter::EXITS])?;
        }
        Ok(())
    }

    /// Follows all existing threads from `start_ns` on. Returns the new ones that are off CPU now.
    pub(crate) fn enter(&self, programs: &mut Programs, start_ns: u64) -> Result<Vec<Message>, Error> {
        self.words.set(control::FOLLOWED_FROM_NS, start_ns);
        thread_iter::run(programs.object_mut(), thread_iter::BEGIN)
    }

    /// The threads that have not run since [`Self::enter`].
    pub(crate) fn still_asleep(&self, programs: &mut Programs) -> Result<Vec<Message>, Error> {
        thread_iter::run(programs.object_mut(), thread_iter::STILL_ASLEEP)
    }

    /// Detaches the programs, and adds the intervals that are still open up to `end_ns`.
    pub(crate) fn leave(
        &mut self,
        programs: &mut Programs,
        pool: &mut TablePool,
        end_ns: u64,
    ) -> Result<(), Error> {
        if self.links.is_empty() {
            return Ok(());
        }
        self.links.clear();
        pool.wait_for_programs()?;
        self.words.set(control::FOLLOWED_TO_NS, end_ns);
        let ended = thread_iter::run(programs.object_mut(), thread_iter::END).map(drop);
        // Until here: of a thread that exits before the iterator comes, no other program counts the lifetime.
        self.exits_link.clear();
        ended
    }

    /// Begins a cut: gives what splits the intervals that are open; none if intervals are not recorded.
    pub(crate) fn begin_cut(
        &mut self,
        programs: &mut Programs,
    ) -> Result<Option<impl FnMut() -> Result<(), Error> + use<>>, Error> {
        self.skipped_now = programs.skipped();
        let prepare = || ThreadIter::prepare(programs.object_mut(), thread_iter::SEAM);
        let splits = self.splits.then(prepare).transpose()?;
        Ok(splits.map(|mut iter| move || iter.run().or_else(|_| iter.run()).map(drop)))
    }

    /// The cut is made: adds the runs that were skipped in the interval to its counters. After a cut that failed, the next one has them.
    pub(crate) fn end_cut(&mut self, counters: &mut Counters) {
        self.skipped_now.since(self.skipped).add_to(counters);
        self.skipped = self.skipped_now;
    }
}

//! The programs that follow threads through the scheduler, and the iterators over all threads.

use std::io::Read;

use libbpf_rs::{Iter, Link, Object};

use crate::messages::decode_all;
use crate::{Error, Message, Settings};

/// Programs that follow threads.
const FOLLOWERS: [&str; 3] = ["thread_begins", "thread_execs", "thread_switch"];
/// Programs that see threads become runnable.
const WAKEUPS: [&str; 2] = ["thread_wakeup", "thread_wakeup_new"];
/// The program that measures the lifetimes of threads that end.
pub(crate) const EXITS: &str = "thread_exits";
/// The program that sees who wakes whom.
const WAKING: &str = "thread_waking";
/// Programs that see waits for locks of the kernel. The end is attached first.
const KERNEL_LOCKS: [&str; 2] = ["kernel_lock_ends", "kernel_lock_begins"];
pub(crate) const BEGIN: &str = "threads_at_begin";
pub(crate) const STILL_ASLEEP: &str = "threads_still_asleep";
pub(crate) const SEAM: &str = "threads_at_seam";
pub(crate) const END: &str = "threads_at_end";

/// The programs that follow threads with these settings, without the one that measures lifetimes.
pub(crate) fn programs(settings: &Settings) -> Vec<&'static str> {
    let mut programs = Vec::new();
    if settings.follows_threads() {
        programs.extend(FOLLOWERS);
    }
    if settings.follows_wakeups() {
        programs.extend(WAKEUPS);
    }
    if settings.follows_wakers() {
        programs.push(WAKING);
    }
    if settings.kernel_locks {
        programs.extend(KERNEL_LOCKS);
    }
    programs
}

/// Whether the lifetimes of threads are measured with these settings.
pub(crate) fn follows_exits(settings: &Settings) -> bool {
    settings.off_cpu.as_ref().is_some_and(|off_cpu| off_cpu.wall_clock)
}

/// An iterator over all threads.
pub(crate) struct ThreadIter {
    name: &'static str,
    link: Link,
    /// A pass over the threads that has not begun.
    next: Option<Iter>,
}

impl ThreadIter {
    /// Prepares a pass, so that [`Self::run`] needs nothing that the system may refuse.
    pub(crate) fn prepare(object: &mut Object, name: &'static str) -> Result<Self, Error> {
        let program = object.progs_mut().find(|program| program.name() == name);
        let program = program.ok_or(Error::Missing { kind: "program", name })?;
        let failed = |source| Error::Attach { program: name.to_owned(), source };
        let link = program.attach().map_err(failed)?;
        let next = Some(Iter::new(&link).map_err(failed)?);
        Ok(Self { name, link, next })
    }

    /// Makes a pass, and returns the messages of the program.
    pub(crate) fn run(&mut self) -> Result<Vec<Message>, Error> {
        let name = self.name;
        let failed = |source| Error::Attach { program: name.to_owned(), source };
        let mut pass = self.next.take().map_or_else(|| Iter::new(&self.link).map_err(failed), Ok)?;
        let mut bytes = Vec::new();
        let read = pass.read_to_end(&mut bytes);
        read.map_err(|source| Error::Map { action: "run", map: name, source: source.into() })?;
        decode_all(&bytes).ok_or(Error::Missing { kind: "message of the program", name })
    }
}

/// Runs an iterator over all threads, and returns its messages.
pub(crate) fn run(object: &mut Object, name: &'static str) -> Result<Vec<Message>, Error> {
    ThreadIter::prepare(object, name)?.run()
}

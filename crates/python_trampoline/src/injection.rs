//! The processes that one capture has switched on, and switching them off whatever happens.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::mark::Mark;
use crate::obstacle;
use crate::refusal::{Refusal, Token};
use crate::switch::{Off, On, switch_off, switch_on};

/// For all processes of one start, or of the end.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a process is tried at the end that finds no safe place in time.
const TRIES: usize = 3;
/// Processes that are switched at the same time.
const AT_ONCE: usize = 8;

/// What became of the processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Switched on, or adopted from an agent that no longer lives.
    pub activated: u64,
    /// Left to whom had switched them on.
    pub already_on: u64,
    /// Switched off again, or ended meanwhile.
    pub deactivated: u64,
    /// Not switched on, by cause.
    pub skipped: BTreeMap<Token, u64>,
    /// Processes that may still be on.
    pub failed: Vec<(u32, Refusal)>,
}

/// The processes of a capture. Dropping it switches them off.
#[derive(Debug)]
pub struct Injection {
    own: Mark,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Switched on, or perhaps.
    on: Vec<u32>,
    counts: Counts,
}

impl Injection {
    /// # Errors
    /// `/proc` cannot be read.
    pub fn new() -> Result<Self, process::Error> {
        Ok(Self { own: Mark::own()?, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Switches a process on.
    ///
    /// # Errors
    /// Why it was skipped. Where the outcome is not known, it is switched off at the end.
    pub fn add(&self, pid: u32) -> Result<On, Refusal> {
        // Whatever happens meanwhile, it is switched off at the end.
        self.state().on.push(pid);
        let result = switch_on(pid, &self.own);
        let mut state = self.state();
        let is_ours = match &result {
            Ok(On::Activated | On::Adopted) => {
                state.counts.activated += 1;
                true
            }
            Ok(On::AlreadyOn) => {
                state.counts.already_on += 1;
                false
            }
            Err(refusal) => {
                *state.counts.skipped.entry(refusal.token).or_default() += 1;
                matches!(refusal.token, Token::Timeout | Token::Other)
            }
        };
        if !is_ours {
            state.on.retain(|known| *known != pid);
        }
        result
    }

    /// Switches processes on, several at once, until `is_over`. Gives those that were skipped.
    pub fn add_all(&self, pids: &[u32], is_over: impl Fn() -> bool + Sync) -> Vec<(u32, Refusal)> {
        let late = || Refusal::new(Token::Timeout, "the time for all processes was over");
        for_each(pids, &is_over, |pid| self.add(pid).map(drop), late)
    }

    /// What was done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.state().counts.clone()
    }

    /// Switches off processes that may have been forked by one that was on: they are on too, with the same mark. Those that are neither ours nor
    /// run the interpreter are not counted.
    pub fn finish_forked(&self, pids: &[u32]) -> Counts {
        let late = || Refusal::new(Token::Timeout, "the time for all processes was over");
        let deadline = Instant::now() + PATIENCE;
        let off = |pid| match self.switch_off(pid, deadline) {
            Ok(Off::Deactivated) => {
                let mut state = self.state();
                state.counts.activated += 1;
                state.counts.deactivated += 1;
                Ok(())
            }
            Err(refusal) if matches!(refusal.token, Token::Timeout | Token::Other) => Err(refusal),
            Ok(Off::NotOurs) | Err(_) => Ok(()),
        };
        let failed = for_each(pids, &|| false, off, late);
        let mut state = self.state();
        state.counts.failed.extend(failed);
        state.counts.clone()
    }

    /// Many threads that compute may find no safe place in time, and find one in the next moment.
    fn switch_off(&self, pid: u32, deadline: Instant) -> Result<Off, Refusal> {
        let may_change = || Instant::now() < deadline && obstacle::of_process(pid).is_none();
        again(|| switch_off(pid, &self.own), may_change)
    }

    /// Switches off what was switched on.
    pub fn finish(&self) -> Counts {
        let on = std::mem::take(&mut self.state().on);
        let late = || Refusal::new(Token::Timeout, "the time for all processes was over");
        let deadline = Instant::now() + PATIENCE;
        let off = |pid| match self.switch_off(pid, deadline) {
            Ok(Off::Deactivated) => {
                self.state().counts.deactivated += 1;
                Ok(())
            }
            // It was not switched on after all.
            Ok(Off::NotOurs) => Ok(()),
            // It has ended, or executes another program.
            Err(refusal) if matches!(refusal.token, Token::Exited | Token::NotPython) => {
                self.state().counts.deactivated += 1;
                Ok(())
            }
            Err(refusal) => Err(refusal),
        };
        let failed = for_each(&on, &|| false, off, late);
        let mut state = self.state();
        state.counts.failed.extend(failed);
        state.counts.clone()
    }
}

impl Drop for Injection {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Does something again that ends in [`Token::Timeout`], as long as that may change.
fn again<T>(
    mut act: impl FnMut() -> Result<T, Refusal>,
    may_change: impl Fn() -> bool,
) -> Result<T, Refusal> {
    let mut result = act();
    for _ in 1..TRIES {
        match &result {
            Err(refusal) if refusal.token == Token::Timeout && may_change() => result = act(),
            _ => break,
        }
    }
    result
}

/// Does something with each process, several at once, until `is_over` or the time for all is over.
fn for_each(
    pids: &[u32],
    is_over: &(impl Fn() -> bool + Sync),
    act: impl Fn(u32) -> Result<(), Refusal> + Sync,
    late: impl Fn() -> Refusal + Sync,
) -> Vec<(u32, Refusal)> {
    let deadline = Instant::now() + PATIENCE;
    let (left, failed) = (Mutex::new(pids.iter()), Mutex::new(Vec::new()));
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next().copied();
    let work = || {
        while let Some(pid) = next() {
            if is_over() {
                break;
            }
            let result = if Instant::now() < deadline { act(pid) } else { Err(late()) };
            if let Err(refusal) = result {
                failed.lock().unwrap_or_else(PoisonError::into_inner).push((pid, refusal));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..pids.len().min(AT_ONCE) {
            scope.spawn(work);
        }
        work();
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped: u64 = self.skipped.values().sum();
        let Self { activated, already_on, deactivated, failed, .. } = self;
        write!(
            f,
            "activated {activated}, already on {already_on}, deactivated {deactivated}, skipped {skipped}"
        )?;
        for (index, (token, count)) in self.skipped.iter().enumerate() {
            write!(f, "{}{token} {count}", if index == 0 { " (" } else { ", " })?;
        }
        if !self.skipped.is_empty() {
            f.write_str(")")?;
        }
        write!(f, ", failed {}", failed.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of these results, one at each try, and how many tries that took.
    fn tried(results: &[Result<u8, Token>], may_change: bool) -> (Result<u8, Token>, usize) {
        let mut tries = 0;
        let act = || {
            tries += 1;
            results[tries - 1].map_err(|token| Refusal::new(token, "cause"))
        };
        let result = again(act, || may_change).map_err(|refusal| refusal.token);
        (result, tries)
    }

    #[test]
    fn only_what_took_too_long_is_tried_again() {
        let late = Err(Token::Timeout);
        assert_eq!(tried(&[Ok(1)], true), (Ok(1), 1));
        assert_eq!(tried(&[late, Ok(2)], true), (Ok(2), 2));
        assert_eq!(tried(&[late, late, late], true), (late, TRIES));
        assert_eq!(tried(&[late, Err(Token::Other)], true), (Err(Token::Other), 2));
        assert_eq!(tried(&[late], false), (late, 1));
        assert_eq!(tried(&[Err(Token::PtraceDenied)], true), (Err(Token::PtraceDenied), 1));
    }
}

//! A place where a thread of the interpreter may call its functions.

use std::time::{Duration, Instant};

use remote_call::{CallError, Calls, CodeFile, Stopped, Walked, waits};

use crate::api::Texts;
use crate::obstacle::{self, Obstacle};
use crate::refusal::{Refusal, Token};
use crate::target::Target;

/// For a process, in all. On a busy machine, at least as long as [`LEAST`] attempts take, but not longer than [`MOST`].
const PATIENCE: Duration = Duration::from_secs(2);
const LEAST: u64 = 100;
const MOST: Duration = Duration::from_secs(10);
/// For one call.
pub(crate) const CALL: Duration = Duration::from_secs(1);
/// For one thread to stop.
const STOP: Duration = Duration::from_millis(100);
/// For the interpreter to come to a pending call. It is asked again afterwards.
const PENDING: Duration = Duration::from_millis(200);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(1);
/// Waiting threads that are tried in one round.
const MAX_WAITING: usize = 8;
/// Threads of a process that are looked at.
const MAX_THREADS: usize = 4096;
const NOT_MAIN: &str = "its thread runs another interpreter than the main one";
const SCHED_YIELD: u64 = 24;
/// The argument of a pending call, with the lowest byte by turns. `sched_yield` has no argument, so nobody else gives one like this.
const COOKIE: u64 = 0x7065_7266_6167_0000;

/// A thread that has the interpreter's lock, in which its functions can be called.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) calls: Calls,
    pub(crate) texts: Texts,
    release: (u64, u64),
}

impl Held {
    /// Gives the lock back, puts everything back and lets the thread go on.
    pub(crate) fn finish(mut self) -> Result<(), CallError> {
        self.calls.clear_way_out();
        let released = self.calls.call(self.release.0, &[self.release.1], CALL);
        self.calls.finish()?;
        released.map(drop)
    }
}

/// Finds a thread, takes the lock in it, and acts. Each attempt has a thread of its own: the kernel lets all threads go that it traces when it
/// ends, also one that waited where it could not be stopped, and which would stand when it has waited.
pub(crate) fn with_held<T: Send>(
    target: &Target,
    texts: &Texts,
    act: impl FnOnce(Held) -> T + Send,
) -> Result<T, Refusal> {
    let begun = Instant::now();
    let mut act = Some(act);
    let mut last = None;
    for attempt in 0.. {
        target.check()?;
        let attempted = match obstacle::of_process(target.pid) {
            Some(Obstacle::Final(refusal)) => return Err(refusal),
            Some(Obstacle::Passing(why)) => {
                last = Some(why.to_owned());
                Ok(None)
            }
            None => on_own_thread(|| {
                let held = attempt_once(target, texts, attempt)?;
                Ok(held.and_then(|held| act.take().map(|act| act(held))))
            }),
        };
        match attempted {
            Ok(Some(done)) => return Ok(done),
            Ok(None) | Err(CallError::Ended) => {}
            Err(CallError::Unfit(why)) => last = Some(format!("no function can be called in it: {why}")),
            // A thread that does not stop waits in the kernel or for a processor, and others may not. An obstacle that an earlier
            // attempt found says more.
            Err(CallError::Late(what)) => {
                last.get_or_insert_with(|| format!("{what} in time"));
            }
            Err(error) => return Err(error.into()),
        }
        let elapsed = begun.elapsed();
        if elapsed >= MOST || elapsed >= PATIENCE && attempt >= LEAST {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    let last = last.unwrap_or_else(|| "no thread came to a place where functions may be called".to_owned());
    Err(Refusal::new(Token::Timeout, last))
}

fn on_own_thread<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    let joined = std::thread::scope(|scope| scope.spawn(act).join());
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn attempt_once(target: &Target, texts: &Texts, attempt: u64) -> Result<Option<Held>, CallError> {
    let mut threads = process::task::threads(target.pid).map_err(|_| CallError::Ended)?;
    threads.truncate(MAX_THREADS);
    let waits = |tid: &u32| {
        let wait = waits::of_thread(target.pid, *tid)?;
        (!wait.word.is_some_and(|word| target.is_own_lock(word))).then_some((wait.preference, *tid))
    };
    let mut waiting: Vec<(u8, u32)> = threads.iter().filter_map(waits).collect();
    waiting.sort_unstable();
    let mut late = None;
    for (_, tid) in waiting.iter().take(MAX_WAITING) {
        match in_waiting_thread(target, texts, *tid) {
            Ok(Some(held)) => return Ok(Some(held)),
            Ok(None) | Err(CallError::Ended) => {}
            Err(error @ (CallError::Late(_) | CallError::Unfit(_))) => late = Some(error),
            Err(error) => return Err(error),
        }
    }
    if !waiting.iter().any(|(_, tid)| *tid == target.pid)
        && let Some(held) = in_first_thread(target, texts, attempt)?
    {
        return Ok(Some(held));
    }
    late.map_or(Ok(None), Err)
}

/// A thread that waits outside of the interpreter and has given the lock away.
fn in_waiting_thread(target: &Target, texts: &Texts, tid: u32) -> Result<Option<Held>, CallError> {
    let stopped = Stopped::new(target.pid, tid, Instant::now() + STOP)?;
    let first = stopped.registers().rdi;
    let waits = stopped.system_call().is_some_and(|(number, second)| {
        waits::preference(number, second).is_some()
            && !waits::word(number, first).is_some_and(|word| target.is_own_lock(word))
    });
    if !waits {
        return Ok(None);
    }
    let walked = target.code.walk(stopped.registers());
    // Only now that it stands it cannot execute another program.
    if !is_plain(target, &walked) || target.is_at_lock(&walked.addresses) || target.check().is_err() {
        return Ok(None);
    }
    let mut calls = Calls::new(stopped, &target.code, &texts.bytes)?;
    let has_lock = calls.call(target.api.current_state, &[], CALL)? != 0;
    let state = calls.call(target.api.own_state, &[], CALL)?;
    let has_state = state != 0;
    if has_lock || !has_state {
        calls.finish()?;
        return Ok(None);
    }
    if !is_main(target, &mut calls, state)? {
        calls.finish()?;
        return Err(CallError::Unfit(NOT_MAIN));
    }
    take_lock(target, texts, calls, false).map(Some)
}

/// The first thread, at the end of a system call that the interpreter makes for us.
fn in_first_thread(target: &Target, texts: &Texts, attempt: u64) -> Result<Option<Held>, CallError> {
    if let Some(why) = obstacle::of_thread(target.pid, target.pid) {
        return Err(CallError::Unfit(why));
    }
    let stopped = Stopped::new(target.pid, target.pid, Instant::now() + STOP)?;
    let walked = target.code.walk(stopped.registers());
    if !is_plain(target, &walked) || !target.may_ask(&walked.addresses) || target.check().is_err() {
        return Ok(None);
    }
    let cookie = COOKIE | attempt & 0xffff;
    let mut calls = Calls::new(stopped, &target.code, &[])?;
    let state = calls.call(target.api.current_state, &[], CALL)?;
    if state != 0 && !is_main(target, &mut calls, state)? {
        calls.finish()?;
        return Err(CallError::Unfit(NOT_MAIN));
    }
    let refused =
        calls.call(target.api.add_pending_call, &[target.api.sched_yield, cookie], CALL)? as u32 != 0;
    let mut stopped = calls.put_back()?;
    if refused {
        return Ok(None);
    }
    match stopped.run_until_call(SCHED_YIELD, cookie, Instant::now() + PENDING) {
        Ok(()) => {}
        Err(CallError::Late(_)) => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut calls = Calls::new(stopped, &target.code, &texts.bytes)?;
    let state = calls.call(target.api.current_state, &[], CALL)?;
    if state == 0 {
        calls.finish()?;
        return Ok(None);
    }
    if !is_main(target, &mut calls, state)? {
        calls.finish()?;
        return Err(CallError::Unfit(NOT_MAIN));
    }
    take_lock(target, texts, calls, true).map(Some)
}

/// Whether a state of a thread belongs to the main interpreter.
fn is_main(target: &Target, calls: &mut Calls, state: u64) -> Result<bool, CallError> {
    let interpreter = calls.call(target.api.interpreter_of, &[state], CALL)?;
    Ok(interpreter == calls.call(target.api.main_interpreter, &[], CALL)?)
}

/// `had`: the thread has the lock already.
fn take_lock(target: &Target, texts: &Texts, mut calls: Calls, had: bool) -> Result<Held, CallError> {
    // What the function returns: 0 if the thread had the lock, else 1.
    let state = u64::from(!had);
    calls.set_way_out(target.api.release, state)?;
    let taken = calls.call(target.api.ensure, &[], CALL)?;
    let texts = texts.clone().at(calls.data());
    Ok(Held { calls, texts, release: (target.api.release, taken & 0xffff_ffff) })
}

/// Whether the stack of a thread is whole, and neither the dynamic loader nor a signal handler runs.
fn is_plain(target: &Target, walked: &Walked) -> bool {
    let in_loader = |address: &u64| target.code.file_at(*address).is_none_or(CodeFile::is_loader);
    walked.is_whole && !walked.in_handler && !walked.addresses.iter().any(in_loader)
}

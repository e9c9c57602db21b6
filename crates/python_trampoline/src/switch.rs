//! Switching on and off.

use std::time::{Duration, Instant};

use remote_call::{CallError, Calls};

use crate::api::{Api, Texts};
use crate::mark::Mark;
use crate::obstacle::{self, Obstacle};
use crate::place::{CALL, with_held};
use crate::refusal::{Refusal, Token};
use crate::target::Target;

/// Bytes of a mark that are read.
const MAX_MARK: usize = 128;
/// Bytes of the text of an error that are read.
const MAX_ERROR: usize = 256;
/// In an object, behind its count of references.
const TYPE_OF_OBJECT: u64 = 8;
/// How long an interpreter may take to be set up.
const SET_UP: Duration = Duration::from_secs(2);
/// Time between two looks at one that is being set up.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The outcome of switching on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// It was off.
    Activated,
    /// An agent that no longer lives had left it on; from now on it is ours.
    Adopted,
    /// It was on, and is left to whom has switched it on.
    AlreadyOn,
}

/// The outcome of switching off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Off {
    /// It was on by this mark.
    Deactivated,
    /// It is somebody else's, or off.
    NotOurs,
}

/// Switches the trampoline of a process on. `own`: left in the interpreter while it is on.
///
/// # Errors
/// Nothing was switched, or the outcome is not known ([`Token::Timeout`]); then [`switch_off`] settles it.
pub fn switch_on(pid: u32, own: &Mark) -> Result<On, Refusal> {
    let deadline = Instant::now() + SET_UP;
    loop {
        match switch_on_once(pid, own)? {
            Some(on) => return Ok(on),
            None if Instant::now() < deadline => std::thread::sleep(LOOK_AGAIN),
            None => return Err(Refusal::new(Token::Timeout, "its interpreter was not set up in time")),
        }
    }
}

/// None: the interpreter is still being set up. `-X perf` switches the trampoline on at the end of that, and would not know that it is on.
fn switch_on_once(pid: u32, own: &Mark) -> Result<Option<On>, Refusal> {
    with_interpreter(pid, own, |calls, api, texts| {
        // The streams are opened after that.
        if calls.call(api.get_object, &[texts.streams], CALL)? == 0 {
            return Ok(Ok(None));
        }
        let Some(is_active) = is_active(calls, api, texts)? else {
            return Ok(Err(no_trampoline(NO_FUNCTION)));
        };
        if is_active {
            return Ok(Ok(Some(match mark(calls, api, texts)? {
                Some(mark) if mark == *own => On::Activated,
                Some(mark) if !mark.may_live() && set_mark(calls, api, texts)? => On::Adopted,
                _ => On::AlreadyOn,
            })));
        }
        // First the mark: if we die in between, it is known who was it.
        if !set_mark(calls, api, texts)? {
            return Ok(Err(Refusal::new(Token::Other, "the interpreter refuses an attribute of `sys`")));
        }
        let backend = calls.call(api.text, &[texts.backend], CALL)?;
        let answer = match backend {
            0 => Answer::Missing,
            backend => call_of_sys(calls, api, texts.activate, Some(backend))?,
        };
        if backend != 0 {
            calls.call(api.drop, &[backend], CALL)?;
        }
        let cause = match answer {
            Answer::Done => return Ok(Ok(Some(On::Activated))),
            Answer::Missing => NO_FUNCTION.to_owned(),
            Answer::Failed(text) if SILENT.iter().any(|silent| text.contains(silent)) => USED_UP.to_owned(),
            Answer::Failed(text) => format!("the interpreter refuses it: {text}"),
        };
        // It may have stopped half-way.
        call_of_sys(calls, api, texts.deactivate, None)?;
        remove_mark(calls, api, texts)?;
        Ok(Err(no_trampoline(&cause)))
    })
}

/// Switches the trampoline of a process off if it has this mark.
///
/// # Errors
/// It may still be on.
pub fn switch_off(pid: u32, own: &Mark) -> Result<Off, Refusal> {
    with_interpreter(pid, own, |calls, api, texts| {
        if mark(calls, api, texts)? != Some(*own) {
            return Ok(Ok(Off::NotOurs));
        }
        if is_active(calls, api, texts)? == Some(true)
            && call_of_sys(calls, api, texts.deactivate, None)? != Answer::Done
        {
            return Ok(Err(Refusal::new(Token::Other, "the interpreter refuses to switch it off")));
        }
        remove_mark(calls, api, texts)?;
        Ok(Ok(Off::Deactivated))
    })
}

const NO_FUNCTION: &str = "its `sys` has no function of the interpreter for trampolines";
/// What interpreters say where a function fails and sets no error.
const SILENT: [&str; 2] = ["without setting an exception", "error return without exception"];
const USED_UP: &str = "the interpreter refuses it without a word, as 3.12 and 3.13 do when trampolines were switched on 254 times in \
    one process: start the process anew";

fn no_trampoline(cause: &str) -> Refusal {
    Refusal::new(Token::NoPerfTrampoline, cause)
}

fn with_interpreter<T>(
    pid: u32,
    own: &Mark,
    act: impl FnOnce(&mut Calls, &Api, &Texts) -> Result<Result<T, Refusal>, CallError> + Send,
) -> Result<T, Refusal>
where
    T: Send,
{
    if let Some(Obstacle::Final(refusal)) = obstacle::of_process(pid) {
        return Err(refusal);
    }
    let done = Target::find(pid).and_then(|target| act_held(&target, own, act));
    match (done, obstacle::of_process(pid)) {
        // The kernel denies access to a process that ends.
        (Err(denied), Some(Obstacle::Final(ended)))
            if denied.token == Token::PtraceDenied && ended.token == Token::Exited =>
        {
            Err(ended)
        }
        (done, _) => done,
    }
}

fn act_held<T>(
    target: &Target,
    own: &Mark,
    act: impl FnOnce(&mut Calls, &Api, &Texts) -> Result<Result<T, Refusal>, CallError> + Send,
) -> Result<T, Refusal>
where
    T: Send,
{
    with_held(target, &Texts::new(&own.to_string()), |mut held| {
        let outcome = act(&mut held.calls, &target.api, &held.texts);
        // The lock goes back whatever the outcome is.
        let finished = held.finish();
        let outcome = outcome??;
        finished?;
        Ok(outcome)
    })?
}

/// The address of the interpreter's own function with this name in `sys`. A program may have put another in its place, which is not called.
fn function_of_sys(calls: &mut Calls, api: &Api, name: u64) -> Result<Option<u64>, CallError> {
    let function = calls.call(api.get_object, &[name], CALL)?;
    if function == 0 {
        return Ok(None);
    }
    let kind = calls.read(function.wrapping_add(TYPE_OF_OBJECT), 8);
    Ok((kind == api.built_in.to_le_bytes()).then_some(function))
}

/// None: this cannot be asked.
fn is_active(calls: &mut Calls, api: &Api, texts: &Texts) -> Result<Option<bool>, CallError> {
    let Some(function) = function_of_sys(calls, api, texts.is_active)? else { return Ok(None) };
    let answer = calls.call(api.call, &[function], CALL)?;
    if answer == 0 {
        calls.call(api.clear_error, &[], CALL)?;
        return Ok(None);
    }
    let is_true = calls.call(api.is_true, &[answer], CALL)? as u32;
    calls.call(api.drop, &[answer], CALL)?;
    Ok(Some(is_true == 1))
}

/// What a function of `sys` has done.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Done,
    /// There is none.
    Missing,
    /// The text of its error.
    Failed(String),
}

/// Calls a function of `sys`.
fn call_of_sys(calls: &mut Calls, api: &Api, name: u64, argument: Option<u64>) -> Result<Answer, CallError> {
    let Some(function) = function_of_sys(calls, api, name)? else { return Ok(Answer::Missing) };
    let answer = match argument {
        Some(argument) => calls.call(api.call_with, &[function, argument], CALL)?,
        None => calls.call(api.call, &[function], CALL)?,
    };
    if answer == 0 {
        return Ok(Answer::Failed(error_text(calls, api)?));
    }
    calls.call(api.drop, &[answer], CALL)?;
    Ok(Answer::Done)
}

/// Takes the error that a function of the interpreter has set: errors of such functions have no code in Python.
fn error_text(calls: &mut Calls, api: &Api) -> Result<String, CallError> {
    let error = calls.call(api.take_error, &[], CALL)?;
    if error == 0 {
        return Ok(SILENT[0].to_owned());
    }
    let text = calls.call(api.text_of, &[error], CALL)?;
    let bytes = if text == 0 { 0 } else { calls.call(api.utf8, &[text], CALL)? };
    let read = if bytes == 0 { Vec::new() } else { calls.read(bytes, MAX_ERROR) };
    if text != 0 {
        calls.call(api.drop, &[text], CALL)?;
    }
    calls.call(api.drop, &[error], CALL)?;
    calls.call(api.clear_error, &[], CALL)?;
    let end = read.iter().position(|byte| *byte == 0).unwrap_or(read.len());
    let printable = String::from_utf8_lossy(&read[..end]).chars().filter(|c| !c.is_control()).collect();
    Ok(printable)
}

fn mark(calls: &mut Calls, api: &Api, texts: &Texts) -> Result<Option<Mark>, CallError> {
    let text = calls.call(api.get_object, &[texts.mark_name], CALL)?;
    if text == 0 {
        return Ok(None);
    }
    let bytes = calls.call(api.utf8, &[text], CALL)?;
    if bytes == 0 {
        calls.call(api.clear_error, &[], CALL)?;
        return Ok(None);
    }
    let read = calls.read(bytes, MAX_MARK);
    let end = read.iter().position(|byte| *byte == 0).unwrap_or(0);
    Ok(Mark::parse(&read[..end]))
}

fn set_mark(calls: &mut Calls, api: &Api, texts: &Texts) -> Result<bool, CallError> {
    let text = calls.call(api.text, &[texts.mark], CALL)?;
    if text == 0 {
        calls.call(api.clear_error, &[], CALL)?;
        return Ok(false);
    }
    let failed = calls.call(api.set_object, &[texts.mark_name, text], CALL)? as u32 != 0;
    calls.call(api.drop, &[text], CALL)?;
    if failed {
        calls.call(api.clear_error, &[], CALL)?;
    }
    Ok(!failed)
}

fn remove_mark(calls: &mut Calls, api: &Api, texts: &Texts) -> Result<(), CallError> {
    if calls.call(api.set_object, &[texts.mark_name, 0], CALL)? as u32 != 0 {
        calls.call(api.clear_error, &[], CALL)?;
    }
    Ok(())
}

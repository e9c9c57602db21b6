//! Switching on and off.

use remote_call::{CallError, Calls};

use crate::api::{Api, Texts};
use crate::mark::Mark;
use crate::place::{CALL, hold};
use crate::refusal::{Refusal, Token};
use crate::target::Target;

/// Bytes of a mark that are read.
const MAX_MARK: usize = 128;

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
    with_interpreter(pid, own, |calls, api, texts| {
        let Some(is_active) = is_active(calls, api, texts)? else {
            return Ok(Err(no_trampoline(NO_FUNCTION)));
        };
        if is_active {
            return Ok(Ok(match mark(calls, api, texts)? {
                Some(mark) if mark == *own => On::Activated,
                Some(mark) if !mark.may_live() && set_mark(calls, api, texts)? => On::Adopted,
                _ => On::AlreadyOn,
            }));
        }
        // First the mark: if we die in between, it is known who was it.
        if !set_mark(calls, api, texts)? {
            return Ok(Err(Refusal::new(Token::Other, "the interpreter refuses an attribute of `sys`")));
        }
        let backend = calls.call(api.text, &[texts.backend], CALL)?;
        let activated = backend != 0 && call_of_sys(calls, api, texts.activate, Some(backend))?;
        if backend != 0 {
            calls.call(api.drop, &[backend], CALL)?;
        }
        if activated {
            return Ok(Ok(On::Activated));
        }
        // It may have stopped half-way.
        call_of_sys(calls, api, texts.deactivate, None)?;
        remove_mark(calls, api, texts)?;
        Ok(Err(no_trampoline(
            "the interpreter refuses it: it was built without, has another evaluator, or was asked too often",
        )))
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
        if is_active(calls, api, texts)? == Some(true) && !call_of_sys(calls, api, texts.deactivate, None)? {
            return Ok(Err(Refusal::new(Token::Other, "the interpreter refuses to switch it off")));
        }
        remove_mark(calls, api, texts)?;
        Ok(Ok(Off::Deactivated))
    })
}

const NO_FUNCTION: &str = "its `sys` has no function for trampolines";

fn no_trampoline(cause: &str) -> Refusal {
    Refusal::new(Token::NoPerfTrampoline, cause)
}

fn with_interpreter<T>(
    pid: u32,
    own: &Mark,
    act: impl FnOnce(&mut Calls, &Api, &Texts) -> Result<Result<T, Refusal>, CallError>,
) -> Result<T, Refusal> {
    let target = Target::find(pid)?;
    let mut held = hold(&target, &Texts::new(&own.to_string()))?;
    let outcome = act(&mut held.calls, &target.api, &held.texts);
    // The lock goes back whatever the outcome is.
    let finished = held.finish();
    let outcome = outcome??;
    finished?;
    Ok(outcome)
}

/// None: this cannot be asked.
fn is_active(calls: &mut Calls, api: &Api, texts: &Texts) -> Result<Option<bool>, CallError> {
    let function = calls.call(api.get_object, &[texts.is_active], CALL)?;
    if function == 0 {
        return Ok(None);
    }
    let answer = calls.call(api.call, &[function], CALL)?;
    if answer == 0 {
        calls.call(api.clear_error, &[], CALL)?;
        return Ok(None);
    }
    let is_true = calls.call(api.is_true, &[answer], CALL)? as u32;
    calls.call(api.drop, &[answer], CALL)?;
    Ok(Some(is_true == 1))
}

/// Calls a function of `sys`. Whether it exists and succeeds.
fn call_of_sys(calls: &mut Calls, api: &Api, name: u64, argument: Option<u64>) -> Result<bool, CallError> {
    let function = calls.call(api.get_object, &[name], CALL)?;
    if function == 0 {
        return Ok(false);
    }
    let answer = match argument {
        Some(argument) => calls.call(api.call_with, &[function, argument], CALL)?,
        None => calls.call(api.call, &[function], CALL)?,
    };
    match answer {
        0 => calls.call(api.clear_error, &[], CALL)?,
        answer => calls.call(api.drop, &[answer], CALL)?,
    };
    Ok(answer != 0)
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

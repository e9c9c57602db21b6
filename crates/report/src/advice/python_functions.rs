//! Stacks that run Python and do not show its functions.

use recording::{Frame, FrameId, Names, PythonCounter, Recording};

use super::piece::{Advice, AdviceKind};
use crate::figures::{add, sum};
use crate::ledger::Ledger;
use crate::selection;

/// A share up to this, in percent, is not told: calls that are just beginning or ending have no function.
const MIN_PCT: f64 = 10.0;

/// The function of the interpreter that runs functions in Python.
const EVALUATOR: &str = "_PyEval_EvalFrameDefault";

/// The advice about functions in Python that a profile lacks.
pub(super) fn of(recording: &Recording, names: &Names, ledger: &Ledger) -> Option<Advice> {
    let remedy = remedy(ledger)?;
    let is_python = |frame: &FrameId| matches!(recording.frame(*frame), Some(Frame::Interpreted { .. }));
    let is_evaluator = |frame: &FrameId| names.of(*frame).any(|line| line.name.starts_with(EVALUATOR));
    let (mut all, mut without) = (0, 0);
    for entry in selection::shown_in(recording, ledger.mode) {
        let (_, user) = entry.at.stack.split();
        add(&mut all, entry.count);
        if user.iter().any(is_evaluator) && !user.iter().any(is_python) {
            add(&mut without, entry.count);
        }
    }
    let share_pct = 100.0 * without as f64 / all.max(1) as f64;
    let message = format!("{share_pct:.0} % of the stacks run Python and do not show its functions");
    (share_pct > MIN_PCT).then_some(Advice { kind: AdviceKind::PythonFunctions, share_pct, message, remedy })
}

/// What to do about it. `None`: functions in Python were not asked for, or nothing is known.
fn remedy(ledger: &Ledger) -> Option<Option<String>> {
    let failed = |end: PythonCounter| ledger.python_walks[end as usize];
    let cut =
        sum([PythonCounter::NoState, PythonCounter::OtherThread, PythonCounter::Fault, PythonCounter::Open]
            .map(failed));
    if ledger.python_unsupported > 0 {
        let remedy = "run CPython 3.8 to 3.15; from 3.12 on `python3 -X perf` names functions in any build";
        Some(Some(remedy.to_owned()))
    } else if cut > 0 || ledger.python_merge_failed > 0 {
        Some(Some(
            "`--verbose` tells the cause as `python.…`; from 3.12 on `python3 -X perf` names functions"
                .to_owned(),
        ))
    } else {
        None
    }
}

//! Code that a runtime made and did not name.

use std::collections::BTreeMap;

use recording::{ExecInstanceId, Frame, Mode, Names, Recording};

use super::piece::{Advice, AdviceKind};
use super::runtime::Runtime;
use crate::figures::{add, sum};
use crate::selection;

/// A share up to this, in percent, is not told.
const MIN_PCT: f64 = 1.0;

/// The advice about code without names in the profile of a mode.
pub(super) fn of(recording: &Recording, names: &Names, mode: Mode) -> Option<Advice> {
    let mut all = 0;
    let mut nameless: BTreeMap<(Runtime, ExecInstanceId), u64> = BTreeMap::new();
    for entry in selection::shown_in(recording, mode) {
        add(&mut all, entry.count);
        let (_, user) = entry.at.stack.split();
        let program =
            user.iter().filter(|frame| !names.has(**frame)).find_map(|frame| match recording.frame(*frame) {
                Some(Frame::Jit { program, .. }) => Some(*program),
                _ => None,
            });
        if let Some(program) = program {
            let runtime = Runtime::of_stack(recording, &entry.at);
            add(nameless.entry((runtime, program)).or_default(), entry.count);
        }
    }
    let share_pct = 100.0 * sum(nameless.values().copied()) as f64 / all.max(1) as f64;
    if share_pct <= MIN_PCT {
        return None;
    }
    let ((runtime, program), _) = nameless.into_iter().max_by_key(|(_, count)| *count)?;
    let pid = recording.exec_instance(program).map(|program| program.pid);
    let message = format!(
        "{share_pct:.0} % of the stacks go through code without names that {} made at run time",
        runtime.name(pid)
    );
    Some(Advice { kind: AdviceKind::NamelessCode, share_pct, message, remedy: runtime.naming(pid) })
}

//! Stacks that do not reach their outermost frame.

use std::collections::BTreeMap;

use recording::{Frame, Mode, Names, Recording, TargetKind, WalkEnd};

use super::piece::{Advice, AdviceKind, let_read};
use super::runtime::Runtime;
use crate::figures::{add, sum};
use crate::ledger::Ledger;
use crate::selection::{self, Entry, StackRef};
use crate::wall_time::OnCpuTime;

/// A share below this, in percent, is not told.
const MIN_PCT: f64 = 1.0;

/// Where stacks are cut.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// In code that a runtime made.
    Code(Runtime),
    /// In a file.
    File(String),
    /// In code of GHC.
    Haskell(String),
    /// In a file that could not be opened.
    UnreadFile(String),
    /// In no file.
    Nowhere,
}

/// The advice about the stacks of a profile that are cut.
pub(super) fn of(recording: &Recording, names: &Names, ledger: &Ledger) -> Option<Advice> {
    let walks = sum(*ledger.weighted_walks());
    let cut = walks.saturating_sub(ledger.weighted_walks()[0]);
    let share_pct = 100.0 * cut as f64 / walks.max(1) as f64;
    if share_pct <= MIN_PCT {
        return None;
    }
    let mut places: BTreeMap<(WalkEnd, Place), u64> = BTreeMap::new();
    // Stacks through code of a runtime that are whole.
    let mut whole: BTreeMap<Runtime, u64> = BTreeMap::new();
    let times = (ledger.mode == Mode::Wall).then(|| OnCpuTime::of(recording));
    let weight = |entry: &Entry<'_>| match (ledger.mode, &times) {
        (Mode::OffCpu, _) => entry.time_ns,
        (_, Some(times)) => times.of_entry(entry).map_or(0, |time| sum([time.time_ns, time.runnable_ns])),
        _ => entry.count,
    };
    let shown = selection::shown_in(recording, ledger.mode);
    for entry in shown {
        let end = entry.at.stack.end;
        if end != WalkEnd::Root && !end.is_no_walk() && entry.at.stack.missing.is_none() {
            add(places.entry((end, place(recording, names, &entry.at))).or_default(), weight(&entry));
        } else if end == WalkEnd::Root && goes_through_code(recording, &entry.at) {
            add(whole.entry(Runtime::of_stack(recording, &entry.at)).or_default(), weight(&entry));
        }
    }
    let ((end, place), count) = places.into_iter().max_by_key(|(_, count)| *count)?;
    if let Some((cause, remedy)) = unsent(recording, ledger, end, count) {
        let message = format!(
            "{}: {share_pct:.0} % of the stacks are cut, most because they came before their unwind tables and {cause}",
            ledger.subject()
        );
        let remedy = Some(remedy.to_owned());
        return Some(Advice { kind: AdviceKind::CutStacks, share_pct, message, remedy });
    }
    let what = match &place {
        Place::Code(runtime) => format!(" in code that {} made at run time", runtime.name(None)),
        Place::File(path) | Place::Haskell(path) | Place::UnreadFile(path) => format!(" in {path}"),
        Place::Nowhere => String::new(),
    };
    let message =
        format!("{}: {share_pct:.0} % of the stacks are cut, most{what} ({})", ledger.subject(), cause(end));
    // A runtime whose stacks are whole elsewhere keeps frame pointers already.
    let keeps_pointers =
        matches!(&place, Place::Code(runtime) if whole.get(runtime).is_some_and(|whole| *whole >= count));
    let remedy = remedy(recording, end, &place).filter(|_| !keeps_pointers);
    Some(Advice { kind: AdviceKind::CutStacks, share_pct, message, remedy })
}

/// The cause and the remedy if most of `count` stacks with this end did not reach user space, which could have walked them.
fn unsent(
    recording: &Recording,
    ledger: &Ledger,
    end: WalkEnd,
    count: u64,
) -> Option<(&'static str, &'static str)> {
    let beyond_limits = ledger.unsent_of_process.saturating_add(ledger.unsent_of_machine);
    let all = beyond_limits.saturating_add(ledger.unsent_ring_full);
    if !is_walked_later(end) || all.saturating_mul(2) <= count {
        return None;
    }
    Some(match recording.settings.targets {
        _ if ledger.unsent_ring_full >= beyond_limits => ("did not fit into the ring", "raise --ring-size"),
        TargetKind::Command => (
            "were more than are kept until then",
            "profile the program once it runs, and wait for its tables: --pid PID --unwind dwarf",
        ),
        _ => ("were more than are kept until then", "wait for all tables: --unwind dwarf"),
    })
}

/// Whether the programs send a stack with this end to user space, which can walk it further.
fn is_walked_later(end: WalkEnd) -> bool {
    matches!(end, WalkEnd::NoMapping | WalkEnd::TableNotReady | WalkEnd::UnsupportedRule)
}

/// Whether a stack goes through code that was made at run time.
fn goes_through_code(recording: &Recording, at: &StackRef<'_>) -> bool {
    let (_, user) = at.stack.split();
    user.iter().any(|frame| matches!(recording.frame(*frame), Some(Frame::Jit { .. })))
}

/// Whether a function is one of GHC's code, whose frames are on a stack of its own.
fn is_of_ghc(name: &str) -> bool {
    name.starts_with("stg_") || name.ends_with("_info") && !name.contains([':', '('])
}

/// Where the outermost frame of a stack is that was found.
fn place(recording: &Recording, names: &Names, at: &StackRef<'_>) -> Place {
    let (_, user) = at.stack.split();
    let name = user.last().and_then(|frame| names.of(*frame).next()).map_or("", |line| line.name);
    match user.last().and_then(|frame| recording.frame(*frame)) {
        Some(Frame::Jit { .. }) => Place::Code(Runtime::of_stack(recording, at)),
        Some(Frame::Native { mapping, .. }) => {
            recording.mapping(*mapping).map_or(Place::Nowhere, |(_, module)| match module.is_unread() {
                true => Place::UnreadFile(module.path.clone()),
                false if is_of_ghc(name) => Place::Haskell(module.path.clone()),
                false => Place::File(module.path.clone()),
            })
        }
        _ => Place::Nowhere,
    }
}

fn cause(end: WalkEnd) -> &'static str {
    match end {
        WalkEnd::NoMapping => "unknown mapping",
        WalkEnd::NoRow => "no unwind information",
        WalkEnd::UnsupportedRule => "unsupported unwind rule",
        WalkEnd::FpChain => "broken frame pointers",
        WalkEnd::Fault => "unreadable stack",
        WalkEnd::FrameLimit => "more frames than are kept",
        WalkEnd::TableNotReady => "unwind table not ready",
        WalkEnd::NoRegisters => "no user registers",
        WalkEnd::StackSwitch => "the other side of a switch of stacks was not found",
        WalkEnd::Code32Bit => "32-bit code",
        WalkEnd::ZeroFrame => "frame pointer is zero",
        WalkEnd::Root | WalkEnd::NoUserStack | WalkEnd::Exiting => "no user stack",
    }
}

fn remedy(recording: &Recording, end: WalkEnd, place: &Place) -> Option<String> {
    let is_walked_by_pointers =
        matches!(end, WalkEnd::NoMapping | WalkEnd::NoRow | WalkEnd::FpChain | WalkEnd::ZeroFrame);
    if is_walked_by_pointers && recording.settings.unwind == "fp" {
        return Some("walk with unwind information: --unwind auto".to_owned());
    }
    match (end, place) {
        (WalkEnd::TableNotReady, _) => {
            Some("capture for longer, or wait for all tables: --unwind dwarf".to_owned())
        }
        (WalkEnd::Code32Bit, _) => {
            Some("32-bit programs cannot be walked: profile a 64-bit build".to_owned())
        }
        (_, Place::UnreadFile(path)) => Some(let_read(path)),
        (_, Place::File(path)) if switches_greenlets(path) => {
            Some("that is where a greenlet begins, and its functions are all shown".to_owned())
        }
        (_, Place::Code(runtime)) if is_walked_by_pointers => runtime.frame_pointers(),
        (_, Place::File(path)) if is_walked_by_pointers && !is_of_runtime(path) => {
            Some(format!("build {path} with -fasynchronous-unwind-tables or -fno-omit-frame-pointer"))
        }
        (_, Place::File(path)) if is_walked_by_pointers && path.contains("libjvm.so") => {
            Runtime::Java.frame_pointers()
        }
        _ => None,
    }
}

/// Whether a file is greenlet's module, with which gevent and others switch stacks. What is outside of the first frame of a greenlet is the stack
/// of another one, or was.
fn switches_greenlets(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.starts_with("_greenlet.") || name.starts_with("greenlet.")
}

/// Whether a file belongs to a runtime: stacks are cut there because of the code that the runtime made.
fn is_of_runtime(path: &str) -> bool {
    ["libjvm.so", "libcoreclr.so", "libnode.so"].iter().any(|runtime| path.contains(runtime))
}

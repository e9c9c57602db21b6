//! The rows of a report: waits for the same lock, or in the same place, added up.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use profile::LabelValue;
use recording::{FileIdentity, Recording, State, SymbolizedRecording, TaskStackId, WalkEnd};

use super::class::{LockClass, is_glue, is_outermost, of_kernel_lock, of_lock};
use super::frames::{chain, functions, kernel_functions};
use super::lengths::Lengths;
use super::model::{HeldBy, LockReport, LockRow, StackShare};
use super::names::LockNames;
use crate::figures::add;
use crate::selection::{self, LockWaits, StackRef};
use crate::stack_lines::{OUTSIDE_OF_NAMESPACE, StackLines, outermost};

/// What rows are kept apart by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RowKey {
    /// A held lock in memory that processes share: the file behind it, and the offset there.
    Shared(FileIdentity, u64),
    /// A held lock that is a variable: process name, file and variable.
    Variable(String, String, String),
    /// Another held lock: process name, number of the process and address. A lock of the kernel belongs to no process.
    Address(String, Option<u32>, u64),
    /// A place: class, process name, and its functions.
    Place(LockClass, String, Vec<String>),
}

/// Functions that tell places apart.
const PLACE: usize = 3;

/// A row while waits are added.
#[derive(Default)]
struct Row {
    /// Waits by class: the class of most is that of the row.
    classes: BTreeMap<LockClass, u64>,
    name: String,
    process: String,
    pids: BTreeMap<u32, ()>,
    file: Option<String>,
    /// The process of each, unless it belongs to none alone.
    locks: BTreeMap<(Option<u32>, u64), ()>,
    waits: u64,
    time_ns: u64,
    longest_ns: u64,
    released: u64,
    lengths: Lengths,
    waiters: BTreeMap<Vec<String>, (u64, u64)>,
    owners: BTreeMap<HeldBy, u64>,
    wakers: BTreeMap<(Option<String>, Vec<String>), (u64, u64)>,
}

/// The report of a recording with locks.
pub(super) fn report(symbolized: &SymbolizedRecording) -> LockReport {
    let recording = &symbolized.recording;
    let lines = StackLines::new(recording, &symbolized.names);
    let mut makes = Rows { symbolized, names: LockNames::new(symbolized), lines, stacks: HashMap::new() };
    let mut rows: BTreeMap<RowKey, Row> = BTreeMap::new();
    let mut of_lock: HashMap<(TaskStackId, u64), RowKey> = HashMap::new();
    for waits in selection::lock_waits(recording) {
        let key = makes.key(&waits);
        let address = waits.lock.map_or(0, |lock| lock.address);
        of_lock.entry((waits.entry.stack_id, address)).or_insert_with(|| key.clone());
        makes.add(rows.entry(key).or_default(), &waits);
    }
    for (stack, lock, bucket, waits) in selection::lock_lengths(recording) {
        let key = of_lock.get(&(stack, lock.map_or(0, |lock| lock.address)));
        if let Some(row) = key.and_then(|key| rows.get_mut(key)) {
            row.lengths.add(bucket, waits);
        }
    }
    let mut rows: Vec<LockRow> = rows.into_values().map(Row::finish).collect();
    rows.sort_by(|one, other| {
        let key = |row: &LockRow| (Reverse(row.time_ns), Reverse(row.waits));
        key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name))
    });
    let (held, others) = rows.into_iter().partition(|row| row.class.is_held());
    let accounting = &recording.accounting;
    LockReport {
        target: recording.origin.target.clone(),
        duration: Duration::from_nanos(recording.span.duration_ns),
        held,
        others,
        lost: accounting.scheduler.locks_lost.saturating_add(accounting.locks_not_kept),
    }
}

struct Rows<'a> {
    symbolized: &'a SymbolizedRecording,
    names: LockNames<'a>,
    lines: StackLines<'a>,
    /// Functions of stacks, those of the lock itself left out.
    stacks: HashMap<*const recording::Stack, Vec<String>>,
}

impl<'a> Rows<'a> {
    fn key(&mut self, waits: &LockWaits<'a>) -> RowKey {
        let class = self.names.class_of(waits);
        let process = process_of(&self.symbolized.recording, &waits.entry.at);
        if class.is_told_by_place() {
            let mut place = self.functions(&waits.entry.at);
            place.truncate(PLACE);
            return RowKey::Place(class, process, place);
        }
        if let Some((identity, offset)) = self.names.shared(waits) {
            return RowKey::Shared(identity, offset);
        }
        match (self.names.variable(waits), waits.lock) {
            // It consists of several, which are one for a program in Python.
            (Some(variable), _) if class == LockClass::Interpreter => {
                let whole = variable.split('+').next().unwrap_or_default().to_owned();
                RowKey::Variable(process, class.name().to_owned(), whole)
            }
            (Some(variable), _) => {
                RowKey::Variable(process, self.names.file(waits).unwrap_or_default().to_owned(), variable)
            }
            (None, lock) => {
                let pid = waits.entry.at.task.pid.filter(|_| !class.is_of_kernel());
                RowKey::Address(process, pid, lock.map_or(0, |lock| lock.address))
            }
        }
    }

    fn add(&mut self, row: &mut Row, waits: &LockWaits<'a>) {
        let entry = &waits.entry;
        let class = self.names.class_of(waits);
        add(row.classes.entry(class).or_default(), entry.count.max(1));
        let waiter =
            if class.is_of_kernel() { self.with_kernel(&entry.at) } else { self.functions(&entry.at) };
        if row.name.is_empty() {
            row.process = process_of(&self.symbolized.recording, &entry.at);
            row.name = if class.is_told_by_place() { chain(&waiter, PLACE) } else { self.names.of(waits) };
            row.file = self.names.file(waits).map(str::to_owned);
        }
        row.pids.extend(entry.at.task.pid.map(|pid| (pid, ())));
        let own = (entry.at.task.pid, waits.lock.map_or(0, |lock| lock.address));
        let lock = match self.names.shared(waits) {
            Some((_, offset)) => (None, offset),
            None if class.is_of_kernel() => (None, own.1),
            None => own,
        };
        row.locks.extend(waits.lock.map(|_| (lock, ())));
        add(&mut row.waits, entry.count);
        add(&mut row.time_ns, entry.time_ns);
        row.longest_ns = row.longest_ns.max(waits.longest_ns);
        add(&mut row.released, if self.lines.is_let_go(waits) { entry.count } else { 0 });
        let of_waiter = row.waiters.entry(waiter).or_default();
        add(&mut of_waiter.0, entry.count);
        add(&mut of_waiter.1, entry.time_ns);
        // Of a wait that goes on, nothing is known yet of its end; its owner may be the reason that it does.
        let known = waits.owner.map_or(HeldBy::Unknown, |owner| self.held_by(&owner));
        if entry.count > 0 || known != HeldBy::Unknown {
            add(row.owners.entry(known).or_default(), entry.count.max(1));
        }
        if let Some(waker) = waits.waker {
            let of_waker = row.wakers.entry(self.waker(&waker)).or_default();
            add(&mut of_waker.0, entry.count);
            add(&mut of_waker.1, entry.time_ns);
        }
    }

    fn held_by(&mut self, owner: &StackRef<'a>) -> HeldBy {
        match owner.state {
            State::OnCpu => HeldBy::Running,
            State::Preempted | State::NotRunYet => HeldBy::Runnable,
            _ => HeldBy::Waiting(self.functions(owner)),
        }
    }

    fn waker(&mut self, waker: &StackRef<'a>) -> (Option<String>, Vec<String>) {
        let thread = waker.task.thread.as_ref();
        if thread.is_none_or(|thread| thread.tid == 0) && waker.stack.end == WalkEnd::NoRegisters {
            return (None, vec![OUTSIDE_OF_NAMESPACE.to_owned()]);
        }
        if self.lines.is_interrupt(waker) {
            return (None, vec![INTERRUPT.to_owned()]);
        }
        (thread.map(|thread| thread.name.clone()), self.functions(waker))
    }

    /// The functions of a stack that begins where the kernel waits for a lock, those of the lock itself left out.
    fn with_kernel(&mut self, at: &StackRef<'a>) -> Vec<String> {
        let SymbolizedRecording { recording, names, .. } = self.symbolized;
        let mut all = kernel_functions(recording, names, at.stack);
        all.drain(..of_kernel_lock(&all));
        all.extend(self.functions(at));
        all
    }

    /// The functions of a stack, those of the lock itself and those that begin a thread left out; all if there are no others.
    fn functions(&mut self, at: &StackRef<'a>) -> Vec<String> {
        let SymbolizedRecording { recording, names, .. } = self.symbolized;
        let made = self.stacks.entry(std::ptr::from_ref(at.stack)).or_insert_with(|| {
            let mut all = functions(recording, names, at.stack);
            let of_lock = of_lock(&all);
            let of_begin = all.iter().rev().take_while(|name| is_outermost(name)).count();
            if of_lock + of_begin < all.len() {
                all.truncate(all.len() - of_begin);
                all.drain(..of_lock);
            }
            if all.iter().any(|name| !is_glue(name)) {
                all.retain(|name| !is_glue(name));
            }
            // Why a stack is not complete, or not there.
            all.extend(outermost(at.stack).map(str::to_owned));
            all
        });
        made.clone()
    }
}

/// What ends waits besides threads: time limits and signals.
const INTERRUPT: &str = "[interrupt: a time limit was over]";

fn process_of(recording: &Recording, at: &StackRef<'_>) -> String {
    let comm = recording.labels(at.task.labels).iter().find(|label| label.key == "comm");
    match comm.map(|label| &label.value) {
        Some(LabelValue::Str(comm)) => comm.clone(),
        _ => String::new(),
    }
}

impl Row {
    fn finish(self) -> LockRow {
        let class =
            self.classes.iter().max_by_key(|(_, waits)| **waits).map_or(LockClass::Other, |(of, _)| *of);
        let mut waiters: Vec<_> =
            self.waiters.into_iter().map(|(functions, sums)| share(None, functions, sums)).collect();
        waiters.sort_by_key(|share| Reverse((share.time_ns, share.waits)));
        let mut wakers: Vec<_> = self
            .wakers
            .into_iter()
            .map(|((thread, functions), sums)| share(thread, functions, sums))
            .collect();
        wakers.sort_by_key(|share| Reverse((share.waits, share.time_ns)));
        let mut owners: Vec<_> = self.owners.into_iter().collect();
        owners.sort_by_key(|(_, waits)| Reverse(*waits));
        LockRow {
            class,
            name: self.name,
            process: self.process,
            pid: if self.pids.len() == 1 { self.pids.keys().next().copied() } else { None },
            processes: self.pids.len(),
            file: self.file,
            address: self.locks.keys().map(|(_, address)| *address).min().unwrap_or(0),
            locks: self.locks.len(),
            waits: self.waits,
            time_ns: self.time_ns,
            longest_ns: self.longest_ns,
            p99_ns: self.lengths.p99_ns(self.longest_ns),
            released: self.released,
            waiters,
            owners,
            wakers,
        }
    }
}

fn share(thread: Option<String>, functions: Vec<String>, (waits, time_ns): (u64, u64)) -> StackShare {
    StackShare { functions, thread, waits, time_ns }
}

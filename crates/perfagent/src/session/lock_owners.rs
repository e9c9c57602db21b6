//! Who holds the locks for which threads slept when the capture began. The programs saw neither the begin of these waits nor the memory of
//! these threads, so the kernel is asked for the call that each is in, and the process for the word that names the owner. Threads that
//! wait for each other forever are told by nothing else.
//!
//! Only owners that sleep too are told: the others may have let go since. What is no mutex hardly looks like one that a thread of the
//! same process holds.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use kernel::{StackMessage, State};

use crate::processes::Processes;

/// Threads that are asked about; it takes some microseconds for each.
const MOST: usize = 4096;
/// Of a mutex of glibc, up to its kind; see `struct glibc_mutex` in `bpf/lock_waits.h`, which has the same rules.
const MUTEX_BYTES: usize = 20;
/// Of a read-write lock of glibc, from either of the words that threads wait for up to its end; see `struct glibc_rwlock_end` there.
const RWLOCK_BYTES: usize = 24;
const RWLOCK_CONTENDED: u32 = 3;
const MUTEX_CONTENDED: u32 = 2;
const MUTEX_KINDS: u32 = 0x3ff;
const MUTEX_MAX_USERS: u32 = 1 << 22;
const MUSL_BUSY: u32 = 16;

const FUTEX_CALL: u64 = if cfg!(target_arch = "aarch64") { 98 } else { 202 };
const FUTEX_COMMAND: u64 = 0x7f;
const FUTEX_WAITS: [u64; 2] = [0, 9];
const FUTEX_LOCKS_PI: [u64; 2] = [6, 13];
const FUTEX_WAITERS: u32 = 0x8000_0000;
const FUTEX_TID: u32 = 0x3fff_ffff;

/// A wait for a lock that may tell its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    address: u64,
    /// What the word was.
    value: u32,
    is_pi: bool,
}

impl Wait {
    /// How much of the lock tells its owner.
    fn bytes(self) -> usize {
        if self.value == RWLOCK_CONTENDED { RWLOCK_BYTES } else { MUTEX_BYTES }
    }
}

/// The key of the stack of the owner for each key of the stack of a waiter.
pub(super) fn of_sleepers(stacks: &[StackMessage], processes: &Processes) -> HashMap<u64, u64> {
    let mut by_process: BTreeMap<u32, Vec<(&StackMessage, Wait)>> = BTreeMap::new();
    for stack in stacks.iter().filter(|stack| stack.state == State::Blocked).take(MOST) {
        if let Some(wait) = wait_of(stack.pid, stack.tid) {
            by_process.entry(stack.pid).or_default().push((stack, wait));
        }
    }
    let mut owners = HashMap::new();
    for (pid, waits) in by_process {
        let parts = waits.iter().map(|(_, wait)| (wait.address, wait.bytes())).collect();
        let Some(memory) = processes.read_memory(pid, parts) else { continue };
        let asleep = own_numbers(pid, stacks);
        for ((waiter, wait), bytes) in waits.iter().zip(memory) {
            let owner = owner_number(*wait, &bytes).and_then(|number| asleep.get(&number));
            owners.extend(owner.map(|owner| (waiter.hash, *owner)));
        }
    }
    owners
}

/// The wait that a thread is in.
fn wait_of(pid: u32, tid: u32) -> Option<Wait> {
    parse(&fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?)
}

/// Reads the number and the arguments of a call, as `202 0x7f… 0x80 0x2 …`.
fn parse(call: &str) -> Option<Wait> {
    let mut words = call.split_ascii_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (address, operation, value) = (argument()?, argument()?, argument()?);
    let command = operation & FUTEX_COMMAND;
    let is_pi = FUTEX_LOCKS_PI.contains(&command);
    let waits = number == FUTEX_CALL && (is_pi || FUTEX_WAITS.contains(&command));
    waits.then_some(Wait { address, value: value as u32, is_pi })
}

/// The number of the owner, as the program knows it.
fn owner_number(wait: Wait, mutex: &[u8]) -> Option<u32> {
    let (words, _) = mutex.as_chunks::<4>();
    let word = |at: usize| words.get(at).map(|word| u32::from_ne_bytes(*word));
    if wait.is_pi {
        return Some(word(0)? & FUTEX_TID);
    }
    if wait.value & FUTEX_WAITERS != 0 {
        return Some(wait.value & FUTEX_TID).filter(|owner| *owner != MUSL_BUSY);
    }
    if wait.value == RWLOCK_CONTENDED {
        // That of writers is behind that of readers, which is at a multiple of 8.
        let end = if wait.address.is_multiple_of(8) { 2 } else { 1 };
        let [pad, more_pad, writer, shared] = [word(end)?, word(end + 1)?, word(end + 2)?, word(end + 3)?];
        return (pad == 0 && more_pad == 0 && shared <= 1 && writer != 0).then_some(writer);
    }
    let [owner, users, kind] = [word(2)?, word(3)?, word(4)?];
    let is_mutex =
        wait.value == MUTEX_CONTENDED && kind & !MUTEX_KINDS == 0 && (1..=MUTEX_MAX_USERS).contains(&users);
    is_mutex.then_some(owner)
}

/// The keys of the sleeping threads of a process by their numbers in its own PID namespace.
fn own_numbers(pid: u32, stacks: &[StackMessage]) -> HashMap<u32, u64> {
    let is_nested = process::task::ns_pids(pid).is_ok_and(|pids| pids.len() > 1);
    let own =
        |tid: u32| if is_nested { process::task::ns_pids(tid).ok()?.last().copied() } else { Some(tid) };
    let of_process = stacks.iter().filter(|stack| stack.pid == pid);
    of_process.filter_map(|stack| Some((own(stack.tid)?, stack.hash))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: [u32; 5]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn calls_that_wait_for_a_mutex_are_told_from_others() {
        let call = |number: u64, operation: u64| {
            parse(&format!("{number} 0x7ffe00 {operation:#x} 0x2 0x0 0x0 0x0 0x7ffd 0x7fab\n"))
        };
        let wait = Wait { address: 0x7f_fe00, value: 2, is_pi: false };
        assert_eq!(call(FUTEX_CALL, 0x80), Some(wait));
        assert_eq!(call(FUTEX_CALL, 0x189), Some(wait));
        assert_eq!(call(FUTEX_CALL, 0x86), Some(Wait { is_pi: true, ..wait }));
        assert_eq!([call(FUTEX_CALL, 0x81), call(0, 0x80)], [None, None]);
        assert_eq!(["running", "", "202", "202 1 2 3", "202 0x1 0xzz 0x2"].map(parse), [None; 5]);
    }

    #[test]
    fn only_what_looks_like_a_mutex_has_an_owner() {
        let wait = |value, is_pi| Wait { address: 0, value, is_pi };
        let normal = bytes([2, 1, 4711, 1, 0]);
        assert_eq!(owner_number(wait(2, false), &normal), Some(4711));
        assert_eq!(owner_number(wait(2, false), &bytes([2, 1, 4711, 0, 0])), None, "nobody uses it");
        assert_eq!(owner_number(wait(2, false), &bytes([2, 1, 4711, 1, 0x400])), None);
        assert_eq!(owner_number(wait(1, false), &normal), None);
        assert_eq!(owner_number(wait(2, false), &normal[..12]), None, "not all of it can be read");
        let rwlock = |words: [u32; 6]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>();
        let of_reader = owner_number(wait(3, false), &rwlock([3, 1, 0, 0, 4711, 0]));
        let of_writer = Wait { address: 4, ..wait(3, false) };
        let of_writer = owner_number(of_writer, &rwlock([3, 0, 0, 4711, 0, 99]));
        assert_eq!((of_reader, of_writer), (Some(4711), Some(4711)));
        assert_eq!(owner_number(wait(3, false), &rwlock([3, 1, 0, 0, 0, 0])), None, "readers have it");
        assert_eq!(owner_number(wait(3, false), &rwlock([3, 1, 5, 0, 4711, 0])), None, "no such lock");
        assert_eq!(owner_number(wait(FUTEX_WAITERS | 7, false), &[]), Some(7));
        assert_eq!(owner_number(wait(FUTEX_WAITERS | MUSL_BUSY, false), &[]), None);
        assert_eq!(owner_number(wait(0, true), &bytes([FUTEX_WAITERS | 9, 0, 0, 0, 0])), Some(9));
    }
}

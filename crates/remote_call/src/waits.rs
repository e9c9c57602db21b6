//! What the threads of a process wait for, told by `/proc` without stopping them.

use std::fs;

/// System calls in which a thread waits for something outside of it, and which hold no lock of the C library.
/// `read`, `poll`, `select`, `pause`, `nanosleep`, `accept`, `recvfrom`, `recvmsg`, `wait4`, `semtimedop`, `rt_sigtimedwait`, `msgrcv`,
/// `restart_syscall`, `clock_nanosleep`, `waitid`, `pselect6`, `ppoll`, `accept4`, `recvmmsg`.
const WAITS: [u64; 19] = [0, 7, 23, 34, 35, 43, 45, 47, 61, 220, 128, 70, 219, 230, 247, 270, 271, 288, 299];
/// `futex`: locks of the C library use it too, but those wait by another operation.
const FUTEX: u64 = 202;
/// `epoll_wait`, `epoll_pwait`, `epoll_pwait2` end with `EINTR` when the thread is stopped, as they do for a debugger.
const ENDED_BY_STOPS: [u64; 3] = [232, 281, 441];
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_OPERATION: u64 = 0x7f;
/// `restart_syscall`: a wait with an end in time goes on by this number after a stop. Its arguments stay those of the wait.
const RESTARTED: u64 = 219;
/// `EINTR` is what programs must be ready for in these calls; a thread in another one is preferred.
const LAST_RESORT: u8 = 1;

/// Whether a thread that is interrupted in this system call waits for something outside. `operation`: its second argument.
/// A smaller number is a better place.
#[must_use]
pub fn preference(number: u64, operation: u64) -> Option<u8> {
    match number {
        FUTEX => (operation & FUTEX_OPERATION == FUTEX_WAIT_BITSET).then_some(0),
        number if WAITS.contains(&number) => Some(0),
        number if ENDED_BY_STOPS.contains(&number) => Some(LAST_RESORT),
        _ => None,
    }
}

/// A wait for something outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// As of [`preference`].
    pub preference: u8,
    /// As of [`word`].
    pub word: Option<u64>,
}

/// The word in memory for whose change a system call with this number and first argument waits. Of a wait that was stopped before nobody knows
/// which one it is: its first argument is told, which may be something else.
#[must_use]
pub fn word(number: u64, first: u64) -> Option<u64> {
    matches!(number, FUTEX | RESTARTED).then_some(first)
}

/// What a thread waits for just now; none if it runs, or waits for something else.
#[must_use]
pub fn of_thread(pid: u32, tid: u32) -> Option<Wait> {
    parse(&fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?)
}

fn parse(text: &str) -> Option<Wait> {
    let mut words = text.split_ascii_whitespace();
    let number = words.next()?.parse().ok()?;
    let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (first, second) = (argument()?, argument()?);
    Some(Wait { preference: preference(number, second)?, word: word(number, first) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_waits_for_something_outside_count() {
        assert_eq!(
            parse("230 0x0 0x0 0x7f 0x0 0x0 0x0 0x7ffd 0x7f12\n"),
            Some(Wait { preference: 0, word: None })
        );
        assert_eq!(
            parse("202 0x55 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd 0x7f12\n"),
            Some(Wait { preference: 0, word: Some(0x55) })
        );
        assert_eq!(parse("202 0x55 0x80 0x2 0x0 0x0 0x0 0x7ffd 0x7f12\n"), None, "a lock of the C library");
        assert_eq!(
            parse("232 0x3 0x55 0x10 0x1 0x0 0x0 0x7ffd 0x7f12\n"),
            Some(Wait { preference: LAST_RESORT, word: None })
        );
        assert_eq!(
            parse("219 0x55 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd 0x7f12\n"),
            Some(Wait { preference: 0, word: Some(0x55) }),
            "a wait for a word that was stopped before"
        );
        for text in ["running\n", "-1 0x7ffd 0x7f12\n", "9 0x0 0x1 0x2\n", "", "x", "230", "230 0x0 zz"] {
            assert_eq!(parse(text), None, "{text}");
        }
        let own = std::process::id();
        assert_eq!(of_thread(own, u32::MAX), None);
    }
}

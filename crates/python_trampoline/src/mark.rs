//! The mark that an agent leaves in an interpreter: who has switched it on.

use std::fmt;

/// An agent: its number, its start, and the namespace in which the number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    pid: u32,
    start_ticks: u64,
    /// Device and inode of its PID namespace.
    namespace: (u64, u64),
}

impl Mark {
    /// The mark of this process.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn own() -> Result<Self, process::Error> {
        Self::of(std::process::id())
    }

    pub(crate) fn of(pid: u32) -> Result<Self, process::Error> {
        Ok(Self { pid, start_ticks: process::task::start_time(pid)?, namespace: namespace(pid)? })
    }

    /// Whether the agent still lives. Of an agent in another namespace nobody knows, so it counts as one that does.
    pub(crate) fn may_live(&self) -> bool {
        let here = namespace(std::process::id());
        here.is_err()
            || here.is_ok_and(|here| here != self.namespace)
            || process::task::start_time(self.pid).is_ok_and(|start| start == self.start_ticks)
    }

    /// The mark in a text of the interpreter.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(text).ok()?.split(' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let (pid, start_ticks) = (u32::try_from(number()?).ok()?, number()?);
        Some(Self { pid, start_ticks, namespace: (number()?, number()?) })
    }
}

fn namespace(pid: u32) -> Result<(u64, u64), process::Error> {
    let namespace = process::task::pid_namespace(pid)?;
    Ok((namespace.device, namespace.inode))
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.pid, self.start_ticks, self.namespace.0, self.namespace.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_is_written_and_tells_who_lives() {
        let own = Mark::own().unwrap();
        assert_eq!(Mark::parse(own.to_string().as_bytes()), Some(own));
        assert!(own.may_live());
        assert!(
            !Mark { start_ticks: own.start_ticks + 1, ..own }.may_live(),
            "another process with the number"
        );
        assert!(!Mark { pid: u32::MAX, ..own }.may_live());
        assert!(Mark { pid: u32::MAX, namespace: (1, 1), ..own }.may_live(), "nobody knows");
        for text in ["", "1", "1 2 3", "x 2 3 4", "99999999999 2 3 4"] {
            assert_eq!(Mark::parse(text.as_bytes()), None, "{text}");
        }
    }
}

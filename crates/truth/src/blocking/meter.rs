//! A program's own measurements of its time: wall clock, CPU time and switches.

use anyhow::{Context, Result, bail};

/// What a program measured around a function, over a thread's life, or of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// `site`, `life` or `process`.
    pub kind: String,
    /// Function, thread or process.
    pub name: String,
    /// Time by `CLOCK_MONOTONIC`.
    pub wall_ns: u64,
    /// Time on a CPU by perf's task clock, which includes time that a hypervisor took meanwhile.
    pub cpu_ns: u64,
    /// Switches in a sleeping state.
    pub voluntary: u64,
    /// Switches while runnable.
    pub involuntary: u64,
}

impl Meter {
    /// Time off the CPU.
    #[must_use]
    pub fn off_cpu_ns(&self) -> u64 {
        self.wall_ns.saturating_sub(self.cpu_ns)
    }
}

/// The meters among the lines that a program printed: `KIND NAME WALL CPU VOLUNTARY INVOLUNTARY`.
///
/// # Errors
/// If there is none, or one is malformed.
pub fn read_meters(lines: &[String]) -> Result<Vec<Meter>> {
    let mut meters = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind @ ("site" | "life" | "process"), name, numbers @ ..] = words.as_slice() else { continue };
        let numbers: Vec<u64> = numbers.iter().filter_map(|n| n.parse().ok()).collect();
        let [wall_ns, cpu_ns, voluntary, involuntary] = numbers[..] else {
            bail!("malformed line of a program: `{line}`")
        };
        let (kind, name) = ((*kind).to_owned(), (*name).to_owned());
        meters.push(Meter { kind, name, wall_ns, cpu_ns, voluntary, involuntary });
    }
    if meters.is_empty() {
        bail!("the program printed no meter, but {lines:?}");
    }
    Ok(meters)
}

/// The number in a program's line `WORD NUMBER`.
///
/// # Errors
/// If there is none.
pub fn read_number(lines: &[String], word: &str) -> Result<u64> {
    let rest = lines.iter().find_map(|l| l.strip_prefix(word)?.strip_prefix(' '));
    rest.and_then(|n| n.parse().ok())
        .with_context(|| format!("the program printed no `{word} NUMBER`: {lines:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meters_are_read() {
        let lines = ["ready", "site site_nap 100 30 4 5", "threads 7", "life hog 9 8 7 6"].map(str::to_owned);
        let meters = read_meters(&lines).unwrap();
        assert_eq!(meters.len(), 2);
        assert_eq!((meters[0].off_cpu_ns(), meters[0].voluntary, meters[0].involuntary), (70, 4, 5));
        assert_eq!((meters[1].kind.as_str(), meters[1].name.as_str()), ("life", "hog"));
        assert_eq!(read_number(&lines, "threads").unwrap(), 7);
        assert!(read_number(&lines, "thread").is_err());
        assert!(read_meters(&["site x 1".to_owned()]).is_err() && read_meters(&[]).is_err());
    }
}

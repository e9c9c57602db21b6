//! Definitions of probes in tracefs, removed when they are dropped.
//!
//! Guaranteed: names are unique; what was written in part is removed; only the own name is ever removed. A removal is tried again while the
//! kernel still closes events of the probe.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::owner::start_time;

/// The group of all definitions.
pub(crate) const GROUP: &str = "perf_agent";
/// The kernel takes no longer line.
const MAX_LINE: usize = 4095;
/// How long a removal is tried.
const PATIENCE: Duration = Duration::from_secs(1);
/// The end of the kernel's list of errors that is read.
const MAX_ERRORS: u64 = 1 << 20;

/// Definitions of this process so far.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A defined probe: one event, at one or several places.
#[derive(Debug)]
pub(crate) struct Definition {
    /// `uprobe_events` or `kprobe_events`.
    list: PathBuf,
    /// Its name in the group.
    pub event: String,
}

impl Definition {
    /// Defines an event. `letter`: `p` or `r`. `places`: for each the text behind the name. An error says why, in the kernel's words where there are any.
    pub fn make(
        tracing: &Path,
        list: &str,
        kind: &str,
        letter: char,
        places: &[String],
    ) -> Result<Self, String> {
        let pid = std::process::id();
        let start = start_time(pid).ok_or("/proc does not tell when this process began; mount it")?;
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let event = format!("{kind}_{pid}_{start}_{number}");
        let definition = Self { list: tracing.join(list), event };
        for place in places {
            let line = format!("{letter}:{GROUP}/{} {place}", definition.event);
            if line.len() > MAX_LINE {
                return Err(format!("its definition has {} bytes; the kernel takes {MAX_LINE}", line.len()));
            }
            append(&definition.list, &line).map_err(|error| {
                let told = last_error(tracing, &definition.event);
                told.unwrap_or_else(|| {
                    format!("write {}: {error}{}", definition.list.display(), hint(&error))
                })
            })?;
        }
        Ok(definition)
    }

    /// Its name with its group.
    pub fn full_name(&self) -> String {
        format!("{GROUP}:{}", self.event)
    }
}

impl Drop for Definition {
    fn drop(&mut self) {
        // Where it fails, another monitor removes it after the end of this process.
        let _removed_later = remove(&self.list, &self.event, PATIENCE);
    }
}

/// Removes an event of the group. While the kernel uses it, that is tried again for so long.
pub(crate) fn remove(list: &Path, event: &str, patience: Duration) -> io::Result<()> {
    let began = Instant::now();
    loop {
        match append(list, &format!("-:{GROUP}/{event}")) {
            Err(error) if is_busy(&error) && began.elapsed() < patience => {
                std::thread::sleep(Duration::from_millis(5));
            }
            result => return result,
        }
    }
}

/// Whether the kernel uses the event.
pub(crate) fn is_busy(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::BUSY)
}

fn append(list: &Path, line: &str) -> io::Result<()> {
    // Without O_APPEND the kernel would remove all definitions of everyone.
    let mut file = OpenOptions::new().append(true).open(list)?;
    file.write_all(format!("{line}\n").as_bytes())
}

fn hint(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::ACCESS | Errno::PERM) => "; defining probes takes root",
        Some(Errno::NOENT) => "; the symbol may not exist",
        _ => "",
    }
}

/// What the kernel's list of errors says last about a definition, and the place in it that the kernel points at.
fn last_error(tracing: &Path, event: &str) -> Option<String> {
    let mut text = Vec::new();
    fs::File::open(tracing.join("error_log")).ok()?.take(MAX_ERRORS).read_to_end(&mut text).ok()?;
    told(&String::from_utf8_lossy(&text), event)
}

fn told(log: &str, event: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().collect();
    let at =
        lines.iter().rposition(|line| line.trim_start().starts_with("Command:") && line.contains(event))?;
    let command = lines.get(at)?;
    let reason = lines.get(at.checked_sub(1)?)?.split_once("error: ")?.1.trim();
    let mark = lines.get(at + 1).and_then(|line| line.find('^'));
    let marked =
        mark.and_then(|mark| command.get(mark..)).and_then(|rest| rest.split_ascii_whitespace().next());
    Some(match marked {
        Some(word) => format!("{reason}, at `{word}`"),
        None => reason.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
[ 1.2] trace_uprobe: error: Other
  Command: p:perf_agent/uprobe_1_2_4 /bin/true:0x1
                                    ^
[ 12.3] trace_uprobe: error: Unknown argument type
  Command: p:perf_agent/uprobe_1_2_3 /bin/true:0x23d0 a=%di:zz
                                                            ^
[ 12.4] trace_uprobe: error: Other
  Command: p:other/x /bin/true:0x1
";

    #[test]
    fn the_kernel_s_words_and_mark_are_found_by_the_name() {
        assert_eq!(told(LOG, "uprobe_1_2_3").unwrap(), "Unknown argument type, at `zz`");
        assert_eq!(told(LOG, "uprobe_1_2_5"), None);
        assert_eq!(told("  Command: x uprobe_1_2_3", "uprobe_1_2_3"), None);
        assert_eq!(told("", "x"), None);
    }

    #[test]
    fn a_definition_is_appended_and_removed_by_its_own_name() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("uprobe_events");
        fs::write(&list, "p:other/x /bin/a:0x1\n").unwrap();
        let make =
            |places: &[String]| Definition::make(folder.path(), "uprobe_events", "uprobe", 'p', places);
        let one = make(&["/bin/a:0x5 a=%di".to_owned()]).unwrap();
        let two = make(&["/bin/a:0x5".to_owned(), "/bin/a:0x6".to_owned()]).unwrap();
        assert_ne!(one.event, two.event);
        let (first, second) = (one.event.clone(), two.event.clone());
        assert!(first.len() <= 63 && first.starts_with("uprobe_"));
        drop(one);
        drop(two);
        let wanted = format!(
            "p:other/x /bin/a:0x1\np:perf_agent/{first} /bin/a:0x5 a=%di\np:perf_agent/{second} /bin/a:0x5\n\
             p:perf_agent/{second} /bin/a:0x6\n-:perf_agent/{first}\n-:perf_agent/{second}\n"
        );
        assert_eq!(fs::read_to_string(&list).unwrap(), wanted);
        assert!(make(&["x".repeat(5000)]).unwrap_err().contains("4095"));
        assert!(Definition::make(folder.path(), "kprobe_events", "kprobe", 'p', &["f".to_owned()]).is_err());
    }
}

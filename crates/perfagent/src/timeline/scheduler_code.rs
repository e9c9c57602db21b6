//! The code in which the kernel's threads leave their CPU, as it is left out of the stacks of waits.
//!
//! The kernel stack of a wait begins with the tracepoint that took it, and goes on with the scheduler; that of a thread that slept before
//! has neither. Profiles leave them out by name; here, where there are no names yet, the place of the scheduler's section tells.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::path::Path;

const START: &[u8] = b" __sched_text_start";
const END: &[u8] = b" __sched_text_end";
/// Frames of a tracepoint at most.
const MAX_TRACING: usize = 8;

/// Where it lies.
#[derive(Debug, Default)]
pub(super) struct SchedulerCode(Range<u64>);

impl SchedulerCode {
    /// As a list of symbols tells it (`/proc/kallsyms`). It is nowhere if the list does not.
    pub(super) fn read(kallsyms: &Path) -> Self {
        Self(File::open(kallsyms).ok().and_then(|file| find(BufReader::new(file))).unwrap_or_default())
    }

    /// The frames of a wait without those of the tracepoint and of the scheduler, leaf first.
    pub(super) fn strip<'a>(&self, frames: &'a [u64]) -> &'a [u64] {
        let is_inside = |frame: &u64| self.0.contains(frame);
        let Some(first) = frames.iter().take(MAX_TRACING).position(is_inside) else { return frames };
        let begun = frames.get(first..).unwrap_or_default();
        let inside = begun.iter().take_while(|frame| is_inside(frame)).count();
        begun.get(inside..).unwrap_or_default()
    }
}

fn find(mut list: impl BufRead) -> Option<Range<u64>> {
    let (mut start, mut line) = (None, Vec::new());
    loop {
        line.clear();
        // A line has an address, a letter and a name of at most 512 bytes.
        if Read::take(&mut list, 1024).read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        let text = line.trim_ascii_end();
        if text.ends_with(START) {
            start = address(text);
        } else if text.ends_with(END) {
            return Some(start?..address(text)?).filter(|range| range.start != 0);
        }
    }
}

fn address(line: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(line.get(..16)?).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_begins_where_the_scheduler_was_called() {
        let text = "ffffffff81000000 T _text\nffffffff82000000 T __sched_text_start\n\
            ffffffff82000010 T __schedule\nffffffff82001000 T __sched_text_end\n";
        let code = SchedulerCode(find(text.as_bytes()).unwrap());
        let (program, tracing, scheduler) =
            (0xffff_ffff_c000_0010, 0xffff_ffff_8100_0500, 0xffff_ffff_8200_0020);
        let wait = [0xffff_ffff_8100_0700, 0xffff_ffff_8100_0800];
        let taken = [&[program, tracing, scheduler, scheduler + 9][..], &wait].concat();
        assert_eq!(code.strip(&taken), wait);
        assert_eq!(code.strip(&wait), wait, "it slept before");
        assert_eq!(code.strip(&taken[..3]), [0; 0]);
        let end = 0xffff_ffff_8200_1000;
        assert_eq!(code.strip(&[end, wait[0]]), [end, wait[0]], "behind its end");
        assert_eq!(SchedulerCode::default().strip(&taken), taken);
    }

    #[test]
    fn a_kernel_that_hides_its_addresses_tells_nothing() {
        let hidden = "0000000000000000 T __sched_text_start\n0000000000000000 T __sched_text_end\n";
        assert_eq!(find(hidden.as_bytes()), None);
        assert_eq!(find(&b"ffffffff82000000 T __sched_text_start\n"[..]), None);
        assert_eq!(find(&b"no address T __sched_text_start\n T __sched_text_end\n"[..]), None);
    }
}

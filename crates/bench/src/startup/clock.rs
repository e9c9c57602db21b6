//! Time as the names of the ticker's functions encode it: CLOCK_MONOTONIC in units of 5 ms, modulo 4096.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use truth::frame::Stack;

const UNIT_MS: u64 = 5;
const UNITS: u64 = 4096;

/// CLOCK_MONOTONIC.
pub(super) fn now() -> Duration {
    let t = clock_gettime(ClockId::Monotonic);
    Duration::new(u64::try_from(t.tv_sec).unwrap_or(0), u32::try_from(t.tv_nsec).unwrap_or(0))
}

/// The time that a stack encodes, in units.
pub(super) fn read(stack: &Stack) -> Option<u64> {
    let digit = |prefix: &str| {
        let name =
            stack.frames.iter().filter_map(|f| f.name.as_deref()).find_map(|n| n.strip_prefix(prefix))?;
        u64::from_str_radix(name, 16).ok().filter(|d| *d < 16)
    };
    Some(digit("hi_")? << 8 | digit("mid_")? << 4 | digit("lo_")?)
}

/// The time from `start` to the end of the unit that a stack encodes, no more than 20 s later.
pub(super) fn since(start: Duration, units: u64) -> Duration {
    let start_units = start.as_millis() as u64 / UNIT_MS;
    let passed = (units + UNITS - start_units % UNITS) % UNITS;
    Duration::from_millis((passed + 1) * UNIT_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use truth::frame::Frame;

    #[test]
    fn a_stack_encodes_a_time() {
        let frame = |name: &str| Frame { name: Some(name.into()), ..Frame::default() };
        let names = ["tick", "hi_f", "mid_0", "lo_2", "spin"];
        let stack = Stack { frames: names.map(frame).to_vec(), count: 1, ..Stack::default() };
        assert_eq!(read(&stack), Some(0xf02));
        let start = Duration::from_millis(5 * (4096 * 7 + 0xf00));
        assert_eq!(since(start, 0xf02), Duration::from_millis(15));
        assert_eq!(since(start, 0x001), Duration::from_millis(5 * (0x101 + 1)), "across the wrap");
        assert_eq!(read(&Stack { frames: vec![frame("hi_f")], ..Stack::default() }), None);
    }
}

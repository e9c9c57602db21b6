//! Events: what was sampled, and how.

use crate::bytes::Bytes;

/// The size of an attribute in files. Older versions of `perf` refuse larger ones than they know.
pub(crate) const ATTR_BYTES: u32 = 112;

const SAMPLE_IP: u64 = 1;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_CALLCHAIN: u64 = 1 << 5;
const SAMPLE_CPU: u64 = 1 << 7;
const SAMPLE_PERIOD: u64 = 1 << 8;
const SAMPLE_IDENTIFIER: u64 = 1 << 16;
/// What each sample has. The trailers of other records have of this: thread, time, CPU, identifier.
const SAMPLE_TYPE: u64 =
    SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_CALLCHAIN | SAMPLE_CPU | SAMPLE_PERIOD | SAMPLE_IDENTIFIER;

const INHERIT: u64 = 1 << 1;
const MMAP: u64 = 1 << 8;
const COMM: u64 = 1 << 9;
const FREQ: u64 = 1 << 10;
const TASK: u64 = 1 << 13;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;
const MMAP2: u64 = 1 << 23;
const COMM_EXEC: u64 = 1 << 24;
const USE_CLOCKID: u64 = 1 << 25;

const CLOCK_MONOTONIC: u32 = 1;

/// How often samples are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// This number of times per second.
    PerSecond(u64),
    /// At each Nth event.
    Every(u64),
}

/// How an event was sampled (`struct perf_event_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// `type` of the kernel's attribute.
    pub kind: u32,
    /// `config` of the kernel's attribute.
    pub config: u64,
    /// How often samples were taken.
    pub rate: Rate,
    /// Samples have kernel frames.
    pub kernel_frames: bool,
}

impl Attr {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut flags = INHERIT | MMAP | COMM | TASK | SAMPLE_ID_ALL | MMAP2 | COMM_EXEC | USE_CLOCKID;
        let rate = match self.rate {
            Rate::PerSecond(rate) => {
                flags |= FREQ;
                rate
            }
            Rate::Every(period) => period,
        };
        if !self.kernel_frames {
            flags |= EXCLUDE_CALLCHAIN_KERNEL;
        }
        let mut bytes = Bytes::default();
        bytes.u32(self.kind).u32(ATTR_BYTES).u64(self.config).u64(rate);
        bytes.u64(SAMPLE_TYPE).u64(0).u64(flags);
        // Up to the clock: wake-ups, breakpoints, branches, registers, stacks.
        bytes.raw(&[0; 44]).u32(CLOCK_MONOTONIC).raw(&[0; 16]);
        bytes.into_vec()
    }
}

/// One event of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its name, as tools show it.
    pub name: String,
    /// The number by which its samples refer to it. No two events have the same.
    pub id: u64,
    /// How it was sampled.
    pub attr: Attr,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_has_its_fields_where_the_kernel_has_them() {
        let attr = Attr { kind: 1, config: 7, rate: Rate::PerSecond(99), kernel_frames: false };
        let bytes = attr.encode();
        assert_eq!(bytes.len(), 112);
        let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!((u32_at(0), u32_at(4), u64_at(8), u64_at(16)), (1, 112, 7, 99));
        assert_eq!((u64_at(24), u64_at(32)), (0x1_01a7, 0));
        assert_eq!(u64_at(40), 0x3a4_2702);
        assert_eq!(u32_at(92), 1, "CLOCK_MONOTONIC");
        let with_kernel = Attr { rate: Rate::Every(16), kernel_frames: true, ..attr }.encode();
        assert_eq!(with_kernel[16..24], 16u64.to_ne_bytes());
        assert_eq!(u64::from_ne_bytes(with_kernel[40..48].try_into().unwrap()), 0x384_2302);
        let rest: Vec<usize> = (48..112).filter(|at| bytes[*at] != 0).collect();
        assert_eq!(rest, [92]);
    }
}

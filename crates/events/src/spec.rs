//! The event to sample with, and its rate.

use rustix::io::Errno;
use sys::perf::{self, Attr};

use crate::Error;

/// A source of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A timer on each CPU; every machine has it.
    CpuClock,
    /// CPU cycles, counted by the hardware. Virtual machines often lack it.
    CpuCycles,
    /// Another event, by the kernel's numbers.
    Raw {
        /// `type` of the attribute.
        kind: u32,
        /// `config` of the attribute.
        config: u64,
    },
}

/// How often to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// This number of times per second and CPU.
    FrequencyHz(u64),
    /// After this number of events; ns for the CPU clock.
    Period(u64),
}

/// What to open on every CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSpec {
    /// The source.
    pub kind: EventKind,
    /// How often.
    pub rate: Rate,
    /// Do not count in user mode.
    pub exclude_user: bool,
    /// Do not count in kernel mode.
    pub exclude_kernel: bool,
    /// Do not count in the hypervisor.
    pub exclude_hypervisor: bool,
    /// Do not count while the CPU idles. Some PMUs refuse it for hardware events.
    pub exclude_idle: bool,
}

impl EventSpec {
    /// An event that counts in user and kernel mode. The CPU clock does not count idle time.
    #[must_use]
    pub fn new(kind: EventKind, rate: Rate) -> Self {
        let exclude_idle = kind == EventKind::CpuClock;
        Self {
            kind,
            rate,
            exclude_user: false,
            exclude_kernel: false,
            exclude_hypervisor: false,
            exclude_idle,
        }
    }

    /// The CPU clock, `hz` times per second.
    #[must_use]
    pub fn cpu_clock(hz: u64) -> Self {
        Self::new(EventKind::CpuClock, Rate::FrequencyHz(hz))
    }

    /// CPU cycles, `hz` times per second.
    #[must_use]
    pub fn cpu_cycles(hz: u64) -> Self {
        Self::new(EventKind::CpuCycles, Rate::FrequencyHz(hz))
    }

    /// `software/cpu-clock`, `hardware/cpu-cycles`, `raw/TYPE/CONFIG` with numbers in hex.
    #[must_use]
    pub fn name(&self) -> String {
        match self.kind {
            EventKind::CpuClock => "software/cpu-clock".to_owned(),
            EventKind::CpuCycles => "hardware/cpu-cycles".to_owned(),
            EventKind::Raw { kind, config } => format!("raw/{kind:x}/{config:x}"),
        }
    }

    /// The attribute to open, disabled, with time stamps of `CLOCK_MONOTONIC`. Records other than samples carry the
    /// time only.
    #[must_use]
    pub fn attr(&self) -> Attr {
        let (kind, config) = match self.kind {
            EventKind::CpuClock => (perf::TYPE_SOFTWARE, perf::SW_CPU_CLOCK),
            EventKind::CpuCycles => (perf::TYPE_HARDWARE, perf::HW_CPU_CYCLES),
            EventKind::Raw { kind, config } => (kind, config),
        };
        let (sample_period, freq) = match self.rate {
            Rate::FrequencyHz(hz) => (hz, perf::FREQ),
            Rate::Period(period) => (period, 0),
        };
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let flags = perf::DISABLED
            | perf::SAMPLE_ID_ALL
            | perf::USE_CLOCKID
            | freq
            | flag(self.exclude_user, perf::EXCLUDE_USER)
            | flag(self.exclude_kernel, perf::EXCLUDE_KERNEL)
            | flag(self.exclude_hypervisor, perf::EXCLUDE_HV)
            | flag(self.exclude_idle, perf::EXCLUDE_IDLE);
        let clockid = rustix::time::ClockId::Monotonic as i32;
        let sample_type = perf::SAMPLE_TIME;
        let read_format = perf::FORMAT_TOTAL_TIME_ENABLED | perf::FORMAT_TOTAL_TIME_RUNNING;
        Attr { kind, config, sample_period, sample_type, read_format, flags, clockid, ..Attr::default() }
    }
}

/// CPU cycles if one of `cpus` can count them. The CPU clock if the hardware counters are not exposed (`EOPNOTSUPP`,
/// `ENOENT`, `ENODEV`, `EINVAL`) or not permitted (`EACCES`).
///
/// Samples of cycles arrive as NMIs. A BPF program that changes hash tables must not be attached to them before Linux
/// 5.11: older kernels do not notice that the same CPU is changing the table already, and would deadlock.
///
/// # Errors
/// [`Error::Open`] for any other reason, which a fallback would hide.
pub fn probe_hardware_cycles(hz: u64, cpus: &[u32]) -> Result<EventSpec, Error> {
    let cycles = EventSpec::cpu_cycles(hz);
    for &cpu in cpus {
        match perf::open(&cycles.attr(), -1, cpu_number(cpu), None) {
            Ok(_) => return Ok(cycles),
            Err(source) => match Errno::from_io_error(&source) {
                // This CPU went offline; try the next one.
                Some(Errno::SRCH) => {}
                Some(Errno::OPNOTSUPP | Errno::NOENT | Errno::NODEV | Errno::INVAL | Errno::ACCESS) => break,
                _ => return Err(Error::Open { event: cycles.name(), cpu, source }),
            },
        }
    }
    Ok(EventSpec::cpu_clock(hz))
}

/// The kernel's type of CPU numbers. A number that does not fit becomes a number that no CPU has.
pub(crate) fn cpu_number(cpu: u32) -> i32 {
    i32::try_from(cpu).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_the_requested_event_and_rate() {
        let attr = EventSpec::cpu_clock(999).attr();
        assert_eq!((attr.kind, attr.config, attr.sample_period), (1, 0, 999));
        assert_ne!(attr.flags & perf::FREQ, 0);
        assert_ne!(attr.flags & perf::EXCLUDE_IDLE, 0);
        assert_eq!(attr.clockid, 1);
        let mut spec = EventSpec::new(EventKind::Raw { kind: 4, config: 0xc0 }, Rate::Period(1000));
        spec.exclude_kernel = true;
        let attr = spec.attr();
        assert_eq!((attr.kind, attr.config, attr.sample_period), (4, 0xc0, 1000));
        assert_eq!(
            attr.flags & (perf::FREQ | perf::EXCLUDE_KERNEL | perf::EXCLUDE_IDLE),
            perf::EXCLUDE_KERNEL
        );
        assert_eq!(spec.name(), "raw/4/c0");
        assert_eq!(EventSpec::cpu_clock(1).name(), "software/cpu-clock");
        assert_eq!(EventSpec::cpu_cycles(1).name(), "hardware/cpu-cycles");
    }
}

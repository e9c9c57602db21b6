//! What to monitor: an event, its attribute, its filter.

use perf_abi::EventAttr;
use perf_abi::numbers::{event_type, sample};

use super::item::Decoder;
use super::probe::{Prepared, Probe};
use crate::stack_reader::registers;

/// How often clocks fire unless something else is asked for: each millisecond.
const CLOCK_PERIOD_NS: u64 = 1_000_000;
/// How often hardware events are sampled unless something else is asked for.
const HARDWARE_HZ: u64 = 1000;

/// What is watched by a hardware breakpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Reading.
    pub read: bool,
    /// Writing.
    pub write: bool,
    /// Execution.
    pub execute: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Tracepoint(String),
    Numbered { kind: u32, config: u64, further: [u64; 2], name: String },
    Breakpoint { address: u64, len: u64, access: Access },
    Probe(Probe),
}

/// An event to register.
pub struct EventRequest {
    pub(crate) what: What,
    pub(crate) attr: Option<EventAttr>,
    pub(crate) period: Option<u64>,
    pub(crate) enabled: bool,
    pub(crate) filter: Option<String>,
    pub(crate) decoder: Option<Decoder>,
    /// Bytes of the user stack that are copied with each occurrence.
    pub(crate) stack_bytes: Option<u32>,
}

impl std::fmt::Debug for EventRequest {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, attr, period, enabled, filter, decoder: _, stack_bytes } = self;
        let mut debug = out.debug_struct("EventRequest");
        debug.field("what", what).field("attr", attr).field("period", period);
        debug
            .field("enabled", enabled)
            .field("filter", filter)
            .field("stack_bytes", stack_bytes)
            .finish_non_exhaustive()
    }
}

impl EventRequest {
    pub(crate) fn of(what: What) -> Self {
        Self { what, attr: None, period: None, enabled: true, filter: None, decoder: None, stack_bytes: None }
    }

    /// The tracepoint `group:event` or `group/event`.
    #[must_use]
    pub fn tracepoint(name: &str) -> Self {
        Self::of(What::Tracepoint(name.replacen('/', ":", 1)))
    }

    /// An event by the kernel's numbers: hardware, software, cache or raw. `name` is what messages call it.
    #[must_use]
    pub fn numbered(kind: u32, config: u64, name: &str) -> Self {
        Self::of(What::Numbered { kind, config, further: [0; 2], name: name.to_owned() })
    }

    /// The same with `config1` and `config2`.
    #[must_use]
    pub fn with_further_config(mut self, words: [u64; 2]) -> Self {
        if let What::Numbered { further, .. } = &mut self.what {
            *further = words;
        }
        self
    }

    /// Accesses to `len` bytes at an address: 1, 2, 4 or 8 bytes.
    #[must_use]
    pub fn breakpoint(address: u64, len: u64, access: Access) -> Self {
        Self::of(What::Breakpoint { address, len, access })
    }

    /// A probe of a function of the kernel or of a program, or a USDT probe.
    #[must_use]
    pub fn probe(probe: Probe) -> Self {
        Self::of(What::Probe(probe))
    }

    /// Replaces the attribute. Type and config are those of the event in any case, and what the monitor needs is added.
    #[must_use]
    pub fn attr(self, attr: EventAttr) -> Self {
        Self { attr: Some(attr), ..self }
    }

    /// Deliver every Nth occurrence only; for clocks one in N ns.
    #[must_use]
    pub fn period(self, period: u64) -> Self {
        Self { period: Some(period), ..self }
    }

    /// Whether it is enabled from the start, which is the default.
    #[must_use]
    pub fn enabled(self, enabled: bool) -> Self {
        Self { enabled, ..self }
    }

    /// Deliver only what passes the filter, in the language of tracefs. It is set before the event is enabled.
    #[must_use]
    pub fn filter(self, text: &str) -> Self {
        Self { filter: Some(text.to_owned()).filter(|text| !text.is_empty()), ..self }
    }

    /// Make a value of each occurrence.
    #[must_use]
    pub fn decoder(self, decoder: Decoder) -> Self {
        Self { decoder: Some(decoder), ..self }
    }

    /// Deliver each occurrence with the user registers, a copy of so many bytes of the user stack and the kernel's call chain, as
    /// [`StackSample::of`](crate::stack_reader::StackSample::of) takes them. The bytes are a multiple of 8, at most
    /// [`MAX_STACK_BYTES`](crate::stack_reader::MAX_STACK_BYTES).
    #[must_use]
    pub fn stacks(self, bytes: u32) -> Self {
        Self { stack_bytes: Some(bytes), ..self }
    }

    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.what {
            What::Tracepoint(name) | What::Numbered { name, .. } => name.clone(),
            What::Probe(probe) => probe.name(),
            What::Breakpoint { address, len, access } => {
                let bit = |set: bool, letter: &'static str| if set { letter } else { "" };
                let letters =
                    [bit(access.read, "r"), bit(access.write, "w"), bit(access.execute, "x")].concat();
                format!("bp:{address:#x}:{len}:{letters}")
            }
        }
    }

    /// Whether it is where a function of a program returns: its stack begins in the caller.
    #[must_use]
    pub fn is_return_of_program(&self) -> bool {
        matches!(&self.what, What::Probe(probe) if probe.is_return() && !probe.is_of_kernel())
    }

    /// The attribute before what the monitor adds to all. `tracepoint_id`: `config` of a tracepoint.
    pub(crate) fn wanted_attr(
        &self,
        tracepoint_id: u64,
        probe: Option<&Prepared>,
        default: Option<&EventAttr>,
    ) -> EventAttr {
        let mut attr = self.attr.as_ref().or(default).cloned().unwrap_or_else(|| self.default_attr());
        match self.what {
            What::Probe(_) => probe.into_iter().for_each(|probe| probe.apply(&mut attr)),
            What::Tracepoint(_) => (attr.kind, attr.config) = (event_type::TRACEPOINT, tracepoint_id),
            What::Numbered { kind, config, further: [one, two], .. } => {
                (attr.kind, attr.config) = (kind, config);
                // The attribute that a caller gives has its own.
                if one | two != 0 {
                    (attr.config1, attr.config2) = (one, two);
                }
            }
            What::Breakpoint { address, len, access } => {
                attr.kind = event_type::BREAKPOINT;
                attr.bp_type =
                    u32::from(access.read) | u32::from(access.write) << 1 | u32::from(access.execute) << 2;
                (attr.config, attr.bp_addr, attr.bp_len) = (0, address, len);
            }
        }
        if let Some(bytes) = self.stack_bytes {
            attr.sample_type |= sample::CALLCHAIN | sample::REGS_USER | sample::STACK_USER;
            (attr.sample_regs_user, attr.sample_stack_user) = (registers::GENERAL, bytes);
            attr.exclude_callchain_user = true;
        }
        if let Some(period) = self.period {
            (attr.sample_period, attr.sample_freq, attr.freq) = (period, 0, false);
        }
        attr
    }

    fn default_attr(&self) -> EventAttr {
        let base = EventAttr { inherit: true, sample_id_all: true, sample_period: 1, ..EventAttr::default() };
        match self.what {
            What::Tracepoint(_) | What::Probe(_) => EventAttr::tracepoint(0),
            What::Numbered { kind: event_type::SOFTWARE, config: 0 | 1, .. } => {
                EventAttr { sample_period: CLOCK_PERIOD_NS, ..base }
            }
            What::Numbered { kind: event_type::SOFTWARE, .. } | What::Breakpoint { .. } => base,
            What::Numbered { .. } => {
                EventAttr { sample_period: 0, sample_freq: HARDWARE_HZ, freq: true, ..base }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_words_are_those_of_the_event_or_else_of_the_attribute_given() {
        let words = |request: EventRequest| {
            let attr = request.wanted_attr(0, None, None);
            (attr.kind, attr.config, attr.config1, attr.config2)
        };
        let loads = || EventRequest::numbered(4, 0x1cd, "cpu/mem-loads/");
        assert_eq!(words(loads().with_further_config([3, 5])), (4, 0x1cd, 3, 5));
        let given = EventAttr { config1: 7, ..EventAttr::default() };
        assert_eq!(words(loads().attr(given)), (4, 0x1cd, 7, 0));
    }
}

//! The attribute of an event, with the kernel's names, and what contradicts itself in it.

use crate::numbers::{read_format, sample};

/// A contradiction of two fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event's attribute: {first} and {second} contradict each other: {reason}")]
pub struct InvalidAttr {
    /// A field.
    pub first: &'static str,
    /// The other field.
    pub second: &'static str,
    /// Why.
    pub reason: &'static str,
}

macro_rules! event_attr {
    ($($flag:ident = $bit:literal,)*) => {
        /// `perf_event_attr`. Zero and false mean what the kernel means by them; `size` is computed when it is encoded.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names are the kernel's, described in perf_event_open(2)")]
        pub struct EventAttr {
            /// `type`.
            pub kind: u32,
            pub config: u64,
            pub config1: u64,
            pub config2: u64,
            pub config3: u64,
            pub sample_period: u64,
            pub sample_freq: u64,
            pub sample_type: u64,
            pub read_format: u64,
            pub wakeup_events: u32,
            pub wakeup_watermark: u32,
            pub branch_sample_type: u64,
            pub sample_regs_user: u64,
            pub sample_regs_intr: u64,
            pub sample_stack_user: u32,
            pub sample_max_stack: u16,
            pub aux_watermark: u32,
            pub aux_sample_size: u32,
            pub bp_type: u32,
            /// The same word as `config1`.
            pub bp_addr: u64,
            /// The same word as `config2`.
            pub bp_len: u64,
            pub clockid: i32,
            /// 0 to 3.
            pub precise_ip: u8,
            pub sig_data: u64,
            $(pub $flag: bool,)*
        }

        /// The flags with their bits.
        #[cfg(test)]
        pub(crate) const FLAGS: &[(&str, u32)] = &[$((stringify!($flag), $bit)),*];

        impl EventAttr {
            /// The word of flags, with `precise_ip`.
            pub(crate) fn flags(&self) -> u64 {
                let mut flags = u64::from(self.precise_ip) << PRECISE_IP;
                $(flags |= u64::from(self.$flag) << $bit;)*
                flags
            }

            /// Takes the flags from their word.
            pub(crate) fn set_flags(&mut self, flags: u64) {
                self.precise_ip = (flags >> PRECISE_IP & 3) as u8;
                $(self.$flag = flags >> $bit & 1 == 1;)*
            }
        }
    };
}

/// The lower of the two bits of `precise_ip`.
const PRECISE_IP: u32 = 15;

event_attr! {
    disabled = 0, inherit = 1, pinned = 2, exclusive = 3, exclude_user = 4, exclude_kernel = 5, exclude_hv = 6, exclude_idle = 7,
    mmap = 8, comm = 9, freq = 10, inherit_stat = 11, enable_on_exec = 12, task = 13, watermark = 14, mmap_data = 17,
    sample_id_all = 18, exclude_host = 19, exclude_guest = 20, exclude_callchain_kernel = 21, exclude_callchain_user = 22,
    mmap2 = 23, comm_exec = 24, use_clockid = 25, context_switch = 26, write_backward = 27, namespaces = 28, ksymbol = 29,
    bpf_event = 30, aux_output = 31, cgroup = 32, text_poke = 33, build_id = 34, inherit_thread = 35, remove_on_exec = 36,
    sigtrap = 37,
}

impl EventAttr {
    /// The attribute of a tracepoint: every occurrence of it, with its thread, time, CPU and fields, also of threads that are
    /// made later.
    #[must_use]
    pub fn tracepoint(id: u64) -> Self {
        Self {
            kind: crate::numbers::event_type::TRACEPOINT,
            config: id,
            sample_type: sample::TID | sample::TIME | sample::CPU | sample::RAW,
            sample_period: 1,
            inherit: true,
            sample_id_all: true,
            ..Self::default()
        }
    }

    /// # Errors
    /// [`InvalidAttr`] names the two fields that contradict each other. Nothing is dropped silently.
    pub fn check(&self) -> Result<(), InvalidAttr> {
        let refuse = |first, second, reason| Err(InvalidAttr { first, second, reason });
        if self.sample_period != 0 && self.sample_freq != 0 {
            return refuse("sample_period", "sample_freq", "they are one word of the kernel");
        }
        if self.sample_freq != 0 && !self.freq {
            return refuse("sample_freq", "freq", "a frequency needs the flag");
        }
        if self.sample_period != 0 && self.freq {
            return refuse("sample_period", "freq", "the flag makes the period a frequency; set sample_freq");
        }
        if self.wakeup_events != 0 && (self.watermark || self.wakeup_watermark != 0) {
            return refuse("wakeup_events", "watermark", "they are one word of the kernel");
        }
        if self.wakeup_watermark != 0 && !self.watermark {
            return refuse("wakeup_watermark", "watermark", "a mark in bytes needs the flag");
        }
        if self.config1 != 0 && self.bp_addr != 0 && self.config1 != self.bp_addr {
            return refuse("config1", "bp_addr", "they are one word of the kernel");
        }
        if self.config2 != 0 && self.bp_len != 0 && self.config2 != self.bp_len {
            return refuse("config2", "bp_len", "they are one word of the kernel");
        }
        if self.precise_ip > 3 {
            return refuse("precise_ip", "precise_ip", "it has two bits: 0 to 3");
        }
        if self.clockid != 0 && !self.use_clockid {
            return refuse("clockid", "use_clockid", "a clock needs the flag");
        }
        Ok(())
    }

    /// Whether kernels before 6.13 refuse it: values of a whole group in samples of an event that children inherit.
    #[must_use]
    pub fn inherits_group_reads(&self) -> bool {
        self.inherit && self.sample_type & sample::READ != 0 && self.read_format & read_format::GROUP != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_name_both_fields() {
        let good = EventAttr::tracepoint(1);
        assert_eq!(good.check(), Ok(()));
        let pair = |attr: EventAttr| attr.check().map_err(|error| (error.first, error.second)).unwrap_err();
        let base = EventAttr::default;
        assert_eq!(pair(EventAttr { sample_freq: 9, ..good.clone() }), ("sample_period", "sample_freq"));
        assert_eq!(pair(EventAttr { sample_freq: 9, ..base() }), ("sample_freq", "freq"));
        assert_eq!(pair(EventAttr { sample_period: 9, freq: true, ..base() }), ("sample_period", "freq"));
        assert_eq!(
            pair(EventAttr { wakeup_events: 1, watermark: true, ..base() }),
            ("wakeup_events", "watermark")
        );
        assert_eq!(pair(EventAttr { wakeup_watermark: 1, ..base() }), ("wakeup_watermark", "watermark"));
        assert_eq!(pair(EventAttr { config1: 1, bp_addr: 2, ..base() }), ("config1", "bp_addr"));
        assert_eq!(pair(EventAttr { config2: 1, bp_len: 2, ..base() }), ("config2", "bp_len"));
        assert_eq!(pair(EventAttr { precise_ip: 4, ..base() }), ("precise_ip", "precise_ip"));
        assert_eq!(pair(EventAttr { clockid: 1, ..base() }), ("clockid", "use_clockid"));
        assert_eq!(EventAttr { config1: 1, bp_addr: 1, ..base() }.check(), Ok(()));
    }

    #[test]
    fn each_flag_has_a_bit_of_its_own() {
        let mut seen = 3u64 << PRECISE_IP;
        for (name, bit) in FLAGS {
            assert_eq!(seen >> bit & 1, 0, "{name}");
            seen |= 1 << bit;
            let mut attr = EventAttr::default();
            attr.set_flags(1 << bit);
            assert_eq!(attr.flags(), 1 << bit, "{name}");
        }
        assert_eq!(seen, (1 << 38) - 1, "no bit is left out");
    }
}

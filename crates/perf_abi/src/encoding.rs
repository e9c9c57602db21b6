//! Attributes as the kernel's bytes, in the sizes that kernels know.

use crate::attr::{EventAttr, InvalidAttr};

/// The size of the encoded attribute, the kernel's version 8.
pub const SIZE: usize = 136;
/// The sizes that kernels have had.
pub const KNOWN_SIZES: [usize; 9] = [64, 72, 80, 96, 104, 112, 120, 128, 136];

/// The fields behind the first version, with their places.
const LATER_FIELDS: [(&str, usize, usize); 11] = [
    ("config2", 64, 8),
    ("branch_sample_type", 72, 8),
    ("sample_regs_user", 80, 8),
    ("sample_stack_user", 88, 4),
    ("clockid", 92, 4),
    ("sample_regs_intr", 96, 8),
    ("aux_watermark", 104, 4),
    ("sample_max_stack", 108, 2),
    ("aux_sample_size", 112, 4),
    ("sig_data", 120, 8),
    ("config3", 128, 8),
];

/// The running kernel does not know a field that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this kernel does not know {field} of event attributes: its structure has {kernel_size} bytes")]
pub struct UnsupportedAttr {
    /// The field.
    pub field: &'static str,
    /// The kernel's size.
    pub kernel_size: usize,
}

/// The attribute as bytes of the largest known size.
///
/// # Errors
/// [`InvalidAttr`] if it contradicts itself.
pub fn encode(attr: &EventAttr) -> Result<[u8; SIZE], InvalidAttr> {
    attr.check()?;
    let mut bytes = [0; SIZE];
    let mut at = 0;
    let mut put = |field: &[u8]| {
        for (to, from) in bytes.iter_mut().skip(at).zip(field) {
            *to = *from;
        }
        at += field.len();
    };
    let either = |one: u64, other: u64| if one == 0 { other } else { one };
    put(&attr.kind.to_ne_bytes());
    put(&(SIZE as u32).to_ne_bytes());
    put(&attr.config.to_ne_bytes());
    put(&either(attr.sample_period, attr.sample_freq).to_ne_bytes());
    put(&attr.sample_type.to_ne_bytes());
    put(&attr.read_format.to_ne_bytes());
    put(&attr.flags().to_ne_bytes());
    put(&attr.wakeup_events.max(attr.wakeup_watermark).to_ne_bytes());
    put(&attr.bp_type.to_ne_bytes());
    put(&either(attr.config1, attr.bp_addr).to_ne_bytes());
    put(&either(attr.config2, attr.bp_len).to_ne_bytes());
    put(&attr.branch_sample_type.to_ne_bytes());
    put(&attr.sample_regs_user.to_ne_bytes());
    put(&attr.sample_stack_user.to_ne_bytes());
    put(&attr.clockid.to_ne_bytes());
    put(&attr.sample_regs_intr.to_ne_bytes());
    put(&attr.aux_watermark.to_ne_bytes());
    put(&attr.sample_max_stack.to_ne_bytes());
    put(&[0; 2]);
    put(&attr.aux_sample_size.to_ne_bytes());
    put(&[0; 4]);
    put(&attr.sig_data.to_ne_bytes());
    put(&attr.config3.to_ne_bytes());
    Ok(bytes)
}

/// The attribute for a kernel whose structure is smaller, which it tells after it has answered `E2BIG`.
///
/// # Errors
/// [`UnsupportedAttr`] if a field that the kernel does not know is not zero.
pub fn shorten(bytes: &[u8; SIZE], kernel_size: usize) -> Result<Vec<u8>, UnsupportedAttr> {
    let kernel_size = kernel_size.clamp(KNOWN_SIZES[0], SIZE);
    for (field, at, len) in LATER_FIELDS {
        let asked = bytes.iter().skip(at).take(len).any(|&byte| byte != 0);
        if at + len > kernel_size && asked {
            return Err(UnsupportedAttr { field, kernel_size });
        }
    }
    let mut shorter = bytes.get(..kernel_size).unwrap_or(bytes).to_vec();
    for (to, from) in shorter.iter_mut().skip(4).zip((kernel_size as u32).to_ne_bytes()) {
        *to = from;
    }
    Ok(shorter)
}

/// The attribute in bytes of any size that kernels have had; missing fields are zero. None if there are fewer bytes than the first
/// version has.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<EventAttr> {
    if bytes.len() < KNOWN_SIZES[0] {
        return None;
    }
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| byte(at + i)));
    let half = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| byte(at + i)));
    let mut attr = EventAttr {
        kind: half(0),
        config: word(8),
        sample_type: word(24),
        read_format: word(32),
        bp_type: half(52),
        config1: word(56),
        config2: word(64),
        branch_sample_type: word(72),
        sample_regs_user: word(80),
        sample_stack_user: half(88),
        clockid: half(92).cast_signed(),
        sample_regs_intr: word(96),
        aux_watermark: half(104),
        sample_max_stack: u16::from_ne_bytes([byte(108), byte(109)]),
        aux_sample_size: half(112),
        sig_data: word(120),
        config3: word(128),
        ..EventAttr::default()
    };
    attr.set_flags(word(40));
    if attr.freq {
        attr.sample_freq = word(16)
    } else {
        attr.sample_period = word(16)
    }
    if attr.watermark {
        attr.wakeup_watermark = half(48)
    } else {
        attr.wakeup_events = half(48)
    }
    Some(attr)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn places_equal_those_of_the_kernel_header() {
        use perf_event_open_sys::bindings::perf_event_attr as theirs;
        macro_rules! place {
            ($($field:ident),*) => { [$((stringify!($field), std::mem::offset_of!(theirs, $field))),*] };
        }
        let places = place!(
            branch_sample_type,
            sample_regs_user,
            sample_stack_user,
            clockid,
            sample_regs_intr,
            aux_watermark,
            sample_max_stack,
            aux_sample_size,
            sig_data
        );
        for (name, at) in places {
            assert!(
                LATER_FIELDS.iter().any(|(field, place, _)| *field == name && *place == at),
                "{name} at {at}"
            );
        }
        let attr = EventAttr {
            kind: 1,
            config: 2,
            sample_period: 3,
            sample_type: 4,
            read_format: 5,
            wakeup_events: 6,
            bp_type: 7,
            config1: 8,
            config2: 9,
            ..EventAttr::default()
        };
        let bytes = encode(&attr).unwrap();
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        assert_eq!(words[..9], [1 | (SIZE as u64) << 32, 2, 3, 4, 5, 0, 6 | 7 << 32, 8, 9]);
    }

    #[test]
    fn a_field_that_an_older_kernel_lacks_is_named() {
        let attr = EventAttr { sig_data: 1, ..EventAttr::default() };
        let bytes = encode(&attr).unwrap();
        assert_eq!(shorten(&bytes, 128).unwrap().len(), 128);
        assert_eq!(shorten(&bytes, 120), Err(UnsupportedAttr { field: "sig_data", kernel_size: 120 }));
        let plain = encode(&EventAttr::default()).unwrap();
        for size in KNOWN_SIZES {
            let shorter = shorten(&plain, size).unwrap();
            assert_eq!(shorter.len(), size);
            assert_eq!(shorter[4..8], (size as u32).to_ne_bytes());
        }
        assert_eq!(shorten(&plain, 0).unwrap().len(), 64);
        assert_eq!(shorten(&plain, 1 << 20).unwrap().len(), SIZE);
    }

    proptest! {
        #[test]
        fn an_encoded_attribute_is_read_back(
            words in prop::array::uniform10(any::<u64>()),
            halves in prop::array::uniform7(any::<u32>()),
            flags in 0..1u64 << 38,
        ) {
            let mut attr = EventAttr {
                kind: halves[0], config: words[0], config1: words[1], config2: words[2], config3: words[3],
                sample_type: words[4], read_format: words[5], branch_sample_type: words[6], sample_regs_user: words[7],
                sample_regs_intr: words[8], sig_data: words[9], sample_stack_user: halves[1], sample_max_stack: halves[2] as u16,
                aux_watermark: halves[3], aux_sample_size: halves[4], bp_type: halves[5], ..EventAttr::default()
            };
            attr.set_flags(flags);
            if attr.use_clockid { attr.clockid = 1 }
            if attr.freq { attr.sample_freq = words[9] } else { attr.sample_period = words[9] }
            if attr.watermark { attr.wakeup_watermark = halves[6] } else { attr.wakeup_events = halves[6] }
            let bytes = encode(&attr).unwrap();
            prop_assert_eq!(decode(&bytes), Some(attr));
        }

        #[test]
        fn any_bytes_are_an_attribute_or_too_short(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(attr) = decode(&bytes) {
                let _ = encode(&attr).map(|encoded| shorten(&encoded, bytes.len()));
            }
        }
    }
}

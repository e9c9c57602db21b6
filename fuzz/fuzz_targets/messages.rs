//! Any bytes as a message of the programs: no panic, and no more items than there are bytes for.
#![no_main]

use kernel::{Message, decode_message};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let stack = match decode_message(bytes) {
        Some(Message::Stack(stack)) => stack,
        Some(Message::Raw(raw)) => {
            assert!(raw.len() <= bytes.len());
            for address in [0, raw.bottom(), raw.bottom().wrapping_add(raw.len() as u64), raw.pc, u64::MAX] {
                let _ = raw.word(address);
            }
            raw.stack
        }
        _ => return,
    };
    let attached = &stack.attached;
    let words = stack.kernel.len() + stack.user.len() + 2 * (attached.interpreted.len() + attached.links.len());
    assert!(8 * words <= bytes.len());
});

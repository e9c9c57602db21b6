//! Any bytes as line table of each version, and as what an interpreter tells of itself: no panic, no more lines than bytes, and no offset
//! outside of what a program may have.
#![no_main]

use interpreters::python::{Layout, Version, lines};

libfuzzer_sys::fuzz_target!(|input: (u32, u32, &[u8])| {
    let (first_line, raw, bytes) = input;
    for minor in 7..16 {
        let version = Version { major: 3, minor, micro: 0 };
        let lines = lines::lines(version, first_line, bytes);
        assert!(lines.len() <= bytes.len() + 1);
        assert!(lines.is_sorted_by(|a, b| a.0 < b.0));
        let _ = lines::instruction(version, raw);
    }
    // The cookie, the version and the kind of build are not left to chance.
    for (minor, hex) in [(13u8, 0x030d_00f0u64), (14, 0x030e_00f0)] {
        let told = [&b"xdebugpy"[..], &hex.to_le_bytes(), &[0; 8], bytes].concat();
        if let Ok(layout) = Layout::from_debug_offsets(&told, Version { major: 3, minor, micro: 0 }) {
            assert!(layout.frame_bytes <= 1024 && layout.tstate_thread_id < 1024);
            assert!(
                layout.frame_bytes > layout.frame_entry && layout.frame_bytes >= layout.frame_instruction + 8
            );
        }
    }
});

//! Any head of an answer of a debuginfod server: no panic, content within the limit, and redirections that stay with http and https and never
//! leave a protected connection.
#![no_main]

use debuginfod::answer::{Head, Step, step};

/// What a file may have.
const MAX: u64 = 1 << 20;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [low, high, rest @ ..] = bytes else { return };
    let text = String::from_utf8_lossy(rest);
    let mut lines = text.split('\n');
    let url = match lines.next() {
        Some(path) if low % 2 == 0 => format!("http://host/{path}"),
        path => format!("https://host:8002/{}", path.unwrap_or_default()),
    };
    let head = Head {
        status: u16::from_le_bytes([*low, *high]) % 700,
        location: lines.next(),
        retry_after: lines.next(),
        content_length: lines.next(),
    };
    match step(&url, &head, MAX) {
        Step::Content(length) => assert!(head.status == 200 && length.is_none_or(|length| length <= MAX)),
        Step::Redirect(target) => {
            let (scheme, rest) = target.split_once("://").expect("an address");
            assert!(scheme == "https" || (scheme == "http" && url.starts_with("http:")), "{target}");
            assert!(!rest.is_empty() && !rest.starts_with('/') && target.len() <= 4096, "{target}");
            assert!(!target.contains(['#', ' ', '\r', '\n']) || url.contains(['#', ' ', '\r']), "{target}");
        }
        Step::Again(pause) => assert!(pause.is_none_or(|pause| pause.as_secs() <= 3600)),
        Step::NotFound | Step::TooLarge | Step::Refused => {}
    }
});

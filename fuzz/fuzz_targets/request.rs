//! Any bytes as head of an HTTP request: no panic, and what a head means does not change by what follows it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(Some(request)) = metrics::endpoint::parse(bytes) else { return };
    let longer = [bytes, b"body\r\n\r\n\xff"].concat();
    assert_eq!(metrics::endpoint::parse(&longer), Ok(Some(request)));
});

//! Any text as the name of a function: a readable name is made without a panic, in bounded time and memory, and names that are not
//! mangled stay as they are.
#![no_main]

#[path = "../allocations.rs"]
mod allocations;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    for prefix in ["", "_D", "_Z", "_R"] {
        let name = format!("{prefix}{text}");
        let readable = allocations::bounded(64 << 20, || symbols::demangle(&name));
        let is_mangled = ["_D", "_Z", "_R"].iter().any(|prefix| name.starts_with(prefix));
        assert!(is_mangled || readable == name || name.len() > 4096);
    }
});

//! Any name of a directory and of a file in it, with a line feed between them, as an entry of the cache of fetched files: no panic, and what is
//! recognized has exactly this name.
#![no_main]

use debuginfod::entry::Entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (folder, name) = (&bytes[..end], bytes.get(end + 1..).unwrap_or_default());
    let is = |artifact: &debuginfod::Artifact, of: &str| {
        let path = artifact.folder().join(of);
        assert_eq!(path.to_str().expect("plain text").as_bytes(), [b".build-id/", folder, b"/", name].concat());
    };
    match Entry::parse(folder, name) {
        Some(Entry::File(artifact)) => is(&artifact, &artifact.file_name()),
        Some(Entry::Missing(artifact)) => is(&artifact, &artifact.missing_name()),
        Some(Entry::Temporary) => assert!(name.starts_with(b".") && name.ends_with(b".tmp")),
        None => {}
    }
});

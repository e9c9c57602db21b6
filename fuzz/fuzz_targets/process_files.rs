//! Any bytes as what /proc tells of a process: mappings, control groups, environment, state. No panic; mappings are not empty, and labels
//! are no longer than what they were read from.
#![no_main]

use process::{Labels, OwnPod, cgroup, maps, task};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut entries = 0;
    let read = maps::for_each(bytes, |entry| {
        assert!(entry.start < entry.end && entry.path.len() <= bytes.len());
        assert!(maps::unescape(entry.path).len() <= entry.path.len());
        entries += 1;
    });
    assert!(read.is_ok() && entries <= bytes.len());
    if let Some(stat) = task::parse_stat(bytes) {
        // A byte that is not UTF-8 takes three.
        assert!(stat.comm.len() <= 3 * bytes.len());
    }
    let _ = cgroup::parse(bytes);
    let labels = Labels::from_contents(bytes, || bytes.to_vec(), &OwnPod::default());
    for (key, value) in labels.iter() {
        assert!(value.len() <= 3 * bytes.len(), "{key}");
    }
});

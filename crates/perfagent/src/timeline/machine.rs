//! What the file tells of the machine.

use perf_data::{Features, FileBuildId};

/// The features that are known without a sample.
pub(super) fn features(build_ids: Vec<FileBuildId>) -> Features {
    let uname = rustix::system::uname();
    let text = |text: &std::ffi::CStr| Some(text.to_string_lossy().into_owned());
    let online = events::online_cpus().map_or(1, |cpus| cpus.len() as u32);
    let available = std::fs::read_to_string("/sys/devices/system/cpu/present").ok();
    // The numbers up to the largest one, as `perf record` tells it.
    let available = available.and_then(|list| list.trim().rsplit([',', '-']).next()?.parse::<u32>().ok());
    let available = available.map_or(online, |last| online.max(last.saturating_add(1)));
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let after = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    Features {
        build_ids,
        hostname: text(uname.nodename()),
        os_release: text(uname.release()),
        version: Some(concat!("perf-agent ", env!("CARGO_PKG_VERSION")).to_owned()),
        arch: text(uname.machine()),
        cpus: Some((available, online)),
        cpu_description: after(&cpus, "model name"),
        memory_kib: after(&memory, "MemTotal").and_then(|kib| kib.split(' ').next()?.parse().ok()),
        command_line: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        clock_resolution_ns: Some(1),
        ..Features::default()
    }
}

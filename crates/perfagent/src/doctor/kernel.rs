//! Checks of the kernel: release, type information, lockdown.

use std::io::Read;

use super::check::{Check, Status, read};

/// The oldest supported kernel.
const OLDEST: (u32, u32) = (5, 8);

/// Compares the release with the oldest supported one.
pub(super) fn release() -> Check {
    judge_release(&read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()))
}

fn judge_release(release: &str) -> Check {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>());
    let version = match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Some((major, minor)),
        _ => None,
    };
    let check = |status| Check::new("kernel", "every mode", status, release);
    match version {
        Some(version) if version >= OLDEST => check(Status::Ok),
        Some(_) => check(Status::Fail).fixed_by("boot Linux 5.8 or later"),
        None => check(Status::Warn).fixed_by("the release cannot be read; Linux 5.8 or later is needed"),
    }
}

/// Looks for the type information of the running kernel.
pub(super) fn btf() -> Check {
    let path = "/sys/kernel/btf/vmlinux";
    let mut magic = [0u8; 2];
    let result = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    let check = |status, value: String| Check::new("btf", "every mode", status, value);
    match result {
        Ok(()) if u16::from_ne_bytes(magic) == 0xeb9f => check(Status::Ok, format!("{path} readable")),
        Ok(()) => check(Status::Fail, format!("{path} does not contain BTF"))
            .fixed_by("a kernel built with CONFIG_DEBUG_INFO_BTF=y"),
        Err(error) => check(Status::Fail, format!("{path}: {error}"))
            .fixed_by("a kernel built with CONFIG_DEBUG_INFO_BTF=y; in a container, /sys must be mounted"),
    }
}

/// Checks what the lockdown module forbids.
pub(super) fn lockdown() -> Check {
    judge_lockdown(read("/sys/kernel/security/lockdown").as_deref())
}

fn judge_lockdown(text: Option<&str>) -> Check {
    let mode = text.and_then(|text| text.split_once('[')?.1.split_once(']')).map(|(mode, _)| mode);
    let check = |status, value: &str| Check::new("lockdown", "every mode", status, value);
    match (text, mode) {
        (None, _) => check(Status::Ok, "not active (no lockdown file)"),
        (_, Some("none")) => check(Status::Ok, "none"),
        (_, Some("integrity")) => check(Status::Ok, "integrity: it forbids nothing that profiles need"),
        (_, Some("confidentiality")) => {
            check(Status::Fail, "confidentiality: programs may not read kernel memory")
                .fixed_by("boot with lockdown=integrity, or without lockdown")
        }
        (Some(text), _) => check(Status::Warn, &format!("not understood: {text}"))
            .fixed_by("if programs are refused, boot without lockdown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        for (release, status) in [
            ("6.18.44-fc-v669", Status::Ok),
            ("5.8.0", Status::Ok),
            ("5.8-rc1", Status::Ok),
            ("5.7.19", Status::Fail),
            ("4.19.0-26-amd64", Status::Fail),
            ("10.0", Status::Ok),
            ("unknown", Status::Warn),
            ("", Status::Warn),
        ] {
            assert_eq!(judge_release(release).status, status, "{release}");
        }
    }

    #[test]
    fn lockdown_modes() {
        for (text, status) in [
            (None, Status::Ok),
            (Some("[none] integrity confidentiality"), Status::Ok),
            (Some("none [integrity] confidentiality"), Status::Ok),
            (Some("none integrity [confidentiality]"), Status::Fail),
            (Some("?"), Status::Warn),
        ] {
            assert_eq!(judge_lockdown(text).status, status, "{text:?}");
        }
    }
}

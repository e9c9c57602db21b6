//! Checks of mounts and namespaces: tracefs, cgroups, PID, user and time namespaces.

use std::io;
use std::path::{Path, PathBuf};

use events::monitor::Tracefs;
use sys::confinement::confinement;

use super::check::{Check, Status};

/// Inode of the first PID namespace (`PROC_PID_INIT_INO`).
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// The fields of a line in `/proc/self/mountinfo` that the checks use.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    point: PathBuf,
    kind: String,
    options: String,
}

fn mounts() -> Vec<Mount> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(parse_mount).collect()
}

/// `36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn parse_mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut right = right.split(' ');
    Some(Mount {
        point: unescape(left.split(' ').nth(4)?).into(),
        kind: right.next()?.to_owned(),
        options: right.nth(1).unwrap_or_default().to_owned(),
    })
}

/// Replaces the octal escapes that the kernel uses for blank, tab, line feed and backslash.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

/// Looks for tracefs, which describes tracepoints.
pub(super) fn tracefs() -> Check {
    let mounted = mounts().into_iter().find(|mount| mount.kind == "tracefs").map(|mount| mount.point);
    let usual = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from);
    let place = mounted.or_else(|| usual.into_iter().find(|place| is_tracefs(place)));
    let check =
        |status, value: String| Check::new("tracefs", "tracepoints: --event GROUP:NAME", status, value);
    match place {
        None if Tracefs::find(None).is_ok() => {
            check(Status::Ok, "not mounted; perf-agent mounts it for itself".to_owned())
        }
        None => check(Status::Warn, "not mounted".to_owned())
            .fixed_by("`mount -t tracefs tracefs /sys/kernel/tracing`, or grant cap_sys_admin"),
        Some(place) => match std::fs::read_dir(place.join("events")) {
            Ok(_) => check(Status::Ok, format!("{} readable", place.display())),
            Err(error) => check(Status::Warn, format!("{}: {error}", place.display()))
                .fixed_by("grant cap_dac_read_search"),
        },
    }
}

fn is_tracefs(place: &Path) -> bool {
    std::fs::exists(place.join("events")).unwrap_or(false)
}

/// Checks which cgroup hierarchies exist, and in which one perf events attach.
pub(super) fn cgroup() -> Check {
    judge_cgroup(&mounts())
}

fn judge_cgroup(mounts: &[Mount]) -> Check {
    let v2 = mounts.iter().find(|mount| mount.kind == "cgroup2");
    let v1: Vec<_> = mounts.iter().filter(|mount| mount.kind == "cgroup").collect();
    let perf = v1.iter().find(|mount| mount.options.split(',').any(|option| option == "perf_event"));
    let layout = match (v1.is_empty(), v2) {
        (true, None) => {
            return Check::new("cgroup", "container labels", Status::Warn, "no hierarchy mounted")
                .fixed_by("mount /sys/fs/cgroup to have container labels");
        }
        (true, Some(_)) => "v2",
        (false, None) => "v1",
        (false, Some(_)) => "hybrid",
    };
    let place = match (perf, v2) {
        (Some(mount), _) => format!("perf events attach in {}", mount.point.display()),
        (None, Some(mount)) => format!("perf events attach in {}", mount.point.display()),
        (None, None) => "perf events cannot be tied to a cgroup".to_owned(),
    };
    Check::new("cgroup", "container labels", Status::Ok, format!("{layout}; {place}"))
}

/// Checks whether the agent sees the whole machine or only a container.
pub(super) fn pid_namespace() -> Check {
    let check = |status, value: String| {
        Check::new("pid namespace", "which processes -a and --pid see", status, value)
    };
    match std::fs::read_link("/proc/self/ns/pid") {
        Ok(link) if link.as_os_str() == INITIAL_PID_NAMESPACE => {
            check(Status::Ok, "the initial one".to_owned())
        }
        Ok(link) => check(Status::Warn, format!("a nested one, {}", link.display()))
            .fixed_by("`hostPID: true` in the pod's settings, to see the processes of the whole machine"),
        Err(error) => check(Status::Warn, format!("/proc/self/ns/pid: {error}")).fixed_by("mount /proc"),
    }
}

/// Checks whether the capabilities of this process count for the kernel.
pub(super) fn user_namespace() -> Check {
    let check = |status, value: String| Check::new("user namespace", "every mode", status, value);
    match confinement().user_namespace {
        None => check(Status::Ok, "the first one".to_owned()),
        Some(namespace) => check(
            Status::Fail,
            format!("{namespace}: capabilities in it do not count for BPF and perf events"),
        )
        .fixed_by("run perf-agent as root outside of it, or in a container that is not rootless"),
    }
}

/// Checks whether the clocks of this process are those of the kernel.
pub(super) fn time_namespace() -> Check {
    judge_time_namespace(sys::clock::time_namespace())
}

fn judge_time_namespace(shift: io::Result<Option<i64>>) -> Check {
    let check = |status, value: String| {
        Check::new("time namespace", "times of samples, off-CPU time, waits for locks", status, value)
    };
    match shift {
        Ok(None) => check(Status::Ok, "the initial one".to_owned()),
        Ok(Some(ahead_ns)) => {
            let seconds = ahead_ns.unsigned_abs() as f64 / 1e9;
            let word = if ahead_ns > 0 { "behind" } else { "ahead of" };
            let value = format!(
                "a nested one; its clock is {seconds:.3} s {word} the kernel's, which is taken into account"
            );
            check(Status::Ok, value)
        }
        Err(error) => check(
            Status::Fail,
            format!("a nested one; its clock cannot be compared with the kernel's: perf_event_open: {error}"),
        )
        .fixed_by("run perf-agent in the initial time namespace: nsenter -T -t 1 perf-agent ..."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(kind: &str, point: &str, options: &str) -> Mount {
        Mount { point: point.into(), kind: kind.into(), options: options.into() }
    }

    #[test]
    fn reads_mountinfo() {
        let line = r"36 35 98:0 / /mnt/a\040b rw,noatime master:1 shared:2 - tracefs none rw,x";
        assert_eq!(parse_mount(line), Some(mount("tracefs", "/mnt/a b", "rw,x")));
        for line in ["", "1 2 3", "1 2 3:4 / /x rw", " - "] {
            assert_eq!(parse_mount(line), None, "{line:?}");
        }
    }

    #[test]
    fn cgroup_layouts() {
        let v2 = || mount("cgroup2", "/sys/fs/cgroup/unified", "rw");
        let cpu = || mount("cgroup", "/sys/fs/cgroup/cpu", "rw,cpu");
        let perf = || mount("cgroup", "/sys/fs/cgroup/perf_event", "rw,perf_event");
        let value = |mounts: &[Mount]| judge_cgroup(mounts).value;
        assert_eq!(value(&[v2()]), "v2; perf events attach in /sys/fs/cgroup/unified");
        assert_eq!(value(&[cpu(), perf()]), "v1; perf events attach in /sys/fs/cgroup/perf_event");
        assert_eq!(value(&[cpu(), v2()]), "hybrid; perf events attach in /sys/fs/cgroup/unified");
        assert_eq!(value(&[cpu()]), "v1; perf events cannot be tied to a cgroup");
        assert_eq!(judge_cgroup(&[]).status, Status::Warn);
    }
    #[test]
    fn a_time_namespace_is_named_with_its_shift() {
        let of = |shift| {
            let check = judge_time_namespace(shift);
            (check.status, check.value)
        };
        assert_eq!(of(Ok(None)), (Status::Ok, "the initial one".to_owned()));
        let (status, value) = of(Ok(Some(-3_000_000_500_000_000)));
        assert_eq!(status, Status::Ok);
        assert!(value.contains("3000000.500 s ahead of the kernel's"), "{value}");
        assert!(of(Ok(Some(7_000_000_000))).1.contains("7.000 s behind the kernel's"));
        let (status, value) = of(Err(io::Error::from_raw_os_error(13)));
        assert!(status == Status::Fail && value.contains("Permission denied"), "{value}");
    }
}

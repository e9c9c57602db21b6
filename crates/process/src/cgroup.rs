//! Container and pod from the paths of control groups.
//!
//! Pure: text in, ids out. Only known forms of paths give ids; any other gives the path alone.

/// The control group of a process, and the ids in its path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cgroup {
    /// The path; only the part after the last `..` if it is seen from another cgroup namespace. `/` for the root.
    pub path: String,
    /// How far the path leads up from the root of the reader's cgroup namespace before it leads down; 0: the group is below it.
    pub levels_up: usize,
    /// UID of the pod: 8-4-4-4-12 in lower case, or 32 digits for static pods.
    pub pod_uid: Option<String>,
    /// Id of the container, without the runtime's prefix; for LXC its name.
    pub container_id: Option<String>,
}

/// Runtimes with scopes of the form `RUNTIME-ID.scope` or parts of the form `…:RUNTIME:ID`.
const RUNTIMES: [&str; 6] = ["cri-containerd", "crio", "docker", "libpod", "containerd", "nerdctl"];
/// Processes that watch a container from outside.
const MONITORS: [&str; 2] = ["crio-conmon", "libpod-conmon"];

/// Reads the content of `/proc/PID/cgroup`: `ID:CONTROLLERS:PATH` per line. Of the hierarchies whose path names a pod or
/// container, it takes the first in the order v2, `name=systemd`, `memory`, `cpu`, `pids`, others. If no path names one, it
/// takes v2, else `name=systemd`. None if there is neither.
#[must_use]
pub fn parse(content: &[u8]) -> Option<Cgroup> {
    let mut hierarchies: Vec<(usize, Cgroup)> = String::from_utf8_lossy(content)
        .lines()
        .filter_map(|line| {
            // The path may contain colons itself.
            let mut fields = line.splitn(3, ':');
            let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            Some((rank(id, controllers), of_path(path)))
        })
        .collect();
    hierarchies.sort_by_key(|&(rank, _)| rank);
    let has_id = |cgroup: &Cgroup| cgroup.pod_uid.is_some() || cgroup.container_id.is_some();
    let best = hierarchies
        .iter()
        .position(|(_, cgroup)| has_id(cgroup))
        .or_else(|| hierarchies.iter().position(|&(rank, _)| rank <= SYSTEMD))?;
    Some(hierarchies.swap_remove(best).1)
}

const SYSTEMD: usize = 1;

fn rank(id: &str, controllers: &str) -> usize {
    if id == "0" && controllers.is_empty() {
        return 0;
    }
    let has = |name: &str| controllers.split(',').any(|controller| controller == name);
    ["name=systemd", "memory", "cpu", "pids"].iter().position(|name| has(name)).map_or(5, |at| SYSTEMD + at)
}

/// The ids in one path.
#[must_use]
pub fn of_path(path: &str) -> Cgroup {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let resolved = parts.iter().rposition(|&part| part == "..").map(|at| &parts[at + 1..]);
    let relative = resolved.is_some();
    let levels_up = parts.iter().filter(|part| **part == "..").count();
    let parts = resolved.unwrap_or(&parts);
    let path = if relative { format!("/{}", parts.join("/")) } else { path.to_owned() };
    let container = (0..parts.len()).rev().find_map(|at| Some((at, container_at(parts, at, relative)?)));
    let pod = |from: usize| parts[..from].iter().rposition(|part| pod_uid(part).is_some());
    let deepest_pod = pod(parts.len());
    let (container_id, pod_at) = match container {
        // The node itself is a container, and the process is in the group of a pod, not in one of its containers.
        Some((at, _)) if deepest_pod.is_some_and(|pod| pod > at) => (None, deepest_pod),
        Some((at, Part::Container(id))) => (Some(id.to_owned()), pod(at + 1)),
        Some((at, Part::Monitor)) => (None, pod(at + 1)),
        None => (None, deepest_pod),
    };
    Cgroup { path, levels_up, pod_uid: pod_at.and_then(|at| pod_uid(parts[at])), container_id }
}

enum Part<'a> {
    Container(&'a str),
    Monitor,
}

/// The container that the part at `at` names.
fn container_at<'a>(parts: &[&'a str], at: usize, relative: bool) -> Option<Part<'a>> {
    let part = parts[at];
    let above = |levels: usize| at.checked_sub(levels).map(|above| parts[above]);
    if let Some(scope) = part.strip_suffix(".scope") {
        return scope.rsplit_once('-').and_then(|(runtime, id)| of_runtime(runtime, id));
    }
    if let Some((front, id)) = part.rsplit_once(':') {
        return front.rsplit_once(':').and_then(|(_, runtime)| of_runtime(runtime, id));
    }
    if let Some(name) = part.strip_prefix("lxc.payload.") {
        return (!name.is_empty()).then_some(Part::Container(name));
    }
    let parent = above(1);
    if parent == Some("lxc") {
        return Some(Part::Container(part));
    }
    let among_containers = parent == Some("docker") || parent.is_some_and(|parent| pod_uid(parent).is_some());
    let in_task = above(2) == Some("ecs");
    // A container beside the agent's own, seen from inside of the agent's.
    let beside_agent = relative && at == 0 && part.len() == 64;
    ((among_containers || in_task || beside_agent) && is_id(part)).then_some(Part::Container(part))
}

fn of_runtime<'a>(runtime: &str, id: &'a str) -> Option<Part<'a>> {
    if !is_id(id) {
        None
    } else if MONITORS.contains(&runtime) {
        Some(Part::Monitor)
    } else {
        RUNTIMES.contains(&runtime).then_some(Part::Container(id))
    }
}

fn is_id(text: &str) -> bool {
    (12..=128).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The UID in `pod<uid>`, in `kubepods[-QOS]-pod<uid_>.slice`, and in the first field of `….slice:RUNTIME:ID`.
fn pod_uid(part: &str) -> Option<String> {
    let group = part.split_once(':').map_or(part, |(group, _)| group);
    let group = group.strip_suffix(".slice").unwrap_or(group);
    let uid = group.strip_prefix("pod").or_else(|| {
        let at = group.rfind("-pod")?;
        group[..at].contains("kubepods").then(|| &group[at + 4..])
    })?;
    if uid.len() == 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Some(uid.to_owned());
    }
    let groups: Vec<&str> = uid.split(['-', '_']).collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let is_uid = lengths == [8, 4, 4, 4, 12]
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_uid.then(|| groups.join("-").to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const INNER: &str = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";
    const UID: &str = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
    const UID_: &str = "1b4e28ba_2fa1_11d2_883f_0016d3cca427";

    #[test]
    fn known_forms() {
        let (pod, id, inner, name) = (Some(UID), Some(ID), Some(INNER), Some("web-1"));
        let static_pod = "0123456789abcdef0123456789ABCDEF";
        let slices = format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice");
        for (path, expected_pod, expected_id) in [
            (format!("/kubepods/pod{UID}/{ID}"), pod, id),
            (format!("/kubepods/besteffort/pod{UID}/{ID}"), pod, id),
            (format!("/kubepods/burstable/pod{UID}/{ID}"), pod, id),
            (format!("/kubepods/burstable/pod{}/{ID}", UID.to_uppercase()), pod, id),
            (format!("/kubepods.slice/kubepods-pod{UID_}.slice/cri-containerd-{ID}.scope"), pod, id),
            (format!("{slices}/cri-containerd-{ID}.scope"), pod, id),
            (format!("{slices}/crio-{ID}.scope"), pod, id),
            (format!("{slices}/docker-{ID}.scope"), pod, id),
            (format!("{slices}/crio-{ID}.scope/container"), pod, id),
            (format!("{slices}/cri-containerd-{ID}.scope/init.scope"), pod, id),
            (format!("{slices}/cri-containerd-{ID}.scope/system.slice/x.service"), pod, id),
            (format!("/kubepods-burstable-pod{UID_}.slice:cri-containerd:{ID}"), pod, id),
            (
                format!(
                    "/system.slice/containerd.service/kubepods-burstable-pod{UID_}.slice:cri-containerd:{ID}"
                ),
                pod,
                id,
            ),
            (
                format!("/system.slice/containerd.service/kubepods-besteffort-pod{UID_}:cri-containerd:{ID}"),
                pod,
                id,
            ),
            (format!("{slices}/crio-conmon-{ID}.scope"), pod, None),
            (format!("/docker/{ID}"), None, id),
            (format!("/system.slice/docker-{ID}.scope"), None, id),
            (format!("/machine.slice/libpod-{ID}.scope"), None, id),
            (format!("/machine.slice/libpod-{ID}.scope/container"), None, id),
            (format!("/machine.slice/libpod-conmon-{ID}.scope"), None, None),
            (format!("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope"), None, id),
            ("/lxc/web-1".to_owned(), None, name),
            ("/lxc/web-1/system.slice/x.service".to_owned(), None, name),
            ("/lxc.payload.web-1".to_owned(), None, name),
            ("/lxc.payload.web-1/init.scope".to_owned(), None, name),
            ("/lxc.monitor.web-1".to_owned(), None, None),
            (format!("/ecs/0f9de17a6465404e8b2b2356dc13c2f8/{ID}"), None, id),
            (format!("/kubepods/burstable/pod{static_pod}/{ID}"), Some(static_pod), id),
            // The id may be short.
            ("/docker/0123456789ab".to_owned(), None, Some("0123456789ab")),
            // A process of the pod itself.
            (format!("/kubepods/burstable/pod{UID}"), pod, None),
            (slices.clone(), pod, None),
            (format!("/kubepods/burstable/pod{UID}/pause"), pod, None),
            // The innermost container, and the pod nearest above it.
            (format!("/docker/{ID}/kubelet/kubepods/burstable/pod{UID}/{INNER}"), pod, inner),
            (
                format!(
                    "/docker/{ID}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID_}.slice/cri-containerd-{INNER}.scope"
                ),
                pod,
                inner,
            ),
            (format!("/docker/{ID}/docker/{INNER}"), None, inner),
            (format!("/kubepods/pod{UID}/{ID}/docker/{INNER}"), pod, inner),
            (format!("/docker/{ID}/kubepods/pod{UID}"), pod, None),
            // Seen from another cgroup namespace.
            (format!("/../../pod{UID}/{ID}"), pod, id),
            (format!("/../cri-containerd-{ID}.scope"), None, id),
            (format!("/../{ID}"), None, id),
            (format!("/../kubepods/../burstable/pod{UID}/{ID}"), pod, id),
            (format!("/docker/{ID} (deleted)"), None, id),
            // Unknown forms.
            ("/".to_owned(), None, None),
            (String::new(), None, None),
            ("/..".to_owned(), None, None),
            ("/user.slice/user-0.slice/session-1.scope".to_owned(), None, None),
            (format!("/actions_job/{ID}"), None, None),
            (format!("/docker/{}", ID.to_uppercase()), None, None),
            ("/docker/0123456789a".to_owned(), None, None),
            ("/docker/buildkit".to_owned(), None, None),
            (format!("/system.slice/other-{ID}.scope"), None, None),
            (format!("/kubepods/pod{}/x", &UID[1..]), None, None),
        ] {
            let cgroup = of_path(&path);
            assert_eq!(cgroup.pod_uid.as_deref(), expected_pod, "{path}");
            assert_eq!(cgroup.container_id.as_deref(), expected_id, "{path}");
        }
    }

    #[test]
    fn the_path_is_shown_after_its_last_step_up() {
        for (path, expected) in [
            ("/", "/"),
            ("/..", "/"),
            ("/../a/b", "/a/b"),
            ("/../../a/../b:c", "/b:c"),
            ("/a..b/..c", "/a..b/..c"),
            ("/../a/..c", "/a/..c"),
            ("/x.service (deleted)", "/x.service"),
        ] {
            assert_eq!(of_path(path).path, expected);
            assert_eq!(of_path(path).levels_up, path.split('/').filter(|part| *part == "..").count());
        }
    }

    #[test]
    fn a_hierarchy_with_ids_is_preferred() {
        let path = |text: &str| parse(text.as_bytes()).map(|cgroup| cgroup.path);
        let v2 = format!("0::/kubepods/pod{UID}/{ID}\n");
        assert_eq!(path(&v2), Some(format!("/kubepods/pod{UID}/{ID}")));
        // Hybrid: v2 is empty, v1 carries the container.
        let hybrid =
            format!("12:pids:/docker/{INNER}\n4:cpu,cpuacct:/x\n1:name=systemd:/docker/{ID}\n0::/\n");
        assert_eq!(path(&hybrid), Some(format!("/docker/{ID}")));
        let memory = format!("9:pids:/docker/{INNER}\n8:memory:/docker/{ID}\n1:name=systemd:/x\n");
        assert_eq!(path(&memory), Some(format!("/docker/{ID}")));
        let cpu = format!("9:pids:/docker/{INNER}\n3:cpuset:/docker/{INNER}\n2:cpuacct,cpu:/docker/{ID}\n");
        assert_eq!(path(&cpu), Some(format!("/docker/{ID}")));
        assert_eq!(path(&format!("3:cpuset:/docker/{ID}\n0::/x\n")), Some(format!("/docker/{ID}")));
        // No hierarchy has an id.
        assert_eq!(path("2:cpu:/b\n1:name=systemd:/a\n0::/c\n"), Some("/c".to_owned()));
        assert_eq!(path("2:cpu:/b\n1:name=systemd:/a\n"), Some("/a".to_owned()));
        assert_eq!(path("2:cpu:/b\n"), None);
        assert_eq!(path("nonsense\n"), None);
        assert_eq!(parse(b"0::/a:b:c\xff\n").unwrap().path, "/a:b:c\u{fffd}");
    }

    proptest! {
        #[test]
        fn any_text_is_accepted(text in "(0::|1:name=systemd:)?[/.:a-f0-9_\\-(podsliecr) é]{0,120}") {
            let _ = parse(text.as_bytes());
            let _ = of_path(&text);
        }
    }
}

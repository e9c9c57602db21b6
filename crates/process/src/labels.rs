//! Labels that name the container and the pod of a process, from its control group and its environment.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::cgroup::{self, Cgroup};
use crate::cgroup_dir::FIRST_NAMESPACE;
use crate::error::Error;
use crate::task;

/// Bytes of an environment that are read.
const MAX_ENVIRONMENT_BYTES: u64 = 4 << 20;
/// Longer values of variables are cut.
const MAX_VALUE_BYTES: usize = 253;

/// The container of a process. Unknown facts are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels {
    /// UID of the pod.
    pub pod_uid: Option<String>,
    /// Id of the container.
    pub container_id: Option<String>,
    /// Path of the control group, if it is not the root.
    pub cgroup_path: Option<String>,
    /// `POD_NAME` of the process's environment.
    pub pod_name: Option<String>,
    /// `POD_NAMESPACE` of the process's environment.
    pub namespace: Option<String>,
    /// `CONTAINER_NAME` of the process's environment.
    pub container_name: Option<String>,
}

impl Labels {
    /// Reads the labels of a process. If its environment may not be read, the labels from there are absent.
    ///
    /// # Errors
    /// [`Error::Gone`] if there is no such process.
    pub fn read(pid: u32, own: &OwnPod) -> Result<Self, Error> {
        let path = format!("/proc/{pid}/cgroup");
        let path = Path::new(&path);
        let content = task::read_capped(path, 1 << 20).map_err(|source| Error::of(pid, path, source))?;
        Ok(Self::from_contents(&content, || environment(&format!("/proc/{pid}/environ")), own))
    }

    /// The labels that follow from the content of `/proc/PID/cgroup` and, for a process in a container, from that of
    /// `/proc/PID/environ`. Elsewhere a variable with one of these names may mean anything.
    #[must_use]
    pub fn from_contents(cgroup: &[u8], environment: impl FnOnce() -> Vec<u8>, own: &OwnPod) -> Self {
        let cgroup = cgroup::parse(cgroup).unwrap_or_default();
        let is_ours = own.includes(&cgroup);
        let is_in_container = is_ours || cgroup.pod_uid.is_some() || cgroup.container_id.is_some();
        let mut names = if is_in_container { Names::of(&environment()) } else { Names::default() };
        if is_ours {
            names = names.or(&own.names);
        }
        Self {
            pod_uid: cgroup.pod_uid,
            container_id: cgroup.container_id,
            cgroup_path: Some(cgroup.path).filter(|path| !path.is_empty() && path != "/"),
            pod_name: names.pod,
            namespace: names.namespace,
            container_name: names.container,
        }
    }

    /// Keys and values of the known labels.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("pod_uid", &self.pod_uid),
            ("container_id", &self.container_id),
            ("cgroup_path", &self.cgroup_path),
            ("pod_name", &self.pod_name),
            ("namespace", &self.namespace),
            ("container_name", &self.container_name),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value.as_deref()?)))
    }
}

/// The pod that this program runs in. Processes of the same pod get its names, unless they have their own.
#[derive(Clone, Debug, Default)]
pub struct OwnPod {
    uid: Option<String>,
    /// This program has a cgroup namespace of its own: paths begin at its container, so they may show no pod.
    has_namespace: bool,
    names: Names,
}

impl OwnPod {
    /// Reads the facts about this program.
    #[must_use]
    pub fn read() -> Self {
        let cgroup = task::read_capped(Path::new("/proc/self/cgroup"), 1 << 20).unwrap_or_default();
        let namespace = std::fs::metadata("/proc/self/ns/cgroup").map(|namespace| namespace.ino());
        Self {
            uid: cgroup::parse(&cgroup).and_then(|cgroup| cgroup.pod_uid),
            has_namespace: namespace.is_ok_and(|inode| inode != FIRST_NAMESPACE),
            names: Names::of(&environment("/proc/self/environ")),
        }
    }

    /// Whether a group is in this pod. Seen from a cgroup namespace, groups of the own container are at or below its root, and
    /// sibling containers are beside it.
    fn includes(&self, cgroup: &Cgroup) -> bool {
        match (&self.uid, &cgroup.pod_uid) {
            (Some(own), Some(theirs)) => own == theirs,
            (None, None) if self.has_namespace => match cgroup.levels_up {
                0 => true,
                1 => cgroup.container_id.is_some(),
                _ => false,
            },
            _ => false,
        }
    }
}

/// The names that an environment has.
#[derive(Clone, Debug, Default)]
struct Names {
    pod: Option<String>,
    namespace: Option<String>,
    container: Option<String>,
}

impl Names {
    fn of(environment: &[u8]) -> Self {
        let variable = |name: &str| variable(environment, name);
        Self {
            pod: variable("POD_NAME"),
            namespace: variable("POD_NAMESPACE"),
            container: variable("CONTAINER_NAME"),
        }
    }

    fn or(self, other: &Self) -> Self {
        Self {
            pod: self.pod.or_else(|| other.pod.clone()),
            namespace: self.namespace.or_else(|| other.namespace.clone()),
            container: self.container.or_else(|| other.container.clone()),
        }
    }
}

/// The content of a file with an environment; empty if it may not be read.
fn environment(path: &str) -> Vec<u8> {
    task::read_capped(Path::new(path), MAX_ENVIRONMENT_BYTES).unwrap_or_default()
}

/// The value of a variable, cut to its limit. None if it is empty or not UTF-8.
fn variable(environment: &[u8], name: &str) -> Option<String> {
    let mut strings = environment.split(|&byte| byte == 0);
    let value = strings.find_map(|string| string.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    let value = std::str::from_utf8(value).ok().filter(|value| !value.is_empty())?;
    Some(value[..value.floor_char_boundary(MAX_VALUE_BYTES)].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";

    /// The names of a process with this group and environment.
    fn names(cgroup: &str, environment: &[u8], own: &OwnPod) -> [Option<String>; 3] {
        let content = format!("0::{cgroup}\n");
        let labels = Labels::from_contents(content.as_bytes(), || environment.to_vec(), own);
        [labels.pod_name, labels.namespace, labels.container_name]
    }

    fn agent(uid: Option<&str>, has_namespace: bool) -> OwnPod {
        let names = Names::of(b"POD_NAME=agent\0POD_NAMESPACE=system");
        OwnPod { uid: uid.map(str::to_owned), has_namespace, names }
    }

    #[test]
    fn three_variables_are_taken() {
        let environment =
            b"XPOD_NAME=a\0POD_NAME=web-1\0POD_NAMESPACE=\0CONTAINER_NAME=\xff\0SECRET=s\0POD_NAME=b\0";
        let own = OwnPod::default();
        let docker = format!("/docker/{ID}");
        assert_eq!(names(&docker, environment, &own), [Some("web-1".to_owned()), None, None]);
        let long = format!("POD_NAME={}é{}", "x".repeat(252), "y".repeat(100));
        assert_eq!(names(&docker, long.as_bytes(), &own)[0], Some("x".repeat(252)));
    }

    #[test]
    fn the_environment_counts_only_in_containers() {
        let named = |cgroup: &str, own: &OwnPod| names(cgroup, b"POD_NAME=p", own)[0].is_some();
        let host = OwnPod::default();
        for path in ["/", "/user.slice/user-0.slice/session-1.scope", "/system.slice/x.service"] {
            assert!(!named(path, &host), "{path}");
        }
        for path in [format!("/docker/{ID}"), format!("/kubepods/pod{UID}")] {
            assert!(named(&path, &host), "{path}");
        }
        let sidecar = agent(None, true);
        let sibling = format!("/../{ID}");
        for path in ["/", "/init.scope", &sibling, &format!("/../cri-containerd-{ID}.scope/x")] {
            assert!(named(path, &sidecar), "{path}");
        }
        for path in ["/..", "/../sshd.service", "/../../system.slice/x.service", "/../../x"] {
            assert!(!named(path, &sidecar), "{path}");
        }
    }

    #[test]
    fn the_agents_names_are_for_its_own_pod_only() {
        let named = |cgroup: &str, own: &OwnPod| names(cgroup, b"POD_NAME=own", own);
        let (own, system) = (Some("own".to_owned()), Some("system".to_owned()));
        let pod = format!("/kubepods/pod{UID}/{ID}");
        assert_eq!(named(&pod, &agent(Some(UID), false)), [own.clone(), system.clone(), None]);
        let other = UID.replacen('1', "2", 1);
        assert_eq!(named(&pod, &agent(Some(&other), false)), [own.clone(), None, None]);
        assert_eq!(names(&format!("/docker/{ID}"), b"", &agent(None, false)), [None, None, None]);
        // A sidecar with a cgroup namespace: the own container, a sibling, and another pod.
        let sidecar = agent(None, true);
        for path in ["/".to_owned(), format!("/../{ID}")] {
            assert_eq!(named(&path, &sidecar), [own.clone(), system.clone(), None], "{path}");
        }
        assert_eq!(named(&format!("/../../pod{other}/{ID}"), &sidecar), [own, None, None]);
    }

    #[test]
    fn the_environment_is_that_of_the_process() {
        let mut command = Command::new("/bin/cat");
        command.env("POD_NAME", "of the child").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The kernel shows the environment somewhat later than `spawn` returns: wait for an answer.
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let path = format!("/proc/{}/environ", child.id());
        let labels = Labels::from_contents(
            format!("0::/docker/{ID}").as_bytes(),
            || environment(&path),
            &OwnPod::default(),
        );
        assert!(Labels::read(child.id(), &OwnPod::read()).is_ok());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(labels.pod_name.as_deref(), Some("of the child"));
        assert!(matches!(Labels::read(u32::MAX, &OwnPod::default()), Err(Error::Gone { .. })));
    }
}

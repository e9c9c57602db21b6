//! Labels that name the container and the pod of a process, from its control group and its environment.

use std::path::Path;

use crate::error::Error;
use crate::{cgroup, task};

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
    pub fn read(pid: u32) -> Result<Self, Error> {
        let path = format!("/proc/{pid}/cgroup");
        let path = Path::new(&path);
        let content = task::read_capped(path, 1 << 20).map_err(|source| Error::of(pid, path, source))?;
        let environment =
            task::read_capped(Path::new(&format!("/proc/{pid}/environ")), MAX_ENVIRONMENT_BYTES);
        Ok(Self::from_contents(&content, &environment.unwrap_or_default()))
    }

    /// The labels that follow from the contents of `/proc/PID/cgroup` and `/proc/PID/environ`.
    #[must_use]
    pub fn from_contents(cgroup: &[u8], environment: &[u8]) -> Self {
        let cgroup = cgroup::parse(cgroup).unwrap_or_default();
        let variable = |name: &str| variable(environment, name);
        Self {
            pod_uid: cgroup.pod_uid,
            container_id: cgroup.container_id,
            cgroup_path: Some(cgroup.path).filter(|path| !path.is_empty() && path != "/"),
            pod_name: variable("POD_NAME"),
            namespace: variable("POD_NAMESPACE"),
            container_name: variable("CONTAINER_NAME"),
        }
    }

    /// Fills missing names from the agent's own labels, if the process runs in the agent's pod.
    #[must_use]
    pub fn or_of_agent(mut self, agent: &Self) -> Self {
        if self.pod_uid.is_some() && self.pod_uid == agent.pod_uid {
            self.pod_name = self.pod_name.or_else(|| agent.pod_name.clone());
            self.namespace = self.namespace.or_else(|| agent.namespace.clone());
            self.container_name = self.container_name.or_else(|| agent.container_name.clone());
        }
        self
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

    #[test]
    fn three_variables_are_taken() {
        let environment =
            b"XPOD_NAME=a\0POD_NAME=web-1\0POD_NAMESPACE=\0CONTAINER_NAME=\xff\0SECRET=s\0POD_NAME=b\0";
        let labels = Labels::from_contents(b"0::/\n", environment);
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("pod_name", "web-1")]);
        let long = format!("POD_NAME={}é{}", "x".repeat(252), "y".repeat(100));
        assert_eq!(Labels::from_contents(b"", long.as_bytes()).pod_name, Some("x".repeat(252)));
    }

    #[test]
    fn the_agents_names_are_for_its_own_pod_only() {
        let pod = |digit: char, environment: &str| {
            let uid = format!("{digit}b4e28ba-2fa1-11d2-883f-0016d3cca427");
            Labels::from_contents(format!("0::/kubepods/pod{uid}\n").as_bytes(), environment.as_bytes())
        };
        let agent = pod('1', "POD_NAME=agent\0POD_NAMESPACE=system");
        let same = pod('1', "POD_NAME=own").or_of_agent(&agent);
        assert_eq!((same.pod_name.as_deref(), same.namespace.as_deref()), (Some("own"), Some("system")));
        let other = pod('2', "").or_of_agent(&agent);
        assert_eq!((other.pod_name, other.namespace), (None, None));
        let outside = Labels::default().or_of_agent(&Labels { pod_uid: None, ..agent });
        assert_eq!(outside, Labels::default());
    }

    #[test]
    fn the_environment_is_that_of_the_process() {
        let mut command = Command::new("/bin/cat");
        command.env("POD_NAME", "of the child").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The kernel shows the environment somewhat later than `spawn` returns: wait for an answer.
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let labels = Labels::read(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(labels.pod_name.as_deref(), Some("of the child"));
        assert!(matches!(Labels::read(u32::MAX), Err(Error::Gone { .. })));
    }
}

//! Additional sample labels: fixed labels and enrichers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Label keys with their values.
pub type Labels = BTreeMap<String, String>;

/// Keys of labels that the agent itself sets.
pub(crate) const RESERVED_LABELS: [&str; 5] = ["pid", "comm", "tid", "thread", "state"];

/// The facts about a process that an enricher receives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessInfo {
    /// PID in the PID namespace of the agent.
    pub pid: u32,
    /// Start time in clock ticks since boot, as in `/proc/PID/stat`. It distinguishes processes with the same PID.
    pub start_time: u64,
    /// Process name.
    pub comm: String,
    /// Path of the executable as the process sees it, if it can be read.
    pub exe: Option<PathBuf>,
    /// Path of its cgroup, if it has one.
    pub cgroup_path: Option<String>,
    /// Its namespaces.
    pub namespaces: Namespaces,
}

/// Inode numbers of a process's namespaces; none if one cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Namespaces {
    /// PID namespace.
    pub pid: Option<u64>,
    /// Mount namespace.
    pub mount: Option<u64>,
    /// User namespace.
    pub user: Option<u64>,
    /// Cgroup namespace.
    pub cgroup: Option<u64>,
}

/// A caller's function from process to labels.
pub(crate) type Enricher = Arc<dyn Fn(&ProcessInfo) -> Labels + Send + Sync>;

/// Which enrichers run, in order.
#[derive(Clone, Default)]
pub(crate) struct Enrichment {
    /// The agent's own enricher is replaced or removed.
    pub(crate) without_default: bool,
    /// Enrichers in order; later ones override equal keys.
    pub(crate) enrichers: Vec<Enricher>,
}

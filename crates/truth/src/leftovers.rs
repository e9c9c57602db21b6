//! BPF objects that a process holds in the kernel, and which of them are left when the process has ended.

use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::query::{LinkInfoIter, MapInfoIter, ProgInfoIter};

/// Ids of BPF objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BpfObjects {
    /// Programs.
    pub programs: BTreeSet<u32>,
    /// Maps.
    pub maps: BTreeSet<u32>,
    /// Links.
    pub links: BTreeSet<u32>,
}

impl BpfObjects {
    /// The objects that a process holds open now.
    #[must_use]
    pub fn held_by(pid: u32) -> Self {
        let mut held = Self::default();
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return held };
        for entry in entries.flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let id = |key: &str| text.lines().find_map(|l| l.strip_prefix(key)?.trim().parse::<u32>().ok());
            match (id("link_id:"), id("map_id:"), id("prog_id:")) {
                (Some(link), _, _) => held.links.extend([link]),
                (None, Some(map), _) => held.maps.extend([map]),
                (None, None, Some(program)) => held.programs.extend([program]),
                (None, None, None) => {}
            }
        }
        held
    }

    /// Adds the objects of another look.
    pub fn add(&mut self, other: Self) {
        self.programs.extend(other.programs);
        self.maps.extend(other.maps);
        self.links.extend(other.links);
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty() && self.maps.is_empty() && self.links.is_empty()
    }

    /// The objects that the kernel still has. It frees objects some milliseconds after their last user has ended, so this waits
    /// up to `patience`.
    #[must_use]
    pub fn remaining(&self, patience: Duration) -> Self {
        let end = Instant::now() + patience;
        loop {
            let left = Self {
                programs: ProgInfoIter::default()
                    .map(|p| p.id)
                    .filter(|id| self.programs.contains(id))
                    .collect(),
                maps: MapInfoIter::default().map(|m| m.id).filter(|id| self.maps.contains(id)).collect(),
                links: LinkInfoIter::default().map(|l| l.id).filter(|id| self.links.contains(id)).collect(),
            };
            if left.is_empty() || Instant::now() > end {
                return left;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

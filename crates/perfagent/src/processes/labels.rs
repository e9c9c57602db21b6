//! Labels of a process: pid and name, and what enrichers and fixed labels add.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use process::Image;
use profile::Label;

use crate::config::{Enricher, Enrichment, Labels, Namespaces, ProcessInfo, RESERVED_LABELS};
use crate::{Warning, WarningKind};

/// If an enricher takes longer, a warning says so and its labels are dropped.
const SLOW: Duration = Duration::from_secs(1);

/// Makes the labels of processes.
pub(crate) struct Labeller {
    enrichment: Enrichment,
    fixed: Labels,
    own_pod: process::OwnPod,
    warnings: Vec<Warning>,
}

impl Labeller {
    pub(crate) fn new(enrichment: Enrichment, fixed: Labels) -> Self {
        Self { enrichment, fixed, own_pod: process::OwnPod::read(), warnings: Vec::new() }
    }

    pub(crate) fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    /// The labels of a process, without its number and its name.
    pub(crate) fn labels(&mut self, image: &Image) -> Arc<Vec<Label>> {
        let mut added = Labels::new();
        if !self.enrichment.without_default {
            // A process that cannot be read has only its number and name as labels.
            let container = process::Labels::read(image.pid, &self.own_pod).unwrap_or_default();
            added.extend(container.iter().map(|(key, value)| (key.to_owned(), value.to_owned())));
        }
        if !self.enrichment.enrichers.is_empty() {
            let info = info(image, &self.own_pod);
            for enricher in self.enrichment.enrichers.clone() {
                added.extend(self.enrich(&enricher, &info));
            }
        }
        added.extend(self.fixed.clone());
        Arc::new(added.iter().map(|(key, value)| Label::str(key, value)).collect())
    }

    fn enrich(&mut self, enricher: &Enricher, info: &ProcessInfo) -> Labels {
        let start = Instant::now();
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| enricher(info)));
        let Ok(mut labels) = result else {
            self.warn(format!("a label enricher panicked for pid {}", info.pid));
            return Labels::new();
        };
        if start.elapsed() > SLOW {
            self.warn(format!(
                "a label enricher took {:?} for pid {}; its labels are left out",
                start.elapsed(),
                info.pid
            ));
            return Labels::new();
        }
        let before = labels.len();
        labels.retain(|key, _| !RESERVED_LABELS.contains(&key.as_str()));
        if labels.len() < before {
            self.warn(format!(
                "a label enricher gave {} labels that belong to samples",
                before - labels.len()
            ));
        }
        labels
    }

    fn warn(&mut self, message: String) {
        // A target must not be able to fill memory with warnings.
        if self.warnings.len() < 16 {
            self.warnings.push(Warning::new(
                WarningKind::Labels,
                message,
                "mend the function given to label_enricher",
            ));
        }
    }
}

fn info(image: &Image, own_pod: &process::OwnPod) -> ProcessInfo {
    let namespace = |name: &str| {
        let link = std::fs::read_link(format!("/proc/{}/ns/{name}", image.pid)).ok()?;
        let text = link.to_string_lossy().into_owned();
        text.split_once('[')?.1.strip_suffix(']')?.parse().ok()
    };
    ProcessInfo {
        pid: image.pid,
        start_time: image.start_time_ticks,
        comm: image.comm.clone(),
        exe: image.exe.clone().map(Into::into),
        cgroup_path: process::Labels::read(image.pid, own_pod).ok().and_then(|labels| labels.cgroup_path),
        namespaces: Namespaces {
            pid: namespace("pid"),
            mount: namespace("mnt"),
            user: namespace("user"),
            cgroup: namespace("cgroup"),
        },
    }
}

//! Kernel time of `perf record` per sample, measured around the function that takes the stack and writes the record.

use std::path::Path;

use anyhow::{Context, Result};
use libbpf_rs::{Link, Object};

use crate::bpf_object as object;

/// The measurement at work, for all perf events of the machine that write records.
pub struct PerfOutput {
    object: Object,
    _links: Vec<Link>,
}

impl std::fmt::Debug for PerfOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PerfOutput").finish_non_exhaustive()
    }
}

impl PerfOutput {
    /// Starts measuring.
    ///
    /// # Errors
    /// Without clang, the privilege, or a kernel that lets functions be traced by BPF.
    pub fn attach(out: &Path) -> Result<Self> {
        let object = object::load("perf_output_time", out)?;
        let links = object
            .progs_mut()
            .map(|program| program.attach())
            .collect::<Result<Vec<_>, _>>()
            .context("trace perf_event_output_forward")?;
        Ok(Self { object, _links: links })
    }

    /// Time per record so far in ns; nothing if there was none.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn ns_per_sample(&self) -> Result<Option<f64>> {
        let [run_ns, runs] = object::sums(&self.object, "totals", [1, 2])?;
        Ok((runs > 0).then(|| run_ns as f64 / runs as f64))
    }
}

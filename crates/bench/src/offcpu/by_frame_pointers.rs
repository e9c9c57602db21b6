//! The minimum of a tracer by frame pointers (`bench/bpf/off_cpu.bpf.c`), without the names and tables of a tool.

use std::path::Path;

use anyhow::{Context, Result};
use libbpf_rs::{Link, Object};

use truth::bpf_object as measuring;

/// The program at work.
pub struct ByFramePointers {
    _object: Object,
    _links: Vec<Link>,
}

impl std::fmt::Debug for ByFramePointers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByFramePointers").finish_non_exhaustive()
    }
}

impl ByFramePointers {
    /// Loads it for the user stacks of one process, or of all (0).
    ///
    /// # Errors
    /// Without clang, the privilege, or a kernel with BTF.
    pub fn attach(out: &Path, pid: u32) -> Result<Self> {
        const NAME: &str = "off_cpu";
        let mut open = measuring::open(NAME, out)?;
        for mut map in open.maps_mut() {
            if map.name().to_string_lossy().ends_with(".rodata") {
                let data = map.initial_value_mut().context("no value of the constants")?;
                data.get_mut(..4).context("no constants")?.copy_from_slice(&pid.to_ne_bytes());
            }
        }
        let object = measuring::load_into_kernel(NAME, open)?;
        let links = object
            .progs_mut()
            .map(|program| program.attach())
            .collect::<Result<Vec<_>, _>>()
            .context("attach to sched_switch")?;
        Ok(Self { _object: object, _links: links })
    }
}

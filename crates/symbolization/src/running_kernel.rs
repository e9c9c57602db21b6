//! Whether a recording is of the kernel that runs here.

use std::time::SystemTime;

use profile::BuildId;
use recording::Recording;
use rustix::time::{ClockId, clock_gettime};

use crate::build_id;
use crate::options::Options;

/// The kernel that runs here.
pub(crate) struct RunningKernel {
    pub(crate) build_id: Option<BuildId>,
    /// When it was started, ns since the epoch.
    pub(crate) booted_ns: i64,
}

impl RunningKernel {
    pub(crate) fn read(options: &Options) -> Self {
        let notes = std::fs::read(&options.symbols.kernel_notes).ok();
        let build_id = notes.and_then(|notes| build_id::in_notes(&notes, 4));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let up = clock_gettime(ClockId::Boottime);
        let up_ns = up.tv_sec.saturating_mul(1_000_000_000).saturating_add(up.tv_nsec);
        let now_ns = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        Self { build_id, booted_ns: now_ns.saturating_sub(up_ns) }
    }

    /// Whether kernel addresses of a recording mean the same here: it is the same kernel, and it was not started since, which would have
    /// moved it.
    pub(crate) fn is_that_of(&self, recording: &Recording) -> bool {
        self.build_id.is_some()
            && recording.kernel.build_id == self.build_id
            && recording.span.start_ns >= self.booted_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_kernel_since_its_start_is_the_same() {
        let notes = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&notes, b"\x04\0\0\0\x04\0\0\0\x03\0\0\0GNU\0\x01\x02\x03\x04").unwrap();
        let mut options = Options::default();
        options.symbols.kernel_notes = notes.path().to_owned();
        let kernel = RunningKernel::read(&options);
        let mut recording = Recording::default();
        recording.span.start_ns = i64::MAX;
        assert!(!kernel.is_that_of(&recording), "without a build-id");
        recording.kernel.build_id = Some("01020305".parse().unwrap());
        assert!(!kernel.is_that_of(&recording));
        recording.kernel.build_id = Some("01020304".parse().unwrap());
        assert!(kernel.is_that_of(&recording));
        recording.span.start_ns = kernel.booted_ns - 1;
        assert!(!kernel.is_that_of(&recording), "before the start");
        options.symbols.kernel_notes = "/nonexistent".into();
        recording.kernel.build_id = None;
        recording.span.start_ns = i64::MAX;
        assert!(!RunningKernel::read(&options).is_that_of(&recording));
    }
}

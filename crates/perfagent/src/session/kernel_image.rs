//! The running kernel.

use profile::BuildId;

/// The build-id of the running kernel, from the notes that it shows.
pub(super) fn build_id() -> Option<BuildId> {
    elf::gnu_build_id(&std::fs::read("/sys/kernel/notes").ok()?, 4)
}

//! The kernel of the machine: which one it is, and where it was loaded.

use profile::{Avma, BuildId};
use serde::{Deserialize, Serialize};

/// The kernel that ran during a capture.
///
/// Kernel addresses depend on the start of the machine: each start loads the kernel and its modules elsewhere. The other fields tell how
/// to find the same code after another start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelImage {
    /// Its build-id, if it tells one.
    pub build_id: Option<BuildId>,
    /// Its release, as `uname -r` prints it; empty if it is not known.
    pub release: String,
    /// What tells this start of the machine from all others (`/proc/sys/kernel/random/boot_id`), if it is known.
    pub boot_id: Option<String>,
    /// Where `_text` was; none if the kernel hid its addresses.
    pub text: Option<Avma>,
    /// Where `_stext` was; none if the kernel hid its addresses.
    pub stext: Option<Avma>,
    /// The loaded modules that told their addresses, by address.
    pub modules: Vec<KernelModule>,
}

/// A module of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelModule {
    /// Its name.
    pub name: String,
    /// Where its code begins.
    pub text: Avma,
    /// Bytes of its code and data together.
    pub size: u64,
    /// Its build-id, if it tells one.
    pub build_id: Option<BuildId>,
}

impl KernelModule {
    /// Whether an address lies in its code or data.
    #[must_use]
    pub fn holds(&self, address: Avma) -> bool {
        (self.text.0..self.text.0.saturating_add(self.size)).contains(&address.0)
    }
}

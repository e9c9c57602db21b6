//! Where a recording is from, in words.

use serde::{Deserialize, Serialize};

/// Where a recording is from, in words for people. Empty if it is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Name of the machine.
    pub host: String,
    /// What was profiled, as `pid 4711 (nginx)`.
    pub target: String,
}

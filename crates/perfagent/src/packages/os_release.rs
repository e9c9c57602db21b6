//! Which distribution this is, from `/etc/os-release`.

use std::path::Path;

/// What is known of the distribution; empty texts if nothing is.
#[derive(Debug, Default)]
pub(super) struct OsRelease {
    /// As `debian`.
    pub(super) id: String,
    /// As `bookworm`.
    pub(super) codename: String,
}

impl OsRelease {
    pub(super) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            line.unwrap_or_default().trim_matches(['"', '\'']).to_owned()
        };
        Self { id: value("ID"), codename: value("VERSION_CODENAME") }
    }
}

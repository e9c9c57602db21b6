//! The exit statuses of this program.

/// The command line was rejected.
pub const REJECTED: u8 = 2;
/// Something failed at run time.
pub const FAILED: u8 = 1;

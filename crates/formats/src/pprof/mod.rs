//! The pprof format: one gzip-compressed `profile.proto` message.
//!
//! In: [`encode`], [`decode`]. Guaranteed: what `decode` reads back from `encode` equals the profile that went in;
//! `decode` takes any bytes without a panic and with bounded memory. Not here: choosing addresses or order of
//! frames, which the model already fixes.

mod decode;
mod encode;
mod proto;

pub use decode::{DecodeError, MAX_MESSAGE_BYTES, decode};
pub use encode::encode;

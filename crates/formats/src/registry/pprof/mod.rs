//! The pprof format: one gzip-compressed `profile.proto` message.
//!
//! [`decode`] gives back the profile that [`encode`] wrote. It takes any bytes without a panic and with bounded memory.
//! Addresses and the order of frames are written as the model has them.

mod decode;
mod encode;
mod memory;
mod proto;

use std::io::{self, Write};

use profile::Profile;

use crate::{EncodeOptions, Encoder};

pub use decode::{DecodeError, MAX_MESSAGE_BYTES, decode};
pub use encode::encode;

/// pprof as a registered format. It contains all values of the profile.
pub struct Pprof;

impl Encoder for Pprof {
    fn name(&self) -> &'static str {
        "pprof"
    }

    fn extensions(&self) -> &[&'static str] {
        &["pb.gz"]
    }

    fn encode(&self, profile: &Profile, _: &EncodeOptions, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&encode(profile))
    }
}

//! Encoders of profiles: pprof, folded stacks, SVG flame graphs, HTML reports, JSON. And decoders of pprof and of folded stacks.
//!
//! [`registry`] lists the encoders and finds them by name or by file extension. An encoder is a pure function from
//! a profile to bytes: it opens no file, and equal profiles give equal bytes. This crate neither makes profiles nor finds
//! names for addresses.
#![forbid(unsafe_code)]

mod amount;
mod difference;
mod encoder;
mod kind_colors;
mod markup;
mod named_frames;
pub mod registry;

pub use amount::amount;
pub use difference::{Counted, Difference, Measured, Widths};
pub use encoder::{EncodeOptions, Encoder, Merge};
pub use named_frames::{FrameKind, NamedFrame, NamedFrames};
pub use registry::{flamegraph, folded, html, pprof};

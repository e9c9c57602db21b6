//! The walker of `bpf/` against other unwinders, truth and itself: no privileges needed.
#![allow(clippy::unwrap_used)]

mod ends;
mod hash;
mod hostile;
mod image;
mod memo;
mod recorded;
mod recorder;
mod reference;
mod synthetic;

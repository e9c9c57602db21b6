//! The walker of `bpf/` against other unwinders, truth and itself: no privileges needed.
#![allow(clippy::unwrap_used)]

mod allowances;
mod claims;
mod ends;
mod go_stack;
mod hash;
mod hostile;
mod image;
mod interrupted;
mod leaf_code;
mod memo;
mod python;
mod python_codes;
mod python_image;
mod recorded;
mod recorder;
mod reference;
mod sample_weight;
mod synthetic;
mod uses;

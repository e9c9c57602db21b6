//! A capture from its first descriptor to the result: begin, rounds, cuts, end.
//!
//! A session lives on a thread of its own and polls. It composes what the other rooms do and decides nothing about content: sources take
//! stacks (`sources`), processes tell what a stack is of (`processes`), the builder keeps them (crate `recording`), names are looked up
//! beside (`symbolization`), and the result is a recording with its ledgers (crate `report`).

mod accounting;
mod added_targets;
mod begin;
mod carry_over;
mod convert;
mod cut;
mod descendants;
mod family;
mod finish;
mod held_stacks;
mod initial_tables;
mod intake;
mod kernel_image;
mod live_context;
mod live_stats;
mod lock_owners;
mod main_mapping;
mod origin;
mod parts;
mod perf_data;
mod process_places;
mod python_stacks;
mod resolver;
mod result;
mod round;
mod run;
mod settings;
mod shared;
mod shared_locks;
mod sleepers;
mod start;
mod targets;
mod trampolines;
mod user_walks;

pub(crate) use added_targets::NewTarget;
pub(crate) use cut::CutInterval;
pub(crate) use result::{CaptureResult, ended_by, warning};
pub(crate) use run::Request;
pub(crate) use shared::Shared;
pub(crate) use start::{Order, Session};

//! The capture as a perf.data file: each sample with its time, thread and CPU, and the life of processes beside it.
//!
//! Records go into the file round by round. Kept are the distinct stacks that the programs know, and the samples of the present round, both
//! up to a limit. A file that can no longer be written ends the output; the capture goes on. A capture that is cut has one file for each
//! interval: samples belong to the interval that their sums belong to.
//!
//! Not its job: names. Tools find them by the mappings that the file tells.

mod announced;
mod capture_file;
mod events;
mod kernel_code;
mod machine;
mod mappings;
mod records;
mod scheduler_code;
mod stacks;

pub(crate) use capture_file::{Timeline, TimelineSettings};
pub(crate) use events::Sampled;
pub(crate) use records::Written;

//! Other tools that measure off-CPU time: bcc's offcputime, `perf sched`, and a minimal tracer that walks frame pointers.

mod by_frame_pointers;
mod offcputime;
mod timehist;

pub use by_frame_pointers::ByFramePointers;
pub use offcputime::Offcputime;
pub use timehist::Timehist;

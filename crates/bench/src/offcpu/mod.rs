//! Other tools that measure time off the CPU: bcc's offcputime, `perf sched`, and the minimum of a tracer by frame
//! pointers.

mod by_frame_pointers;
mod offcputime;
mod timehist;

pub use by_frame_pointers::ByFramePointers;
pub use offcputime::Offcputime;
pub use timehist::Timehist;

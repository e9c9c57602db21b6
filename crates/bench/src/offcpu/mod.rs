//! Other tools that tell time off the CPU: bcc's offcputime, `perf sched`, and the least that a tracer by frame pointers
//! does.

mod by_frame_pointers;
mod offcputime;
mod timehist;

pub use by_frame_pointers::ByFramePointers;
pub use offcputime::Offcputime;
pub use timehist::Timehist;

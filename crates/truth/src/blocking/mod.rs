//! Time off the CPU: programs that block in named functions and know by their own clocks how long, compared with
//! profiles.
//!
//! The true time is the wall clock less the thread's time on a CPU; the true number of blocks is the kernel's count of the
//! thread's switches. The program itself takes both, so they stay true on a busy machine.

mod cases;
mod compare;
mod lab;
mod meter;
mod short_lives;

pub use cases::{CASES, Case};
pub use compare::{Comparison, compare};
pub use lab::Lab;
pub use meter::{Meter, read_meters, read_number};

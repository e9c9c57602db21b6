//! The scheduler's events: threads leave CPUs, come back, and are woken.

use kernel::{Kernel, Message};

use super::source::{Opening, Source};
use crate::Error;
use crate::failure::load_error;

/// Follows all threads of the targets from switch to switch.
#[derive(Default)]
pub(crate) struct Scheduler {
    /// The threads that slept when the capture began, or when a target was added, with their registers.
    asleep: Vec<Message>,
}

impl Source for Scheduler {
    fn open(&mut self, opening: &mut Opening<'_>) -> Result<(), Error> {
        opening.kernel.follow_threads().map_err(load_error)
    }

    fn enable(&mut self, kernel: &mut Kernel, start_ns: u64) -> Result<(), Error> {
        self.asleep = kernel.enter_threads(start_ns).map_err(load_error)?;
        Ok(())
    }

    fn add_target(&mut self, kernel: &mut Kernel, _: u32, now_ns: u64) -> Result<(), Error> {
        self.asleep.extend(kernel.enter_threads(now_ns).map_err(load_error)?);
        Ok(())
    }

    fn initial_stacks(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.asleep)
    }

    fn disable(&mut self, kernel: &mut Kernel, end_ns: u64) -> Result<(), Error> {
        kernel.leave_threads(end_ns).map_err(load_error)
    }
}

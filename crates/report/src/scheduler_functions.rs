//! Functions of the kernel in which threads leave their CPU.
//!
//! The kernel leaves them out of the stack of a thread that sleeps already when its stack is read (`in_sched_functions`). The stack of a
//! thread that is just leaving its CPU has them. Equal waits look alike only if they are left out of both.

/// Functions of the section `.sched.text` through which a wait goes.
const NAMES: [&str; 16] = [
    "__schedule",
    "schedule",
    "io_schedule",
    "io_schedule_timeout",
    "__cond_resched",
    "do_nanosleep",
    "usleep_range_state",
    "__wait_for_common",
    "mutex_lock",
    "__down",
    "down",
    "__wait_on_bit",
    "__wait_on_bit_lock",
    "yield",
    "yield_to",
    "percpu_down_write",
];

/// Beginnings of the names of further ones.
const BEGINNINGS: [&str; 20] = [
    "schedule_hrtimeout",
    "schedule_idle",
    "schedule_preempt_disabled",
    "schedule_timeout",
    "preempt_schedule",
    "wait_for_completion",
    "__mutex_lock",
    "mutex_lock_",
    "__ww_mutex_lock",
    "ww_mutex_lock",
    "rt_mutex_lock",
    "rt_mutex_slowlock",
    "rt_mutex_wait_proxy_lock",
    "rwsem_down_",
    "down_",
    "__down_",
    "ldsem_down_",
    "__percpu_down_read",
    "bit_wait",
    "out_of_line_wait_on_bit",
];

/// Whether a function of this name is one of them. Compilers add suffixes such as `.constprop.0`.
pub(crate) fn contain(name: &str) -> bool {
    let name = name.split_once('.').map_or(name, |(name, _)| name);
    NAMES.contains(&name) || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_scheduler_are_told_from_those_that_call_them() {
        let inside =
            ["__schedule", "schedule_hrtimeout_range_clock", "__mutex_lock.constprop.0", "yield.isra.0"];
        assert!(inside.into_iter().all(contain));
        let outside =
            ["ep_poll", "futex_wait_queue", "hrtimer_nanosleep", "pipe_read", "schedule_work", "downcast"];
        assert!(!outside.into_iter().any(contain));
    }
}

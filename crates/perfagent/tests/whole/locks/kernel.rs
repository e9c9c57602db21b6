//! Locks of the kernel: waits of a known number and length, by class and place.

use perfagent::{AgentBuilder, LockClass};

use crate::events::captured_of;

const SOURCE: &str = include_str!("kernel.c");
const ROUNDS: u64 = 50;

#[test]
fn waits_for_locks_of_the_kernel_are_those_that_the_program_measures() {
    if !::kernel::kernel_locks_may_be_followed() {
        testkit::skip!("the kernel is older than Linux 6.15");
    }
    let flags = [format!("-DROUNDS={ROUNDS}"), "-pthread".to_owned()];
    let with_locks = |builder: AgentBuilder, _: &std::path::Path| builder.with_locks();
    let Some((report, measured_ns)) = captured_of(SOURCE, &flags, with_locks) else { return };
    if measured_ns == 0 {
        testkit::skip!("userfaultfd is not allowed here");
    }
    let locks = report.recording().locks().unwrap();
    let mut time_ns = 0;
    for class in [LockClass::KernelMutex, LockClass::KernelReadWrite] {
        let rows = locks.held.iter().filter(|row| row.class == class);
        let is_place = |functions: &[String]| functions.iter().any(|function| function == "wait_in_kernel");
        let waiters: Vec<_> =
            rows.clone().flat_map(|row| &row.waiters).filter(|waiter| is_place(&waiter.functions)).collect();
        let waits: u64 = waiters.iter().map(|waiter| waiter.waits).sum();
        assert!((ROUNDS * 98 / 100..=ROUNDS).contains(&waits), "{class:?}: {waits} {:#?}", locks.held);
        time_ns += waiters.iter().map(|waiter| waiter.time_ns).sum::<u64>();
        // The functions of the lock itself are left out, those of the kernel that wanted it are not.
        assert!(waiters.iter().all(|waiter| waiter.functions[0] != "wait_in_kernel"), "{waiters:?}");
        let by_holder = rows
            .flat_map(|row| &row.wakers)
            .filter(|waker| waker.functions.iter().any(|function| function == "write_with_lock"));
        let let_go: u64 = by_holder.map(|waker| waker.waits).sum();
        assert!(let_go >= ROUNDS * 98 / 100, "{class:?}: {let_go} {:#?}", locks.held);
    }
    // The program's time has the way into the kernel and back, and a wait for a CPU after that for the lock.
    assert!(time_ns <= measured_ns && time_ns >= measured_ns * 97 / 100, "{time_ns} of {measured_ns}");
}

//! Slots of programs that can be preempted: one program at a time has a slot.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use replay::Claims;

#[test]
fn a_claimed_slot_is_refused_until_it_is_released() {
    let slot = Claims::default();
    for _ in 0..3 {
        assert!(slot.claim());
        assert!(!slot.claim() && !slot.claim());
        slot.release();
    }
    assert!(slot.claim());
}

#[test]
fn one_of_several_threads_has_the_slot() {
    let slot = Claims::default();
    let (inside, times) = (AtomicU32::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100_000 {
                    if slot.claim() {
                        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                        times.fetch_add(1, Ordering::Relaxed);
                        // Lets another thread try meanwhile.
                        std::hint::spin_loop();
                        assert_eq!(inside.fetch_sub(1, Ordering::Relaxed), 1);
                        slot.release();
                    }
                }
            });
        }
    });
    assert!(times.into_inner() > 0);
    // Nothing is left of the attempts that failed.
    assert!(slot.claim());
}

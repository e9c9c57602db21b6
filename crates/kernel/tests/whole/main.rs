//! The programs in the running kernel: loaded with each setting, cut while they run, beside real interpreters.
#![allow(clippy::unwrap_used, reason = "tests")]

mod cut;
mod following;
mod leaving;
mod loads;
mod python;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time: they follow the threads of one process, or compare times.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

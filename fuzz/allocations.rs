//! Counts the bytes that are allocated, so that a target can fail where an input asks for too many.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(used, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Calls a function, and panics if more bytes than `limit` were in use at once because of it.
pub fn bounded<T>(limit: usize, call: impl FnOnce() -> T) -> T {
    let before = USED.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let result = call();
    let most = MOST.load(Ordering::Relaxed).saturating_sub(before);
    assert!(most <= limit, "{most} bytes in use");
    result
}

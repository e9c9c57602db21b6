//! Panics that are caught, in threads and through functions of C, and one that ends the program.

use std::ffi::c_void;
use std::panic::{catch_unwind, panic_any};

unsafe extern "C" {
    fn qsort(base: *mut c_void, count: usize, size: usize, compare: extern "C-unwind" fn(*const i32, *const i32) -> i32);
}

extern "C-unwind" fn compare(one: *const i32, other: *const i32) -> i32 {
    // SAFETY: they are elements of the array below.
    let (one, other) = unsafe { (*one, *other) };
    one.cmp(&other) as i32
}

#[inline(never)]
fn nested(depth: u32, value: u32) -> usize {
    let text = vec![depth; 10 + depth as usize];
    if depth == 0 {
        panic_any(value);
    }
    nested(depth - 1, value) + text.len()
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut sum = 0_u64;
    for value in 0..2000 {
        let caught = catch_unwind(|| nested(value % 10, value)).unwrap_err();
        sum += u64::from(*caught.downcast::<u32>().unwrap());
    }
    let joined = (0..100).map(|value| std::thread::spawn(move || nested(3, value)).join().unwrap_err());
    sum += joined.map(|caught| u64::from(*caught.downcast::<u32>().unwrap())).sum::<u64>();
    let mut numbers: Vec<i32> = (0..1000).map(|n| n * 7919 % 1000).collect();
    // SAFETY: count and size are those of the array.
    unsafe { qsort(numbers.as_mut_ptr().cast(), numbers.len(), 4, compare) };
    println!("{sum} {}", numbers.is_sorted());
    nested(2, 1);
}

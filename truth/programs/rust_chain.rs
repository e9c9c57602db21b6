//! A release build of Rust: trait objects, generics, closures and caught panics. A second thread does the same as the
//! first.
//!
//! Truth: (main | thread start), run, stage_one, <Twice as Stage>::apply, stage_two::<u64>, burn.
use std::hint::black_box;
use std::panic;
use std::thread;

trait Stage {
    fn apply(&self, n: u64) -> u64;
}

struct Twice;

impl Stage for Twice {
    #[inline(never)]
    fn apply(&self, n: u64) -> u64 {
        black_box(stage_two::<u64>(n)) + 1
    }
}

#[inline(never)]
fn burn(n: u64) -> u64 {
    let mut x = n;
    for i in 0..3000 {
        x = black_box(x.wrapping_mul(31).wrapping_add(i));
    }
    x
}

#[inline(never)]
fn stage_two<T: Into<u64>>(n: T) -> u64 {
    black_box(burn(n.into())) + 1
}

#[inline(never)]
fn stage_one(stage: &dyn Stage, n: u64) -> u64 {
    black_box(stage.apply(n)) + 1
}

#[inline(never)]
fn fall(n: u64) {
    if black_box(n) > 0 {
        panic::resume_unwind(Box::new(n));
    }
}

#[inline(never)]
fn run(stage: Box<dyn Stage>) {
    for n in 0.. {
        black_box(stage_one(black_box(&*stage), n));
        if n % 64 == 0 {
            black_box(panic::catch_unwind(|| fall(1)).is_err());
        }
    }
}

fn main() {
    let other = thread::spawn(|| run(Box::new(Twice)));
    println!("ready");
    run(Box::new(Twice));
    let _ = other.join();
}

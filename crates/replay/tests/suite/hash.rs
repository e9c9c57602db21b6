//! Two stacks with one hash would be counted as one: not even a program that wants it may be able to make such.

use std::collections::HashSet;

use replay::stack_hash;

/// Numbers as good as random, the same in each run.
fn numbers(mut state: u64) -> impl Iterator<Item = u64> {
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

const EXACT: u64 = 1 << 63;
const BY_FP: u64 = 1 << 62;
const PCS: u64 = (1 << 47) - 1;

/// Differences of one frame with those of the next that may take them away again: the marks, which a program sets by
/// its unwind information, and any bits of the pcs beside each other's images under a shift by 32.
fn differences() -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    for first in [EXACT, BY_FP, EXACT | BY_FP].into_iter().chain((0..47).map(|bit| 1 << bit)) {
        for low in 0..47 {
            all.push((first, 1 << low));
            all.push((first, 1 << low | EXACT));
            all.push((first, 1 << low | BY_FP));
            all.push((first, 1 << low | EXACT | BY_FP));
        }
    }
    all
}

#[test]
fn no_difference_of_two_frames_takes_itself_away() {
    let mut pcs = numbers(1).map(|number| number & PCS);
    for seed in numbers(2).take(200).chain([0, 1, u64::MAX]) {
        let [a, b] = [pcs.next().unwrap(), pcs.next().unwrap()];
        let hash = stack_hash(seed, &[a, b]);
        for (first, second) in differences() {
            assert_ne!(stack_hash(seed, &[a ^ first, b ^ second]), hash, "{seed:x} {first:x} {second:x}");
        }
    }
}

#[test]
fn stacks_of_near_addresses_have_hashes_of_their_own_without_the_bits_of_the_state() {
    let mut seen = HashSet::new();
    for caller in 0..300u64 {
        for callee in 0..300u64 {
            assert!(seen.insert(stack_hash(7, &[0x40_0000 + caller, 0x40_1000 + callee]) & !7));
        }
    }
    assert!(seen.insert(stack_hash(7, &[]) & !7) && seen.insert(stack_hash(7, &[0x40_0000]) & !7));
    let of_another_run = stack_hash(8, &[0x40_0000, 0x40_1000]);
    assert!(!seen.contains(&(of_another_run & !7)));
}

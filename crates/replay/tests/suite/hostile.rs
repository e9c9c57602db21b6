//! Tables, mappings, rules, registers and stacks of any content: a walk ends, within its limits. Under sanitizers
//! (`REPLAY_SANITIZE=address,undefined`) also: it touches nothing else.

use proptest::prelude::*;
use replay::CHUNK_WORDS;
use replay::MAX_FRAMES;
use replay::Registers;
use replay::Replay;
use replay::Stack;
use replay::Thread;
use unwind::Rule;

const CODE: u64 = 0x5555_0000_0000;
const STACK: u64 = 0x7fff_0000_0000;
const STACK_WORDS: u64 = 512;
const RULES: usize = 8;

/// Addresses that mean something, and some that do not.
fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0..STACK_WORDS).prop_map(|word| STACK + 8 * word),
        4 => (0..0x4_0000u64).prop_map(|offset| CODE + offset),
        1 => (0..64u64).prop_map(|offset| STACK + 8 * STACK_WORDS - offset),
        1 => (0..64u64).prop_map(|offset| offset.wrapping_sub(32)),
        1 => any::<u64>(),
    ]
}

/// Words of the table pool: small, at the borders of chunks, or anything.
fn word() -> impl Strategy<Value = u32> {
    prop_oneof![
        6 => 0..64u32,
        2 => (0..3u32, -4..4i32).prop_map(|(chunk, by)| (chunk * CHUNK_WORDS).wrapping_add_signed(by)),
        2 => (0..8u32, 0..0x10000u32).prop_map(|(rule, offset)| rule << 16 | offset),
        1 => any::<u32>(),
    ]
}

prop_compose! {
    fn rule()(
        kinds in (0..10u8, 0..7u8, 0..7u8), flags in any::<u8>(), large in any::<i32>(), add in any::<i16>(),
        small in (-64..256i32, -64..64i16, -64..64i16, -64..64i32), choice in 0..4u8,
    ) -> Rule {
        let (cfa, ra, fp) = kinds;
        let (cfa_off, cfa_add, ra_off, fp_off) = small;
        match choice {
            0 => Rule { cfa, ra, fp, flags, cfa_off: large, cfa_add: add, ra_off: add, fp_off: large },
            _ => Rule { cfa, ra, fp, flags, cfa_off, cfa_add, ra_off, fp_off },
        }
    }
}

prop_compose! {
    /// Rules in the first words, then mappings, and a page table somewhere after them.
    fn table_pool()(
        rules in prop::collection::vec(rule(), RULES),
        mappings in prop::collection::vec((0..0x4_0000u64, 0..0x2_0000u64, address(), word(), 0..4u32), 0..6),
        words in prop::collection::vec(word(), 1..400),
        table in 0..64u32,
    ) -> (Vec<u32>, u32) {
        let count = mappings.len() as u32;
        let mut table_pool: Vec<u32> = rules.iter().flat_map(Rule::words).collect();
        let first = table_pool.len() as u32;
        for (start, size, bias, elsewhere, kind) in mappings {
            let start = CODE + start;
            let bias = if kind == 0 { CODE } else { bias };
            let table = if kind < 2 { first + count * 8 + table * 4 } else { elsewhere };
            for value in [start, start + size, bias] {
                table_pool.extend([value as u32, (value >> 32) as u32]);
            }
            table_pool.extend([table, if kind == 3 { elsewhere } else { kind / 2 }]);
        }
        table_pool.extend(words);
        (table_pool, count)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn walks_end_within_limits(
        (words, count) in table_pool(),
        lie in prop_oneof![3 => Just(None), 1 => (word(), word()).prop_map(Some)],
        stack in prop::collection::vec(address(), STACK_WORDS as usize),
        starts in prop::collection::vec((address(), address(), address(), any::<[u64; 16]>()), 1..6),
    ) {
        let (mappings, count) = lie.unwrap_or((RULES as u32 * 4, count));
        let mut replay = Replay::over_words(&words, mappings, count);
        let stack = Stack::of_words(STACK, &stack);
        for (pc, sp, fp, others) in starts {
            let mut registers = Registers { pc, by_number: others, thread_pointer: 0 };
            registers.by_number[6..8].copy_from_slice(&[fp, sp]);
            for _ in 0..2 {
                let walk = replay.walk(&Thread::default(), &registers, &stack);
                prop_assert!((1..=MAX_FRAMES).contains(&walk.frames.len()));
            }
        }
    }
}

/// A frame that is its own caller, by a CFA on the stack.
#[test]
fn circles_end_at_the_limit() {
    let rule = Rule { cfa: unwind::abi::cfa::SP_DEREF, ..Rule::NONE };
    let rule = Rule { ra: unwind::abi::ra::SP, ra_off: 8, ..rule };
    // One mapping; its page table, with one page; one row with rule 1; the rules.
    let (low, high) = (CODE as u32, (CODE >> 32) as u32);
    let mut words = vec![low, high, low + 0x1000, high, low, high, 8, 0, 0, 1, 16, 0, 14, 1, 1 << 16, 0];
    words.extend([Rule::NONE, rule].iter().flat_map(Rule::words));
    let mut replay = Replay::over_words(&words, 0, 1);
    let stack = Stack::of_words(STACK, &[STACK, CODE + 5]);
    let walk = replay.walk_checked(&Thread::default(), &Registers::of(CODE + 5, STACK, 0), &stack).unwrap();
    assert_eq!((walk.frames.len(), walk.end), (MAX_FRAMES, replay::End::FrameLimit));
}

//! The bound of the memory of a capture, with a program whose stacks are never the same.

use crate::capture::{assert_status, ledger, privileged, start_in};
use crate::stderr;

/// Each descent of 400 calls takes another way. It ends after 2 s of CPU time.
const PROGRAM: &str = "
#include <stdint.h>
#include <time.h>
static uint64_t way = 88172645463325252ull;
static volatile uint64_t spins;
static int turn(void) { way ^= way << 13; way ^= way >> 7; way ^= way << 17; return way & 1; }
static int right(int depth);
__attribute__((noinline)) static int left(int depth) {
    if (!depth) { for (int i = 0; i < 300000; i++) spins++; return 1; }
    return (turn() ? left(depth - 1) : right(depth - 1)) + 1;
}
__attribute__((noinline)) static int right(int depth) {
    if (!depth) { for (int i = 0; i < 300000; i++) spins++; return 2; }
    return (turn() ? left(depth - 1) : right(depth - 1)) + 2;
}
int main(void) { while (clock() < 2 * CLOCKS_PER_SEC) left(400); return 0; }
";

#[test]
fn what_finds_no_room_is_counted_and_told_and_the_rest_is_kept() {
    if !privileged() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ways.c"), PROGRAM).unwrap();
    let compile = ["gcc", "-O1", "-fno-optimize-sibling-calls", "-o", "ways", "ways.c"];
    if testkit::run_tool(folder.path(), compile).is_none() {
        return;
    }
    let captured = |memory: &str| {
        let options = ["--profile", "--verbose", "--max-memory", memory, "--folded-output", "x.folded"];
        let command = ["--sample-rate", "997", "--", "./ways"];
        let output = start_in(folder.path(), &[&options[..], &command].concat()).wait_with_output().unwrap();
        assert_status(&output, 0);
        let number = |key: &str| ledger(&output, key).map_or(0, |number| number.parse::<u64>().unwrap());
        let figures = ["samples", "lost", "lost.memory_limit"].map(number);
        let folded = std::fs::read_to_string(folder.path().join("x.folded")).unwrap();
        (figures, folded.lines().count() as u64, stderr(&output))
    };
    let ([samples, lost, over], stacks, told) = captured("1M");
    assert!(over > 0 && lost == over, "{told}");
    // A stack takes about 2 KiB: a bound that keeps hardly any, or all, is none.
    assert!((200..1000).contains(&samples) && stacks.abs_diff(samples) < 20, "{stacks}: {told}");
    assert!(told.contains("all stacks together took the memory that they may"), "{told}");
    assert!(told.contains("raise --max-memory"), "{told}");
    let ([samples, lost, over], _, told) = captured("64M");
    assert!(samples > 0 && (lost, over) == (0, 0) && !told.contains("--max-memory"), "{told}");
}

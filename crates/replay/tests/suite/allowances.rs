//! The bytes of unwalked stacks that a process may send, and those that are left to others.

use replay::End;
use replay::Unsent;
use replay::send_stack;

const STACK: u64 = 16 << 10;
const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;

/// MiB that a process sends within some seconds that sends as much as it may, and why it may send no more.
fn sent(pid: u32, end: End, sampled: bool, seconds: std::ops::Range<u64>) -> (u64, Option<Unsent>) {
    let (mut bytes, mut why) = (0, None);
    for millisecond in seconds.start * 1000..seconds.end * 1000 {
        while bytes < 1 << 40 {
            match send_stack(pid, end, sampled, millisecond * SECOND / 1000, STACK) {
                Ok(()) => bytes += STACK,
                Err(unsent) => {
                    why = Some(unsent);
                    break;
                }
            }
        }
    }
    (bytes / MIB, why)
}

/// One process may send half of the machine's samples below rules that the kernel does not evaluate.
#[test]
fn one_process_leaves_half_of_the_machine_to_others() {
    let (first, why) = sent(7, End::UnsupportedRule, true, 100..110);
    assert_eq!(why, Some(Unsent::OfProcess));
    assert!((270..290).contains(&first), "128 MiB at once and 15 MiB a second, not {first} MiB");
    let (second, _) = sent(8, End::UnsupportedRule, true, 110..111);
    assert!(second >= 128, "another process may still send its share, not {second} MiB");
}

#[test]
fn each_cause_has_its_own_allowance() {
    assert_eq!(sent(7, End::UnsupportedRule, true, 100..101).1, Some(Unsent::OfProcess));
    let (waiting, why) = sent(7, End::TableNotReady, true, 101..102);
    assert!((96..99).contains(&waiting) && why == Some(Unsent::OfProcess), "{waiting} MiB");
    // Intervals, and code in no mapping.
    for (pid, end, sampled) in [(7, End::UnsupportedRule, false), (8, End::NoMapping, true)] {
        let (lasting, why) = sent(pid, end, sampled, 200..201);
        assert!((8..10).contains(&lasting) && why == Some(Unsent::OfProcess), "{lasting} MiB");
    }
}

#[test]
fn all_processes_share_the_allowance_of_the_machine() {
    let all: u64 = (0..64).map(|pid| sent(pid, End::UnsupportedRule, true, 100..101).0).sum();
    assert!((256..300).contains(&all), "{all} MiB");
    assert_eq!(sent(99, End::UnsupportedRule, true, 100..101).1, Some(Unsent::OfMachine));
}

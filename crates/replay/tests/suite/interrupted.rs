//! A program that interrupts another one on the same CPU has a state of its own: both walks are what they are alone.

use replay::{Replay, Thread, Walk};

use crate::synthetic::{Base, KINDS, Machine, program};

/// A thread with this many frames, of kinds that `first` shifts.
fn thread(frames: usize, first: usize) -> Machine {
    let mut machine = Machine::new(Base::Rule);
    for i in 0..frames {
        assert!(machine.call(KINDS[(first + i) % 7], i as u8, None));
    }
    machine
}

fn alone(of: &Thread, machine: &Machine) -> Walk {
    let (_, mut replay) = program();
    replay.walk(of, &machine.registers, &machine.stack)
}

/// Interrupts the walk of one thread by that of another after some reads. Whether there were as many.
fn interrupt(replay: &mut Replay, threads: [(&Thread, &Machine); 2], reads: u64) -> bool {
    let [ours, theirs] = threads.map(|(of, machine)| (of, &machine.registers, &machine.stack));
    let (walk, by) = replay.walk_interrupted(ours, theirs, reads);
    let [expected, expected_by] = threads.map(|(of, machine)| alone(of, machine));
    assert!(walk.same_stack(&expected), "after {reads} reads: {} frames, {:?}", walk.frames.len(), walk.end);
    let by = by.inspect(|by| {
        assert!(by.same_stack(&expected_by), "after {reads} reads: {} frames, {:?}", by.frames.len(), by.end);
    });
    by.is_some()
}

#[test]
fn both_walks_are_whole_wherever_one_interrupts_the_other() {
    // Both have the same place among the memos of their slots.
    let [ours, theirs] = [1, 5].map(|tid| Thread { tid, exec_id: 1, generation: 1 });
    let mut interrupted = [0, 0];
    for (memo, interrupted) in interrupted.iter_mut().enumerate() {
        for reads in 0.. {
            let (_, mut replay) = program();
            let (mut outer, mut inner) = (thread(120, 0), thread(90, 3));
            if memo == 1 {
                // With memos of both, which serve the outer frames of the next walks.
                assert!(interrupt(&mut replay, [(&ours, &outer), (&theirs, &inner)], 0));
                outer.go_on(20);
                inner.go_on(11);
            }
            if !interrupt(&mut replay, [(&ours, &outer), (&theirs, &inner)], reads) {
                break;
            }
            *interrupted += 1;
        }
    }
    assert!(interrupted[0] > 8 && interrupted[1] > 4, "{interrupted:?}");
}

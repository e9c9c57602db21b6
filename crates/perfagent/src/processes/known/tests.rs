//! What is known of processes after what arrives, in any order that losses can make.

use super::*;
use crate::config::{Enrichment, Labels};

/// No process has it: numbers end at 2^22.
const PID: u32 = 1 << 30;
const CHILD: u32 = PID + 1;

fn processes_of(system: bool) -> Processes {
    Processes::new(Labeller::new(Enrichment::default(), Labels::new()), system).unwrap()
}

/// One target, recorded since 10.
fn one_target() -> Processes {
    let mut processes = processes_of(false);
    processes.enter(image(PID), 10);
    drop(processes.take_changes());
    processes
}

fn image(pid: u32) -> Image {
    Image::new(pid, 1, "program".to_owned(), None, Vec::new())
}

fn life(pid: u32, time_ns: u64, event: LifeEvent) -> Life {
    Life { pid, time_ns, event }
}

fn named(comm: &str) -> String {
    comm.to_owned()
}

fn comm_at(processes: &Processes, pid: u32, time_ns: u64) -> Option<String> {
    processes.known.at(pid, time_ns).map(|snapshot| snapshot.comm.to_owned())
}

#[test]
fn one_that_was_refused_and_is_read_later_does_not_count_for_its_files() {
    let mut processes = processes_of(true);
    let refused = process::Error::Permission { pid: PID, path: "maps".to_owned() };
    processes.count_unread(PID, &refused);
    processes.enter(image(PID), 0);
    assert!(processes.known.get(PID).unwrap().unreadable);
    assert_eq!(processes.counts().unreadable, 1);
    // Another process with its number.
    processes.enter(image(PID), 1);
    assert!(!processes.known.get(PID).unwrap().unreadable);
}

#[test]
fn one_that_was_read_and_is_asked_for_after_its_end_was_not_unread() {
    let mut processes = processes_of(true);
    processes.enter(image(PID), 0);
    processes.known.get_mut(PID).unwrap().alive = false;
    processes.asked_for(PID, false, true);
    assert_eq!((processes.tally.unreadable, processes.tally.seen), (0, 1));
    assert!(processes.take_changes().ended.iter().any(|(pid, _)| *pid == PID), "the kernel side forgets it");
    processes.asked_for(CHILD, false, true);
    assert_eq!((processes.tally.unreadable, processes.tally.seen), (1, 2));
    assert!(
        processes.take_changes().ended.iter().any(|(pid, _)| *pid == CHILD),
        "the kernel side forgets it"
    );
    processes.asked_for(CHILD + 1, true, true);
    assert_eq!((processes.tally.unreadable, processes.tally.seen), (1, 2), "no target");
}

#[test]
fn one_that_is_met_after_its_end_stays_ended_though_proc_lists_it() {
    let own = std::process::id();
    let mut processes = processes_of(true);
    processes.enter(image(own), 10);
    processes.follow(&life(own, 20, LifeEvent::Exit { comm: named("last"), parent: 0 }));
    drop(processes.take_changes());
    processes.asked_for(own, false, true);
    assert!(!processes.known.is_alive(own));
    assert_eq!(processes.take_changes().ended.len(), 1);
    // As one that wakes others it may be another process: its fork was not told.
    processes.asked_for(own, true, true);
    assert!(processes.known.is_alive(own));
}

#[test]
fn a_life_from_fork_to_exit_has_each_program_at_its_time() {
    let mut processes = one_target();
    assert!(processes.follow(&life(CHILD, 100, LifeEvent::Fork { parent: PID })));
    assert!(processes.follow(&life(CHILD, 200, LifeEvent::Exec { comm: named("next") })));
    assert!(processes.follow(&life(CHILD, 300, LifeEvent::Rename { comm: named("other") })));
    assert!(processes.follow(&life(CHILD, 400, LifeEvent::Exit { comm: named("last"), parent: 0 })));
    let names = [100, 199, 200, 300, 399, 400].map(|time| comm_at(&processes, CHILD, time).unwrap());
    assert_eq!(names, ["program", "program", "next", "other", "other", "last"]);
    assert!(!processes.known.is_alive(CHILD) && processes.known.is_alive(PID));
    let changes = processes.take_changes();
    assert_eq!(changes.ended, [(CHILD, 400)]);
    assert_eq!(changes.released, [CHILD, CHILD], "at exec and at the end");
    // Records of a process that has ended change nothing.
    processes.follow(&life(CHILD, 401, LifeEvent::Exit { comm: named("last"), parent: 0 }));
    processes.follow(&life(CHILD, 402, LifeEvent::Rename { comm: named("late") }));
    processes.follow(&life(CHILD, 403, LifeEvent::Exec { comm: named("late") }));
    assert_eq!(comm_at(&processes, CHILD, u64::MAX).unwrap(), "last");
    assert!(processes.take_changes().ended.is_empty());
}

#[test]
fn what_is_no_target_is_not_entered() {
    let mut processes = one_target();
    assert!(!processes.follow(&life(CHILD, 100, LifeEvent::Exec { comm: named("stranger") })));
    assert!(!processes.follow(&life(CHILD, 100, LifeEvent::Fork { parent: CHILD + 1 })));
    assert_eq!(processes.known.at(CHILD, u64::MAX).map(|_| ()), None);
    let mut system = processes_of(true);
    assert!(system.follow(&life(CHILD, 100, LifeEvent::Exec { comm: named("stranger") })));
    assert_eq!(comm_at(&system, CHILD, 100).unwrap(), "stranger");
}

#[test]
fn records_that_come_after_the_process_was_read_change_nothing() {
    let mut processes = one_target();
    // Found after a loss: the image of the kernel side is that of the exec.
    processes.enter(image(CHILD), 200);
    for event in [
        LifeEvent::Fork { parent: PID },
        LifeEvent::Rename { comm: named("before") },
        LifeEvent::Exit { comm: named("another process"), parent: 0 },
    ] {
        processes.follow(&life(CHILD, 150, event));
    }
    processes.follow(&life(CHILD, 200, LifeEvent::Exec { comm: named("known") }));
    assert!(processes.known.is_alive(CHILD));
    assert_eq!(comm_at(&processes, CHILD, u64::MAX).unwrap(), "program");
    assert_eq!(processes.known.get(CHILD).unwrap().begin_ns(), 200);
}

fn recorded(pid: u32, exec_id: u64) -> RecordedProcess {
    RecordedProcess { pid, exec_id, waker_only: false }
}

#[test]
fn a_comparison_finds_lost_forks_execs_and_ends() {
    let mut processes = one_target();
    processes.follow(&life(CHILD, 100, LifeEvent::Fork { parent: PID }));
    processes.follow(&life(CHILD + 1, 100, LifeEvent::Fork { parent: PID }));
    drop(processes.take_changes());
    // As the kernel side sees it: the first child is gone, the second has called exec, and this process is a third.
    let own = std::process::id();
    let exec_ns = kernel_ns();
    let waker = RecordedProcess { waker_only: true, ..recorded(CHILD + 2, 1) };
    processes.compare(&[recorded(PID, 10), recorded(CHILD + 1, exec_ns), recorded(own, 500), waker]);
    assert!(
        !processes.known.is_alive(CHILD)
            && processes.known.is_alive(PID)
            && processes.known.is_alive(CHILD + 1)
    );
    assert_eq!(processes.known.get(CHILD + 1).unwrap().begin_ns(), exec_ns);
    assert_eq!(processes.known.get(PID).unwrap().begin_ns(), 10);
    assert!(!processes.known.is_alive(own));
    processes.read_again();
    assert!(processes.known.is_alive(own));
    assert_eq!(processes.known.get(own).unwrap().begin_ns(), 500);
    assert!(processes.known.at(CHILD + 2, u64::MAX).is_none(), "one that only wakes others is no target");
    // The same again changes nothing.
    drop(processes.take_changes());
    processes.compare(&[recorded(PID, 10), recorded(CHILD + 1, exec_ns), recorded(own, 500)]);
    assert!(processes.take_changes().ended.is_empty());
    assert_eq!(processes.known.get(CHILD + 1).unwrap().begin_ns(), exec_ns);
    assert_eq!(processes.rereads.next_unknown(), None);
}

#[test]
fn a_name_given_later_is_no_lost_exec() {
    let mut processes = one_target();
    let renamed_ns = kernel_ns();
    processes.follow(&life(PID, renamed_ns, LifeEvent::Rename { comm: named("other") }));
    // The kernel side is told of a name as of a new image.
    processes.compare(&[recorded(PID, renamed_ns)]);
    assert_eq!(processes.known.get(PID).unwrap().begin_ns(), 10);
}

#[test]
fn of_the_whole_system_a_comparison_finds_processes_that_were_never_sampled() {
    let mut processes = processes_of(true);
    processes.enter(image(PID), 10);
    processes.compare(&[]);
    processes.read_again();
    assert!(!processes.known.is_alive(PID), "/proc does not list it");
    while !processes.known.is_alive(std::process::id()) {
        assert!(!processes.rereads.is_idle(), "this process is listed");
        processes.read_again();
    }
}

#[test]
fn names_that_come_too_fast_are_read_and_the_rest_is_counted() {
    let own = std::process::id();
    let mut processes = processes_of(false);
    processes.enter(image(own), 10);
    processes.follow(&life(own, kernel_ns() + 3_600_000_000_000, LifeEvent::LookAgain));
    processes.read_again();
    assert_eq!(comm_at(&processes, own, u64::MAX).unwrap(), "program", "too early");
    processes.follow(&life(own, kernel_ns(), LifeEvent::LookAgain));
    processes.read_again();
    assert_eq!(comm_at(&processes, own, u64::MAX), process::task::comm(own).ok());
    assert_eq!(processes.names_never_shown(5), 4);
}

#[test]
fn a_target_that_ends_without_a_record_is_noticed() {
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let mut processes = processes_of(false);
    let start = process::task::start_time(child.id()).unwrap();
    let target = Image::new(child.id(), start, "sleep".to_owned(), None, Vec::new());
    processes.enter_target(target, 10);
    let (now_ns, second_ns) = (kernel_ns(), 1_000_000_000);
    processes.look_for_ended_targets_at(now_ns, u64::MAX);
    assert!(processes.known.is_alive(child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
    processes.look_for_ended_targets_at(now_ns + second_ns - 1, u64::MAX);
    assert!(processes.known.is_alive(child.id()), "it looks once a second");
    processes.look_for_ended_targets_at(now_ns + second_ns, u64::MAX);
    assert!(!processes.known.is_alive(child.id()));
    assert_eq!(processes.take_changes().ended.len(), 1);
}

#[test]
fn a_target_whose_number_another_process_has_got_has_ended() {
    let own = std::process::id();
    let start = process::task::start_time(own).unwrap();
    for (start, alive) in [(start, true), (start + 1, false)] {
        let mut processes = processes_of(false);
        processes.enter_target(Image::new(own, start, "program".to_owned(), None, Vec::new()), 10);
        processes.look_for_ended_targets(u64::MAX);
        assert_eq!(processes.known.is_alive(own), alive);
    }
}

/// A command may have ended before the first records of its life are handled.
#[test]
fn a_target_that_is_gone_executes_what_records_still_tell_of() {
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = child.id();
    let mut processes = processes_of(false);
    let start = process::task::start_time(pid).unwrap();
    processes.enter_target(Image::new(pid, start, "before".to_owned(), None, Vec::new()), 10);
    child.kill().unwrap();
    child.wait().unwrap();
    let executed_ns = kernel_ns();
    processes.look_for_ended_targets(executed_ns);
    processes.follow(&life(pid, executed_ns, LifeEvent::Exec { comm: "sleep".to_owned() }));
    assert_eq!(comm_at(&processes, pid, u64::MAX).as_deref(), Some("sleep"));
    processes.look_for_ended_targets(u64::MAX);
    assert!(!processes.known.is_alive(pid));
}

/// The record of its end comes later, and stacks that wait for tables are walked later still.
#[test]
fn a_process_that_has_ended_keeps_its_mappings() {
    let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = child.id();
    let mut processes = processes_of(false);
    let is_there =
        |processes: &mut Processes| processes.read(pid).is_ok_and(|image| !image.regions().is_empty());
    while !is_there(&mut processes) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let image = processes.read(pid).unwrap();
    let regions = image.regions().len();
    processes.enter(image, 10);
    child.kill().unwrap();
    while !has_ended(pid) {
        std::thread::sleep(Duration::from_millis(1));
    }
    processes.rereads.want_at_once(pid);
    processes.read_again();
    let (now, _) = processes.known.present(pid).unwrap();
    assert_eq!(now.image.regions().len(), regions);
    child.wait().unwrap();
}

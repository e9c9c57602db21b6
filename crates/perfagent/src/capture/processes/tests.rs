//! A process of which something cannot be read counts once.

use super::*;
use crate::config::{Enrichment, Labels};

/// No process has it: numbers end at 2^22.
const PID: u32 = 1 << 30;

fn processes() -> Processes {
    Processes::new(Labeller::new(Enrichment::default(), Labels::new()), true)
}

fn image() -> Image {
    Image::new(PID, 1, "program".to_owned(), None, Vec::new())
}

#[test]
fn one_that_was_refused_and_is_read_later_does_not_count_for_its_files() {
    let mut processes = processes();
    let refused = process::Error::Permission { pid: PID, path: "maps".to_owned() };
    assert!(processes.count_unread(PID, &refused));
    processes.enter(image(), 0);
    assert!(processes.known[&PID].unreadable);
    assert_eq!(processes.unreadable, 1);
    // Another process with its number.
    processes.enter(image(), 1);
    assert!(!processes.known[&PID].unreadable);
}

#[test]
fn one_that_was_read_and_is_asked_for_after_its_end_was_not_unread() {
    let mut processes = processes();
    processes.enter(image(), 0);
    processes.known.get_mut(&PID).unwrap().alive = false;
    processes.wants_reading(PID, false);
    processes.meet_strangers();
    assert_eq!((processes.unreadable, processes.seen), (0, 1));
    processes.wants_reading(PID + 1, false);
    processes.meet_strangers();
    assert_eq!((processes.unreadable, processes.seen), (1, 2));
}

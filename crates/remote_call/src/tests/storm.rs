//! A program whose threads get signals, begin and end all the time, while they are stopped again and again.

use super::*;

/// How often the thread of a timer is stopped: one of some thousand stops meets a signal that is just about to be delivered.
const STOPS: usize = 20_000;
const ROUNDS: usize = 40;
/// Far more than a thread needs that stops at all.
const STOP: Duration = Duration::from_secs(5);

fn threads(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks.filter_map(|task| task.unwrap().file_name().to_str()?.parse().ok()).collect()
}

#[test]
fn each_thread_stops_in_a_storm_of_signals() {
    let Some(target) = Target::of("storm.c", "6") else { return };
    let pid = target.pid();
    testkit::until("its threads run", || threads(pid).len() > 8);
    let (mut stopped, mut ended) = (0, 0);
    for _ in 0..ROUNDS {
        for tid in threads(pid) {
            match Stopped::new(pid, tid, Instant::now() + STOP) {
                Ok(thread) => {
                    thread.release().unwrap();
                    stopped += 1;
                }
                Err(CallError::Ended) => ended += 1,
                Err(error) => panic!("thread {tid}, after {stopped} that stopped: {error}"),
            }
        }
    }
    assert!(stopped > ended, "{stopped} stopped, {ended} ended");
    let end = target.end();
    assert_eq!(end, End { changed: Some(0), usual: end.queued, queued: end.queued, given_back: 0 });
}

#[test]
fn a_thread_stops_that_is_about_to_get_the_signal_of_a_timer() {
    let Some(target) = Target::of("storm.c", "timer") else { return };
    for round in 0..STOPS {
        match Stopped::new(target.pid(), target.pid(), Instant::now() + STOP) {
            Ok(thread) => thread.release().unwrap(),
            Err(error) => panic!("after {round} stops: {error}"),
        }
    }
    assert_eq!(target.end(), UNCHANGED);
}

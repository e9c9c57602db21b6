use super::*;

const LONG: Duration = Duration::from_secs(60);

fn pool() -> WorkerPool<u32> {
    let spawn: Spawn = Box::new(|body| std::thread::Builder::new().spawn(body).map(drop));
    WorkerPool::new(spawn, LONG)
}

#[test]
fn a_call_that_panics_has_no_result_and_its_worker_goes_on() {
    let mut pool = pool();
    let bad = pool.ask((1, 1), || panic!("a call of this test"));
    let (mut finished, mut given_up) = (Vec::new(), Vec::new());
    while finished.len() + given_up.len() < 20 {
        let good = pool.ask((1, 1), || 7);
        let taken = pool.take(LONG);
        assert!(pool.pending() == 0 && taken.finished.contains(&(good, 7)));
        finished.extend(taken.finished);
        given_up.extend(taken.given_up);
    }
    assert_eq!(given_up, [bad]);
    assert!(pool.is_idle());
}

#[test]
fn without_threads_calls_are_given_up() {
    let spawn: Spawn = Box::new(|_| Err(io::ErrorKind::OutOfMemory.into()));
    let mut pool = WorkerPool::new(spawn, Duration::from_millis(20));
    let tickets = [0, 1].map(|device| pool.ask((device, 1), || 1));
    let mut given_up = Vec::new();
    testkit::until("both calls are given up", || {
        given_up.extend(pool.take(Duration::ZERO).given_up);
        given_up.len() == tickets.len()
    });
    assert_eq!(given_up, tickets);
    assert_eq!((pool.pending(), pool.shared.lock().threads), (0, 0));
}

/// A user may mount as many file systems that do not answer as there are workers.
#[test]
fn silent_file_systems_leave_workers_to_block_devices_and_to_those_that_have_answered() {
    let mut pool = pool();
    let overlay = (0, 900);
    let first = pool.ask(overlay, || 1);
    assert_eq!(pool.take(LONG).finished, [(first, 1)]);
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    for device in 0..20 {
        for _ in 0..MAX_BLOCKED_OF_DEVICE {
            let gate = Arc::clone(&gate);
            pool.ask((0, device), move || {
                let (open, opened) = &*gate;
                drop(opened.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
                0
            });
        }
    }
    testkit::until("all workers for any device are blocked", || {
        assert!(pool.take(SUPERVISION).finished.is_empty());
        pool.shared.lock().running.len() >= MAX_WORKERS
    });
    let awaited = [pool.ask((8, 1), || 2), pool.ask(overlay, || 3)];
    let mut finished = Vec::new();
    testkit::until("both are answered", || {
        finished.extend(pool.take(SUPERVISION).finished);
        finished.len() == awaited.len()
    });
    finished.sort_unstable();
    assert_eq!(finished, [(awaited[0], 2), (awaited[1], 3)]);
    assert_eq!(pool.shared.lock().running.len(), MAX_WORKERS);
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
}

#[test]
fn no_worker_takes_a_call_for_a_device_that_does_not_answer() {
    let spawn: Spawn = Box::new(|body| std::thread::Builder::new().spawn(body).map(drop));
    let mut pool = WorkerPool::new(spawn, Duration::from_millis(20));
    let (answer, silence) = std::sync::mpsc::channel::<()>();
    let silent = pool.ask((1, 1), move || u32::from(silence.recv().is_err()));
    testkit::until("the call is given up", || pool.take(Duration::ZERO).given_up == [silent]);
    let further = pool.ask((1, 1), || 7);
    {
        let state = pool.shared.lock();
        assert!(state.waiting.len() == 1 && state.next().is_none());
    }
    // It is given up with the other one, without a time of its own.
    assert_eq!(pool.take(Duration::ZERO).given_up, [further]);
    drop(answer);
    testkit::until("the device answers", || pool.take(Duration::ZERO).finished == [(silent, 1)]);
    assert!(pool.is_idle());
}

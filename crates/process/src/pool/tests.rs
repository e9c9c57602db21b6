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
    while given_up.len() < tickets.len() {
        given_up.extend(pool.take(LONG).given_up);
    }
    assert_eq!(given_up, tickets);
    assert_eq!((pool.pending(), pool.shared.lock().threads), (0, 0));
}

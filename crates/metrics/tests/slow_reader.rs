//! A client that does not read its answer. The test has its own program because it counts the server's threads by name.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use metrics::endpoint::{Endpoint, ListenAddress, TimeLimits};

/// More than the socket buffers hold.
const BODY: usize = 64 << 20;

/// Whether a thread serves a connection.
fn is_served() -> bool {
    let names = fs::read_dir("/proc/self/task").unwrap();
    names.flatten().any(|task| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim_end() == "perfagent-conn")
    })
}

fn wait_until(what: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !what() {
        assert!(Instant::now() < deadline, "it never comes");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_client_that_does_not_read_is_given_up() {
    let limits = TimeLimits { answer: Duration::from_secs(2), ..TimeLimits::default() };
    let endpoint = Endpoint::bind(&ListenAddress::parse(":0").unwrap()).unwrap().with_limits(limits);
    let asked = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&asked);
    let source = move |_| {
        told.store(true, Ordering::SeqCst);
        "x".repeat(BODY)
    };
    let server = endpoint
        .start(source, |job| std::thread::Builder::new().name("listens".to_owned()).spawn(job))
        .unwrap();
    let mut slow = TcpStream::connect(server.local_addr()).unwrap();
    slow.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    wait_until(|| asked.load(Ordering::SeqCst));
    wait_until(|| !is_served());
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    assert!(rest.starts_with(b"HTTP/1.1 200 OK\r\n") && rest.len() < BODY, "{} bytes", rest.len());
}

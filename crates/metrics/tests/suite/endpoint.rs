//! The endpoint over real sockets.
#![allow(clippy::unwrap_used)]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use metrics::Exposition;
use metrics::endpoint::{Endpoint, Job, ListenAddress, Server, TimeLimits};

fn spawn(job: Job) -> io::Result<JoinHandle<()>> {
    Builder::new().name("perfagent-http".to_owned()).spawn(job)
}

/// More than a busy machine takes for an exchange.
const LONG: Duration = Duration::from_secs(60);

fn server(source: impl Fn(Exposition) -> String + Send + Sync + 'static) -> Server {
    server_with(TimeLimits { head: LONG, answer: LONG }, source)
}

fn server_with(limits: TimeLimits, source: impl Fn(Exposition) -> String + Send + Sync + 'static) -> Server {
    let endpoint = Endpoint::bind(&ListenAddress::parse(":0").unwrap()).unwrap().with_limits(limits);
    assert!(endpoint.is_loopback());
    endpoint.start(source, spawn).unwrap()
}

fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

fn get(address: SocketAddr, path: &str, accept: &str) -> (String, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n");
    let answer = exchange(address, request.as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    assert_eq!(length.parse(), Ok(body.len()));
    (head.to_owned(), body.to_owned())
}

/// The listening thread may close its socket a little later, on a busy machine.
fn until_closed(address: SocketAddr) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(address).is_ok() {
        assert!(Instant::now() < deadline, "the address still accepts connections");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn only_two_paths_are_answered() {
    let server = server(|exposition| format!("{exposition:?} ä\n"));
    let address = server.local_addr();
    let (head, body) = get(address, "/metrics", "*/*");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let media = "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(head.lines().any(|line| line == media), "{head}");
    assert_eq!(body, "OpenMetrics ä\n");
    let (head, body) = get(address, "/metrics", "text/plain");
    assert!(
        head.lines().any(|line| line == "Content-Type: text/plain; version=0.0.4; charset=utf-8"),
        "{head}"
    );
    assert_eq!(body, "Prometheus ä\n");
    let (head, body) = get(address, "/healthz", "*/*");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body == "ok\n");
    for path in ["/", "/metricsx", "/debug/pprof"] {
        assert!(get(address, path, "*/*").0.starts_with("HTTP/1.1 404 "), "{path}");
    }
    let post = exchange(address, b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
    assert!(post.starts_with("HTTP/1.1 404 "), "{post}");
    assert!(exchange(address, b"hello\r\n\r\n").starts_with("HTTP/1.1 400 "));
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    assert!(exchange(address, long.as_bytes()).starts_with("HTTP/1.1 431 "));
    server.stop();
    until_closed(address);
}

#[test]
fn a_head_in_pieces_is_read_and_an_endless_one_times_out() {
    let server = server(|_| "body".to_owned());
    let mut slow = TcpStream::connect(server.local_addr()).unwrap();
    for piece in ["GET /metr", "ics HTTP/1.1\r\n", "\r", "\n"] {
        slow.write_all(piece.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\nbody"), "{answer}");

    let head = Duration::from_secs(1);
    let server = server_with(TimeLimits { head, answer: LONG }, |_| "body".to_owned());
    let begun = Instant::now();
    let mut endless = TcpStream::connect(server.local_addr()).unwrap();
    let mut writer = endless.try_clone().unwrap();
    // Single bytes must not extend the time.
    let drip = std::thread::spawn(move || {
        while writer.write_all(b"x").is_ok() && begun.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let mut answer = String::new();
    let _ = endless.read_to_string(&mut answer);
    let waited = begun.elapsed();
    assert!(waited >= head && waited < LONG, "{waited:?}");
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
    drop(endless);
    drip.join().unwrap();
}

#[test]
fn the_seventeenth_connection_is_refused() {
    let server = server(|_| "done".to_owned());
    // Connections are accepted in the order in which they connect.
    let connect = |_| TcpStream::connect(server.local_addr()).unwrap();
    let mut silent: Vec<_> = (0..17).map(connect).collect();
    let answer = |stream: &mut TcpStream| {
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    let mut answers = vec![answer(&mut silent[16])];
    for stream in &mut silent[..16] {
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        answers.push(answer(stream));
    }
    assert!(answers[0].starts_with("HTTP/1.1 503 "), "{}", answers[0]);
    for answer in &answers[1..] {
        assert!(answer.ends_with("\r\n\r\ndone"), "{answer}");
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let mut again = TcpStream::connect(server.local_addr()).unwrap();
        let mut answer = String::new();
        // A refused connection may be reset during the write.
        let _ = again.write_all(b"GET /healthz HTTP/1.1\r\n\r\n");
        let _ = again.read_to_string(&mut answer);
        if answer.ends_with("ok\n") {
            break;
        }
        assert!(Instant::now() < deadline, "there is room again: {answer}");
    }
}

/// The time of a stop while some clients request nothing and one does not read its answer.
fn time_to_stop() -> Duration {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let server = server(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        "x".repeat(64 << 20)
    });
    let address = server.local_addr();
    let silent: Vec<_> = (0..5).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut unread = TcpStream::connect(address).unwrap();
    unread.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    while asked.load(Ordering::SeqCst) == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    // The first bytes are here, so the server writes the others.
    unread.read_exact(&mut [0; 16]).unwrap();
    let begun = Instant::now();
    server.stop();
    let took = begun.elapsed();
    until_closed(address);
    drop((silent, unread));
    took
}

#[test]
fn a_stop_does_not_wait_for_connections() {
    let took = time_to_stop();
    assert!(took < LONG, "it waits for its connections: {took:?}");
}

#[test]
fn a_source_that_hangs_or_panics_affects_only_its_request() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let server = server(move |_| match count.fetch_add(1, Ordering::SeqCst) {
        0 => panic!("source"),
        1 => {
            std::thread::sleep(LONG);
            String::new()
        }
        _ => "alive".to_owned(),
    });
    let address = server.local_addr();
    assert!(get(address, "/metrics", "*/*").0.starts_with("HTTP/1.1 500 "));
    let mut hanging = TcpStream::connect(address).unwrap();
    hanging.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    while calls.load(Ordering::SeqCst) < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(get(address, "/metrics", "*/*").1, "alive");
    let begun = Instant::now();
    server.stop();
    assert!(begun.elapsed() < LONG, "it waits for the source");
}

#[test]
fn a_flood_of_connections_and_bytes_ends() {
    let server = server(|_| "done".to_owned());
    let address = server.local_addr();
    let flood: Vec<_> = (0..300).map(|_| TcpStream::connect(address)).collect();
    // Each is answered or refused, without a request.
    drop(flood);
    // A request whose body never ends is answered and closed.
    let endless = std::thread::spawn(move || {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut sent = 0_u64;
        loop {
            assert!(Instant::now() < deadline, "the connection is not accepted");
            let Ok(mut stream) = TcpStream::connect(address) else { continue };
            if stream.write_all(b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n").is_err() {
                continue;
            }
            while stream.write_all(&[b'x'; 1 << 16]).is_ok() {
                sent += 1;
                assert!(Instant::now() < deadline, "it still reads after {sent} x 64 KiB");
            }
            return;
        }
    });
    endless.join().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(Instant::now() < deadline, "there is room again");
        let mut stream = TcpStream::connect(address).unwrap();
        let mut answer = String::new();
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
        let _ = stream.read_to_string(&mut answer);
        if answer.ends_with("\r\n\r\ndone") {
            break;
        }
    }
}

#[test]
fn ipv6() {
    for host in ["[::1]", "[::]"] {
        let endpoint = match Endpoint::bind(&ListenAddress::parse(&format!("{host}:0")).unwrap()) {
            Ok(endpoint) => endpoint,
            // This machine has no IPv6.
            Err(error) if error.source.raw_os_error().is_some_and(|errno| [97, 99].contains(&errno)) => {
                return;
            }
            Err(error) => panic!("{error}"),
        };
        assert_eq!(endpoint.is_loopback(), host == "[::1]");
        let server = endpoint.start(|_| "body".to_owned(), spawn).unwrap();
        let address = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, server.local_addr().port()));
        assert_eq!(get(address, "/metrics", "*/*").1, "body");
        let taken = ListenAddress::parse(&format!("[::1]:{}", address.port())).unwrap();
        let error = Endpoint::bind(&taken).unwrap_err().to_string();
        assert!(error.contains(&format!("[::1]:{}: ", address.port())), "{error}");
        server.stop();
        until_closed(address);
    }
}

#[test]
fn a_failed_bind_names_the_reason_and_a_remedy() {
    let first = Endpoint::bind(&ListenAddress::parse("0").unwrap()).unwrap();
    let taken = ListenAddress::parse(&first.local_addr().to_string()).unwrap();
    let error = Endpoint::bind(&taken).unwrap_err();
    assert!(
        error.to_string().contains(&taken.to_string()) && error.hint().contains("another port"),
        "{error}"
    );
    assert!(!Endpoint::bind(&ListenAddress::parse("0.0.0.0:0").unwrap()).unwrap().is_loopback());
}

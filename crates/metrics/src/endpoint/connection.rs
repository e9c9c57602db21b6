//! One connection: one request and one answer.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::request::{Malformed, Request, parse};
use crate::Exposition;

const HEAD_LIMIT: usize = 8 << 10;
/// After the answer, bytes of the client are read for this time and up to this limit: closing a socket with unread
/// bytes can destroy the answer.
const FAREWELL_TIME: Duration = Duration::from_millis(500);
const FAREWELL_LIMIT: usize = 64 << 10;

const PLAIN: &str = "text/plain; charset=utf-8";

/// How long a client may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// To send the head of its request.
    pub head: Duration,
    /// To take the whole answer.
    pub answer: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self { head: Duration::from_secs(5), answer: Duration::from_secs(10) }
    }
}

/// Answers the one request of a connection. A failed connection is not reported.
pub(super) fn serve(stream: &TcpStream, limits: TimeLimits, source: &dyn Fn(Exposition) -> String) {
    let _ = answer(stream, limits, source);
}

fn answer(
    mut stream: &TcpStream,
    limits: TimeLimits,
    source: &dyn Fn(Exposition) -> String,
) -> io::Result<()> {
    let (status, content_type, body) = match read_head(stream, limits.head)? {
        Head::Request(Request::Metrics(exposition)) => {
            // A panic of the source is a defect of the embedding program. Other requests go on.
            match catch_unwind(AssertUnwindSafe(|| source(exposition))) {
                Ok(body) => ("200 OK", exposition.content_type(), body),
                Err(_) => ("500 Internal Server Error", PLAIN, "no metrics now\n".to_owned()),
            }
        }
        Head::Request(Request::Health) => ("200 OK", PLAIN, "ok\n".to_owned()),
        Head::Request(Request::Other) => ("404 Not Found", PLAIN, "not found\n".to_owned()),
        Head::Malformed => ("400 Bad Request", PLAIN, "not an HTTP request\n".to_owned()),
        Head::TooLong => ("431 Request Header Fields Too Large", PLAIN, "too long\n".to_owned()),
        Head::TooSlow => ("408 Request Timeout", PLAIN, "too slow\n".to_owned()),
        Head::Gone => return Ok(()),
    };
    let answer = whole_answer(status, content_type, &body);
    write_all(stream, answer.as_bytes(), Instant::now() + limits.answer)?;
    stream.shutdown(Shutdown::Write)?;
    let (deadline, mut left) = (Instant::now() + FAREWELL_TIME, FAREWELL_LIMIT);
    let mut bytes = [0; 4096];
    while left > 0 {
        stream.set_read_timeout(Some(until(deadline)?))?;
        match stream.read(&mut bytes)? {
            0 => break,
            read => left = left.saturating_sub(read),
        }
    }
    Ok(())
}

/// Refuses a connection beyond the limit, without waiting.
pub(super) fn refuse(mut stream: &TcpStream) {
    let answer = whole_answer("503 Service Unavailable", PLAIN, "too many connections\n");
    if stream.set_nonblocking(true).is_ok() {
        let _ = stream.write(answer.as_bytes());
    }
}

fn whole_answer(status: &str, content_type: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

enum Head {
    Request(Request),
    Malformed,
    TooLong,
    TooSlow,
    Gone,
}

fn read_head(mut stream: &TcpStream, limit: Duration) -> io::Result<Head> {
    let deadline = Instant::now() + limit;
    let mut bytes = [0; HEAD_LIMIT];
    let mut len = 0;
    loop {
        match parse(&bytes[..len]) {
            Ok(Some(request)) => return Ok(Head::Request(request)),
            Err(Malformed) => return Ok(Head::Malformed),
            Ok(None) if len == HEAD_LIMIT => return Ok(Head::TooLong),
            Ok(None) => {}
        }
        let Ok(left) = until(deadline) else { return Ok(Head::TooSlow) };
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes[len..]) {
            Ok(0) => return Ok(Head::Gone),
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) => return Ok(Head::TooSlow),
            Err(error) => return Err(error),
        }
    }
}

fn write_all(mut stream: &TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(until(deadline)?))?;
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The time left; never zero.
fn until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

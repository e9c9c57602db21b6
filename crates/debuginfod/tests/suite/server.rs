//! A server with the faults that servers have.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use profile::BuildId;

/// A program with a build-id.
pub static PROGRAM: LazyLock<Vec<u8>> = LazyLock::new(|| std::fs::read("/bin/sh").unwrap());

/// What a server does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Sends a file with the build-id that is asked for.
    Answers,
    /// Says that it has nothing.
    NotFound,
    /// Fails with this status.
    Fails(u16),
    /// Fails once, then answers.
    FailsOnce,
    /// Sends the head, then a byte now and then.
    Drips,
    /// Takes the request and says nothing.
    Silent,
    /// Sends half of what it announces.
    Truncates,
    /// Sends half of the file, and announces no length.
    TruncatesSilently,
    /// Sends a file with another build-id.
    Mixes,
    /// Never stops.
    Endless,
    /// Announces a huge file.
    Huge,
    /// Sends each request to itself.
    Redirects,
    /// Sends bytes that are no answer.
    Babbles,
}

/// A server, until the test ends.
pub struct Server {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Server {
    pub fn that(does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, requests) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let count = Arc::clone(&count);
                std::thread::spawn(move || serve(stream, does, &count));
            }
        });
        Self { address, requests }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Requests so far.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// The program with another build-id.
fn with_build_id(id: &BuildId) -> Vec<u8> {
    let own = elf::Layout::parse(&PROGRAM).unwrap().build_id(&PROGRAM).unwrap();
    let at = PROGRAM.windows(own.as_bytes().len()).position(|bytes| bytes == own.as_bytes()).unwrap();
    let mut bytes = PROGRAM.clone();
    bytes[at..at + id.as_bytes().len()].copy_from_slice(id.as_bytes());
    bytes
}

fn serve(mut stream: TcpStream, does: Does, count: &AtomicUsize) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let Some(Ok(first)) = lines.next() else { return };
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let number = count.fetch_add(1, Ordering::SeqCst);
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let id: Option<BuildId> = path.split('/').nth(2).and_then(|hex| hex.parse().ok());
    let file = id.map(|id| with_build_id(&id)).unwrap_or_default();
    let head = |status: u16, more: &str| format!("HTTP/1.1 {status} x\r\nConnection: close\r\n{more}\r\n");
    let length = |len: usize| head(200, &format!("Content-Length: {len}\r\n"));
    let mut send = |bytes: &[u8]| stream.write_all(bytes).is_ok();
    match does {
        Does::FailsOnce if number == 0 => send(head(503, "Content-Length: 0\r\n").as_bytes()),
        Does::Answers | Does::FailsOnce => send(length(file.len()).as_bytes()) && send(&file),
        Does::NotFound => send(head(404, "Content-Length: 0\r\n").as_bytes()),
        Does::Fails(status) => send(head(status, "Content-Length: 0\r\n").as_bytes()),
        Does::Drips => {
            let mut goes_on = send(length(file.len()).as_bytes());
            for byte in &file {
                std::thread::sleep(Duration::from_millis(100));
                goes_on = goes_on && send(&[*byte]);
                if !goes_on {
                    break;
                }
            }
            goes_on
        }
        Does::Silent => {
            std::thread::sleep(Duration::from_secs(60));
            true
        }
        Does::Truncates => send(length(file.len()).as_bytes()) && send(&file[..file.len() / 2]),
        Does::TruncatesSilently => send(head(200, "").as_bytes()) && send(&file[..file.len() / 2]),
        Does::Mixes => send(length(PROGRAM.len()).as_bytes()) && send(&PROGRAM),
        Does::Endless => {
            let mut goes_on = send(head(200, "").as_bytes());
            while goes_on {
                goes_on = send(&[0; 1 << 16]);
            }
            goes_on
        }
        Does::Huge => send(length(1 << 40).as_bytes()),
        Does::Redirects => send(head(302, &format!("Location: {path}\r\nContent-Length: 0\r\n")).as_bytes()),
        Does::Babbles => send(b"\0\0\0\xff no answer\r\n\r\n"),
    };
}

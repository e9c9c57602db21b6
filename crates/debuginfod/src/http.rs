//! One request: redirections are followed here, and the content goes to a file piece by piece.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ureq::Agent;
use ureq::http::HeaderMap;
use ureq::tls::{RootCerts, TlsConfig};

use crate::answer::{Head, Step, step};

/// A connection that is not there by then has failed.
const CONNECT: Duration = Duration::from_secs(5);
/// A server that sends nothing for so long has failed.
const SILENCE: Duration = Duration::from_secs(10);
/// Redirections that are followed.
const MAX_REDIRECTS: usize = 5;
/// The head of an answer may have so many bytes.
const MAX_HEAD: usize = 32 << 10;
/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Got {
    /// The whole content is in the file.
    Content,
    /// The server does not have it.
    NotFound,
    /// It is larger than allowed.
    TooLarge,
    /// Asking again may help, after this time if the server names one.
    Again(Option<Duration>, String),
    /// Asking again will not help.
    Failed(String),
    /// The time is over, or the server sent nothing for too long.
    TimedOut,
    /// The content could not be written.
    NotWritten(io::Error),
}

/// Makes requests. Its connections are kept for the next one.
pub(crate) struct Http {
    agent: Agent,
    received: Arc<AtomicU64>,
}

impl Http {
    pub(crate) fn new() -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            .unversioned_rustls_crypto_provider(provider)
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("perf-agent/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .max_response_header_size(MAX_HEAD)
            .timeout_resolve(Some(CONNECT))
            .timeout_connect(Some(CONNECT))
            .timeout_per_read(Some(SILENCE))
            .timeout_per_write(Some(SILENCE))
            .build();
        Self { agent: config.new_agent(), received: Arc::default() }
    }

    /// Bytes of content received so far.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Ends all requests, and refuses new ones.
    pub(crate) fn shutdown(&self) {
        self.agent.clone().shutdown();
    }

    /// Writes what a URL leads to into an empty file. `max`: bytes that it may have.
    pub(crate) fn get(&self, url: &str, to: &File, max: u64, deadline: Instant) -> Got {
        let mut url = url.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Got::TimedOut;
            }
            let request = self.agent.get(&url).config().timeout_global(Some(left)).build();
            let mut answer = match request.call() {
                Ok(answer) => answer,
                Err(error) => return failed(error),
            };
            let next = step(&url, &head(answer.status().as_u16(), answer.headers()), max);
            match next {
                Step::Content(length) => {
                    return self.write(answer.body_mut().as_reader(), to, length, max, deadline);
                }
                Step::NotFound => return Got::NotFound,
                Step::TooLarge => return Got::TooLarge,
                Step::Redirect(target) => url = target,
                Step::Again(pause) => {
                    return Got::Again(pause, format!("status {}", answer.status().as_u16()));
                }
                Step::Refused => return Got::Failed(format!("status {}", answer.status().as_u16())),
            }
        }
        Got::Failed(format!("more than {MAX_REDIRECTS} redirections"))
    }

    fn write(
        &self,
        mut from: impl Read,
        mut to: &File,
        length: Option<u64>,
        max: u64,
        deadline: Instant,
    ) -> Got {
        let mut piece = vec![0; PIECE];
        let mut written: u64 = 0;
        loop {
            if Instant::now() >= deadline {
                return Got::TimedOut;
            }
            let read = match from.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return failed(ureq::Error::from(error)),
            };
            written += read as u64;
            self.received.fetch_add(read as u64, Ordering::Relaxed);
            if written > max {
                return Got::TooLarge;
            }
            if let Err(error) = to.write_all(piece.get(..read).unwrap_or_default()) {
                return Got::NotWritten(error);
            }
        }
        match length {
            Some(length) if length != written => {
                Got::Again(None, format!("{written} of {length} bytes came"))
            }
            _ => Got::Content,
        }
    }
}

fn head(status: u16, headers: &HeaderMap) -> Head<'_> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    Head {
        status,
        location: text("location"),
        retry_after: text("retry-after"),
        content_length: text("content-length"),
    }
}

/// What an error means: a connection may be there at the next try.
fn failed(error: ureq::Error) -> Got {
    use ureq::{Error, Timeout};
    match error {
        Error::Timeout(Timeout::Connect | Timeout::Resolve) => {
            Got::Again(None, "no connection in time".to_owned())
        }
        Error::Timeout(_) => Got::TimedOut,
        Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => Got::TimedOut,
        error @ (Error::Io(_) | Error::ConnectionFailed | Error::HostNotFound | Error::Protocol(_)) => {
            Got::Again(None, error.to_string())
        }
        error => Got::Failed(error.to_string()),
    }
}

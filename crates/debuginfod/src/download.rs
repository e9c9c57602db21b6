//! One file from the servers in turn: tries, pauses, and what is remembered of servers that fail.

use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::cause::Cause;
use crate::content::Content;
use crate::entry::Artifact;
use crate::http::{Got, Http};
use crate::server::Server;

/// Pauses before the repetitions of a request.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];
/// A pause is up to so many percent longer or shorter.
const SPREAD_PCT: u64 = 20;
/// A server that fails for so many files in a row is not asked any more.
const MAX_FAILURES: u32 = 3;

/// The servers, and what is known of them in this run.
pub(crate) struct Servers {
    servers: Vec<(Server, AtomicU32)>,
    http: Http,
    max: u64,
    pub(crate) retries: AtomicU64,
}

/// What limits a download.
pub(crate) struct Limits<'a> {
    pub(crate) deadline: Instant,
    /// Waits, or returns false at once if all is to end.
    pub(crate) pause: &'a dyn Fn(Duration) -> bool,
}

impl Servers {
    pub(crate) fn new(servers: &[Server], max: u64) -> Self {
        let servers = servers.iter().map(|server| (server.clone(), AtomicU32::new(0))).collect();
        Self { servers, http: Http::new(), max, retries: AtomicU64::new(0) }
    }

    /// Bytes of content received so far.
    pub(crate) fn received(&self) -> u64 {
        self.http.received()
    }

    /// Ends all requests, and refuses new ones.
    pub(crate) fn shutdown(&self) {
        self.http.shutdown();
    }

    /// Writes a file from the first server that has it, if it is the right one.
    pub(crate) fn download(
        &self,
        artifact: &Artifact,
        to: &File,
        limits: &Limits<'_>,
    ) -> Result<Content, Cause> {
        let mut worst = Cause::NotFound;
        for (server, failures) in &self.servers {
            if failures.load(Ordering::Relaxed) >= MAX_FAILURES {
                worst = worst.max(Cause::Error);
                continue;
            }
            match self.from(server, artifact, to, limits) {
                Ok(content) => {
                    failures.store(0, Ordering::Relaxed);
                    return Ok(content);
                }
                Err(cause) => {
                    match cause {
                        Cause::NotFound => failures.store(0, Ordering::Relaxed),
                        Cause::Error | Cause::Timeout | Cause::Mismatch => {
                            failures.fetch_add(1, Ordering::Relaxed);
                        }
                        Cause::TooLarge | Cause::Abandoned => {}
                    }
                    worst = worst.max(cause);
                }
            }
        }
        Err(worst)
    }

    fn from(
        &self,
        server: &Server,
        artifact: &Artifact,
        to: &File,
        limits: &Limits<'_>,
    ) -> Result<Content, Cause> {
        let url = server.url(artifact);
        let mut pauses = PAUSES.iter();
        loop {
            empty(to)?;
            let (asked, reason) = match self.http.get(&url, to, self.max, limits.deadline) {
                Got::Content => return verified(server, artifact, to),
                Got::NotFound => return Err(Cause::NotFound),
                Got::TooLarge => return Err(Cause::TooLarge),
                Got::TimedOut => return Err(Cause::Timeout),
                Got::Failed(reason) => {
                    tracing::debug!(target: "perfagent", "debuginfod: {server}: {artifact:?}: {reason}");
                    return Err(Cause::Error);
                }
                Got::NotWritten(error) => {
                    tracing::debug!(target: "perfagent", "debuginfod: write a file into the cache: {error}");
                    return Err(Cause::Error);
                }
                Got::Again(asked, reason) => (asked, reason),
            };
            tracing::debug!(target: "perfagent", "debuginfod: {server}: {artifact:?}: {reason}");
            let Some(usual) = pauses.next() else { return Err(Cause::Error) };
            let pause = asked.unwrap_or_else(|| spread(*usual));
            if Instant::now() + pause >= limits.deadline {
                return Err(Cause::Timeout);
            }
            if !(limits.pause)(pause) {
                return Err(Cause::Abandoned);
            }
            self.retries.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn empty(to: &File) -> Result<(), Cause> {
    let mut file = to;
    to.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))).map_err(|_| Cause::Error)?;
    Ok(())
}

fn verified(server: &Server, artifact: &Artifact, file: &File) -> Result<Content, Cause> {
    Content::of(file).filter(|content| content.build_id == artifact.build_id).ok_or_else(|| {
        tracing::debug!(target: "perfagent", "debuginfod: {server} sent another file than {artifact:?}");
        Cause::Mismatch
    })
}

/// A pause that differs between processes: those that fail together do not ask again together.
fn spread(pause: Duration) -> Duration {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let random = (clock.subsec_nanos() as u64 ^ u64::from(std::process::id()).wrapping_mul(0x9e37_79b9)) >> 3;
    let pct = 100 - SPREAD_PCT + random % (2 * SPREAD_PCT + 1);
    Duration::from_nanos(u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX) / 100 * pct)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_differ_by_a_fifth_at_most() {
        for _ in 0..1000 {
            let pause = spread(Duration::from_millis(1000));
            assert!((Duration::from_millis(800)..=Duration::from_millis(1200)).contains(&pause), "{pause:?}");
        }
    }
}

//! The protocol of the diagnostics socket (dotnet/diagnostics, `ipc-protocol.md`): one request and one answer for each connection, each a header of
//! 20 bytes and a payload, little-endian.
//!
//! A request is one write with everything in it: a runtime (9.0) that gets this command without its payload ends with SIGSEGV.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::error::DotNetError;

const MAGIC: &[u8; 14] = b"DOTNET_IPC_V1\0";
const HEADER: usize = 20;
/// A header and one number: no answer to these commands has more that is of interest.
const ANSWER: usize = HEADER + 4;
/// The set of commands about the process.
const PROCESS: u8 = 4;
/// The set that answers are in, and the two kinds.
const SERVER: u8 = 0xff;
const OK: u8 = 0;
const ERROR: u8 = 0xff;
/// The kind of file that is `/tmp/perf-N.map`.
const PERF_MAP: u32 = 3;

const UNKNOWN_COMMAND: u32 = 0x8013_1385;
const NOT_YET_AVAILABLE: u32 = 0x8013_135b;
const RUNTIME_UNINITIALIZED: u32 = 0x8013_1371;

/// Between two looks whether there is more. A thread that only waits would count as blocked.
const CHECK: Duration = Duration::from_millis(50);

/// What a runtime is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Write the perf map: first the methods that are compiled already, then each that is compiled from then on.
    EnablePerfMap,
    /// Close it.
    DisablePerfMap,
}

impl Command {
    fn request(self) -> Vec<u8> {
        let (id, payload) = match self {
            Self::EnablePerfMap => (5, &PERF_MAP.to_le_bytes()[..]),
            Self::DisablePerfMap => (6, &[][..]),
        };
        let size = (HEADER + payload.len()) as u16;
        [&MAGIC[..], &size.to_le_bytes(), &[PROCESS, id, 0, 0], payload].concat()
    }
}

/// Sends a request.
pub(super) fn send(stream: &mut UnixStream, command: Command) -> Result<(), DotNetError> {
    let failed = || DotNetError::io("talk to the runtime");
    stream.set_read_timeout(Some(CHECK)).map_err(failed())?;
    stream.set_write_timeout(Some(CHECK)).map_err(failed())?;
    stream.write_all(&command.request()).map_err(failed())
}

/// Waits for the answer to a request until a deadline. `patience`: how long that was, to be told.
pub(super) fn receive(
    stream: &mut UnixStream,
    deadline: Instant,
    patience: Duration,
) -> Result<(), DotNetError> {
    let (mut answer, mut have) = ([0; ANSWER], 0);
    while have < wanted(&answer[..have]) {
        let wanted = wanted(&answer[..have]);
        match stream.read(&mut answer[have..wanted]) {
            Ok(0) => return Err(DotNetError::Cut),
            Ok(count) => have += count,
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut if Instant::now() < deadline => {}
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    return Err(DotNetError::NoAnswer(patience.as_secs()));
                }
                ErrorKind::Interrupted => {}
                _ => return Err(DotNetError::Cut),
            },
        }
    }
    judge(&answer[..have])
}

/// How many bytes of an answer are read, by those that are here.
fn wanted(answer: &[u8]) -> usize {
    size_of(answer).map_or(HEADER, |size| size.clamp(HEADER, ANSWER))
}

fn size_of(answer: &[u8]) -> Option<usize> {
    let header = answer.first_chunk::<HEADER>()?;
    Some(u16::from_le_bytes([header[14], header[15]]).into())
}

fn judge(answer: &[u8]) -> Result<(), DotNetError> {
    let header = answer.first_chunk::<HEADER>().ok_or(DotNetError::Cut)?;
    let is_whole = size_of(answer).is_some_and(|size| size >= HEADER);
    if !header.starts_with(MAGIC) || header[16] != SERVER || !is_whole {
        return Err(DotNetError::Nonsense);
    }
    let result = answer[HEADER..].first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
    match (header[17], result) {
        (OK, None | Some(0)) => Ok(()),
        (OK | ERROR, Some(result)) => Err(match result {
            UNKNOWN_COMMAND => DotNetError::TooOld,
            NOT_YET_AVAILABLE | RUNTIME_UNINITIALIZED => DotNetError::Starting,
            result => DotNetError::Refused(result),
        }),
        _ => Err(DotNetError::Nonsense),
    }
}

#[cfg(test)]
mod tests;

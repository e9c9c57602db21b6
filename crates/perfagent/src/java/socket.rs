//! The protocol of a JVM's socket: one request for each connection, as words that end with zeros, then the answer until its end.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::error::JavaError;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(4);
/// Between two looks whether there is more. A thread that only waits would count as blocked.
const CHECK: Duration = Duration::from_millis(50);
/// Bytes of an answer that are read.
const MAX_ANSWER: usize = 4096;
/// Characters of an answer that are told.
const MAX_TOLD: usize = 200;

/// Runs a diagnostic command without arguments (JDK 17 takes none for the perf map).
pub(super) fn command(stream: &mut UnixStream, command: &str) -> Result<(), JavaError> {
    let failed = || JavaError::io("talk to the JVM");
    stream.set_read_timeout(Some(CHECK)).map_err(failed())?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(failed())?;
    // Version of the protocol, operation, three arguments.
    stream.write_all(format!("1\0jcmd\0{command}\0\0\0").as_bytes()).map_err(failed())?;
    let (begun, mut answer, mut piece) = (Instant::now(), Vec::new(), [0; 512]);
    while answer.len() < MAX_ANSWER {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&piece[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if begun.elapsed() > PATIENCE {
                    return Err(JavaError::NoAnswer(PATIENCE.as_secs()));
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(failed()(error)),
        }
    }
    judge(&String::from_utf8_lossy(&answer))
}

/// An answer is a number, 0 if all is well, and a text.
fn judge(answer: &str) -> Result<(), JavaError> {
    let (number, text) = answer.split_once('\n').unwrap_or((answer, ""));
    if number == "0" {
        return Ok(());
    }
    if text.contains("Unknown diagnostic command") {
        return Err(JavaError::TooOld);
    }
    let text: String = answer.chars().take(MAX_TOLD).collect();
    Err(JavaError::Refused(text.trim().escape_debug().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_words_that_end_with_zeros_and_the_answer_is_judged() {
        let ask = |answer: &'static str| {
            let (mut near, mut far) = UnixStream::pair().unwrap();
            let other = std::thread::spawn(move || {
                let mut asked = vec![0; 26];
                far.read_exact(&mut asked).unwrap();
                std::thread::sleep(2 * CHECK);
                far.write_all(answer.as_bytes()).unwrap();
                asked
            });
            let told = command(&mut near, "Compiler.perfmap");
            assert_eq!(other.join().unwrap(), b"1\0jcmd\0Compiler.perfmap\0\0\0");
            told.map_err(|error| error.to_string())
        };
        assert_eq!(ask("0\n"), Ok(()));
        let old = ask("-1\njava.lang.IllegalArgumentException: Unknown diagnostic command\n");
        assert!(old.unwrap_err().contains("JDK 17"));
        assert_eq!(ask("101\nno\x1b[2J").unwrap_err(), "it answered: 101\\nno\\u{1b}[2J");
        assert!(ask("").is_err());
    }

    #[test]
    fn an_endless_answer_is_cut() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let other = std::thread::spawn(move || while far.write_all(&[b'0'; 4096]).is_ok() {});
        let told = command(&mut near, "x").unwrap_err().to_string();
        assert!(told.len() < 2 * MAX_TOLD, "{told}");
        drop(near);
        other.join().unwrap();
    }
}

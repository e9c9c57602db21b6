//! The terminal while the view runs: no echo, keys one by one, a screen of its own. And as it was before.
//!
//! Reading and writing are our own, because a terminal can go away: libraries for keys spin on the end of their input, and a write to a terminal
//! that takes nothing would hold the end of the program up.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use perfagent::CancelToken;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Another screen, no cursor, everything empty.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[2J";
/// No colours, the cursor, the screen of before.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";
/// Time between two looks whether the end was asked for, while the terminal takes nothing.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// So long a terminal may take nothing.
const PATIENCE: u32 = 20;

/// The settings of before, while the view runs.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// Gives the terminal back as it was. Does nothing if that was done. A terminal that is gone is no error.
pub fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = before {
        if let Ok(out) = output() {
            let _gone_is_fine = (&out).write_all(LEAVE);
        }
        let _gone_is_fine = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &before);
    }
}

/// What a read brought.
pub enum Input {
    Bytes(Vec<u8>),
    Nothing,
    /// There is no terminal any more.
    Gone,
}

/// The terminal. Dropping it restores it.
pub struct Screen {
    out: std::fs::File,
}

impl Screen {
    /// Takes the terminal over.
    pub fn enter() -> io::Result<Self> {
        let input = rustix::stdio::stdin();
        let before = tcgetattr(input)?;
        let mut raw = before.clone();
        raw.make_raw();
        let out = output()?;
        // A panic is told on the screen of before, where it can be read.
        HOOK.call_once(|| {
            let tell = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                tell(panic);
            }));
        });
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        let screen = Self { out };
        tcsetattr(input, OptionalActions::Now, &raw)?;
        (&screen.out).write_all(ENTER)?;
        Ok(screen)
    }

    /// Columns and lines.
    pub fn size(&self) -> (u16, u16) {
        match tcgetwinsize(&self.out) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
            _ => (80, 24),
        }
    }

    /// Waits for keys.
    pub fn read(&self, timeout: Duration) -> Input {
        let input = rustix::stdio::stdin();
        let mut wanted = [PollFd::new(&input, PollFlags::IN)];
        match wait(&mut wanted, timeout) {
            Ok(false) => return Input::Nothing,
            Ok(true) => {}
            Err(_) => return Input::Gone,
        }
        let mut bytes = [0; 1024];
        match rustix::io::read(input, &mut bytes) {
            // A terminal that is gone has an end, or an error.
            Ok(0) => Input::Gone,
            Ok(count) => Input::Bytes(bytes.get(..count).unwrap_or_default().to_vec()),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Input::Nothing,
            Err(_) => Input::Gone,
        }
    }

    /// Writes everything, unless `stop` says that the end is near, or the terminal takes nothing for long.
    pub fn write(&self, mut bytes: &[u8], stop: &CancelToken) -> io::Result<()> {
        let mut patience = PATIENCE;
        while !bytes.is_empty() {
            match (&self.out).write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    bytes = bytes.get(count..).unwrap_or_default();
                    patience = PATIENCE;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if stop.is_cancelled() || patience == 0 {
                        return Err(error);
                    }
                    patience -= 1;
                    let mut wanted = [PollFd::new(&self.out, PollFlags::OUT)];
                    wait(&mut wanted, LOOK_EVERY)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Waits. Returns whether something came.
fn wait(wanted: &mut [PollFd<'_>], timeout: Duration) -> io::Result<bool> {
    let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
    match poll(wanted, Some(&timeout)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The terminal of standard output, opened anew: not to block is then a matter of this program alone. If it cannot be opened, as after su(1), standard
/// output itself.
fn output() -> io::Result<std::fs::File> {
    let flags = (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY).bits().cast_signed();
    let opened = OpenOptions::new().write(true).custom_flags(flags).open("/proc/self/fd/1");
    opened.or_else(|_| Ok(rustix::io::dup(rustix::stdio::stdout())?.into()))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;
    use std::process::Stdio;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    /// Tells the test to be the program that panics.
    const CHILD: &str = "PERFAGENT_TEST_PANICS_IN_A_SCREEN";
    const NAME: &str = "screen::tests::a_panic_of_any_thread_is_told_on_the_screen_of_before";

    #[test]
    fn a_panic_of_any_thread_is_told_on_the_screen_of_before() {
        if std::env::var_os(CHILD).is_some() {
            let screen = Screen::enter().unwrap();
            let panicked = std::thread::spawn(|| panic!("on purpose")).join();
            // Not by dropping the screen: a panic with `panic = "abort"` drops nothing.
            std::mem::forget(screen);
            std::process::exit(if panicked.is_err() { 7 } else { 8 });
        }
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
        let terminal = rustix::fs::open(name.as_c_str(), flags, rustix::fs::Mode::empty()).unwrap();
        let before = tcgetattr(&terminal).unwrap();
        let stdio = || Stdio::from(terminal.try_clone().unwrap());
        let status = testkit::own_test(NAME)
            .envs([(CHILD, "1"), ("RUST_BACKTRACE", "0")])
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio())
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(7));
        let after = tcgetattr(&terminal).unwrap();
        assert_eq!(after.local_modes, before.local_modes);
        assert_eq!(after.input_modes, before.input_modes);
        drop(terminal);
        // The end of the terminal is an error.
        let mut told = Vec::new();
        let _end = File::from(master).read_to_end(&mut told);
        let told = String::from_utf8_lossy(&told).into_owned();
        let places = ["\x1b[?1049h", "\x1b[?1049l", "on purpose"].map(|part| told.rfind(part));
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{told:?}");
    }
}

//! The terminal view, in a terminal that the test holds: what is shown, and that every way out leaves the terminal as it was.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use testkit::Process;

use crate::capture::privileged;
use crate::{run, stderr};

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";

/// perf-agent in a terminal of its own.
struct View {
    child: Child,
    master: Option<File>,
    /// Holds the terminal's settings after the program has ended.
    terminal: OwnedFd,
    before: Termios,
    written: Arc<Mutex<Vec<u8>>>,
}

impl View {
    /// `is_read`: what it writes is read; else the terminal takes nothing once it is full.
    fn start(words: &[&str], directory: &Path, is_read: bool) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
        let terminal = rustix::fs::open(name.as_c_str(), flags, rustix::fs::Mode::empty()).unwrap();
        tcsetwinsize(&terminal, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let before = tcgetattr(&terminal).unwrap();
        let stdio = || Stdio::from(terminal.try_clone().unwrap());
        // setsid makes the terminal the controlling one, which a hangup ends.
        let child = Command::new("setsid")
            .args(["--ctty", env!("CARGO_BIN_EXE_perf-agent"), "live"])
            .args(words)
            .current_dir(directory)
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio())
            .spawn()
            .unwrap();
        let written = Arc::new(Mutex::new(Vec::new()));
        let master = File::from(master);
        if is_read {
            let (mut reader, sink) = (master.try_clone().unwrap(), Arc::clone(&written));
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = reader.read(&mut bytes) {
                    sink.lock().unwrap().extend_from_slice(&bytes[..count]);
                }
            });
        }
        Self { child, master: Some(master), terminal, before, written }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    fn until_shown(&self, what: &str) {
        testkit::until(what, || self.text().contains(what));
    }

    fn press(&mut self, keys: &str) {
        self.master.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(&mut self) -> ExitStatus {
        let mut status = None;
        testkit::until("the end of the view", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// The terminal is as it was before.
    #[track_caller]
    fn assert_restored(&self) {
        testkit::until("the sequence that leaves the screen", || self.text().contains(LEAVE));
        let text = self.text();
        assert!(text.rfind(ENTER) < text.rfind(LEAVE), "{text:?}");
        let after = tcgetattr(&self.terminal).unwrap();
        assert_eq!(after.local_modes, self.before.local_modes);
        assert_eq!(after.input_modes, self.before.input_modes);
        assert_eq!(after.output_modes, self.before.output_modes);
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ended_is_fine = self.child.kill();
        let _ended_is_fine = self.child.wait();
    }
}

/// A view of a program that computes.
fn view(burner: &Process) -> View {
    let pid = burner.pid().to_string();
    let view = View::start(&["--pid", &pid], Path::new("/"), true);
    // The first interval has its samples.
    view.until_shown("LIVE");
    view.until_shown("█");
    view
}

/// A view whose terminal nobody reads, of a program that computes. Its capture runs.
fn unread(burner: &Process) -> View {
    let pid = burner.pid().to_string();
    let view = View::start(&["--pid", &pid], Path::new("/"), false);
    let agent = view.child.id();
    testkit::until("a capture", || testkit::has_sampler(agent));
    view
}

#[test]
fn q_control_c_and_signals_end_it_and_leave_the_terminal_as_it_was() {
    if !privileged() {
        return;
    }
    let burner = Process::computing();
    let ends: [fn(&mut View); 4] = [
        |view| view.press("q"),
        |view| view.press("\x03"),
        |view| view.signal(Signal::TERM),
        |view| view.signal(Signal::HUP),
    ];
    for end in ends {
        let mut view = view(&burner);
        end(&mut view);
        assert_eq!(view.end().code(), Some(0), "{}", view.text());
        view.assert_restored();
        // The facts stand on the screen of before.
        let told = || view.text().rsplit(LEAVE).next().is_some_and(|text| text.contains("on-CPU: pid "));
        testkit::until("the facts are read from the terminal", told);
    }
}

#[test]
fn a_terminal_that_is_gone_ends_it() {
    if !privileged() {
        return;
    }
    let burner = Process::computing();
    let mut view = unread(&burner);
    drop(view.master.take());
    view.end();
}

#[test]
fn a_terminal_that_takes_nothing_does_not_hold_the_end_up() {
    if !privileged() {
        return;
    }
    let burner = Process::computing();
    let mut view = unread(&burner);
    std::thread::sleep(Duration::from_secs(2));
    view.signal(Signal::TERM);
    assert_eq!(view.end().code(), Some(0));
}

#[test]
fn what_is_seen_is_written_in_the_format_of_the_extension() {
    if !privileged() {
        return;
    }
    let burner = Process::computing();
    let directory = tempfile::tempdir().unwrap();
    let pid = burner.pid().to_string();
    let mut view = View::start(&["--pid", &pid], directory.path(), true);
    view.until_shown("█");
    view.press("wseen.nonsense\r");
    view.press("wseen.pb.gz\r");
    testkit::until("the file", || directory.path().join("seen.pb.gz").exists());
    view.press("q");
    assert_eq!(view.end().code(), Some(0));
    assert_eq!(crate::capture::files(directory.path()), ["seen.pb.gz"]);
    let top = crate::run_in(directory.path(), &["top", "seen.pb.gz", "--by", "pid"]);
    let text = crate::stdout(&top);
    assert!(text.lines().any(|line| line.contains("100.0%") && line.ends_with(&pid)), "{text}");
}

#[test]
fn the_screen_stays_when_a_command_has_ended() {
    if !privileged() {
        return;
    }
    let mut view = View::start(&["--", "sh", "-c", "echo noise; exit 3"], Path::new("/"), true);
    view.until_shown("ENDED");
    view.press("q");
    assert_eq!(view.end().code(), Some(3), "{}", view.text());
    view.assert_restored();
    let text = view.text();
    assert!(text.contains("command exited with status 3") && !text.contains("noise"), "{text:?}");
}

#[test]
fn it_needs_a_terminal_and_takes_no_options_of_other_captures() {
    let output = run(&["live", "--pid", "1"]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("error: live: ") && text.contains("terminal") && text.contains("perf-agent --profile"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 2, "{text}");
    for words in [&["live", "--pid", "1", "--rotate", "1s"][..], &["live", "-a", "--pmu"]] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("live has no use for --"), "{}", stderr(&output));
    }
    let text = stderr(&run(&["live"]));
    assert!(text.contains("required"), "{text}");
}

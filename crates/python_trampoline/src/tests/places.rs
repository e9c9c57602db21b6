//! Threads that must not be used for calls.

use std::time::{Duration, Instant};

use remote_call::{Stopped, waits};

use super::*;

/// The first thread keeps the lock while it waits for a byte. The other one waits for the lock, for so long that it does not wake up meanwhile.
const LOCKED: &str = r#"
import ctypes, os, sys, threading, time
reader = os.open(sys.argv[1], os.O_RDWR)
sys.setswitchinterval(1000)
read_with_lock = ctypes.PyDLL(None).read
def other():
    time.sleep(0.1)
    os.write(1, b"other\n")
threading.Thread(target=other, daemon=True).start()
os.write(1, b"ready\n")
read_with_lock(reader, ctypes.create_string_buffer(1), 1)
time.sleep(0.1)
os.write(1, b"goes on\n")
time.sleep(100000)
"#;

/// The first thread ends the program with the lock, while the other one is asked to take it.
const ENDING: &str = r#"
import ctypes, os, sys, threading, time
reader = os.open(sys.argv[1], os.O_RDWR)
sys.setswitchinterval(1000)
read_with_lock = ctypes.PyDLL(None).read
threading.Thread(target=time.sleep, args=(100000,), daemon=True).start()
time.sleep(0.1)
os.write(1, b"ready\n")
read_with_lock(reader, ctypes.create_string_buffer(1), 1)
sys.exit(7)
"#;

struct Fifo {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Fifo {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        Self { path, _folder: folder }
    }
}

#[test]
fn a_thread_that_waits_for_the_lock_and_was_stopped_before_is_left_alone() {
    for python in &switchable() {
        let fifo = Fifo::new();
        let program = Program::run(Command::new(python).args(["-c", LOCKED]).arg(&fifo.path));
        let pid = program.pid();
        let target = Target::find(pid).unwrap();
        let waits_for_lock = |tid: u32| {
            let word = waits::of_thread(pid, tid).and_then(|wait| wait.word);
            word.is_some_and(|word| target.is_own_lock(word))
        };
        let mut waiting = None;
        testkit::until("a thread waits for the lock", || {
            waiting = process::task::threads(pid).unwrap().into_iter().find(|tid| waits_for_lock(*tid));
            waiting.is_some()
        });
        let tid = waiting.unwrap();
        // A tracer that comes and goes: the wait has another number then.
        Stopped::new(pid, tid, Instant::now() + Duration::from_secs(20)).unwrap().release().unwrap();
        let call = || fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).unwrap();
        testkit::until("it waits again", || call().starts_with("219 "));
        let stopped = Stopped::new(pid, tid, Instant::now() + Duration::from_secs(20)).unwrap();
        assert!(waits_for_lock(tid), "{}", call());
        assert!(target.is_at_lock(&target.code.walk(stopped.registers()).addresses));
        stopped.release().unwrap();
        let refusal = switch_on(pid, &Mark::own().unwrap()).unwrap_err();
        assert_eq!(refusal.to_string(), "timeout: no thread came to a place where functions may be called");
        fs::write(&fifo.path, "x").unwrap();
        testkit::until("it goes on", || {
            program.text().contains("goes on") && program.text().contains("other")
        });
    }
}

#[test]
fn a_process_that_executes_another_program_is_not_taken_for_the_one_that_was_found() {
    let Some(python) = oldest() else { return };
    let text =
        "import os\nprint('ready', flush=True)\nos.read(0, 1)\nos.execv('/bin/sleep', ['sleep', '1000'])";
    let fifo = Fifo::new();
    let path = &fifo.path;
    let text = format!("import os\nos.dup2(os.open({path:?}, os.O_RDWR), 0)\n{text}");
    let program = Program::of_text(&python, &text);
    let target = Target::find(program.pid()).unwrap();
    fs::write(&fifo.path, "x").unwrap();
    testkit::until("it executes another program", || process::task::comm(program.pid()).unwrap() == "sleep");
    let refusal = with_held(&target, &Texts::new(""), |_| ()).unwrap_err();
    assert_eq!(refusal.token, Token::Exited, "{refusal}");
    assert!(refusal.cause.contains("executes another program"), "{refusal}");
}

#[test]
fn a_program_that_ends_meanwhile_ends_as_it_should() {
    for python in &switchable() {
        for _ in 0..5 {
            let fifo = Fifo::new();
            let mut program = Program::run(Command::new(python).args(["-c", ENDING]).arg(&fifo.path));
            let pid = program.pid();
            let is_traced = |tid| {
                let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"));
                status.is_ok_and(|status| !status.contains("TracerPid:\t0\n"))
            };
            let switched = std::thread::scope(|scope| {
                let switch = scope.spawn(|| switch_on(pid, &Mark::own().unwrap()));
                // It asks for the lock, which takes until the program ends.
                let is_asked = || process::task::threads(pid).unwrap().into_iter().any(is_traced);
                testkit::until("its thread is asked", is_asked);
                std::thread::sleep(Duration::from_millis(100));
                assert!(is_asked());
                fs::write(&fifo.path, "x").unwrap();
                switch.join().unwrap()
            });
            let mut status = None;
            testkit::until("it ends", || {
                status = program.process.try_wait().unwrap();
                status.is_some()
            });
            assert_eq!(status.unwrap().code(), Some(7), "{switched:?}");
            assert_eq!(switched.unwrap_err().token, Token::Exited);
        }
    }
}

//! What a capture records: processes by number and by name, threads, the whole system, and targets that end.

use std::process::Command;
use std::time::{Duration, Instant};

use testkit::Process;

use crate::capture::{assert_status, files, privileged, start_in, wait_for_sampler};
use crate::{run, run_in, stderr};

#[test]
fn targets_are_told_by_name_with_their_children() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let name = format!("pa{}", std::process::id());
    let program = directory.path().join(&name);
    std::fs::copy("/bin/sleep", &program).unwrap();
    let parent = format!("{} 300 & exec {} 301", program.display(), program.display());
    let parent = Process::start(Command::new("sh").args(["-c", &parent])).unwrap();
    let other = Process::start(Command::new(&program).arg("302")).unwrap();
    let comm = |pid: &String| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let child = || testkit::children(parent.pid()).first().map_or(String::new(), u32::to_string);
    testkit::until("all have the name", || {
        [parent.pid().to_string(), other.pid().to_string(), child()]
            .iter()
            .all(|pid| comm(pid).trim() == name)
    });
    let _child = testkit::Foreign(child().parse().unwrap());
    let both = format!("{} {}\n", parent.pid(), other.pid());
    let by_number = stderr(&run(&["--pmu", "--pid", &both, "-d", "10ms"]));
    let by_name = stderr(&run(&["--pmu", "--comm", &name, "-d", "10ms"]));
    let alone = stderr(&run(&["--pmu", "-p", &parent.pid().to_string(), "--no-children", "-d", "10ms"]));
    let missing = run(&["--pmu", "--comm", "no-such-name"]);
    let (parent, other) = (parent.pid(), other.pid());
    assert!(
        by_number.contains(&format!("pid {parent} ({name}) and 1 child, pid {other} ({name}), ")),
        "{by_number}"
    );
    for pid in [parent, other] {
        assert!(by_name.contains(&format!("pid {pid} ({name})")), "{by_name}");
    }
    assert!(alone.contains(&format!("pid {parent} ({name}), ")), "{alone}");
    assert_status(&missing, 1);
    assert!(stderr(&missing).starts_with("error: no process is named `no-such-name`\nhint: "), "{missing:?}");
}

#[test]
fn a_missing_target_is_an_error() {
    if !privileged() {
        return;
    }
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let pid = gone.id().to_string();
    let output = run(&["--profile", "--pid", &pid]);
    assert_status(&output, 1);
    assert!(stderr(&output).contains(&format!("error: target pid {pid}")), "{}", stderr(&output));
}

#[test]
fn a_thread_id_selects_its_process() {
    if !privileged() {
        return;
    }
    let (tell, tid) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::Builder::new().name("some-thread".to_owned()).spawn(move || {
        // PID/task/TID
        let own = std::fs::read_link("/proc/thread-self").unwrap();
        tell.send(own.file_name().unwrap().to_str().unwrap().to_owned()).unwrap();
        let _ = ended.recv();
    });
    let (thread, tid) = (thread.unwrap(), tid.recv().unwrap());
    let process = std::process::id();
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let output = run_in(directory.path(), &["--profile", "--pid", &tid, "--duration", "200ms"]);
    drop(end);
    thread.join().unwrap();
    assert_status(&output, 0);
    let text = stderr(&output);
    assert!(text.starts_with(&format!("on-CPU profile: pid {process} ({})", name.trim_end())), "{text}");
    assert!(text.contains(&format!("{tid} is a thread of process {process}")), "{text}");
    assert!(!files(directory.path())[0].contains("thread"), "{:?}", files(directory.path()));
}

#[test]
fn a_target_that_has_ended_is_named_so() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut zombie = Command::new("true").spawn().unwrap();
    let stat = format!("/proc/{}/stat", zombie.id());
    while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::sleep(Duration::from_millis(1));
    }
    let words = ["--profile", "--pid", &zombie.id().to_string(), "--duration", "10s"];
    let output = run_in(directory.path(), &words);
    zombie.wait().unwrap();
    let text = stderr(&output);
    assert!(text.contains(&format!("process {} has ended", zombie.id())), "{text}");
    assert!(!text.contains("hint: raise --sample-rate"), "{text}");
}

#[test]
fn the_capture_ends_with_its_targets() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let burner = Process::computing();
    let begun = Instant::now();
    let child =
        start_in(directory.path(), &["--profile", "--pid", &burner.pid().to_string(), "--duration", "600s"]);
    wait_for_sampler(&child);
    drop(burner);
    let output = child.wait_with_output().unwrap();
    assert_status(&output, 0);
    assert!(begun.elapsed() < Duration::from_secs(300), "{:?}", begun.elapsed());
    let text = stderr(&output);
    assert!(text.contains("ended early: all targets have exited"), "{text}");
    assert_eq!(files(directory.path()).len(), 1);
}

#[test]
fn the_whole_system() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let output = run_in(directory.path(), &["--profile", "-a", "--duration", "300ms"]);
    assert_status(&output, 0);
    assert!(stderr(&output).contains("system-wide"), "{}", stderr(&output));
    let names = files(directory.path());
    assert!(names.len() == 1 && names[0].starts_with(|c: char| c.is_ascii_digit()), "{names:?}");
}

//! Captures of a command: its end, its exit status, its output, and what cannot be run.

use std::path::Path;
use std::process::Command;

use crate::capture::{assert_status, files, privileged};
use crate::{run_in, stderr, stdout};

#[test]
fn a_command_is_followed_to_its_end() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo out; exit 3";
    let output = run_in(directory.path(), &["--profile", "--sample-rate", "499", "--", "sh", "-c", script]);
    assert_status(&output, 3);
    assert_eq!(stdout(&output), "out\n");
    assert!(stderr(&output).contains("command exited with status 3"), "{}", stderr(&output));
    assert!(files(directory.path())[0].starts_with("sh-"));
    let output = run_in(directory.path(), &["--profile", "--", "sh", "-c", "kill -9 $$"]);
    assert_status(&output, 137);
    assert!(stderr(&output).contains("killed by signal SIGKILL"), "{}", stderr(&output));
}

#[test]
fn an_empty_profile_of_a_command_has_a_warning_with_the_reason() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // The clock of a CPU fires at any time, so a sample of the command is possible.
    let reason = |rate: &str, command: &[&str]| {
        let words = [&["--profile", "--sample-rate", rate, "--"], command].concat();
        let run = || {
            let output = run_in(directory.path(), &words);
            assert_status(&output, 0);
            stderr(&output)
        };
        let mut texts = std::iter::repeat_with(run).take(3);
        texts.find(|text| text.contains("no samples")).expect("each of three runs has samples")
    };
    let text = reason("1", &["true"]);
    assert!(text.contains("no samples: the command ended before the first sample"), "{text}");
    assert!(!text.contains("-- CMD"), "{text}");
    let text = reason("5", &["sleep", "2.5"]);
    assert!(text.contains("they slept or waited"), "{text}");
}

#[test]
fn a_script_whose_interpreter_is_missing() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter -x\n").unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&script).status().unwrap().success());
    let output = run_in(directory.path(), &["--profile", "--", "./script"]);
    assert_status(&output, 127);
    let text = stderr(&output);
    assert!(text.contains("error: run ./script: No such file or directory"), "{text}");
    let hint = text.lines().find(|line| line.starts_with("hint: "));
    assert!(hint.is_some_and(|hint| hint.contains("`/no/such/interpreter`")), "{text}");
    assert!(!files(directory.path()).iter().any(|name| name.ends_with(".pb.gz")), "{text}");
}

#[test]
fn an_output_that_fails_hides_the_status_of_the_command() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = "rm -r \"$0\"; exit 3";
    let gone = directory.path().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let path = gone.join("x.pb.gz");
    let words = ["--profile", "-o", path.to_str().unwrap(), "--", "sh", "-c", script, gone.to_str().unwrap()];
    let output = run_in(directory.path(), &words);
    assert_status(&output, 125);
    assert!(stderr(&output).contains("command exited with status 3"), "{}", stderr(&output));
}

#[test]
fn a_command_outlives_a_capture_that_ends_earlier() {
    if !privileged() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // The rate is so low that the start of the command gives no sample. The command closes its pipes, which are read to
    // their end.
    let sleeper = "exec sleep 300 > /dev/null 2>&1";
    let capture = ["--profile", "--duration", "200ms", "--sample-rate", "1", "--", "sh", "-c", sleeper];
    let output = run_in(directory.path(), &capture);
    assert_status(&output, 0);
    let text = stderr(&output);
    let pid = text.split("still running (pid ").nth(1).and_then(|rest| rest.split(')').next()).unwrap();
    let _command = testkit::Foreign(pid.parse().unwrap());
    assert!(Path::new("/proc").join(pid).exists(), "{text}");
    assert!(text.contains("warning: no samples"), "{text}");
}

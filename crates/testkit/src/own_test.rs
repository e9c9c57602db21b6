//! Tests of this program in processes of their own.

use std::env;
use std::process::Command;

/// Set in a process that runs one test alone.
const ALONE: &str = "PERF_AGENT_TEST_ALONE";

/// This test program with one test alone, also an ignored one. Its output is not captured.
///
/// # Panics
/// If the path of this program is not known.
#[must_use]
pub fn own_test(name: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("/proc/self/exe can be read"));
    command.args(["--exact", name, "--include-ignored", "--nocapture", "--test-threads=1"]);
    command
}

/// Whether only the calling test runs in this process. Otherwise runs it in a process of its own and prints its output; then the caller
/// returns. Other tests share the descriptors and the memory of a process.
///
/// # Panics
/// If the test fails there, or has another name.
#[must_use]
#[track_caller]
pub fn is_alone(name: &str) -> bool {
    if env::var_os(ALONE).is_some() {
        return true;
    }
    let output = own_test(name).env(ALONE, "1").output();
    let output = output.unwrap_or_else(|error| panic!("start {name}: {error}"));
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    print!("{stdout}");
    let has_passed = output.status.success() && stdout.contains("1 passed");
    assert!(has_passed, "{name}, alone: {}\n{stdout}{stderr}", output.status);
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_alone_in_a_process_of_its_own() {
        let name = "own_test::tests::a_test_is_alone_in_a_process_of_its_own";
        let is_alone = is_alone(name);
        assert_eq!(is_alone, env::args().any(|argument| argument == name));
    }

    #[test]
    #[should_panic(expected = "no_such_test, alone")]
    fn a_name_of_no_test_is_a_failure() {
        let _ = is_alone("no_such_test");
    }

    #[test]
    #[ignore = "run by a_failure_is_one_here_too"]
    fn it_fails() {
        assert!(env::var_os(ALONE).is_none(), "on purpose");
    }

    #[test]
    #[should_panic(expected = "on purpose")]
    fn a_failure_is_one_here_too() {
        let _ = is_alone("own_test::tests::it_fails");
    }
}

//! Profile-guided optimization of Go programs with our profiles: `go build -pgo` takes them and follows them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::capture::{assert_status, privileged};
use crate::{run_in, stderr};

fn go_build(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new("go");
    command.arg("build").args(words).current_dir(folder).env("GOFLAGS", "-mod=mod").output().unwrap()
}

/// CPU time of the program of its own, in seconds, at its best of five.
fn best_time(program: &Path) -> f64 {
    let time = || {
        let output = Command::new("bash")
            .args(["-c", "TIMEFORMAT=%U; time \"$0\" 1500 > /dev/null"])
            .arg(program)
            .output()
            .unwrap();
        stderr(&output).trim().parse::<f64>().unwrap()
    };
    (0..5).map(|_| time()).fold(f64::INFINITY, f64::min)
}

/// The hot function is too large to be inlined without a profile. With one it is inlined, and the program takes about a quarter of its time.
#[test]
fn the_go_compiler_inlines_what_our_profile_calls_hot() {
    testkit::need!("go");
    if !privileged() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("main.go"), include_str!("pgo/decode.go")).unwrap();
    fs::write(folder.join("go.mod"), "module decode\n\ngo 1.21\n").unwrap();
    assert_status(&go_build(folder, &["-o", "plain", "."]), 0);
    let captured =
        run_in(folder, &["--profile", "--sample-rate", "999", "-o", "cpu.pb.gz", "--", "./plain", "8000"]);
    assert_status(&captured, 0);

    // As users call it: a warning would be on standard error.
    let built = go_build(folder, &["-pgo=cpu.pb.gz", "-o", "guided", "."]);
    assert_status(&built, 0);
    assert_eq!(stderr(&built), "", "no warning");
    // What the compiler made of it.
    let told = stderr(&go_build(folder, &["-pgo=cpu.pb.gz", "-gcflags=-d=pgodebug=1", "-o", "told", "."]));
    assert!(told.contains("hot-budget check allows inlining for call main.decode"), "{told}");
    let (plain, guided) = (best_time(&folder.join("plain")), best_time(&folder.join("guided")));
    println!("{plain} s, {guided} s with the profile");
    assert!(guided < 0.7 * plain, "{plain} s, {guided} s with the profile");
}

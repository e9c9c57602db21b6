//! The interpreters of Python on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Version as `3.08`, `3.11` and the program, the oldest first: those of pyenv and of the system, and those that `PERFAGENT_PYTHONS` names with
/// colons between them. None: says so.
pub fn installed() -> Vec<(String, PathBuf)> {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let built = std::fs::read_dir(home.join(".pyenv/versions")).into_iter().flatten().flatten();
    let programs = built.map(|folder| folder.path().join("bin/python3"));
    let of_system = (8..=15).map(|minor| PathBuf::from(format!("/usr/bin/python3.{minor}")));
    let named = std::env::var_os("PERFAGENT_PYTHONS").unwrap_or_default();
    let named = std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty());
    let mut found: Vec<(String, PathBuf)> =
        programs.chain(of_system).chain(named).filter_map(|path| Some((version(&path)?, path))).collect();
    found.retain(|(version, _)| ("3.08".."3.16").contains(&version.as_str()));
    found.sort();
    if found.is_empty() {
        testkit::skipped("no interpreter of Python from 3.8 to 3.15 is installed");
    }
    found
}

/// Those whose trampolines can be switched by the program itself. Builds with musl have none.
pub fn with_trampolines() -> Vec<(String, PathBuf)> {
    let script = "import os, sys; sys.activate_stack_trampoline('perf'); sys.deactivate_stack_trampoline(); \
        os.unlink(f'/tmp/perf-{os.getpid()}.map')";
    let mut all = installed();
    all.retain(|(version, python)| version.as_str() >= "3.12" && does(python, script));
    all
}

/// Whether its threads run without a lock.
pub fn is_free_threaded(python: &Path) -> bool {
    does(python, "import sys, sysconfig; sys.exit(not sysconfig.get_config_var('Py_GIL_DISABLED'))")
}

fn does(python: &Path, script: &str) -> bool {
    Command::new(python).args(["-c", script]).output().is_ok_and(|output| output.status.success())
}

fn version(program: &PathBuf) -> Option<String> {
    let script = "import sys; print('3.%02d' % sys.version_info[1] if sys.version_info[0] == 3 else '')";
    let output = Command::new(program).args(["-c", script]).output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

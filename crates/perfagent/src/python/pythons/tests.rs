//! What a process maps beside its interpreter.

use std::process::{Command, Stdio};

use process::Files;

use super::*;

#[test]
fn greenlets_are_known_by_their_module() {
    let folder = tempfile::tempdir().unwrap();
    let (source, module) = (folder.path().join("module.c"), folder.path().join("_greenlet.cpython.so"));
    std::fs::write(&source, "int answer(void) { return 42; }").unwrap();
    let (compiler, python) = (testkit::need!("cc"), testkit::need!("python3"));
    let compiled = Command::new(compiler).args(["-shared", "-fPIC", "-o"]).args([&module, &source]).status();
    assert!(compiled.unwrap().success());
    let script = "import ctypes, sys, time
[ctypes.CDLL(library) for library in sys.argv[1:]]
print('ready', flush=True)
time.sleep(600)";
    let maps_greenlets = |modules: &[&std::path::Path]| {
        let mut command = Command::new(&python);
        command.args(["-c", script]).args(modules).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = testkit::Process::start(&mut command).unwrap();
        std::io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut [0; 5]).unwrap();
        has_greenlets(&process::read_image(process.pid(), &Files::new()).unwrap())
    };
    assert!(maps_greenlets(&[&module]));
    assert!(!maps_greenlets(&[]));
}

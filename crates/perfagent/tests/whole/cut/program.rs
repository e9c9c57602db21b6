//! A program whose threads each do one thing: see `threads.c`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::Process;

const SOURCE: &str = include_str!("threads.c");
const THREADS: usize = 5;

/// The program, which waits for [`Program::begin`].
pub(super) struct Program(Process);

impl Program {
    /// Compiles and starts it. None: there is no compiler.
    pub(super) fn start(folder: &Path, length: Duration) -> Option<Self> {
        let compiler = testkit::needed("cc")?;
        let (source, program) = (folder.join("threads.c"), folder.join("threads"));
        std::fs::write(&source, SOURCE).unwrap();
        let compiled =
            Command::new(compiler).args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).status();
        assert!(compiled.unwrap().success(), "{SOURCE}");
        let mut command = Command::new(program);
        command.arg(length.as_millis().to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        Some(Self(Process::start(&mut command).unwrap()))
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Lets the threads begin; the number of each thread, and what it does.
    pub(super) fn begin(&mut self) -> BTreeMap<u32, String> {
        self.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        let lines = BufReader::new(self.0.stdout.take().unwrap()).lines();
        let told = lines.take(THREADS).map(|line| {
            let line = line.unwrap();
            let (what, tid) = line.split_once(' ').unwrap();
            (tid.parse().unwrap(), what.to_owned())
        });
        told.collect()
    }
}

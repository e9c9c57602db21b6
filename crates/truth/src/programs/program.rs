//! A known-answer program: how it is built and started, and the call chains that it can show.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::compile::{Build, Compiler};

/// How a program is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Launch {
    /// As it is.
    #[default]
    Plain,
    /// From a copy that is deleted as soon as the program runs.
    CopiedProgram,
    /// With a copy of its first argument, which the program itself deletes.
    CopiedArgument,
    /// In a PID and a mount namespace of its own.
    Namespaces,
}

/// A program and its true answer.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Unique name.
    pub name: String,
    /// Compiler calls, in order.
    pub builds: Vec<Build>,
    /// Command line; `{out}` is the folder of the built files.
    pub command: Vec<String>,
    /// Patterns; each sample follows one of them.
    pub chains: Vec<String>,
    /// How it is started.
    pub launch: Launch,
    /// The program waits for a line from the runner, which comes when the profilers are attached.
    pub waits: bool,
    /// It needs no shared library, so it runs in a virtual machine as it is.
    pub standalone: bool,
    /// Part of the full matrix only, not of the shorter run that covers each kind once.
    pub matrix_only: bool,
    /// The least share of rooted samples, and of exact ones, in per cent.
    pub demand_pct: f64,
}

/// The frames in front of `main` in a program that uses the C library as a shared library.
pub(crate) const MAIN: &str = "_start @libc{2} main";
/// The same in a program that contains the C library.
pub(crate) const STATIC_MAIN: &str = "_start __libc_start_main* __libc_start_call_main main";
/// The frames in front of a thread's first function.
pub(crate) const THREAD: &str = "@libc{2}";
/// The loader and the C library at work before `main`.
pub(crate) const STARTUP: &[&str] = &[
    "(@ld-linux / @libc){1,40}",
    "_start @libc{1,2} (@ld-linux / @libc / _init / _start / <plt>){0,20}",
    "_start __libc_start_main* <any>{0,10}",
];

impl Program {
    /// A program with one build and a command line separated by blanks; its demand is 99.9 %.
    pub(crate) fn new(name: &str, builds: Vec<Build>, command: &str) -> Self {
        Self {
            name: name.to_owned(),
            builds,
            command: command.split_whitespace().map(str::to_owned).collect(),
            demand_pct: 99.9,
            ..Self::default()
        }
    }

    pub(crate) fn chain(mut self, chain: impl Into<String>) -> Self {
        self.chains.push(chain.into());
        self
    }

    pub(crate) fn startup(mut self) -> Self {
        self.chains.extend(STARTUP.iter().map(|s| (*s).to_owned()));
        self
    }

    pub(crate) fn launched(mut self, launch: Launch) -> Self {
        self.launch = launch;
        self
    }

    pub(crate) fn waiting(mut self) -> Self {
        self.waits = true;
        self
    }

    pub(crate) fn standalone(mut self) -> Self {
        self.standalone = true;
        self
    }

    pub(crate) fn demanding(mut self, percent: f64) -> Self {
        self.demand_pct = percent;
        self
    }

    /// Why a compiler that the program needs cannot be used. None: all can.
    #[must_use]
    pub fn missing_compiler(&self) -> Option<String> {
        self.builds.iter().find_map(|build| build.compiler.missing())
    }

    /// Builds everything that the program needs.
    ///
    /// # Errors
    /// If a compiler is missing or fails.
    pub fn build(&self, sources: &Path, out: &Path) -> Result<()> {
        self.builds.iter().try_for_each(|build| build.run(sources, out).map(drop))
    }
}

/// The folder of the sources in this repository.
#[must_use]
pub fn sources() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap_or(root).join("truth/programs")
}

/// A C program of one file, gcc -O2 without frame pointers, dynamically linked.
pub(crate) fn c(output: &str, source: &'static str) -> Build {
    Build::new(output, Compiler::Gcc, source, "-O2 -fomit-frame-pointer")
}

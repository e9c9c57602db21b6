//! Programs that know how long and how often they were off the CPU.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::program::sources;
use crate::compile::{Build, Compiler};

const SOURCES: &[(&str, &str)] = &[
    ("allocations", "allocations.c"),
    ("blocking", "blocking.c"),
    ("hogs", "hogs.c"),
    ("mayflies", "mayflies.c"),
    ("sleepers", "sleepers.c"),
    ("leaver", "leaver.c"),
    ("locks", "locks.c"),
    ("one_memory", "one_memory.c"),
    ("pacer", "pacer.c"),
    ("pingpong", "pingpong.c"),
    ("siege", "siege.c"),
    ("storm", "storm.c"),
    ("stragglers", "stragglers.c"),
    ("wakers", "wakers.c"),
    ("uring", "uring.c"),
];

/// The programs of one folder, in one of two builds.
#[derive(Clone, Debug)]
pub struct Scheduling {
    /// The folder of the programs.
    pub out: PathBuf,
    /// Without any shared library.
    pub standalone: bool,
    /// The programs are in the folder already.
    pub prebuilt: bool,
}

impl Scheduling {
    /// Those built from source when needed.
    #[must_use]
    pub fn new(out: &Path) -> Self {
        Self { out: out.to_owned(), standalone: false, prebuilt: false }
    }

    /// The path of a program, which is built if it must be.
    ///
    /// # Errors
    /// If there is no such program, or the compiler fails.
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        let build = self.builds().find(|b| b.output == self.file_name(name));
        let build = build.ok_or_else(|| anyhow::anyhow!("no program {name}"))?;
        if self.prebuilt { Ok(self.out.join(build.output)) } else { build.run(&sources(), &self.out) }
    }

    /// Builds all.
    ///
    /// # Errors
    /// If the compiler fails.
    pub fn build(&self) -> Result<()> {
        SOURCES.iter().try_for_each(|(name, _)| self.path(name).map(drop))
    }

    fn file_name(&self, name: &str) -> String {
        if self.standalone { format!("{name}-static") } else { name.to_owned() }
    }

    fn builds(&self) -> impl Iterator<Item = Build> {
        let flags =
            if self.standalone { "-O2 -fomit-frame-pointer -static" } else { "-O2 -fomit-frame-pointer" };
        SOURCES
            .iter()
            .map(move |(name, source)| Build::new(&self.file_name(name), Compiler::Gcc, source, flags))
    }
}

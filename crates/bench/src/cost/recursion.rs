//! The program `recurse`: a stack of any depth in C.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use truth::compile::{Build, Compiler};
use truth::programs::sources;
use truth::target::Target;

/// Frames around the ring of `recurse`: start, two of libc, main, descend, and spin.
const FRAMES_AROUND: usize = 6;

/// How the recursion moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    /// The leaf burns CPU for milliseconds; the outer frames stay.
    Staying,
    /// The whole recursion is left and entered again every few microseconds.
    Reentered,
}

impl Motion {
    pub(super) fn rounds(self) -> u32 {
        match self {
            Self::Staying => 20_000_000,
            Self::Reentered => 2000,
        }
    }

    /// For tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Staying => "outer frames stay",
            Self::Reentered => "recursion re-entered",
        }
    }
}

/// What the program does where its stack is deepest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leaf {
    /// It computes with registers.
    #[default]
    Computes,
    /// It reads 16 MiB again and again, one word of each cache line.
    Sweeps,
}

/// How it is built.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Plain,
    FramePointers,
}

/// Starts it with a stack of so many frames.
pub(super) fn start(out: &Path, kind: Kind, frames: usize, motion: Motion, leaf: Leaf) -> Result<Target> {
    let (name, flags) = match kind {
        Kind::Plain => ("recurse-gcc-O2-dynamic", "-O2 -fomit-frame-pointer"),
        Kind::FramePointers => ("recurse-fp", "-O2 -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer"),
    };
    let path = Build::new(name, Compiler::Gcc, "recurse.c", flags).run(&sources(), out)?;
    let depth = frames.saturating_sub(FRAMES_AROUND).max(1).to_string();
    let mut command = Command::new(path);
    command.args([&depth, &motion.rounds().to_string()]);
    if leaf == Leaf::Sweeps {
        command.arg("sweep");
    }
    Target::start_command(&mut command)
}

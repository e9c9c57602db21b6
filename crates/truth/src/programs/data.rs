//! Odd frames: alloca, variable-length arrays, 100 KiB of locals, realigned stacks.

use super::program::{MAIN, Program, STATIC_MAIN, c};
use crate::compile::{Build, Compiler};

pub(super) fn programs() -> Vec<Program> {
    let realign = |output: &str, compiler: Compiler, flags: &str| {
        Program::new(
            output,
            vec![Build::new(output, compiler, "realign.c", &format!("-fomit-frame-pointer {flags}"))],
            &format!("{{out}}/{output}"),
        )
        .chain(format!("{MAIN} (align_one align_two){{5}} spin"))
    };
    vec![
        Program::new("odd-frames", vec![c("frames", "frames.c")], "{out}/frames")
            .chain(format!("{MAIN} grow variable huge spin")),
        Program::new(
            "odd-frames-clang-static",
            vec![Build::new(
                "frames-static",
                Compiler::Clang,
                "frames.c",
                "-O2 -fomit-frame-pointer -static",
            )],
            "{out}/frames-static",
        )
        .chain(format!("{STATIC_MAIN} grow variable huge spin"))
        .standalone(),
        realign("realign-gcc-O2", Compiler::Gcc, "-O2"),
        realign("realign-gcc-O3-avx2", Compiler::Gcc, "-O3 -mavx2 -mstackrealign"),
        realign("realign-clang-O2", Compiler::Clang, "-O2 -mavx2 -mstackrealign"),
    ]
}

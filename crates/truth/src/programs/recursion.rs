//! Deep recursion in C, by compiler, optimisation and way of linking.

use super::program::{MAIN, Program, STATIC_MAIN};
use crate::compile::{Build, Compiler};

/// The first `depth` frames of the ring of three functions.
#[must_use]
pub fn ring(depth: usize) -> String {
    let rest = ["", "ring_a", "ring_a ring_b"][depth % 3];
    format!("(ring_a ring_b ring_c){{{}}} {rest}", depth / 3)
}

/// The chain of `recurse` after a given beginning.
#[must_use]
pub fn recursion_chain(main: &str, depth: usize) -> String {
    format!("{main} descend {} spin", ring(depth))
}

const DEPTHS: [usize; 4] = [8, 36, 200, 500];

pub(super) fn programs() -> Vec<Program> {
    let mut programs = Vec::new();
    let compilers = [
        ("gcc-O2", Compiler::Gcc, "-O2", 36),
        ("gcc-O3-lto", Compiler::Gcc, "-O3 -flto", 500),
        ("clang-O2", Compiler::Clang, "-O2", 200),
        ("clang-O3-lto", Compiler::Clang, "-O3 -flto", 8),
    ];
    let linkings = [
        ("dynamic", "", MAIN),
        ("static", "-static", STATIC_MAIN),
        ("static-pie", "-static-pie", STATIC_MAIN),
    ];
    for (compiler_name, compiler, optimisation, covering_depth) in compilers {
        for (linking_name, linking, main) in linkings {
            let output = format!("recurse-{compiler_name}-{linking_name}");
            let pie = if linking == "-static-pie" { "-fPIE" } else { "" };
            let flags = format!("{optimisation} -fomit-frame-pointer {pie} {linking}");
            for depth in DEPTHS {
                let build = Build::new(&output, compiler, "recurse.c", &flags);
                let command = format!("{{out}}/{output} {depth} 2000");
                let mut program = Program::new(&format!("{output}-{depth}"), vec![build], &command)
                    .chain(recursion_chain(main, depth));
                program.standalone = !linking.is_empty();
                program.matrix_only = depth != covering_depth;
                programs.push(program);
            }
        }
    }
    programs.extend(musl());
    programs
}

fn musl() -> Vec<Program> {
    let dynamic =
        Build::new("recurse-musl-dynamic", Compiler::MuslGcc, "recurse.c", "-O2 -fomit-frame-pointer");
    let in_one =
        Build::new("recurse-musl-static", Compiler::MuslGcc, "recurse.c", "-O2 -fomit-frame-pointer -static");
    let threads =
        Build::new("threads-musl-static", Compiler::MuslGcc, "threads.c", "-O2 -fomit-frame-pointer -static");
    let static_main = "_start (_start_c / __libc_start_main / libc_start_main_stage2){1,3} main";
    vec![
        Program::new("recurse-musl-dynamic-36", vec![dynamic], "{out}/recurse-musl-dynamic 36 2000")
            .chain(recursion_chain("_start _start_c{0,1} (@libc.so / @ld-musl){1,2} main", 36)),
        Program::new("recurse-musl-static-36", vec![in_one], "{out}/recurse-musl-static 36 2000")
            .chain(recursion_chain(static_main, 36))
            .standalone(),
        Program::new("threads-musl-static", vec![threads], "{out}/threads-musl-static 8")
            .chain("(__clone / clone) (start / start_c11) worker stage_one stage_two spin")
            .chain(format!("{static_main} <any>{{0,4}}"))
            .standalone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_has_the_frames_asked_for() {
        assert_eq!(ring(8), "(ring_a ring_b ring_c){2} ring_a ring_b");
        assert_eq!(ring(36), "(ring_a ring_b ring_c){12} ");
        assert_eq!(recursion_chain("main", 1), "main descend (ring_a ring_b ring_c){0} ring_a spin");
    }

    #[test]
    fn the_shorter_run_covers_compilers_linkings_and_depths() {
        let covering: Vec<_> = programs().into_iter().filter(|p| !p.matrix_only).collect();
        for kind in [
            "gcc-O2",
            "gcc-O3-lto",
            "clang-O2",
            "clang-O3-lto",
            "dynamic",
            "static-pie",
            "-8",
            "-36",
            "-200",
            "-500",
        ] {
            assert!(covering.iter().any(|p| p.name.contains(kind)), "{kind}");
        }
    }
}

//! Code that comes and goes: dlopen, deleted files, exec, children, threads, namespaces.

use super::program::{Launch, MAIN, Program, STATIC_MAIN, THREAD, c};
use super::recursion::recursion_chain;
use crate::compile::{Build, Compiler};

/// The library calls its own functions through its linkage table, which is filled in at the first call.
const PLUGIN: &str = "call plugin_entry (plugin_middle (plugin_burn (spin / <plt> @ld-linux{0,12}) / \
                      <plt> @ld-linux{0,12}) / <plt> @ld-linux{0,12})";

fn recurse() -> Build {
    Build::new("recurse-gcc-O2-dynamic", Compiler::Gcc, "recurse.c", "-O2 -fomit-frame-pointer")
}

pub(super) fn programs() -> Vec<Program> {
    let mut programs = libraries();
    programs.extend(processes());
    programs.extend(threads());
    programs
}

fn libraries() -> Vec<Program> {
    let builds = || {
        vec![
            Build::new("libplugin.so", Compiler::Gcc, "plugin.c", "-O2 -fomit-frame-pointer -shared -fPIC"),
            c("host", "host.c"),
        ]
    };
    let loading = |program: Program| {
        program
            .chain(format!("{MAIN} load (@ld-linux / @libc / <plt>){{0,30}}"))
            .chain(format!("{MAIN} (@ld-linux / @libc / <plt>){{1,12}}"))
    };
    vec![
        Program::new("dlopen-early", builds(), "{out}/host {out}/libplugin.so early")
            .chain(format!("{MAIN} {PLUGIN}")),
        loading(Program::new("dlopen-late", builds(), "{out}/host {out}/libplugin.so late"))
            .chain(format!("{MAIN} {PLUGIN}"))
            .waiting(),
        loading(Program::new("dlopen-thread", builds(), "{out}/host {out}/libplugin.so thread"))
            .chain(format!("{THREAD} load_and_run {PLUGIN}"))
            .chain(format!("{THREAD} load_and_run load (@ld-linux / @libc / <plt>){{1,30}}"))
            .waiting(),
        Program::new("deleted-library", builds(), "{out}/host {out}/libplugin.so early delete")
            .chain(format!("{MAIN} {PLUGIN}"))
            .launched(Launch::CopiedArgument),
        loading(Program::new("deleted-library-late", builds(), "{out}/host {out}/libplugin.so late delete"))
            .chain(format!("{MAIN} {PLUGIN}"))
            .launched(Launch::CopiedArgument)
            .waiting(),
        Program::new("deleted-binary", vec![recurse()], "{out}/recurse-gcc-O2-dynamic 36 2000")
            .chain(recursion_chain(MAIN, 36))
            .launched(Launch::CopiedProgram),
    ]
}

fn processes() -> Vec<Program> {
    let exec = |name: &str, program: &str, chain: String| {
        let build = Build::new(
            program,
            Compiler::Gcc,
            "recurse.c",
            if program.ends_with("-static") {
                "-O2 -fomit-frame-pointer -static"
            } else {
                "-O2 -fomit-frame-pointer"
            },
        );
        Program::new(
            name,
            vec![build, c("execer", "execer.c")],
            &format!("{{out}}/execer {{out}}/{program} 36 2000"),
        )
        .chain(chain)
        .startup()
        .waiting()
        // While the kernel replaces the process's memory there is no stack to be read.
        .demanding(99.0)
    };
    vec![
        exec("exec-after-attach", "recurse-gcc-O2-dynamic", recursion_chain(MAIN, 36)),
        exec("exec-after-attach-static", "recurse-gcc-O2-static", recursion_chain(STATIC_MAIN, 36)),
        Program::new("children-fork", vec![c("spawner", "spawner.c")], "{out}/spawner fork")
            .chain(format!("{MAIN} bear short_life (spin / (@libc / @[vdso] / <plt>){{1,4}})"))
            .chain(format!("{MAIN} bear (@libc / @ld-linux / <plt>){{1,12}}"))
            .demanding(98.0),
        Program::new("children-exec", vec![c("spawner", "spawner.c")], "{out}/spawner exec")
            .chain(format!("{MAIN} short_life (spin / (@libc / @[vdso] / <plt>){{1,4}})"))
            .chain(format!("{MAIN} bear (@libc / @ld-linux / <plt>){{1,12}}"))
            .startup()
            .chain(format!("{MAIN} (@libc / @ld-linux){{1,10}}"))
            .demanding(95.0),
        Program::new("namespaces", vec![recurse()], "{out}/recurse-gcc-O2-dynamic 36 2000")
            .chain(recursion_chain(MAIN, 36))
            .launched(Launch::Namespaces),
    ]
}

fn threads() -> Vec<Program> {
    let in_one = Build::new("threads-static", Compiler::Gcc, "threads.c", "-O2 -fomit-frame-pointer -static");
    vec![
        Program::new("threads-64", vec![c("threads", "threads.c")], "{out}/threads 64")
            .chain(format!("{THREAD} worker stage_one stage_two spin")),
        Program::new("threads-64-static", vec![in_one], "{out}/threads-static 64")
            .chain("<any> start_thread worker stage_one stage_two spin")
            .standalone(),
    ]
}

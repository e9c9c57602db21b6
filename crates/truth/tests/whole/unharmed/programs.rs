//! The programs that check themselves: their sources, how they are built, and which function is probed.

use std::path::{Path, PathBuf};

use truth::compile::{Build, Compiler};
use truth::programs::sources;

/// A program that checks itself.
pub(super) struct Checked {
    pub(super) name: &'static str,
    how: How,
    /// A function that is left otherwise than by its end.
    pub(super) probed: Option<&'static str>,
}

enum How {
    Built {
        compiler: Compiler,
        source: &'static str,
        flags: &'static str,
        libraries: &'static str,
    },
    /// A text of Python.
    Python(&'static str),
}

const fn c(name: &'static str, source: &'static str, probed: Option<&'static str>) -> Checked {
    let flags = "-O2 -g -fno-builtin -pthread";
    Checked { name, how: How::Built { compiler: Compiler::Gcc, source, flags, libraries: "" }, probed }
}

const fn cpp(
    name: &'static str,
    source: &'static str,
    flags: &'static str,
    libraries: &'static str,
    probed: &'static str,
) -> Checked {
    let how = How::Built { compiler: Compiler::Gxx, source, flags, libraries };
    Checked { name, how, probed: Some(probed) }
}

const CPP: &str = "-std=c++20 -O2 -g -pthread";
const CPP_STATIC: &str = "-std=c++20 -O2 -g -pthread -static";
const CPP_STATIC_LIBRARY: &str = "-std=c++20 -O2 -g -pthread -static-libstdc++ -static-libgcc";

pub(super) const ALL: &[Checked] = &[
    cpp("exceptions", "unharmed/exceptions.cpp", CPP, "", "_ZL7throwerii"),
    cpp("exceptions-static", "unharmed/exceptions.cpp", CPP_STATIC, "", "_ZL7throwerii"),
    cpp("bad-alloc", "unharmed/bad_alloc.cpp", CPP, "", "_ZL5failsv"),
    cpp("bad-alloc-static", "unharmed/bad_alloc.cpp", CPP_STATIC, "", "_Znwm"),
    cpp("bad-alloc-static-library", "unharmed/bad_alloc.cpp", CPP_STATIC_LIBRARY, "", "_Znwm"),
    cpp("bad-alloc-jemalloc", "unharmed/bad_alloc.cpp", CPP, "{jemalloc} -lm", "_Znwm"),
    cpp("own-new", "unharmed/own_new.cpp", CPP, "", "_Znwm"),
    cpp("coroutines", "unharmed/coroutines.cpp", CPP, "", "_ZN9Generator4nextEv"),
    c("cancelled", "unharmed/cancelled.c", Some("allocates")),
    c("thread-exits", "unharmed/thread_exits.c", Some("nested")),
    c("jumps", "unharmed/jumps.c", Some("deep")),
    c("timers", "unharmed/timers.c", None),
    c("queued", "unharmed/queued.c", None),
    c("overflow", "unharmed/overflow.c", Some("endless")),
    c("traps", "unharmed/traps.c", Some("stepped")),
    c("strict", "unharmed/strict.c", Some("steps")),
    c("filtered", "unharmed/filtered.c", Some("allocate")),
    c("filtered-late", "unharmed/filtered_late.c", Some("allocate")),
    c("traced", "unharmed/traced.c", None),
    c("forks", "unharmed/forks.c", None),
    c("programs", "unharmed/programs.c", None),
    c("limits", "unharmed/limits.c", None),
    c("drops-rights", "unharmed/drops_rights.c", None),
    c("threads", "unharmed/threads.c", None),
    c("libraries", "unharmed/libraries.c", None),
    c("contexts", "unharmed/contexts.c", Some("yields")),
    c("memory", "unharmed/memory.c", None),
    c("registers", "unharmed/registers.c", Some("keeps")),
    c("generated", "unharmed/generated.c", None),
    c("ends", "unharmed/ends.c", None),
    c("sockets", "unharmed/sockets.c", None),
    c("shared-memory", "unharmed/shared_memory.c", Some("child")),
    c("ignored", "unharmed/ignored.c", None),
    Checked {
        name: "panics",
        how: How::Built {
            compiler: Compiler::Rustc,
            source: "unharmed/panics.rs",
            flags: "--edition 2024 -O -g",
            libraries: "",
        },
        probed: None,
    },
    Checked {
        name: "recovers",
        how: How::Built { compiler: Compiler::Go, source: "unharmed/recovers.go", flags: "", libraries: "" },
        probed: None,
    },
    Checked { name: "interpreted", how: How::Python("unharmed/interpreted.py"), probed: None },
];

impl Checked {
    /// The command that runs it, which is built if it must be. Err: why it cannot run here.
    pub(super) fn command(&self, out: &Path) -> Result<Vec<PathBuf>, String> {
        let sources = sources();
        match &self.how {
            How::Python(text) => {
                let python = testkit::need("python3").map_err(|missing| missing.to_string())?;
                Ok(vec![python, sources.join(text)])
            }
            How::Built { compiler, source, flags, libraries } => {
                if let Some(reason) = compiler.missing() {
                    return Err(reason);
                }
                let mut libraries = (*libraries).to_owned();
                if libraries.contains("{jemalloc}") {
                    let file = testkit::need("jemalloc").map_err(|missing| missing.to_string())?;
                    libraries = libraries.replace("{jemalloc}", &file.display().to_string());
                }
                if self.name == "libraries" {
                    let flags = "-O2 -g -fno-builtin -shared -fPIC";
                    let library =
                        Build::new("unharmed-library.so", Compiler::Gcc, "unharmed/library.c", flags);
                    library.run(&sources, out).unwrap();
                }
                let output = format!("unharmed-{}", self.name);
                let build = Build::new(&output, *compiler, source, flags).with(&libraries);
                Ok(vec![build.run(&sources, out).unwrap()])
            }
        }
    }
}

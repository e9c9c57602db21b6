//! Programs whose allocator samples itself, and programs that only allocate.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::program::sources;
use crate::compile::{Build, Compiler};

/// The file of a static jemalloc with its names, as packages have it.
const JEMALLOC: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.a";

/// Such a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampledHeap {
    /// C with jemalloc and its names.
    Jemalloc,
    /// C, which tells samples by the probes of `otel_memory`.
    OtelMemory,
    /// Go; `None`: the installed version.
    Go(Option<&'static str>),
    /// Go without its profiler.
    GoWithout,
    /// A loop of `malloc` and `free`, with the C library's allocator.
    Pairs,
    /// The same with jemalloc and its names.
    JemallocPairs,
    /// A loop of allocations in Go.
    GoPairs,
}

impl SampledHeap {
    /// Why it cannot be built here.
    #[must_use]
    pub fn missing(self) -> Option<String> {
        let build = self.build();
        let library = || {
            let needs = matches!(self, Self::Jemalloc | Self::JemallocPairs);
            let is_missing = needs && !Path::new(JEMALLOC).exists();
            is_missing.then(|| format!("{JEMALLOC} is missing (package libjemalloc-dev)"))
        };
        build.compiler.missing().or_else(library)
    }

    /// The path of the program, which is built if it must be.
    ///
    /// # Errors
    /// If the compiler is missing or fails.
    pub fn path(self, out: &Path) -> Result<PathBuf> {
        self.build().run(&sources(), out)
    }

    fn build(self) -> Build {
        match self {
            Self::Jemalloc => Build::new("sampled-jemalloc", Compiler::Gcc, "sampled.c", "-O2")
                .with(&format!("{JEMALLOC} -lm -lstdc++ -lpthread")),
            Self::OtelMemory => {
                Build::new("sampled-otel", Compiler::Gcc, "sampled.c", "-O2 -DOTEL").with("-lm")
            }
            Self::Go(None) => {
                Build::new("goheap", Compiler::Go, "goheap.go", "").with("{sources}/goheap_profile.go")
            }
            Self::Go(Some(version)) => {
                let name = format!("goheap-{version}");
                Build::new(&name, Compiler::GoAt(version), "goheap.go", "")
                    .with("{sources}/goheap_profile.go")
            }
            Self::Pairs => Build::new("pairs", Compiler::Gcc, "pairs.c", "-O2"),
            Self::JemallocPairs => Build::new("pairs-jemalloc", Compiler::Gcc, "pairs.c", "-O2")
                .with(&format!("{JEMALLOC} -lm -lstdc++ -lpthread")),
            Self::GoPairs => Build::new("gopairs", Compiler::Go, "gopairs.go", ""),
            Self::GoWithout => Build::new("goheap-without", Compiler::Go, "goheap.go", ""),
        }
    }
}

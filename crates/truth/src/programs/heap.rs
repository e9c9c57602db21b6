//! Programs whose allocator samples itself, and programs that only allocate.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::program::sources;
use crate::compile::{Build, Compiler};

/// A static jemalloc with its names, by its name in the table of packages.
const JEMALLOC: &str = "jemalloc";

fn with_jemalloc(output: &str, source: &'static str) -> Build {
    let library = testkit::need(JEMALLOC).map_or_else(|_| JEMALLOC.into(), |file| file.display().to_string());
    Build::new(output, Compiler::Gcc, source, "-O2").with(&format!("{library} -lm -lstdc++ -lpthread"))
}

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
            testkit::need(JEMALLOC).err().filter(|_| needs).map(|missing| missing.to_string())
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
            Self::Jemalloc => with_jemalloc("sampled-jemalloc", "sampled.c"),
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
            Self::JemallocPairs => with_jemalloc("pairs-jemalloc", "pairs.c"),
            Self::GoPairs => Build::new("gopairs", Compiler::Go, "gopairs.go", ""),
            Self::GoWithout => Build::new("goheap-without", Compiler::Go, "goheap.go", ""),
        }
    }
}

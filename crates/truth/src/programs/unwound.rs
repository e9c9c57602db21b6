//! Programs whose functions also end by exceptions, by the cancellation of threads, and by longjmp: in allocators, and elsewhere.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::program::sources;
use crate::compile::{Build, Compiler};

/// Such a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwound {
    /// Huge allocations that fail with `std::bad_alloc`: GNU's operator new.
    BadAlloc(Linked),
    /// The same with jemalloc's operator new.
    BadAllocOfJemalloc,
    /// An operator new of the program that throws, and else calls its malloc.
    ThrowingCaller(Linked),
    /// An operator new of the program that throws, and else takes memory itself.
    ThrowingNew(Linked),
    /// A malloc of the program in which threads are cancelled, and that jumps out.
    LeftMalloc(Linked),
    /// A function that throws, or returns.
    Thrower(Linked),
}

/// How a program is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linked {
    /// With shared libraries.
    Dynamically,
    /// With everything in the file.
    Statically,
}

impl Linked {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Dynamically, Self::Statically];
}

impl Unwound {
    /// Why it cannot be built here.
    #[must_use]
    pub fn missing(self) -> Option<String> {
        let library = || match self {
            Self::BadAllocOfJemalloc => testkit::need("jemalloc").err().map(|missing| missing.to_string()),
            _ => None,
        };
        self.build().compiler.missing().or_else(library)
    }

    /// The path of the program, which is built if it must be.
    ///
    /// # Errors
    /// If the compiler is missing or fails.
    pub fn path(self, out: &Path) -> Result<PathBuf> {
        self.build().run(&sources(), out)
    }

    fn build(self) -> Build {
        let (name, linked) = match self {
            Self::BadAlloc(linked) => ("throwing", linked),
            Self::BadAllocOfJemalloc => ("throwing-jemalloc", Linked::Dynamically),
            Self::ThrowingCaller(linked) => ("limited", linked),
            Self::ThrowingNew(linked) => ("throwing_new", linked),
            Self::LeftMalloc(linked) => ("left_malloc", linked),
            Self::Thrower(linked) => ("thrower", linked),
        };
        let (suffix, flags) = match linked {
            Linked::Dynamically => ("", "-O2"),
            Linked::Statically => ("-static", "-O2 -static"),
        };
        let output = format!("unwound-{name}{suffix}");
        let of_cpp = |source| Build::new(&output, Compiler::Gxx, source, flags);
        match self {
            Self::BadAlloc(_) => of_cpp("throwing.cpp"),
            Self::BadAllocOfJemalloc => {
                let library = testkit::need("jemalloc");
                let library = library.map_or_else(|_| "jemalloc".into(), |file| file.display().to_string());
                of_cpp("throwing.cpp").with(&format!("{library} -lm -lpthread"))
            }
            Self::ThrowingCaller(_) => of_cpp("limited.cpp"),
            Self::ThrowingNew(_) => of_cpp("throwing_new.cpp"),
            Self::LeftMalloc(_) => {
                let flags = format!("{flags} -fexceptions");
                Build::new(&output, Compiler::Gcc, "left_malloc.c", &flags).with("-lpthread")
            }
            Self::Thrower(_) => of_cpp("thrower.cpp"),
        }
    }
}

//! Big libraries of this machine, for programs that map much code.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The libraries of LLVM and of the Rust compiler, as far as they are installed.
#[must_use]
pub fn big_libraries() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["/usr/lib/llvm-14/lib", "/usr/lib/x86_64-linux-gnu"] {
        found.extend(file_in(Path::new(folder), "libLLVM"));
    }
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().ok();
    let sysroot = sysroot.map(|o| PathBuf::from(String::from_utf8_lossy(&o.stdout).trim()));
    found.extend(sysroot.and_then(|root| file_in(&root.join("lib"), "librustc_driver")));
    found.dedup();
    found
}

fn file_in(folder: &Path, prefix: &str) -> Option<PathBuf> {
    let names = std::fs::read_dir(folder).ok()?.flatten().map(|e| e.path());
    names
        .filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(prefix)))
        .filter_map(|p| p.canonicalize().ok())
        .find(|p| p.extension().is_some_and(|e| e != "a"))
}

//! Compiles `bpf/` and makes the skeleton, whose types are the Rust side of `bpf/abi/`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libbpf_cargo::SkeletonBuilder;

fn fail(sentence: &str) -> ExitCode {
    println!("cargo::error={sentence}");
    ExitCode::FAILURE
}

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=../../bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    if Command::new(&clang).arg("--version").output().is_err() {
        return fail(&format!(
            "`{clang}` was not found: install the package clang (apt-get install clang), or name it in CLANG"
        ));
    }
    let Some(out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else {
        return fail("OUT_DIR is not set: run this through cargo");
    };
    let arch = match std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        Ok(other) => return fail(&format!("the BPF programs have no register layout for {other} yet")),
        Err(_) => return fail("CARGO_CFG_TARGET_ARCH is not set: run this through cargo"),
    };
    let target = format!("-D__TARGET_ARCH_{arch}");
    let built = SkeletonBuilder::new()
        .source("../../bpf/perf_agent.bpf.c")
        .obj(out.join("perf_agent.bpf.o"))
        .clang(&clang)
        .clang_args(["-mcpu=v2", &target, "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"])
        .build_and_generate(Path::new(&out.join("perf_agent.skel.rs")));
    match built {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("cannot compile the BPF programs: {error:#}").replace('\n', " ")),
    }
}

//! C++, Rust and Go.

use super::program::{MAIN, Program, THREAD};
use crate::compile::{Build, Compiler};

/// Libraries at work below a C++ program.
const RUNTIME: &str = "(@libstdc++ / @libgcc_s / @libc / @ld-linux / <plt>){0,24}";

pub(super) fn programs() -> Vec<Program> {
    vec![cpp_virtual(), cpp_exceptions(), rust(), go()]
}

fn cpp_virtual() -> Program {
    let build = Build::new("virtual", Compiler::Gxx, "virtual.cpp", "-std=c++17 -O2 -fomit-frame-pointer");
    // The lambda, and what the standard library puts around it, depend on its version.
    let tail = "(*apply<long>*) (*Inner::visit* / *std::_Function_handler* / *std::function* / *_M_invoke*){1,4} spin";
    Program::new("cpp-virtual", vec![build], "{out}/virtual")
        .chain(format!("{MAIN} drive Outer::visit Middle::visit Inner::visit {tail}"))
        .chain(format!("{MAIN} drive Outer::visit Middle::visit Inner::visit {RUNTIME}"))
        .chain(format!("{MAIN} drive Outer::visit Middle::visit Inner::visit *std::_Function*"))
        .chain(format!("{MAIN} drive Outer::visit Middle::visit *thunk*"))
}

fn cpp_exceptions() -> Program {
    let build =
        Build::new("exceptions", Compiler::Gxx, "exceptions.cpp", "-std=c++17 -O2 -fomit-frame-pointer");
    let levels = "level_one (level_two level_three{0,1}){0,1}";
    Program::new("cpp-exceptions", vec![build], "{out}/exceptions")
        .chain(format!("{MAIN} attempt ({levels}){{0,1}} (Guard::~Guard{{0,1}} spin / {RUNTIME})"))
        .chain(
            "_start @libc{2} main (attempt{2} / attempt level_one{2} / attempt level_one level_two{2} / \
             attempt level_one level_two level_three{2}) @libgcc_s{1,3}",
        )
        // In the last instructions before a landing pad libgcc has overwritten its own frame: no walk gets past it.
        .demanding(99.0)
}

fn rust() -> Program {
    let build = Build::new("rust-chain", Compiler::Rustc, "rust_chain.rs", "-O --edition 2024");
    let around = "(std::* / core::* / alloc::* / <* / rust_chain::main*){1,12}";
    let unwinding = "(std::* / core::* / alloc::* / panic_unwind::* / <* / __rust* / rust_* / __rg* / __rdl* / _R* / \
                     @libgcc_s / @libc / @ld-linux / <plt>){0,30}";
    let work = "rust_chain::run (rust_chain::stage_one <rust_chain::Twice*::apply rust_chain::stage_two* \
                rust_chain::burn / ";
    let falls =
        format!("(std::* / core::*){{0,4}} (rust_chain::run* / rust_chain::fall){{0,2}} {unwinding})");
    Program::new("rust-release", vec![build], "{out}/rust-chain")
        .chain(format!("{MAIN} {around} {work} {falls}"))
        .chain(format!("{THREAD} {around} {work} {falls}"))
}

fn go() -> Program {
    let build = Build::new("goroutines", Compiler::Go, "goroutines.go", "");
    Program::new("go", vec![build], "{out}/goroutines")
        .chain(
            "runtime.goexit main.main.gowrap1{0,1} main.worker (main.outer main.middle main.inner main.leaf / main.deep{101} main.leaf) \
             // (runtime.* / internal/* / gosave* / gogo / memeqbody / aeshash* / @[vdso]){1,60}",
        )
        .chain("runtime.goexit runtime.main{0,1} main.main{0,1} (runtime.* / internal/* / time.* / @[vdso]){0,60}")
        .chain("(runtime.* / _rt0* / internal/* / @[vdso]){1,60}")
}

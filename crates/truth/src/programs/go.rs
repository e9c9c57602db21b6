//! Go programs whose time is largely spent beside the goroutine's stack.

use super::program::{MAIN, Program, THREAD, c};
use crate::compile::{Build, Compiler};

/// The second source of both programs.
const PROFILE: &str = "{sources}/goprofile.go";
/// Below a function of the program: the runtime, on whichever stack, packages of Go, and with cgo the C library.
const LIBRARY: &str = "(@libc / _cgo_* / x_cgo_* / runtime.* / internal/* / time.* / sync* / syscall.* / strconv.* / os* / gogo / gcWriteBarrier* / gosave* / callRet / \
                       memeqbody / aeshashbody / expandAVX512* / indexbytebody / cmpbody / countbody / @[vdso]){0,60}";
/// Goroutines and threads of the runtime itself, and a goroutine of the program before its function is called.
const RUNTIME: &str = "(runtime.goexit / runtime.mstart / runtime.mstart0 / runtime.clone / _rt0_amd64_linux / _rt0_amd64 / \
                       runtime.rt0_go) (runtime/pprof.* / compress/* / bytes.* / text/* / fmt.* / bufio.* / io.* / main.main*){0,12}";
/// A thread that the C library started for Go's runtime.
const C_THREAD: &str = "(threadentry / crosscall1 / _cgo_* / x_cgo_* / runtime.mstart / runtime.mstart0 / \
                        @libc / <plt>){0,6}";
/// Called from C: the exported function, what it calls, and what stands between.
const CALLED: &str = "(crosscall2 / runtime.cgocallback* / _cgoexp_* / main.go_work / main.go_busy / main.busy / \
                      main.start / main.go_start / _cgo_* / x_cgo_* / go_work / go_busy / @libc / <plt>){0,14}";

/// All kinds of work of `gostacks.go`.
const KINDS: &str = "now allocate grow exchange yield signals loop panics profiled";

pub(super) fn programs() -> Vec<Program> {
    let mut programs: Vec<_> = ["now", "allocate", "grow", "exchange", "yield", "signals", "calls", "panics"]
        .map(|kind| goroutines(&format!("go-{kind}"), Compiler::Go, "gostacks", "", kind))
        .into();
    programs.extend([
        // More goroutines than CPUs: the runtime interrupts them.
        goroutines("go-loop", Compiler::Go, "gostacks", "", "loop loop loop loop"),
        goroutines("go-profiled", Compiler::Go, "gostacks", "", "loop allocate now exchange profiled"),
        goroutines("go-pie", Compiler::Go, "gostacks-pie", "-buildmode=pie", KINDS),
        goroutines("go-stripped", Compiler::Go, "gostacks-stripped", "-ldflags=-s -w", KINDS),
        goroutines("go-1.18", Compiler::GoAt("go1.18.10"), "gostacks-1.18", "", KINDS),
        goroutines("go-1.20", Compiler::GoAt("go1.20.14"), "gostacks-1.20", "", KINDS),
        goroutines("go-1.27", Compiler::GoAt("go1.27.4"), "gostacks-1.27", "", KINDS),
    ]);
    for (version, compiler) in [
        ("", Compiler::Go),
        ("-1.18", Compiler::GoAt("go1.18.10")),
        ("-1.20", Compiler::GoAt("go1.20.14")),
        ("-1.27", Compiler::GoAt("go1.27.4")),
    ] {
        programs.push(with_c(&format!("go-cgo{version}"), compiler, &format!("gocgo{version}"), ""));
    }
    programs.push(with_c("go-cgo-pie", Compiler::Go, "gocgo-pie", "-buildmode=pie"));
    programs.push(shared_library());
    programs
}

fn goroutines(
    name: &str,
    compiler: Compiler,
    output: &str,
    flag: &'static str,
    kinds: &'static str,
) -> Program {
    let mut build = Build::new(output, compiler, "gostacks.go", "").with(PROFILE);
    build.flags.extend(Some(flag).filter(|flag| !flag.is_empty()).map(str::to_owned));
    let panics = "main.panics (main.fall* / main.caught / runtime.gopanic / runtime.sigpanic / runtime.panic* / \
                  runtime.deferreturn / runtime.goPanic* / runtime.call* / runtime.reflectcall){0,40}";
    let functions = format!(
        "main.now / main.allocate main.*node*get{{0,1}} / main.grow / main.grow.*{{0,1}} main.grown{{0,1}} main.deep{{0,401}} / \
         main.exchange / main.exchange.*{{0,1}} main.answer / main.yield / main.signals / main.loop / main.calls / {panics}"
    );
    Program::new(name, vec![build], &format!("{{out}}/{output} {kinds}"))
        .chain(format!("runtime.goexit main.main*{{0,1}} ({functions}) {LIBRARY}"))
        .chain(format!("{RUNTIME} {LIBRARY}"))
        .demanding(99.8)
}

fn with_c(name: &str, compiler: Compiler, output: &str, flag: &str) -> Program {
    let build = Build::new(output, compiler, "gocgo.go", flag).with(PROFILE);
    let functions = "(main.into / main.back / main.sorted) (main._Cfunc_* / runtime.* / main.sorted.* / _cgo_* / \
                     c_spin / c_back / c_sort / c_compare / _cgo_topofstack / @libc / <plt>){0,30}";
    let start = "main.start.*{0,1}";
    Program::new(name, vec![build], &format!("{{out}}/{output} into back sorted thread"))
        .chain(format!("runtime.goexit {start} {functions} {CALLED} {LIBRARY}"))
        .chain(format!("{THREAD} c_thread c_back{{0,1}} {CALLED} {LIBRARY}"))
        .chain(format!("{THREAD} {C_THREAD} {LIBRARY}"))
        .chain(format!("{RUNTIME} {LIBRARY}"))
        .demanding(99.8)
}

fn shared_library() -> Program {
    let library = Build::new("libgocgo.so", Compiler::Go, "gocgo.go", "-buildmode=c-shared").with(PROFILE);
    Program::new(
        "go-c-shared",
        vec![library, c("gohost", "gohost.c")],
        "{out}/gohost {out}/libgocgo.so call back",
    )
    .chain(format!("{MAIN} call {CALLED} {LIBRARY}"))
    // It compares its arguments.
    .chain(format!("{MAIN} @libc{{0,1}}"))
    .chain(format!(
        "runtime.goexit main.start.*{{0,1}} main.back (main._Cfunc_* / runtime.* / _cgo_* / c_back){{0,8}} {CALLED} \
         {LIBRARY}"
    ))
    .chain(format!("{THREAD} {C_THREAD} {LIBRARY}"))
    .chain(format!("{RUNTIME} {LIBRARY}"))
    // Where the thread pointer leads to the goroutine is known to the loader only: the scheduler's part is cut.
    .demanding(95.0)
}

//! Odd code: callbacks, signals, vdso, linkage stubs, assembly, giant functions, generated and copied code, many mappings.

use super::program::{MAIN, Program, STATIC_MAIN, THREAD, c};
use crate::compile::{Build, Compiler};

pub(super) fn programs() -> Vec<Program> {
    let mut programs = callbacks_and_signals();
    programs.extend(kernel_side());
    programs.extend(linkage());
    programs.extend(generated());
    programs.extend(stacks_and_probes());
    programs.extend(rare());
    programs
}

fn stacks_and_probes() -> Vec<Program> {
    vec![
        Program::new("contexts", vec![c("contexts", "contexts.c")], "{out}/contexts")
            .chain("@libc coroutine (level spin / @libc / <plt>)")
            .chain(format!("{MAIN} (@libc / <plt>){{1,3}}")),
        Program::new(
            "contexts-static",
            vec![static_c("contexts-static", "contexts.c")],
            "{out}/contexts-static",
        )
        .chain("(__start_context / <unnamed>) coroutine (level spin / *swapcontext)")
        .chain(format!("{STATIC_MAIN} *swapcontext"))
        .standalone(),
        Program::new("coroutine-of-libcoro", vec![c("libcoro", "libcoro.c")], "{out}/libcoro")
            .chain("first_of_coroutine (worker leaf spin / switch_to)")
            .chain(format!("{MAIN} switch_to")),
        Program::new("own-stack", vec![c("own-stack", "own_stack.c").with("-pthread")], "{out}/own-stack")
            .chain(format!("{THREAD} work switching on_own_stack spin"))
            .chain(format!("{MAIN} @libc{{1,9}}")),
        Program::new("uprobes", vec![c("probed", "probed.c")], "{out}/probed")
            // `tail` takes the place of `outer`.
            .chain(format!("{MAIN} (outer / tail inner{{1,9}} spin)"))
            // While the kernel enters a probe, the return address is replaced and not yet in its list.
            .demanding(98.5),
        Program::new("uprobes-static", vec![static_c("probed-static", "probed.c")], "{out}/probed-static")
            .chain(format!("{STATIC_MAIN} (outer / tail inner{{1,9}} spin)"))
            // It is for guests: probes take much of the time of an emulated processor.
            .demanding(80.0)
            .standalone(),
    ]
}

fn rare() -> Vec<Program> {
    vec![
        Program::new("vsyscall", vec![c("vsyscall", "vsyscall.c")], "{out}/vsyscall")
            .chain(format!("{MAIN} ask (*vsyscall* / spin)")),
        Program::new("thread-by-clone", vec![c("cloned", "cloned.c")], "{out}/cloned")
            .chain("@libc work spin"),
        Program::new("child-by-vfork", vec![c("vforked", "vforked.c")], "{out}/vforked")
            .chain(format!("{MAIN} bear short_life spin"))
            .chain(format!("{MAIN} bear (@libc / <plt>){{1,2}}")),
        Program::new("breakpoints", vec![c("traps", "traps.c")], "{out}/traps")
            .chain(format!("{MAIN} trap // @libc on_trap spin")),
        Program::new("restartable-sequence", vec![c("restarted", "restarted.c")], "{out}/restarted")
            .chain(format!("{MAIN} attempt (sequence / sequence_aborted)")),
        // The generated code has no name.
        Program::new("high-addresses-static", vec![static_c("high-static", "high.c")], "{out}/high-static")
            .chain(format!("{STATIC_MAIN} switching on_high_stack <any> back_in_c spin"))
            .standalone(),
    ]
}

fn static_c(output: &str, source: &'static str) -> Build {
    Build::new(output, Compiler::Gcc, source, "-O2 -fomit-frame-pointer -static")
}

fn callbacks_and_signals() -> Vec<Program> {
    let mut programs = vec![
        // A merge sort of 256 elements: qsort, qsort_r, then up to nine levels.
        Program::new("qsort-callback", vec![c("qsort", "qsort.c")], "{out}/qsort")
            .chain(format!("{MAIN} sort @libc{{1,11}} compare spin"))
            .chain(format!("{MAIN} sort @libc{{1,11}} (@libc / <plt>){{0,4}}"))
            .chain(format!("{MAIN} sort <plt>")),
        Program::new(
            "qsort-callback-static",
            vec![static_c("qsort-static", "qsort.c")],
            "{out}/qsort-static",
        )
        .chain(format!(
            "{STATIC_MAIN} sort qsort{{0,1}} (__qsort_r / qsort_r){{0,1}} msort_with_tmp*{{0,9}} compare spin"
        ))
        .chain(format!(
            "{STATIC_MAIN} sort qsort{{0,1}} (__qsort_r / qsort_r){{0,1}} msort_with_tmp*{{0,9}} <any>{{0,3}}"
        ))
        .standalone(),
    ];
    for mode in ["plain", "altstack"] {
        programs.push(
            Program::new(
                &format!("signal-{mode}"),
                vec![c("signals", "signals.c")],
                &format!("{{out}}/signals {mode}"),
            )
            .chain(format!("{MAIN} work spin // @libc on_signal handle spin")),
        );
        programs.push(
            Program::new(
                &format!("signal-{mode}-static"),
                vec![static_c("signals-static", "signals.c")],
                &format!("{{out}}/signals-static {mode}"),
            )
            .chain(format!("{STATIC_MAIN} work spin // __restore_rt on_signal handle spin"))
            .standalone(),
        );
    }
    programs
}

fn kernel_side() -> Vec<Program> {
    vec![
        Program::new("vdso", vec![c("vdso", "vdso.c")], "{out}/vdso")
            .chain(format!("{MAIN} ask <plt>"))
            .chain(format!("{MAIN} ask @libc @[vdso]{{0,3}}")),
        Program::new("vdso-static", vec![static_c("vdso-static", "vdso.c")], "{out}/vdso-static")
            .chain(format!("{STATIC_MAIN} ask *clock_gettime* @[vdso]{{0,3}}"))
            .standalone(),
        Program::new("syscalls", vec![c("syscalls", "syscalls.c")], "{out}/syscalls")
            .chain(format!("{MAIN} (ask_kernel / fill) (@libc / <plt>)")),
        Program::new(
            "syscalls-static",
            vec![static_c("syscalls-static", "syscalls.c")],
            "{out}/syscalls-static",
        )
        .chain(format!("{STATIC_MAIN} (ask_kernel (*getppid* / <any>) / fill (*read / <any>))"))
        .standalone(),
        Program::new("libc-assembly", vec![c("libcasm", "libcasm.c").with("-fno-builtin")], "{out}/libcasm")
            .chain(format!("{MAIN} (copy / measure / compare) (@libc / <plt>)")),
    ]
}

fn linkage() -> Vec<Program> {
    let hop = Build::new("libhop.so", Compiler::Gcc, "hop.c", "-O2 -fomit-frame-pointer -shared -fPIC");
    let plt = |output: &str, flags: &str| {
        Build::new(output, Compiler::Gcc, "plt.c", &format!("-O2 -fomit-frame-pointer {flags}"))
            .with("-L{out} -lhop -Wl,-rpath,{out}")
    };
    let chain = format!("{MAIN} knock (<plt> / tiny) (@ld-linux){{0,8}}");
    vec![
        Program::new(
            "plt-lazy",
            vec![hop.clone(), plt("plt-lazy", "-Wl,-z,lazy -fcf-protection=none")],
            "{out}/plt-lazy",
        )
        .chain(chain.clone()),
        Program::new(
            "plt-ibt",
            vec![hop.clone(), plt("plt-ibt", "-Wl,-z,now -fcf-protection=full -Wl,-z,ibtplt")],
            "{out}/plt-ibt",
        )
        .chain(chain),
        Program::new(
            "mappings-5000",
            vec![hop, c("mappings", "mappings.c")],
            "{out}/mappings {out}/libhop.so 5000",
        )
        .chain(format!("{MAIN} tour hop work spin")),
    ]
}

fn generated() -> Vec<Program> {
    let jit = |mode: &str, frames: &str| {
        Program::new(&format!("jit-{mode}"), vec![c("jit", "jit.c")], &format!("{{out}}/jit {mode}"))
            .chain(format!("{MAIN} enter {frames} back_in_c spin"))
    };
    vec![
        Program::new("giant-function", vec![c("bigfunc", "bigfunc.c")], "{out}/bigfunc")
            .chain(format!("{MAIN} giant spin")),
        jit("named", "jit_outer jit_inner"),
        jit("anonymous", "<any>{2}"),
        Program::new("copied-text", vec![c("copied-text", "copied_text.c")], "{out}/copied-text")
            .chain(format!("{MAIN} outer middle leaf")),
        // The code without a name has no description either: its start is found by the call.
        Program::new("unnamed", vec![c("unnamed", "unnamed.c")], "{out}/unnamed")
            .chain(format!("{MAIN} enter (<unnamed> / unnamed!fn_*)")),
        Program::new("jit-short", vec![c("short_jit", "short_jit.c")], "{out}/short_jit")
            .chain(format!("{MAIN} enter a_run b_step c_leaf")),
        Program::new("trampolines", vec![c("trampolines", "trampolines.c")], "{out}/trampolines")
            .chain(format!("{MAIN} enter py_outer middle py_inner back_in_c spin")),
    ]
}

//! Processes that are refused before they are touched, and what becomes of them.

use super::*;

fn state(pid: u32) -> char {
    process::task::stat(pid).unwrap().state
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

fn refusal(pid: u32) -> Refusal {
    switch_on(pid, &Mark::own().unwrap()).unwrap_err()
}

/// It can be switched on and off: nothing was left behind.
#[track_caller]
fn works(pid: u32) {
    let own = Mark::own().unwrap();
    assert_eq!(switch_on(pid, &own), Ok(On::Activated));
    assert_eq!(switch_off(pid, &own), Ok(Off::Deactivated));
}

#[test]
fn a_stopped_process_stays_stopped() {
    let Some(python) = oldest() else { return };
    for mode in ["compute", "sleep", "join-computing"] {
        let program = Program::start(&python, &[], mode);
        signal(program.pid(), "STOP");
        testkit::until("it is stopped", || state(program.pid()) == 'T');
        let refusal = refusal(program.pid());
        assert_eq!(refusal.token, Token::Timeout, "{refusal}");
        assert!(refusal.cause.contains("SIGCONT"), "{refusal}");
        assert_eq!(state(program.pid()), 'T');
        signal(program.pid(), "CONT");
        // Until its first thread has run, the kernel gives signals to another one, and a lock is not interrupted for that.
        let goes_on = if mode == "compute" { 'R' } else { 'S' };
        testkit::until("it goes on", || state(program.pid()) == goes_on);
        assert!(!program.says());
        works(program.pid());
    }
}

#[test]
fn a_process_that_another_traces_is_left_alone() {
    let Some(python) = oldest() else { return };
    let program = Program::start(&python, &[], "compute");
    let pid = program.pid();
    let seize = format!(
        "import ctypes, time\nctypes.CDLL(None).ptrace(0x4206, {pid}, None, None)\nprint('ready', flush=True)\ntime.sleep(1000)"
    );
    let tracer = Program::of_text(&python, &seize);
    let refused = refusal(pid);
    assert_eq!(refused.token, Token::PtraceDenied, "{refused}");
    assert!(refused.cause.contains(&format!("process {} traces it", tracer.pid())), "{refused}");
    drop(tracer);
    testkit::until("it can be switched", || switch_on(pid, &Mark::own().unwrap()).is_ok());
}

#[test]
fn a_process_that_has_ended_is_told_as_such() {
    let mut process = Process::asleep();
    process.kill().unwrap();
    testkit::until("it is a zombie", || state(process.pid()) == 'Z');
    assert_eq!(refusal(process.pid()).token, Token::Exited);
    process.wait().unwrap();
    assert_eq!(refusal(process.pid()).token, Token::Exited);
}

#[test]
fn a_frozen_process_is_left_alone() {
    let Some(python) = oldest() else { return };
    let cgroup = ControlGroup::of_version_2("frozen");
    // Linux before 5.2 cannot freeze one.
    let Some(cgroup) = cgroup.filter(|one| one.path().join("cgroup.freeze").exists()) else {
        testkit::skip!("no control group of version 2 can be made")
    };
    let is_frozen = || fs::read_to_string(cgroup.path().join("cgroup.events")).unwrap().contains("frozen 1");
    for mode in ["compute", "sleep"] {
        let program = Program::start(&python, &[], mode);
        if !cgroup.add(program.pid()) {
            testkit::skip!("no process can be moved to another cgroup");
        }
        assert!(cgroup.write("cgroup.freeze", "1"));
        testkit::until("it is frozen", is_frozen);
        let refusal = refusal(program.pid());
        assert_eq!(refusal.token, Token::Timeout, "{refusal}");
        assert!(refusal.cause.contains("frozen"), "{refusal}");
        assert!(is_frozen());
        assert!(cgroup.write("cgroup.freeze", "0"));
        assert!(!program.says());
        works(program.pid());
    }
}

#[test]
fn a_thread_that_waits_in_vfork_goes_on() {
    let Some(python) = oldest() else { return };
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // The child opens a pipe before it executes its program; its parent waits for that.
    let text = format!(
        "import os\nprint('ready', flush=True)\npid = os.posix_spawn('/bin/true', ['true'], {{}}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, {fifo:?}, os.O_RDONLY, 0)])\n\
         os.waitpid(pid, 0)\nprint('went on', flush=True)\nwhile True: pass"
    );
    let program = Program::of_text(&python, &text);
    testkit::until("it waits for its child", || state(program.pid()) == 'D');
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", program.pid())).unwrap();
    let child: u32 = children.trim().parse().unwrap();
    for (pid, cause) in [(program.pid(), "waits for a child"), (child, "in the memory of its parent")] {
        if pid == child && !sys::memory::is_shared(child, child) {
            testkit::skipped("in part: kcmp is refused here");
            continue;
        }
        let refusal = refusal(pid);
        assert_eq!(refusal.token, Token::Timeout, "{refusal}");
        assert!(refusal.cause.contains(cause) && refusal.cause.contains("vfork"), "{refusal}");
    }
    drop(fs::OpenOptions::new().write(true).open(&fifo).unwrap());
    testkit::until("it goes on", || program.lines() == 2);
    works(program.pid());
}

#[test]
fn a_process_that_may_make_no_system_call_is_left_alone() {
    if testkit::has_seccomp_filter() {
        testkit::skip!("under a seccomp filter no process can choose the strict mode");
    }
    let Some(python) = oldest() else { return };
    let text = "import ctypes\nlibc = ctypes.CDLL(None)\nprint('ready', flush=True)\nlibc.prctl(22, 1, 0, 0, 0)\nwhile True: pass";
    let mut program = Program::of_text(&python, text);
    let status = format!("/proc/{}/status", program.pid());
    testkit::until("it is strict", || fs::read_to_string(&status).unwrap().contains("Seccomp:\t1"));
    let refusal = refusal(program.pid());
    assert_eq!(refusal.token, Token::Other, "{refusal}");
    assert!(refusal.cause.contains("seccomp"), "{refusal}");
    assert!(program.process.try_wait().unwrap().is_none() && state(program.pid()) == 'R');
}

#[test]
fn interpreters_without_the_functions_are_refused_and_no_code_of_the_program_runs() {
    let Some(python) = oldest() else { return };
    for change in [
        "del sys.activate_stack_trampoline",
        "del sys.is_stack_trampoline_active",
        "sys.is_stack_trampoline_active = lambda: print('ran', flush=True)",
        "sys.activate_stack_trampoline = lambda name: print('ran', flush=True)",
    ] {
        let text = format!(
            "import sys, time\n{change}\nprint('ready', flush=True)\nwhile not hasattr(sys, '_perf_agent_trampoline'): time.sleep(0.001)\n\
             while hasattr(sys, '_perf_agent_trampoline'): time.sleep(0.001)\nprint('marked', flush=True)\ntime.sleep(1000)"
        );
        let program = Program::of_text(&python, &text);
        let refusal = refusal(program.pid());
        assert_eq!(refusal.token, Token::NoPerfTrampoline, "{change}: {refusal}");
        assert!(!program.text().contains("ran"), "{change}");
    }
}

#[test]
fn too_many_activations_are_told() {
    let Some(python) = oldest() else { return };
    let text = "import sys, time\ncount = 0\ntry:\n    while count < 300:\n        sys.activate_stack_trampoline('perf')\n        \
        sys.deactivate_stack_trampoline()\n        count += 1\nexcept SystemError:\n    sys.deactivate_stack_trampoline()\n\
        print(count, flush=True)\nwhile True: time.sleep(0.01)";
    let program = Program::of_text(&python, text);
    if program.text().trim() == "300" {
        testkit::skip!("this interpreter has no such limit");
    }
    let refusal = refusal(program.pid());
    assert_eq!(refusal.token, Token::NoPerfTrampoline, "{refusal}");
    assert!(refusal.cause.contains("254"), "{refusal}");
}

#[test]
fn only_the_main_interpreter_is_switched() {
    let Some(python) = oldest() else { return };
    let start = |sub: &str, main: &str| {
        let text = format!(
            "import os, signal, sys, threading, time\n\
             try:\n    import _interpreters as subs\n    run_string = subs.exec\n\
             except ImportError:\n    import _xxsubinterpreters as subs\n    run_string = subs.run_string\n\
             def told(*_):\n    active = b'on' if sys.is_stack_trampoline_active() else b'off'\n\
             \x20   os.write(1, b'%s %s\\n' % (open('question', 'rb').read(), active))\n\
             signal.signal(signal.SIGUSR1, told)\nsub = subs.create()\n\
             def run(): run_string(sub, {sub:?})\n{main}"
        );
        Program::of_text(&python, &text)
    };
    let ready = "print('ready', flush=True)\n";
    // The thread that runs another interpreter waits, and is not taken.
    for sub in ["import time\ntime.sleep(1000)", "while True: pass"] {
        let beside = format!(
            "threading.Thread(target=run, daemon=True).start()\ntime.sleep(0.1)\n{ready}while True: pass"
        );
        let program = start(sub, &beside);
        let own = Mark::own().unwrap();
        assert_eq!(switch_on(program.pid(), &own), Ok(On::Activated), "{sub}");
        assert!(program.says(), "{sub}");
        assert_eq!(switch_off(program.pid(), &own), Ok(Off::Deactivated), "{sub}");
        assert!(!program.says(), "{sub}");
    }
    let program = start("while True: pass", &format!("{ready}run()"));
    let only_other = refusal(program.pid());
    assert_eq!(only_other.token, Token::Timeout, "{only_other}");
    assert!(only_other.cause.contains("another interpreter"), "{only_other}");
}

#[test]
fn a_32_bit_program_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("loop.c"), folder.path().join("python3.12"));
    fs::write(&source, "void _start(void) { for (;;) __asm__ volatile(\"pause\"); }").unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-m32", "-static", "-nostdlib", "-fno-pie", "-no-pie", "-o"]).arg(&program).arg(&source);
    if !gcc.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        testkit::skip!("gcc makes no 32-bit programs");
    }
    let process = Process::start(&mut Command::new(&program)).unwrap();
    let maps = format!("/proc/{}/maps", process.pid());
    testkit::until("it runs", || fs::read_to_string(&maps).unwrap().contains("python3.12"));
    let refusal = refusal(process.pid());
    assert_eq!(refusal.token, Token::Other, "{refusal}");
    assert!(refusal.cause.contains("32-bit"), "{refusal}");
}

#[test]
fn the_first_process_of_a_container_is_switched_and_has_its_map_there() {
    let Some(python) = oldest() else { return };
    let options = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc"];
    let Some(mut command) = testkit::unshare(&options) else { return };
    let script = "mount -t tmpfs none /tmp && exec \"$0\" -c \"$1\" compute";
    let folder = tempfile::tempdir().unwrap();
    command.args(["sh", "-c", script]).arg(&python).arg(PROGRAM).current_dir(folder.path());
    let output = folder.path().join("output");
    fs::write(folder.path().join("question"), "1").unwrap();
    command.stdin(Stdio::null()).stdout(fs::File::create(&output).unwrap()).stderr(Stdio::null());
    let mut unshare = Process::start(&mut command).unwrap();
    let is_ready = || fs::read_to_string(&output).unwrap().contains("ready");
    testkit::until("it runs or fails", || is_ready() || unshare.try_wait().unwrap().is_some());
    assert!(is_ready(), "{:?}", fs::read_to_string(&output));
    let parents = process::task::parents().unwrap();
    let pid = parents.iter().find(|(_, parent)| *parent == unshare.pid()).unwrap().0;
    assert_eq!(process::task::ns_pids(pid).unwrap().last(), Some(&1));
    let own = Mark::own().unwrap();
    assert_eq!(switch_on(pid, &own), Ok(On::Activated));
    let map = format!("/proc/{pid}/root/tmp/perf-1.map");
    testkit::until("functions are in the map", || {
        fs::read_to_string(&map).is_ok_and(|map| map.contains("leaf"))
    });
    assert_eq!(switch_off(pid, &own), Ok(Off::Deactivated));
    signal(pid, "USR1");
    testkit::until("it answers", || fs::read_to_string(&output).unwrap().ends_with("off\n"));
}

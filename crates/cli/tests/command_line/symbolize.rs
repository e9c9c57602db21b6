//! `perf-agent symbolize`: names for what was written already.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::Process;

use crate::capture::{assert_status, privileged};
use crate::{run_in, stderr};

const PROGRAM: &str = "volatile unsigned long sum;\n\
    static inline void add_numbers(unsigned long n) { for (unsigned long i = 0; i < n; i++) sum += i; }\n\
    static __attribute__((noinline)) void spin_secretly(void) { add_numbers(100000); sum++; }\n\
    int main(void) { for (;;) spin_secretly(); }\n";

/// Builds the program, and a stripped copy in a folder of its own. False: a tool is missing.
fn build(folder: &Path) -> bool {
    fs::write(folder.join("app.c"), PROGRAM).unwrap();
    fs::create_dir(folder.join("stripped")).unwrap();
    let commands = ["gcc -g -O2 -Wl,--build-id -o app app.c", "strip -o stripped/app app"];
    commands.into_iter().all(|command| {
        let mut words = command.split(' ');
        let done = Command::new(words.next().unwrap()).args(words).current_dir(folder).status();
        done.is_ok_and(|status| status.success())
    })
}

fn decompressed(path: &Path) -> String {
    let output = Command::new("gzip").arg("-dc").arg(path).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_capture_of_a_stripped_program_has_its_functions_and_later_their_names() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    if !privileged() || !build(folder) {
        return;
    }
    let capture = ["--profile", "--sample-rate", "499", "--duration", "1s", "--profile-output", "cpu.pb.gz"];
    let outputs = ["--folded-output", "cpu.folded", "--recording-output", "recording", "--pid"];
    let mut command = Command::new(folder.join("stripped/app"));
    let target = Process::start(command.stdin(Stdio::null()).stdout(Stdio::null())).unwrap();
    let captured = run_in(folder, &[&capture[..], &outputs, &[&target.pid().to_string()]].concat());
    drop(target);
    assert_status(&captured, 0);
    assert!(stderr(&captured).contains("% by function start"), "{}", stderr(&captured));
    let folded = fs::read_to_string(folder.join("cpu.folded")).unwrap();
    let leaves: Vec<_> =
        folded.lines().filter_map(|line| line.split(' ').next()?.rsplit(';').next()).collect();
    assert!(leaves.iter().any(|leaf| leaf.starts_with("app!fn_0x")), "{folded}");
    assert!(!folded.contains("[app+0x"), "call sites are not shown: {folded}");

    let written = decompressed(&folder.join("cpu.pb.gz"));
    assert!(written.contains("app!fn_0x"), "no function without a name");
    assert!(!written.contains("spin_secretly"), "the name is known before the file with it");
    let named = run_in(folder, &["symbolize", "cpu.pb.gz", "-o", "named.pb.gz", "--symbol-dir", "."]);
    assert_status(&named, 0);
    let text = decompressed(&folder.join("named.pb.gz"));
    for name in ["spin_secretly", "add_numbers", "app.c", "perf-agent.function_start_pct="] {
        assert!(text.contains(name), "{name}: {}", stderr(&named));
    }
    assert!(!text.contains("app!fn_0x"), "a function has no name: {}", stderr(&named));

    let named = run_in(folder, &["symbolize", "recording", "-o", "named", "--symbol-dir", "."]);
    assert_status(&named, 0);
    assert_status(&run_in(folder, &["render", "named", "-o", "named.folded"]), 0);
    let folded = fs::read_to_string(folder.join("named.folded")).unwrap();
    assert!(folded.contains("main;spin_secretly;add_numbers "), "{folded}");
    assert!(!folded.contains("app!fn_0x"), "{folded}");
}

/// The kernel functions of folded stacks that spend their time in a system call.
fn kernel_names(folded: &str) -> std::collections::BTreeSet<&str> {
    let frames =
        folded.lines().flat_map(|line| line.rsplit_once(' ').map_or("", |(stack, _)| stack).split(';'));
    frames.filter(|frame| frame.starts_with("do_syscall_64") || frame.contains("read_zero")).collect()
}

#[test]
fn kernel_frames_without_names_get_them_from_a_list_of_the_kernel() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    let list = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let is_shown =
        list.lines().any(|line| line.ends_with(" T _stext") && !line.starts_with("0000000000000000"));
    let without = ["--bounding-set=-syslog", "--inh-caps=-syslog"];
    let setpriv = testkit::need!("setpriv");
    let hidden = Command::new(&setpriv).args(without).args(["cat", "/proc/kallsyms"]).output();
    let is_hidden =
        hidden.is_ok_and(|output| output.status.success() && output.stdout.starts_with(b"0000000000000000"));
    if !privileged() {
        return;
    }
    if !is_shown || !is_hidden {
        testkit::skipped(format_args!("the kernel shows its addresses to all here, or to nobody"));
        return;
    }
    fs::write(folder.join("kallsyms"), &list).unwrap();
    let target = Process::start(
        Command::new("dd").args(["if=/dev/zero", "of=/dev/null", "bs=1M"]).stderr(Stdio::null()),
    )
    .unwrap();
    let captured = Command::new(setpriv)
        .args(without)
        .arg(env!("CARGO_BIN_EXE_perf-agent"))
        .args([
            "--profile",
            "-g",
            "--duration",
            "1s",
            "--sample-rate",
            "499",
            "--profile-output",
            "cpu.pb.gz",
        ])
        .args(["--recording-output", "recording", "--folded-output", "cpu.folded", "--pid"])
        .arg(target.pid().to_string())
        .current_dir(folder)
        .output()
        .unwrap();
    drop(target);
    assert_status(&captured, 0);
    let folded = fs::read_to_string(folder.join("cpu.folded")).unwrap();
    assert!(kernel_names(&folded).is_empty(), "{folded}");

    let named = ["--system-map", "kallsyms"];
    for (input, output) in [("cpu.pb.gz", "named.pb.gz"), ("recording", "named")] {
        let words = ["symbolize", input, "-o", output];
        assert_status(&run_in(folder, &[&words[..], &named].concat()), 0);
    }
    let text = decompressed(&folder.join("named.pb.gz"));
    assert!(text.contains("do_syscall_64") && text.contains("read_zero"), "{}", stderr(&captured));
    assert_status(&run_in(folder, &["render", "named", "-o", "named.folded"]), 0);
    let folded = fs::read_to_string(folder.join("named.folded")).unwrap();
    assert!(kernel_names(&folded).len() >= 2, "{folded}");
    // The same start of the same kernel: without a file, its own list is asked.
    assert_status(&run_in(folder, &["symbolize", "cpu.pb.gz", "-o", "here.pb.gz"]), 0);
    assert!(decompressed(&folder.join("here.pb.gz")) == text, "here.pb.gz differs from named.pb.gz");
}

#[test]
fn what_cannot_be_named_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path();
    fs::write(folder.join("text"), "no profile").unwrap();
    // An empty gzip stream without its end.
    fs::write(folder.join("cut.pb.gz"), [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 1, 0]).unwrap();
    for (words, status, told) in [
        (&["symbolize", "missing", "-o", "out"][..], 1, "missing: No such file"),
        (&["symbolize", "text", "-o", "out"], 1, "text: read the profile: decode the pprof message"),
        (&["symbolize", "cut.pb.gz", "-o", "out"], 1, "decompress the pprof file at offset 12"),
        (&["symbolize", "text"], 2, "--output <OUT> is missing"),
        (
            &["symbolize", "text", "-o", "out", "--symbol-dir", "nowhere"],
            2,
            "--symbol-dir nowhere: No such file",
        ),
        (&["symbolize", "text", "-o", "out", "--vmlinux", "text"], 2, "it is no ELF file of a kernel"),
        (&["symbolize", "text", "-o", "out", "--system-map", "text"], 2, "it has no symbols of code"),
        (&["symbolize", "text", "-o", "out", "--system-map", "nowhere"], 2, "nowhere: No such file"),
    ] {
        let output = run_in(folder, words);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(told) && stderr(&output).contains("hint: "), "{}", stderr(&output));
        assert!(!folder.join("out").exists());
    }
}

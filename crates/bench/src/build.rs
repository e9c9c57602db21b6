//! The first seconds of a build: hundreds of processes that live for milliseconds, most of them of programs that are met again and again.
//! Each capture is of a clean build of a small generated project, from its first process on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use truth::frame::{Capture, Stack};
use truth::profiler::read_pprof;

/// What is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Project {
    /// Seven crates, one with a build script, by `cargo build`: cargo, rustc with its threads, cc, collect2, ld, the build script.
    Cargo,
    /// Forty C files by `make -j2`: make, sh, gcc, cc1, as, collect2, ld.
    Make,
}

/// Whose processes are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of the build, as the command of perf-agent.
    Command,
    /// All of the machine.
    Machine,
}

/// What captures of a build show of its programs.
#[derive(Clone, Debug, Default)]
pub struct Build {
    /// Samples with a user stack.
    pub samples: u64,
    /// Samples of the capture that fired and were not recorded.
    pub lost: u64,
    /// Distinct processes with samples.
    pub processes: usize,
    /// Cut samples by program and cause.
    pub cut: BTreeMap<(String, String), u64>,
}

impl Build {
    /// Samples whose stack reaches its root, in per cent.
    #[must_use]
    pub fn rooted_pct(&self) -> f64 {
        let cut: u64 = self.cut.values().sum();
        100.0 * (self.samples - cut) as f64 / self.samples.max(1) as f64
    }

    /// Adds another capture.
    pub fn add(&mut self, other: Self) {
        for (place, count) in other.cut {
            *self.cut.entry(place).or_default() += count;
        }
        self.samples += other.samples;
        self.lost += other.lost;
        self.processes += other.processes;
    }

    fn of(capture: &Capture, scope: Scope) -> Result<Self> {
        let lost = capture.ledger("lost").context("no losses in the ledger")?;
        let mut build =
            Self { lost: lost.parse().with_context(|| format!("read lost={lost}"))?, ..Self::default() };
        let mut pids = BTreeSet::new();
        let shown = |stack: &&Stack| scope == Scope::Command || MAKE_PROGRAMS.contains(&stack.comm.as_str());
        for stack in capture.stacks.iter().filter(shown) {
            pids.insert(stack.pid);
            if let Some(cause) = &stack.truncated {
                *build.cut.entry((stack.comm.clone(), cause.clone())).or_default() += stack.count;
            } else if stack.frames.is_empty() {
                continue;
            }
            build.samples += stack.count;
        }
        build.processes = pids.len();
        Ok(build)
    }
}

/// The programs of [`Project::Make`].
const MAKE_PROGRAMS: [&str; 10] =
    ["make", "sh", "mkdir", "cc", "gcc", "cc1", "as", "collect2", "ld", "x86_64-linux-gn"];

/// Captures a clean build. `folder`: of the project, which is made if it is not there. `cache`: the folder of perf-agent's tables.
///
/// # Errors
/// If the project cannot be written, or the build or the capture fails.
pub fn measure(
    agent: &Path,
    more: &[String],
    project: Project,
    scope: Scope,
    folder: &Path,
    cache: &Path,
) -> Result<Build> {
    prepare(project, folder)?;
    let file = folder.join("build.pb.gz");
    let mut command = Command::new(agent);
    command.args(["--profile", "--profile-output"]).arg(&file).args(more);
    let mut built = match scope {
        Scope::Command => {
            command.arg("--").args(words(project)).current_dir(folder);
            None
        }
        Scope::Machine => {
            command.args(["-a", "--duration", "4s"]);
            Some(build_command(project, folder).spawn().context("start the build")?)
        }
    };
    without_cargo(&mut command).env("XDG_CACHE_HOME", cache);
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("start {}", agent.display()))?;
    if let Some(built) = &mut built {
        built.wait().context("wait for the build")?;
    }
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    Build::of(&read_pprof(&file)?, scope)
}

fn words(project: Project) -> &'static [&'static str] {
    match project {
        Project::Cargo => &["cargo", "build", "--offline", "--quiet"],
        Project::Make => &["make", "-s", "-j2"],
    }
}

fn build_command(project: Project, folder: &Path) -> Command {
    let words = words(project);
    let mut command = Command::new(words[0]);
    without_cargo(&mut command).args(&words[1..]).current_dir(folder).stdin(Stdio::null());
    command
}

/// The settings of a cargo that runs this program are not for the one that is measured.
fn without_cargo(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let is_cargo = name.to_str().is_some_and(|name| name.starts_with("CARGO") && name != "CARGO_HOME");
        if is_cargo || name == "RUSTFLAGS" || name == "MAKEFLAGS" {
            command.env_remove(name);
        }
    }
    command
}

/// Writes the project, without anything that was built.
fn prepare(project: Project, folder: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(folder);
    match project {
        Project::Cargo => cargo_project(folder),
        Project::Make => make_project(folder),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().context("a path without a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

const CRATES: usize = 6;

/// A program and six libraries, of which one has a build script.
fn cargo_project(folder: &Path) -> Result<()> {
    let mut dependencies = String::new();
    let mut main = String::from("fn main() {\n");
    for number in 0..CRATES {
        let _ = writeln!(dependencies, "part{number} = {{ path = \"part{number}\" }}");
        let _ = writeln!(main, "    println!(\"{{}}\", part{number}::sum(&[\"a\", \"b\"]));");
        let part = folder.join(format!("part{number}"));
        let mut manifest =
            format!("[package]\nname = \"part{number}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
        if number > 1 {
            let _ = writeln!(manifest, "\n[dependencies]\npart0 = {{ path = \"../part0\" }}");
        }
        write(&part.join("Cargo.toml"), &manifest)?;
        if number == 0 {
            write(&part.join("build.rs"), "fn main() { println!(\"cargo:rerun-if-changed=build.rs\"); }\n")?;
        }
        write(&part.join("src/lib.rs"), &library(number))?;
    }
    main.push_str("}\n");
    let manifest = format!(
        "[package]\nname = \"whole\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n\n[dependencies]\n{dependencies}"
    );
    write(&folder.join("Cargo.toml"), &manifest)?;
    write(&folder.join("src/main.rs"), &main)
}

/// Code that keeps rustc and LLVM busy for some tenths of a second.
fn library(number: usize) -> String {
    let mut text = String::from("use std::collections::{BTreeMap, HashMap};\nuse std::fmt::Debug;\n\n");
    for function in 0..40 {
        let _ = writeln!(
            text,
            "pub fn f{function}<T: Debug + Clone + Ord>(items: &[T]) -> Vec<(String, usize)> {{\n    \
             let mut seen: HashMap<String, Vec<T>> = HashMap::new();\n    \
             for item in items {{ seen.entry(format!(\"{{item:?}}-{function}-{number}\")).or_default().push(item.clone()); }}\n    \
             let sorted: BTreeMap<_, _> = seen.into_iter().map(|(key, mut of)| {{ of.sort(); (key, of.len()) }}).collect();\n    \
             sorted.into_iter().filter(|(_, count)| count % 2 == {} % 2).collect()\n}}\n",
            function + number
        );
    }
    text.push_str("pub fn sum(items: &[&str]) -> usize {\n    let mut all = 0;\n");
    for function in 0..40 {
        let _ = writeln!(text, "    all += f{function}(items).len();");
    }
    text.push_str("    all\n}\n");
    text
}

const FILES: usize = 40;

fn make_project(folder: &Path) -> Result<()> {
    let mut objects = String::new();
    for number in 0..FILES {
        let _ = write!(objects, " f{number}.o");
        let mut text = String::from(
            "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <math.h>\n#include <unistd.h>\n\n",
        );
        for function in 0..20 {
            let _ = writeln!(
                text,
                "int f{number}_{function}(const char *s, int n)\n{{\n\tchar *copy = strdup(s);\n\tdouble d = 0;\n\t\
                 for (int i = 0; i < n; i++) {{\n\t\td += sqrt(i * {function}.5) + strlen(copy);\n\t\t\
                 if (d > 100 + n)\n\t\t\tprintf(\"%s %f\\n\", copy, d);\n\t\tswitch (i % 7) {{\n\t\tcase 0: d *= 2; break;\n\t\t\
                 case 3: d -= {number}; break;\n\t\tdefault: d += 1;\n\t\t}}\n\t}}\n\tfree(copy);\n\treturn (int)d;\n}}\n"
            );
        }
        if number == 0 {
            text.push_str("int main(int argc, char **argv) { return f0_0(argv[0], argc); }\n");
        }
        write(&folder.join(format!("f{number}.c")), &text)?;
    }
    // A line with a shell's work, as in most makefiles.
    let makefile = format!(
        "CFLAGS = -O2 -g\nwhole:{objects}\n\t$(CC) -o $@ $^ -lm\n%.o: %.c\n\t@mkdir -p deps; echo $< > deps/$*.d && $(CC) $(CFLAGS) -c -o $@ $<\n"
    );
    write(&folder.join("Makefile"), &makefile)
}

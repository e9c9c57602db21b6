//! The interpreters of CPython on this machine: those of pyenv, those of the system, and those that `PERFAGENT_PYTHONS` names.

use std::collections::HashSet;
use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Prints four lines: the version, whether threads run without the global lock, whether the perf trampoline can be switched, and the mapped
/// `libpython` of a shared build.
const QUESTIONS: &str = r#"
import os, platform, sys
assert platform.python_implementation() == "CPython"
print("%d %d %d" % sys.version_info[:3])
print("t" in getattr(sys, "abiflags", ""))
try:
    sys.activate_stack_trampoline("perf")
    sys.deactivate_stack_trampoline()
    os.unlink("/tmp/perf-%d.map" % os.getpid())
    print(True)
except (AttributeError, RuntimeError, ValueError):
    print(False)
with open("/proc/self/maps") as maps:
    names = [line.split(None, 5)[-1].strip() for line in maps]
for name in names:
    if os.path.basename(name).startswith("libpython"):
        print(name)
        break
"#;

/// Versions that `tools/pythons.sh` brings where the system lacks them.
const BROUGHT: [(u8, u8); 6] = [(2, 7), (3, 9), (3, 11), (3, 13), (3, 14), (3, 15)];

/// An interpreter of CPython.
#[derive(Clone, Debug)]
pub struct Python {
    /// Major, minor and micro number.
    pub version: (u8, u8, u8),
    /// The program to run.
    pub program: PathBuf,
    /// `libpython` in a shared build; `None` if the program contains the interpreter.
    pub library: Option<PathBuf>,
    /// Threads run without the global lock.
    pub is_free_threaded: bool,
    /// A program can switch the perf trampoline. Builds with musl have none.
    pub has_trampolines: bool,
}

impl Python {
    /// The version in names of programs and folders, such as 3.11.
    #[must_use]
    pub fn minor(&self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }

    /// True for Python 3 from this minor version on.
    #[must_use]
    pub fn is_at_least(&self, minor: u8) -> bool {
        (self.version.0, self.version.1) >= (3, minor)
    }

    /// The file that contains the interpreter: the library or the program.
    #[must_use]
    pub fn file(&self) -> &Path {
        self.library.as_deref().unwrap_or(&self.program)
    }

    /// The folder with `Python.h`; `None` if it is not installed.
    #[must_use]
    pub fn headers(&self) -> Option<PathBuf> {
        let program = self.program.canonicalize().ok()?;
        let folder = program.parent()?.parent()?.join(format!("include/python{}", self.minor()));
        folder.join("Python.h").exists().then_some(folder)
    }

    /// `None` if the program is missing or is no CPython.
    fn ask(program: PathBuf) -> Option<Self> {
        let mut command = Command::new(&program);
        let output = command.args(["-E", "-S", "-c", QUESTIONS]).stderr(Stdio::null()).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let mut lines = text.lines();
        let mut numbers = lines.next()?.split(' ').map(str::parse);
        let mut number = || numbers.next()?.ok();
        let version = (number()?, number()?, number()?);
        let [is_free_threaded, has_trampolines] = [lines.next()?, lines.next()?].map(|line| line == "True");
        let library = lines.next().map(PathBuf::from);
        Some(Self { version, program, library, is_free_threaded, has_trampolines })
    }
}

impl fmt::Display for Python {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor, micro) = self.version;
        write!(f, "CPython {major}.{minor}.{micro} ({})", self.program.display())
    }
}

/// All interpreters, oldest first. Links to one program count once.
pub fn pythons() -> &'static [Python] {
    static FOUND: OnceLock<Vec<Python>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let mut seen = HashSet::new();
        let is_new = |program: &PathBuf| program.canonicalize().is_ok_and(|file| seen.insert(file));
        let mut all: Vec<_> = candidates().into_iter().filter(is_new).filter_map(Python::ask).collect();
        all.sort_by(|one, other| (one.version, &one.program).cmp(&(other.version, &other.program)));
        all
    })
}

/// Paths at which interpreters may be.
fn candidates() -> Vec<PathBuf> {
    let of_home = || Some(PathBuf::from(env::var_os("HOME")?).join(".pyenv"));
    let pyenv = env::var_os("PYENV_ROOT").map(PathBuf::from).or_else(of_home).unwrap_or_default();
    let built = std::fs::read_dir(pyenv.join("versions")).into_iter().flatten().flatten();
    let built = built.map(|folder| folder.path().join("bin/python"));
    let names = (6..=15).map(|minor| format!("3.{minor}")).chain(["2.7".to_owned()]);
    let of_system = names.flat_map(|version| {
        ["/usr/bin", "/usr/local/bin"].map(|folder| Path::new(folder).join(format!("python{version}")))
    });
    let named = env::var_os("PERFAGENT_PYTHONS").unwrap_or_default();
    built.chain(of_system).chain(env::split_paths(&named)).collect()
}

/// The interpreters from 3.8 to 3.15, whose frames perf-agent shows, oldest first. Prints a skip if there are none.
pub fn supported_pythons() -> Vec<&'static Python> {
    let found = those(|python| python.is_at_least(8) && !python.is_at_least(16));
    if found.is_empty() {
        crate::skipped("no CPython from 3.8 to 3.15; tools/pythons.sh brings some");
    }
    found
}

/// The interpreters whose perf trampolines a program can switch, oldest first. Prints a skip if there are none.
pub fn pythons_with_trampolines() -> Vec<&'static Python> {
    let found = those(|python| python.has_trampolines && !python.is_at_least(16));
    if found.is_empty() {
        crate::skipped("no CPython 3.12 or later; tools/pythons.sh brings 3.13");
    }
    found
}

/// The interpreters for tests of `--inject-python`, oldest first. Prints a skip if there are none.
pub fn switchable_pythons() -> Vec<&'static Python> {
    if !cfg!(target_arch = "x86_64") {
        crate::skipped("interpreters are switched on x86-64 only");
        return Vec::new();
    }
    let has_lock = |python: &Python| python.has_trampolines && !python.is_free_threaded;
    let found = those(|python| has_lock(python) && !python.is_at_least(14));
    if found.is_empty() {
        crate::skipped("no CPython 3.12 or 3.13; tools/pythons.sh brings 3.13");
    }
    found
}

/// The interpreters of the wanted versions, oldest first. Prints a partial skip for each missing version.
pub fn pythons_of(wanted: &[(u8, u8)]) -> Vec<&'static Python> {
    let found = those(|python| wanted.contains(&(python.version.0, python.version.1)));
    let is_found = |of: &&(u8, u8)| found.iter().any(|python| (python.version.0, python.version.1) == **of);
    let missing = wanted.iter().filter(|of| !is_found(of));
    // The gate checks only the first skip of a test, so versions that should be present come first.
    let (brought, others): (Vec<_>, Vec<_>) = missing.partition(|of| BROUGHT.contains(of));
    for (major, minor) in brought {
        crate::skipped(format_args!("in part: no CPython {major}.{minor}; tools/pythons.sh brings it"));
    }
    for (major, minor) in others {
        crate::skipped(format_args!("in part: no CPython {major}.{minor}, which only pyenv brings"));
    }
    found
}

fn those(is_it: impl Fn(&Python) -> bool) -> Vec<&'static Python> {
    pythons().iter().filter(|python| is_it(python)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_says_what_it_is() {
        for python in pythons() {
            let output = Command::new(&python.program).arg("--version").output().unwrap();
            // Python 2 prints the version to standard error.
            let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            let (major, minor, micro) = python.version;
            assert!(said.starts_with(&format!("Python {major}.{minor}.{micro}")), "{python}: {said}");
            let file = std::fs::read(python.file()).unwrap();
            let name = b"Py_GetVersion\0";
            assert!(file.windows(name.len()).any(|bytes| bytes == name), "{python:?}");
        }
        assert!(pythons().is_sorted_by_key(|python| python.version));
    }

    #[test]
    fn other_programs_are_no_interpreters() {
        assert!(Python::ask("/bin/true".into()).is_none());
        assert!(Python::ask("/nowhere/python3".into()).is_none());
    }
}

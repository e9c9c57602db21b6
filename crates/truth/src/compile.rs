//! Building the known-answer programs, each by one call of a compiler, only when its sources or its command changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};

/// One build at a time: several tests may want the same program.
static BUILDING: Mutex<()> = Mutex::new(());

/// A compiler, by the command that must be installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compiler {
    /// GNU C.
    #[default]
    Gcc,
    /// GNU C++.
    Gxx,
    /// Clang, C.
    Clang,
    /// GNU C over musl.
    MuslGcc,
    /// Rust, without cargo.
    Rustc,
    /// Go.
    Go,
    /// Go of one version, which the installed one (1.21 or later) fetches as a module.
    GoAt(&'static str),
}

impl Compiler {
    /// The command, which is a name of the table of packages.
    #[must_use]
    pub fn command(self) -> &'static str {
        match self {
            Self::Gcc => "gcc",
            Self::Gxx => "g++",
            Self::Clang => "clang",
            Self::MuslGcc => "musl-gcc",
            Self::Rustc => "rustc",
            Self::Go | Self::GoAt(_) => "go",
        }
    }

    /// Why the compiler cannot be used. None: it can.
    #[must_use]
    pub fn missing(self) -> Option<String> {
        let command = match testkit::need(self.command()) {
            Ok(command) => command,
            Err(missing) => return Some(missing.to_string()),
        };
        let Self::GoAt(version) = self else { return None };
        let answer = Command::new(command).args(["env", "GOVERSION"]).env("GOTOOLCHAIN", version).output();
        let is_there = answer.is_ok_and(|answer| String::from_utf8_lossy(&answer.stdout).trim() == version);
        (!is_there).then(|| format!("{version} cannot be fetched by the installed Go"))
    }
}

/// One call of a compiler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Build {
    /// Name of the result in the output folder.
    pub output: String,
    /// Which compiler.
    pub compiler: Compiler,
    /// Name of the source in `truth/programs`.
    pub source: &'static str,
    /// Flags, in order, before the source.
    pub flags: Vec<String>,
    /// Arguments after the source, libraries and further sources: `{out}` is the output folder, `{sources}` that of the sources.
    pub libraries: Vec<String>,
}

impl Build {
    /// A build with flags separated by blanks.
    #[must_use]
    pub fn new(output: &str, compiler: Compiler, source: &'static str, flags: &str) -> Self {
        Self {
            output: output.to_owned(),
            compiler,
            source,
            flags: flags.split_whitespace().map(str::to_owned).collect(),
            libraries: Vec::new(),
        }
    }

    /// The same with libraries, separated by blanks.
    #[must_use]
    pub fn with(mut self, libraries: &str) -> Self {
        self.libraries = libraries.split_whitespace().map(str::to_owned).collect();
        self
    }

    /// Makes the result in `out`, unless it is there and newer than the sources.
    ///
    /// # Errors
    /// If the compiler is missing or fails; its messages are in the error.
    pub fn run(&self, sources: &Path, out: &Path) -> Result<PathBuf> {
        let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
        let target = out.join(&self.output);
        let target_new = out.join(format!("{}.new", self.output));
        let mut arguments: Vec<String> = Vec::new();
        if matches!(self.compiler, Compiler::Go | Compiler::GoAt(_)) {
            arguments.push("build".into());
        }
        arguments.extend(self.flags.iter().cloned());
        arguments.extend(["-o".into(), target_new.display().to_string()]);
        arguments.push(sources.join(self.source).display().to_string());
        let (out_path, sources_path) = (out.display().to_string(), sources.display().to_string());
        arguments.extend(
            self.libraries.iter().map(|l| l.replace("{out}", &out_path).replace("{sources}", &sources_path)),
        );

        let stamp = out.join(format!("{}.command", self.output));
        let version = if let Compiler::GoAt(version) = self.compiler { Some(version) } else { None };
        let command =
            format!("{} {}{}", self.compiler.command(), arguments.join(" "), version.unwrap_or_default());
        let unchanged = fs::read_to_string(&stamp).is_ok_and(|old| old == command);
        if unchanged && modified(&target) > newest_source(sources) {
            return Ok(target);
        }
        fs::create_dir_all(out).with_context(|| format!("create {}", out.display()))?;
        let compiler = testkit::need(self.compiler.command());
        let compiler = compiler.map_err(|missing| anyhow!("build {}: {missing}", self.output))?;
        let output = Command::new(compiler)
            .args(&arguments)
            .env("GO111MODULE", "off")
            .envs(version.map(|version| ("GOTOOLCHAIN", version)))
            .output()
            .with_context(|| format!("build {}: run {}", self.output, self.compiler.command()))?;
        if !output.status.success() {
            bail!("build {}: `{command}` failed:\n{}", self.output, String::from_utf8_lossy(&output.stderr));
        }
        fs::rename(&target_new, &target).with_context(|| format!("write {}", target.display()))?;
        fs::write(&stamp, command).with_context(|| format!("write {}", stamp.display()))?;
        Ok(target)
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|m| m.modified()).ok()
}

/// When a source in a folder or below it was last changed.
fn newest_source(folder: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    entries.filter_map(|path| if path.is_dir() { newest_source(&path) } else { modified(&path) }).max()
}

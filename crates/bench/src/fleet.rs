//! A synthetic fleet: many processes of many distinct binaries, for captures of the whole machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use testkit::Process;
use truth::compile::{Build, Compiler};
use truth::programs::sources;

/// Running processes. They end when this is dropped.
#[derive(Debug)]
pub struct Fleet {
    members: Vec<Process>,
    binaries: usize,
}

/// Which binaries one process runs and preloads, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    program: usize,
    libraries: Vec<usize>,
}

/// Distributes binaries over processes: first a program for each process, then libraries, in turn.
fn distribute(processes: usize, binaries: usize) -> Vec<Member> {
    let programs = processes.min(binaries).max(1);
    let member = |index: usize| Member {
        program: index % programs,
        libraries: (programs..binaries).skip(index).step_by(processes.max(1)).collect(),
    };
    (0..processes).map(member).collect()
}

impl Fleet {
    /// Starts `processes` processes over `binaries` distinct binaries. Binaries are distinct by their build-ids; those that no
    /// process runs as its program are libraries that the processes map. `out` keeps them for the next time.
    ///
    /// # Errors
    /// If a binary cannot be linked or started.
    pub fn start(out: &Path, processes: usize, binaries: usize) -> Result<Self> {
        let folder = std::path::absolute(out.join("fleet")).context("make a path absolute")?;
        std::fs::create_dir_all(&folder).context("create a folder for the fleet")?;
        let compile = |output: &str, flags: &str| {
            Build::new(output, Compiler::Gcc, "member.c", &format!("-O2 -fomit-frame-pointer {flags}"))
                .run(&sources(), out)
        };
        let (program, library) = (compile("member.o", "-c")?, compile("member-pic.o", "-c -fPIC")?);
        let start = |member: Member| -> Result<Process> {
            let path = folder.join(format!("member-{}", member.program));
            link(&program, &path, member.program, "-pie")?;
            let libraries = member.libraries.iter().map(|number| {
                let path = folder.join(format!("libmember-{number}.so"));
                link(&library, &path, *number, "-shared")?;
                Ok(path.display().to_string())
            });
            let libraries = libraries.collect::<Result<Vec<String>>>()?.join(":");
            let mut command = Command::new(path);
            command.env("LD_PRELOAD", libraries).stdin(Stdio::null()).stdout(Stdio::null());
            Process::start(&mut command).context("start a process of the fleet")
        };
        let members = distribute(processes, binaries).into_iter().map(start).collect::<Result<_>>()?;
        Ok(Self { members, binaries })
    }

    /// Number of processes and of distinct binaries.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.members.len(), self.binaries)
    }

    /// The processes.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.members.iter().map(Process::pid).collect()
    }
}

/// Links one binary with a build-id of its own, unless it is there and not older than its object.
fn link(object: &Path, result: &PathBuf, number: usize, how: &str) -> Result<()> {
    let modified = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified()).ok();
    if modified(result).is_some_and(|time| modified(object).is_some_and(|object| object <= time)) {
        return Ok(());
    }
    let status = Command::new("gcc")
        .args([how, &format!("-Wl,--build-id=0x7472757468{number:030x}"), "-o"])
        .arg(result)
        .arg(object)
        .status()
        .context("run gcc; if it is missing: apt-get install gcc")?;
    ensure!(status.success(), "link {}: {status}", result.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn used(processes: usize, binaries: usize) -> BTreeSet<usize> {
        let members = distribute(processes, binaries);
        assert_eq!(members.len(), processes);
        members.into_iter().flat_map(|member| [vec![member.program], member.libraries].concat()).collect()
    }

    #[test]
    fn each_binary_is_in_use() {
        for (processes, binaries) in [(1, 1), (10, 3), (3, 10), (5, 5), (4, 9)] {
            assert_eq!(used(processes, binaries), (0..binaries).collect(), "{processes} over {binaries}");
        }
        assert_eq!(distribute(3, 10)[1], Member { program: 1, libraries: vec![4, 7] });
        assert_eq!(distribute(3, 2)[2], Member { program: 0, libraries: vec![] });
    }
}

//! Many processes of many distinct binaries, for captures of the whole machine.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::compile::{Build, Compiler};
use crate::programs::sources;

/// Running processes; gone when dropped.
#[derive(Debug)]
pub struct Crowd {
    members: Vec<Child>,
    binaries: usize,
}

impl Crowd {
    /// Starts `processes` processes, each of its own program; `binaries - processes` of them (no more than there are
    /// processes) also map a library of their own.
    ///
    /// # Errors
    /// If a binary cannot be linked or started.
    pub fn gather(out: &Path, processes: usize, binaries: usize) -> Result<Self> {
        let folder = out.join("crowd");
        let compile = |output: &str, flags: &str| {
            Build::new(output, Compiler::Gcc, "member.c", &format!("-O2 -fomit-frame-pointer {flags}"))
                .run(&sources(), out)
        };
        let (program, library) = (compile("member.o", "-c")?, compile("member-pic.o", "-c -fPIC")?);
        let mut crowd = Self { members: Vec::new(), binaries };
        for index in 0..processes {
            let program = link(&program, &folder.join(format!("member-{index}")), 2 * index, "-pie")?;
            let mut command = Command::new(program);
            if index + processes < binaries {
                let library =
                    link(&library, &folder.join(format!("libmember-{index}.so")), 2 * index + 1, "-shared")?;
                command.env("LD_PRELOAD", library);
            }
            command.stdin(Stdio::null()).stdout(Stdio::null());
            crowd.members.push(command.spawn().context("start a member of the crowd")?);
        }
        Ok(crowd)
    }

    /// Processes and distinct binaries.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.members.len(), self.binaries)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for member in &mut self.members {
            // It may have ended by itself.
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}

fn link(object: &Path, result: &Path, number: usize, how: &str) -> Result<PathBuf> {
    let result = std::path::absolute(result).context("make a path absolute")?;
    if result.is_file() {
        return Ok(result);
    }
    std::fs::create_dir_all(result.parent().unwrap_or(Path::new(".")))
        .context("create a folder for the crowd")?;
    let status = Command::new("gcc")
        .args([how, &format!("-Wl,--build-id=0x7472757468{number:030x}"), "-o"])
        .arg(&result)
        .arg(object)
        .status()
        .context("run gcc")?;
    ensure!(status.success(), "link {}: {status}", result.display());
    Ok(result)
}

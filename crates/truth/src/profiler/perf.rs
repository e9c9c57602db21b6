//! `perf record`, for comparison: command line, and stacks out of `perf script`.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use object::read::elf::{ElfFile64, ProgramHeader};

use super::scope::{PerfMode, Scope};
use crate::frame::{Capture, Frame, Stack, plain_name};

pub(super) fn command(
    mode: PerfMode,
    scope: Scope,
    seconds: f64,
    rate_hz: u32,
    folder: &Path,
) -> (Command, PathBuf) {
    let file = folder.join(match mode {
        PerfMode::Dwarf => "perf-dwarf.data",
        PerfMode::FramePointers => "perf-fp.data",
        PerfMode::NoStacks => "perf.data",
    });
    let mut command = testkit::perf(folder);
    command.args(["record", "-q", "-e", "cpu-clock", "-F", &rate_hz.to_string()]);
    match mode {
        PerfMode::Dwarf => command.args(["--call-graph", "dwarf,65528", "-m", "32M"]),
        PerfMode::FramePointers => command.arg("-g"),
        PerfMode::NoStacks => &mut command,
    };
    match scope {
        Scope::Process(pid) => command.args(["-p", &pid.to_string()]),
        Scope::Machine => command.arg("-a"),
    };
    command.arg("-o").arg(&file).args(["--", "sleep", &seconds.to_string()]);
    (command, file)
}

/// Lets `perf script` unwind a perf.data file, and reads its text.
pub(super) fn read_file(file: &Path) -> Result<Capture> {
    let mut child = testkit::perf(file.parent().unwrap_or(Path::new("/")))
        .args(["script", "-f", "--no-inline", "--max-stack", "1024", "-F", "comm,pid,event,ip,sym,dso", "-i"])
        .arg(file)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("start perf script")?;
    let stdout = child.stdout.take().context("perf script has no stdout")?;
    let capture = read_script(BufReader::new(stdout));
    if !child.wait().context("wait for perf script")?.success() {
        bail!("perf script failed on {}", file.display());
    }
    let mut capture = capture?;
    capture.file = file.to_owned();
    Ok(capture)
}

/// Reads the text of `perf script -F comm,pid,event,ip,sym,dso`. Kernel frames are left out.
///
/// # Errors
/// If the text cannot be read.
pub fn read_script(text: impl BufRead) -> Result<Capture> {
    let mut reader = ScriptReader::default();
    for line in text.split(b'\n') {
        let line = line.context("read perf script's output")?;
        reader.line(&String::from_utf8_lossy(&line));
    }
    reader.end_of_sample();
    Ok(Capture { stacks: reader.stacks, ..Capture::default() })
}

#[derive(Default)]
struct ScriptReader {
    stacks: Vec<Stack>,
    known: HashMap<(u32, Vec<Frame>), usize>,
    open: Option<Stack>,
    segments: HashMap<String, Vec<(u64, u64, u64)>>,
}

impl ScriptReader {
    fn line(&mut self, line: &str) {
        if line.trim().is_empty() {
            self.end_of_sample();
        } else if line.starts_with('\t') || line.starts_with("        ") {
            self.frame(line.trim());
        } else {
            self.end_of_sample();
            let words: Vec<&str> = line.split_whitespace().collect();
            let pid_at = words.iter().rposition(|w| w.parse::<u32>().is_ok());
            let pid = pid_at.and_then(|at| words[at].parse().ok()).unwrap_or(0);
            let comm = words[..pid_at.unwrap_or(0)].join(" ");
            self.open = Some(Stack { count: 1, pid, comm, ..Stack::default() });
        }
    }

    fn frame(&mut self, text: &str) {
        let Some((address, rest)) = text.split_once(' ') else { return };
        let Ok(address) = u64::from_str_radix(address, 16) else { return };
        let Some((symbol, module)) = split_module(rest) else { return };
        if module.starts_with("[kernel") || module.starts_with("[guest") || address >= 1 << 63 {
            return;
        }
        let svma = self.svma(module, address);
        let name = (symbol != "[unknown]").then(|| plain_name(symbol));
        let module = if module == "[unknown]" { "" } else { module };
        if let Some(stack) = &mut self.open {
            stack.frames.push(Frame { name, module: module.to_owned(), svma });
        }
    }

    /// perf prints positions in the file.
    fn svma(&mut self, module: &str, offset: u64) -> u64 {
        if !module.starts_with('/') {
            return 0;
        }
        if !self.segments.contains_key(module) {
            self.segments.insert(module.to_owned(), segments(module));
        }
        self.segments[module]
            .iter()
            .find(|(start, length, _)| (*start..start + length).contains(&offset))
            .map_or(offset, |(start, _, address)| offset - start + address)
    }

    fn end_of_sample(&mut self) {
        let Some(mut stack) = self.open.take() else { return };
        stack.frames.reverse();
        let at = *self.known.entry((stack.pid, stack.frames.clone())).or_insert(self.stacks.len());
        match self.stacks.get_mut(at) {
            Some(seen) => seen.count += 1,
            None => self.stacks.push(stack),
        }
    }
}

/// `symbol (module)`, where a module may contain blanks and end in ` (deleted)`.
fn split_module(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_suffix(')')?;
    let (inner, deleted) = match inner.strip_suffix(" (deleted)") {
        Some(inner) => (inner, true),
        None => (inner.strip_suffix(" (deleted").unwrap_or(inner), false),
    };
    let at = inner.rfind(" (").or_else(|| inner.starts_with('(').then_some(0))?;
    let module = inner[at..].trim_start().strip_prefix('(')?;
    let module = if deleted { module.trim_end() } else { module };
    Some((inner[..at].trim(), module))
}

fn segments(path: &str) -> Vec<(u64, u64, u64)> {
    let Ok(bytes) = fs::read(path) else { return Vec::new() };
    let Ok(elf) = ElfFile64::<object::Endianness>::parse(&*bytes) else { return Vec::new() };
    let endian = elf.endian();
    elf.elf_program_headers()
        .iter()
        .filter(|header| header.p_type(endian) == object::elf::PT_LOAD)
        .map(|header| (header.p_offset(endian), header.p_filesz(endian), header.p_vaddr(endian)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
a b  7446 cpu-clock: \n\
\tffffffff81000000 do_syscall_64 ([kernel.kallsyms])\n\
\t            1194 spin (/tmp/with blank/a (deleted))\n\
\t            11b4 Inner::visit(long) (/tmp/a)\n\
\t             9a1 [unknown] ([vdso])\n\
\n\
a b  7446 cpu-clock: \n\
\t            1194 spin (/tmp/with blank/a (deleted))\n\
\t            11b4 Inner::visit(long) (/tmp/a)\n\
\t             9a1 [unknown] ([vdso])\n\
\n";

    #[test]
    fn script_text_becomes_stacks() {
        let capture = read_script(TEXT.as_bytes()).unwrap();
        assert_eq!(capture.stacks.len(), 1, "the kernel's frames are no part of the stack");
        let stack = &capture.stacks[0];
        assert_eq!((stack.count, stack.pid, stack.comm.as_str()), (2, 7446, "a b"));
        assert_eq!(stack.display(), "?@[vdso] > Inner::visit@a > spin@a");
        assert_eq!(stack.frames[2].module, "/tmp/with blank/a");
    }
}

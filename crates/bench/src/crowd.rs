//! A crowd: so many processes, threads, distinct binaries and bytes of mapped code that what grows with one of them shows.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use testkit::Process;
use truth::compile::{Build, Compiler};
use truth::programs::sources;

/// The build-id that the program is linked with. In each copy it is replaced by a number.
const BUILD_ID: [u8; 16] = *b"perf-agent crowd";
/// Bytes of a file of code. Each process maps one of them until all are mapped.
const TEXT_BYTES: u64 = 1 << 30;
/// Where the code is: `TEXT_AT` of `truth/programs/crowd.c`.
const TEXT_AT: u64 = 4096;
/// A function that counts its argument down.
#[cfg(target_arch = "x86_64")]
const TEXT: &[u8] = &[0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0xc3];
#[cfg(target_arch = "aarch64")]
const TEXT: &[u8] = &[0x00, 0x04, 0x00, 0xf1, 0xe1, 0xff, 0xff, 0x54, 0xc0, 0x03, 0x5f, 0xd6];

/// How large a crowd is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Processes.
    pub processes: usize,
    /// Threads of all of them together.
    pub threads: usize,
    /// Distinct programs.
    pub binaries: usize,
    /// GiB of mapped code, in sparse files of 1 GiB.
    pub text_gib: usize,
    /// Wake-ups of all threads together in a second.
    pub wakeups: usize,
}

/// Running processes. They end when this is dropped.
#[derive(Debug)]
pub struct Crowd {
    _members: Vec<Process>,
    _folder: tempfile::TempDir,
}

impl Crowd {
    /// Starts it, and waits until all threads run.
    ///
    /// # Errors
    /// If the program cannot be compiled, or a limit of the machine is lower: the message names the limits.
    pub fn start(out: &Path, size: Size) -> Result<Self> {
        ensure!(size.processes > 0 && size.wakeups > 0, "a crowd needs a process and a wake-up");
        let folder = tempfile::tempdir().context("create a folder for a crowd")?;
        let id: String = BUILD_ID.iter().map(|byte| format!("{byte:02x}")).collect();
        let flags = format!("-O2 -fomit-frame-pointer -pthread -Wl,--build-id=0x{id}");
        let program = Build::new("crowd", Compiler::Gcc, "crowd.c", &flags).run(&sources(), out)?;
        let program = fs::read(&program).context("read the program of the crowd")?;
        let binaries = size.binaries.clamp(1, size.processes);
        let binaries = (0..binaries).map(|number| copy_with_id(&program, folder.path(), number));
        let binaries = binaries.collect::<Result<Vec<PathBuf>>>()?;
        let texts = (0..size.text_gib).map(|number| sparse_code(folder.path(), number));
        let texts = texts.collect::<Result<Vec<PathBuf>>>()?;
        let (reader, writer) = std::io::pipe().context("make a pipe")?;
        let threads = size.threads.max(size.processes);
        let period_us = threads.saturating_mul(1_000_000) / size.wakeups;
        let mut members = Vec::with_capacity(size.processes);
        for number in 0..size.processes {
            let own = (threads * (number + 1)) / size.processes - (threads * number) / size.processes;
            let mut command = Command::new(&binaries[number % binaries.len()]);
            command.args([own.to_string(), period_us.to_string()]);
            command.args(texts.iter().skip(number).step_by(size.processes));
            command.stdin(Stdio::null()).stdout(writer.try_clone().context("share a pipe")?);
            members.push(
                Process::start(&mut command)
                    .with_context(|| format!("start process {number}; {}", limits()))?,
            );
        }
        drop(writer);
        let ready = BufReader::new(reader).lines().take(size.processes).filter(Result::is_ok).count();
        ensure!(
            ready == size.processes,
            "{ready} of {} processes have all their threads; {}",
            size.processes,
            limits()
        );
        Ok(Self { _members: members, _folder: folder })
    }
}

/// The limits of this machine that a crowd may meet.
fn limits() -> String {
    let read = |name: &str| {
        let value = fs::read_to_string(format!("/proc/sys/{name}")).unwrap_or_default();
        format!("{} is {}", name.replace('/', "."), value.trim())
    };
    ["kernel/pid_max", "kernel/threads-max", "vm/max_map_count"].map(read).join(", ")
}

/// A copy of the program that is another file by its build-id too.
fn copy_with_id(program: &[u8], folder: &Path, number: usize) -> Result<PathBuf> {
    let mut copy = program.to_vec();
    let at = copy
        .windows(BUILD_ID.len())
        .position(|bytes| bytes == BUILD_ID)
        .context("the program has no build-id")?;
    copy[at..at + 8].copy_from_slice(&(number as u64).to_ne_bytes());
    let path = folder.join(format!("crowd-{number}"));
    fs::write(&path, copy).with_context(|| format!("write {}", path.display()))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).context("make a program executable")?;
    Ok(path)
}

/// A file of code that takes two blocks of the disk: an ELF file with one segment, whose rest is a hole.
fn sparse_code(folder: &Path, number: usize) -> Result<PathBuf> {
    let path = folder.join(format!("text-{number}.so"));
    let mut file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    file.set_len(TEXT_BYTES).context("make a file of 1 GiB")?;
    file.write_all(&elf_head()).context("write the head of a file")?;
    file.seek(SeekFrom::Start(TEXT_AT)).context("go to the code of a file")?;
    file.write_all(TEXT).context("write the code of a file")?;
    Ok(path)
}

/// The head of an ELF file with one executable segment, which is the file.
fn elf_head() -> Vec<u8> {
    const HEAD: u16 = 64;
    const SEGMENT: u16 = 56;
    let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    for half in [3, machine] {
        bytes.extend(half.to_le_bytes());
    }
    bytes.extend(1u32.to_le_bytes());
    for word in [0, u64::from(HEAD), 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(0u32.to_le_bytes());
    for half in [HEAD, SEGMENT, 1, 0, 0, 0] {
        bytes.extend(half.to_le_bytes());
    }
    // PT_LOAD, readable and executable.
    for half in [1u32, 5] {
        bytes.extend(half.to_le_bytes());
    }
    for word in [0, 0, 0, TEXT_BYTES, TEXT_BYTES, TEXT_AT] {
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_code_are_elf_files_that_take_no_disk() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let data = fs::metadata(sparse_code(folder.path(), 7).unwrap()).unwrap();
        assert_eq!(data.len(), TEXT_BYTES);
        assert!(data.blocks() * 512 < 1 << 20, "{}", data.blocks());
        let head = elf_head();
        assert_eq!((head.len(), &head[..4]), (64 + 56, b"\x7fELF".as_slice()));
    }

    #[test]
    fn a_small_crowd_has_its_threads_and_maps_its_files() {
        let out = tempfile::tempdir().unwrap();
        let size = Size { processes: 3, threads: 10, binaries: 2, text_gib: 4, wakeups: 100 };
        let crowd = Crowd::start(out.path(), size).unwrap();
        let read = |pid: u32, file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
        let pids: Vec<u32> = crowd._members.iter().map(Process::pid).collect();
        let threads = |pid: &u32| fs::read_dir(format!("/proc/{pid}/task")).unwrap().count();
        assert_eq!(pids.iter().map(threads).sum::<usize>(), 10);
        let texts = |pid: &u32| read(*pid, "maps").lines().filter(|line| line.contains("/text-")).count();
        assert_eq!(pids.iter().map(texts).collect::<Vec<_>>(), [2, 1, 1]);
        let names: std::collections::BTreeSet<String> = pids.iter().map(|pid| read(*pid, "comm")).collect();
        assert_eq!(names.len(), 2);
    }
}

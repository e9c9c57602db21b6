//! A file system in user space (FUSE, by its protocol alone) with one program in it. On demand it leaves requests of this test's own
//! process without an answer: all, or reads of a part of the program. Only the children of this process can read the program: a page that another
//! agent reads would be in the page cache, and the agent under test would never ask for it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

const ROOT: u64 = 1;
const PROGRAM: u64 = 2;
/// Answers of the server hold for so many seconds in the kernel: it asks for the attributes each time.
const VALID: u64 = 0;

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

const ENOENT: i32 = 2;
const EIO: i32 = 5;
const ENOSYS: i32 = 38;

/// The mounted file system. Dropping it answers everything with an error and unmounts it.
pub struct SilentFs {
    folder: tempfile::TempDir,
    state: Arc<State>,
    server: Option<JoinHandle<()>>,
}

struct State {
    is_silent: AtomicBool,
    /// Reads from this offset on get no answer.
    unread_from: AtomicU64,
    unanswered: AtomicU64,
}

impl Default for State {
    fn default() -> Self {
        let unread_from = AtomicU64::new(u64::MAX);
        Self { is_silent: AtomicBool::default(), unread_from, unanswered: AtomicU64::default() }
    }
}

impl State {
    fn answers(&self, opcode: u32, body: &[u8], tid: u32) -> bool {
        let is_unread = opcode == READ && long(body, 8) >= self.unread_from.load(Ordering::SeqCst);
        let is_silent = opcode != INIT && self.is_silent.load(Ordering::SeqCst);
        !(is_unread || is_silent) || !is_own_thread(tid)
    }

    /// Whether a thread may read the program: those of children, and those of this process where only a part is unread.
    fn lets_read(&self, tid: u32) -> bool {
        let is_partly_unread = self.unread_from.load(Ordering::SeqCst) != u64::MAX;
        is_child(tid) || is_partly_unread && is_own_thread(tid)
    }
}

impl SilentFs {
    /// Mounts it, with a program of these bytes.
    pub fn mount(program: Vec<u8>) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let device = File::options().read(true).write(true).open("/dev/fuse")?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let options = std::ffi::CString::new(options)?;
        mount("silent", folder.path(), "fuse.silent", MountFlags::NODEV, Some(options.as_c_str()))?;
        let state = Arc::new(State::default());
        let theirs = Arc::clone(&state);
        let server = std::thread::spawn(move || serve(device, &program, &theirs));
        Ok(Self { folder, state, server: Some(server) })
    }

    /// Where the program is.
    pub fn program(&self) -> PathBuf {
        self.folder.path().join("program")
    }

    /// From here on this process gets no answers.
    pub fn be_silent(&self) {
        self.state.is_silent.store(true, Ordering::SeqCst);
    }

    /// From here on this process can open the program, and reads only so many bytes at its begin.
    pub fn be_silent_from(&self, offset: u64) {
        self.state.unread_from.store(offset, Ordering::SeqCst);
    }

    /// Requests that got no answer.
    pub fn unanswered(&self) -> u64 {
        self.state.unanswered.load(Ordering::SeqCst)
    }
}

impl Drop for SilentFs {
    fn drop(&mut self) {
        let _ = unmount(self.folder.path(), UnmountFlags::FORCE | UnmountFlags::DETACH);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

fn serve(mut device: File, program: &[u8], state: &State) {
    let mut buffer = vec![0; 1 << 20];
    // The read fails when the file system is unmounted.
    while let Ok(len) = device.read(&mut buffer) {
        let request = &buffer[..len];
        let (opcode, unique, node) = (word(request, 4), long(request, 8), long(request, 16));
        if matches!(opcode, FORGET | BATCH_FORGET | INTERRUPT) {
            continue;
        }
        if !state.answers(opcode, request.get(40..).unwrap_or_default(), word(request, 32)) {
            state.unanswered.fetch_add(1, Ordering::SeqCst);
            continue;
        }
        let answer = if opcode == READ && !state.lets_read(word(request, 32)) {
            Err(EIO)
        } else {
            answer(opcode, node, &request[40..], program)
        };
        let (error, body) = match answer {
            Ok(body) => (0, body),
            Err(error) => (-error, Vec::new()),
        };
        let mut reply = Vec::with_capacity(16 + body.len());
        reply.extend((16 + body.len() as u32).to_le_bytes());
        reply.extend(error.to_le_bytes());
        reply.extend(unique.to_le_bytes());
        reply.extend(body);
        // A request that was interrupted takes no answer.
        let _ = device.write(&reply);
    }
}

/// Whether a thread is one of this process.
fn is_own_thread(tid: u32) -> bool {
    std::fs::exists(format!("/proc/self/task/{tid}")).unwrap_or(false)
}

/// Whether a thread is of a child of this process.
fn is_child(tid: u32) -> bool {
    process::task::stat(tid).is_ok_and(|stat| stat.parent == std::process::id())
}

fn answer(opcode: u32, node: u64, body: &[u8], program: &[u8]) -> Result<Vec<u8>, i32> {
    match opcode {
        INIT => {
            let mut out = Vec::new();
            // Version 7.31, no feature, and nothing is read ahead.
            words(&mut out, &[7, 31, 0, 0, 0x000c_000c, 1 << 17, 1, 0]);
            out.resize(64, 0);
            Ok(out)
        }
        LOOKUP if node == ROOT && body.starts_with(b"program\0") => {
            let mut out = Vec::new();
            longs(&mut out, &[PROGRAM, 0, VALID, VALID, 0]);
            attributes(&mut out, PROGRAM, program);
            Ok(out)
        }
        LOOKUP => Err(ENOENT),
        GETATTR => {
            let mut out = Vec::new();
            longs(&mut out, &[VALID, 0]);
            attributes(&mut out, node, program);
            Ok(out)
        }
        OPEN => {
            // FOPEN_KEEP_CACHE: a program that runs reads nothing again.
            let mut out = Vec::new();
            longs(&mut out, &[0, 2]);
            Ok(out)
        }
        READ => {
            let at = usize::try_from(long(body, 8)).unwrap_or(usize::MAX).min(program.len());
            let end = at.saturating_add(word(body, 16) as usize).min(program.len());
            Ok(program[at..end].to_vec())
        }
        STATFS => Ok(vec![0; 80]),
        RELEASE | FLUSH => Ok(Vec::new()),
        _ => Err(ENOSYS),
    }
}

fn attributes(out: &mut Vec<u8>, node: u64, program: &[u8]) {
    let (mode, size) = if node == ROOT { (0o40755, 0) } else { (0o100_755, program.len() as u64) };
    longs(out, &[node, size, size.div_ceil(512), 0, 0, 0]);
    words(out, &[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0]);
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

fn words(out: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| out.extend(value.to_le_bytes()));
}

fn longs(out: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|value| out.extend(value.to_le_bytes()));
}

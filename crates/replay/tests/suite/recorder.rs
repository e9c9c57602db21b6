//! Registers and stack bytes of a running program, at any instruction, by ptrace.

use std::os::unix::process::CommandExt;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

use replay::Registers;
use replay::Stack;

/// Bytes below the stack pointer that are recorded: what a function has just popped may still be named by its rows.
const BELOW: u64 = 256;
const MOST: u64 = 512 << 10;

/// A program that is traced, and killed in the end.
pub struct Recorder {
    child: Child,
    stopped: bool,
    pending_signal: i32,
    /// Its memory regions that can be written, read anew when a stack lies outside of them.
    regions: Vec<(u64, u64)>,
}

impl Recorder {
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.process_group(0).spawn().unwrap();
        let recorder = Self { child, stopped: false, pending_signal: 0, regions: Vec::new() };
        // SAFETY: no memory of this process is involved.
        let result = unsafe {
            libc::ptrace(libc::PTRACE_SEIZE, recorder.pid(), 0usize, libc::PTRACE_O_EXITKILL as usize)
        };
        assert_eq!(result, 0, "cannot trace {command:?}: {}", std::io::Error::last_os_error());
        recorder
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Lets the program run for a while and stops it, wherever it is.
    pub fn run_for(&mut self, micros: u64) {
        if self.stopped {
            self.resume(libc::PTRACE_CONT);
        }
        std::thread::sleep(std::time::Duration::from_micros(micros));
        // SAFETY: no memory of this process is involved.
        unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, self.pid(), 0usize, 0usize) };
        loop {
            let event = self.wait();
            if event == libc::PTRACE_EVENT_STOP {
                return;
            }
            self.resume(libc::PTRACE_CONT);
        }
    }

    /// One instruction. False if a signal came instead: it is delivered with the next step.
    pub fn step(&mut self) -> bool {
        self.resume(libc::PTRACE_SINGLESTEP);
        self.wait();
        self.pending_signal == 0
    }

    fn resume(&mut self, how: libc::c_uint) {
        let signal = std::mem::take(&mut self.pending_signal) as usize;
        // SAFETY: no memory of this process is involved.
        let result = unsafe { libc::ptrace(how, self.pid(), 0usize, signal) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        self.stopped = false;
    }

    /// The next stop; gives its ptrace event.
    fn wait(&mut self) -> i32 {
        let mut status = 0;
        // SAFETY: status is a live integer.
        let pid = unsafe { libc::waitpid(self.pid(), &raw mut status, libc::__WALL) };
        assert!(pid == self.pid() && libc::WIFSTOPPED(status), "the program ended: status {status:#x}");
        self.stopped = true;
        let signal = libc::WSTOPSIG(status);
        self.pending_signal = if signal == libc::SIGTRAP { 0 } else { signal };
        status >> 16
    }

    pub fn registers(&self) -> Registers {
        let mut raw = std::mem::MaybeUninit::<libc::user_regs_struct>::zeroed();
        // SAFETY: room for the structure that the request fills.
        let raw = unsafe {
            assert_eq!(libc::ptrace(libc::PTRACE_GETREGS, self.pid(), 0usize, raw.as_mut_ptr()), 0);
            raw.assume_init()
        };
        let by_number = [
            raw.rax, raw.rdx, raw.rcx, raw.rbx, raw.rsi, raw.rdi, raw.rbp, raw.rsp, raw.r8, raw.r9, raw.r10,
            raw.r11, raw.r12, raw.r13, raw.r14, raw.r15,
        ];
        Registers { pc: raw.rip, by_number, thread_pointer: 0 }
    }

    /// Memory of the program; shorter where it ends.
    pub fn memory(&self, from: u64, size: u64) -> Vec<u8> {
        let mut bytes = vec![0u8; size as usize];
        let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let remote = libc::iovec { iov_base: from as *mut libc::c_void, iov_len: bytes.len() };
        // SAFETY: `local` is all of `bytes`; `remote` is not of this process.
        let read =
            unsafe { libc::process_vm_readv(self.pid(), &raw const local, 1, &raw const remote, 1, 0) };
        bytes.truncate(read.max(0) as usize);
        bytes
    }

    /// The stack that the stack pointer is in, and the one that the process started on if that is another.
    pub fn stack(&mut self, sp: u64) -> Stack {
        let inside = |regions: &[(u64, u64)]| {
            regions.iter().find(|(start, end)| (*start..*end).contains(&sp)).copied()
        };
        let (start, end) = inside(&self.regions).unwrap_or_else(|| {
            self.read_regions();
            inside(&self.regions).unwrap_or_else(|| panic!("{sp:#x} is in no writable memory"))
        });
        let from = start.max(sp.saturating_sub(BELOW) & !7);
        let stack = Stack::new(from, self.memory(from, (end - from).min(MOST)));
        let (first_start, first_end) = self.regions[self.regions.len() - 1];
        if first_end == end {
            return stack;
        }
        let from = first_start.max(first_end.saturating_sub(MOST));
        stack.and(from, self.memory(from, first_end - from))
    }

    /// The writable regions, `[stack]` last.
    fn read_regions(&mut self) {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap();
        let mut regions: Vec<(bool, u64, u64)> = maps
            .lines()
            .filter(|line| line.contains(" rw"))
            .map(|line| {
                let (start, rest) = line.split_once('-').unwrap();
                let end = rest.split(' ').next().unwrap();
                let number = |text| u64::from_str_radix(text, 16).unwrap();
                (line.ends_with("[stack]"), number(start), number(end))
            })
            .collect();
        regions.sort_unstable();
        self.regions = regions.into_iter().map(|(_, start, end)| (start, end)).collect();
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // The process is this test's child, and may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

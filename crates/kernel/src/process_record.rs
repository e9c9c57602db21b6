//! The value of the map `procs`: what the programs record of one process.

use crate::abi::skeleton::types;

/// Flag `PROC_NEW` of `bpf/abi/processes.h`: the mappings are not known yet.
pub(crate) const PROC_NEW: u16 = 1;
/// Flag `PROC_WAKER` of `bpf/abi/processes.h`: the process only wakes recorded threads.
pub(crate) const PROC_WAKER: u16 = 4;
/// Flag `PROC_OTHER_KERNEL_STACKS` of `bpf/abi/processes.h`: for kernel frames the process does not follow the default.
pub(crate) const PROC_OTHER_KERNEL_STACKS: u16 = 8;

/// A process as the programs know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedProcess {
    /// Its number in the agent's PID namespace.
    pub pid: u32,
    /// See [`KernelProcess::exec_id`](crate::KernelProcess::exec_id).
    pub exec_id: u64,
    /// See [`KernelProcess::waker_only`](crate::KernelProcess::waker_only).
    pub waker_only: bool,
}

/// The bytes of a `struct proc`. `python` is 0, or the number of its interpreter.
pub(crate) fn proc_bytes(
    (mappings, count): (u32, u32),
    generation: u32,
    flags: u16,
    python: u16,
    exec_id: u64,
    epoch: u32,
) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&mappings.to_ne_bytes());
    bytes[4..8].copy_from_slice(&count.to_ne_bytes());
    bytes[8..12].copy_from_slice(&generation.to_ne_bytes());
    bytes[12..14].copy_from_slice(&flags.to_ne_bytes());
    bytes[14..16].copy_from_slice(&python.to_ne_bytes());
    bytes[16..24].copy_from_slice(&exec_id.to_ne_bytes());
    bytes[24..28].copy_from_slice(&epoch.to_ne_bytes());
    bytes
}

/// The last epoch in which a program took a stack of it, in the bytes of a `struct proc`.
pub(crate) fn proc_epoch(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(std::mem::offset_of!(types::proc, epoch)..)?.first_chunk()?))
}

/// The `exec_id` in the bytes of a `struct proc`.
pub(crate) fn proc_exec_id(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(std::mem::offset_of!(types::proc, exec_id)..)?.first_chunk()?))
}

/// The generation in the bytes of a `struct proc`.
pub(crate) fn proc_generation(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(std::mem::offset_of!(types::proc, generation)..)?.first_chunk()?))
}

/// The flags in the bytes of a `struct proc`.
pub(crate) fn proc_flags(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(FLAGS_AT..)?.first_chunk()?))
}

/// The same `struct proc` with other flags.
pub(crate) fn with_flags(mut bytes: Vec<u8>, flags: u16) -> Option<Vec<u8>> {
    bytes.get_mut(FLAGS_AT..)?.first_chunk_mut::<2>().map(|at| *at = flags.to_ne_bytes())?;
    Some(bytes)
}

/// The number of the interpreter in the bytes of a `struct proc`.
pub(crate) fn proc_python(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(PYTHON_AT..)?.first_chunk()?))
}

/// The same `struct proc` with another interpreter.
pub(crate) fn with_python(mut bytes: Vec<u8>, python: u16) -> Option<Vec<u8>> {
    bytes.get_mut(PYTHON_AT..)?.first_chunk_mut::<2>().map(|at| *at = python.to_ne_bytes())?;
    Some(bytes)
}

const PYTHON_AT: usize = std::mem::offset_of!(types::proc, python);

const FLAGS_AT: usize = std::mem::offset_of!(types::proc, flags);

/// Decodes a key and a value of the map `procs`.
pub(crate) fn recorded_process(key: &[u8], value: &[u8]) -> Option<RecordedProcess> {
    let flags = proc_flags(value)?;
    let pid = u32::from_ne_bytes(*key.first_chunk()?);
    Some(RecordedProcess { pid, exec_id: proc_exec_id(value)?, waker_only: flags & PROC_WAKER != 0 })
}

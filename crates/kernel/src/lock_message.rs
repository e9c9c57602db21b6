//! Waits for locks as the programs tell them: what a key of their sums stands for.

use crate::abi::skeleton::types::{self, lock_kind};
use crate::headers::Header;
use crate::sum_key::Event;

/// How threads wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockKind {
    /// By `FUTEX_WAIT`.
    Wait = lock_kind::LOCK_WAIT.0 as isize,
    /// By `FUTEX_WAIT_BITSET`.
    WaitBitset = lock_kind::LOCK_BITSET.0 as isize,
    /// By `FUTEX_LOCK_PI`: the kernel knows the owner.
    PriorityInheritance = lock_kind::LOCK_PI.0 as isize,
    /// A goroutine waits, not its thread.
    Goroutine = lock_kind::LOCK_GO.0 as isize,
    /// For a spinlock of the kernel.
    KernelSpin = lock_kind::LOCK_KERNEL_SPIN.0 as isize,
    /// For one that many may read.
    KernelReadWrite = lock_kind::LOCK_KERNEL_RWLOCK.0 as isize,
    /// For a mutex of the kernel.
    KernelMutex = lock_kind::LOCK_KERNEL_MUTEX.0 as isize,
    /// For a semaphore of the kernel that many may read.
    KernelReadWriteSemaphore = lock_kind::LOCK_KERNEL_RWSEM.0 as isize,
    /// For a mutex of the kernel with priority inheritance.
    KernelRealTime = lock_kind::LOCK_KERNEL_RT.0 as isize,
    /// For a semaphore of the kernel that each CPU may read by itself.
    KernelPerCpu = lock_kind::LOCK_KERNEL_PERCPU.0 as isize,
    /// For a counting semaphore of the kernel.
    KernelSemaphore = lock_kind::LOCK_KERNEL_SEMAPHORE.0 as isize,
}

impl LockKind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Wait,
        Self::WaitBitset,
        Self::PriorityInheritance,
        Self::Goroutine,
        Self::KernelSpin,
        Self::KernelReadWrite,
        Self::KernelMutex,
        Self::KernelReadWriteSemaphore,
        Self::KernelRealTime,
        Self::KernelPerCpu,
        Self::KernelSemaphore,
    ];

    /// Whether it is a lock of the kernel.
    #[must_use]
    pub fn is_of_kernel(self) -> bool {
        self as u32 >= Self::KernelSpin as u32
    }
}

/// What the waits have in common whose sums come under one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockMessage {
    /// Key of the sums.
    pub hash: u64,
    /// [`Event::Lock`], or [`Event::LockLength`] if the waits have a length in common, and no owner and waker.
    pub event: Event,
    /// Process of the waiter, in the agent's PID namespace.
    pub pid: u32,
    /// See `KernelProcess::exec_id`.
    pub exec_id: u64,
    /// Key of the waiter's stack.
    pub stack: u64,
    /// Key of the stack of the thread that held the lock when the wait began, if that is known.
    pub owner: Option<u64>,
    /// Key of the stack that ended the wait, if that is known.
    pub waker: Option<u64>,
    /// The waker let go of the lock, as by a futex call on the same address: it held the lock last, or signalled.
    pub released: bool,
    /// Address of the lock in the process.
    pub address: u64,
    /// How threads wait for it.
    pub kind: LockKind,
    /// Threads of other processes may wait for it too.
    pub shared: bool,
    /// The number of the bucket of the lengths: see `LENGTH_SUB_SHIFT` of `bpf/abi/messages.h`.
    pub bucket: Option<u32>,
}

impl LockMessage {
    /// None: it has an unknown number.
    pub(crate) fn new(header: &Header, lock: &[u8; size_of::<types::lock_wait>()]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_ne_bytes(*lock.get(at..)?.first_chunk()?));
        let half = |at: usize| Some(u32::from_ne_bytes(*lock.get(at..)?.first_chunk()?));
        let known = |key: u64| (key != 0).then_some(key);
        use std::mem::offset_of;
        let marked = half(offset_of!(types::lock_wait, kind))?;
        let kind = marked & !lock_kind::LOCK_SHARED.0;
        Some(Self {
            hash: header.hash,
            event: Event::try_from(u32::from(header.event)).ok()?,
            pid: header.pid,
            exec_id: header.exec_id,
            stack: word(offset_of!(types::lock_wait, stack))?,
            owner: known(word(offset_of!(types::lock_wait, owner))?),
            waker: known(word(offset_of!(types::lock_wait, waker))?),
            released: half(offset_of!(types::lock_wait, released))? != 0,
            address: word(offset_of!(types::lock_wait, address))?,
            kind: LockKind::ALL.into_iter().find(|known| *known as u32 == kind)?,
            shared: marked != kind,
            bucket: half(offset_of!(types::lock_wait, length))?.checked_sub(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::decode_message;
    use crate::{Message, State};

    /// A message as the programs send it, with this kind and this length.
    fn message(event: Event, kind: u32, length: u32) -> Vec<u8> {
        let lock = types::lock_wait {
            stack: 1,
            owner: 0,
            waker: 3,
            address: 0x7f00,
            kind,
            released: 1,
            length,
            ..types::lock_wait::default()
        };
        let head = types::section {
            kind: types::section_kind::SECTION_LOCK.0 as u16,
            bytes: size_of_val(&lock) as u32,
            ..types::section::default()
        };
        let message = types::message {
            kind: crate::headers::MESSAGE_LOCK,
            pid: 70,
            hash: 99,
            exec_id: 5,
            bytes: (size_of_val(&head) + size_of_val(&lock)) as u32,
            state: State::Blocked as u16,
            event: event as u16,
            ..types::message::default()
        };
        let words = |of: &[u32]| of.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let long = |of: &[u64]| of.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let halves = u32::from(message.state) | u32::from(message.event) << 16;
        [
            words(&[message.kind, message.pid, message.tid, message.end]),
            long(&[message.hash, message.exec_id]),
            words(&[message.bytes, halves]),
            vec![0; 16],
            long(&[0]),
            words(&[u32::from(head.kind), head.bytes]),
            long(&[lock.stack, lock.owner, lock.waker, lock.address]),
            words(&[lock.kind, lock.released, lock.length, 0]),
        ]
        .concat()
    }

    #[test]
    fn waits_for_a_lock_are_told_whole_or_refused() {
        let Some(Message::Lock(lock)) = decode_message(&message(Event::Lock, 3, 0)) else {
            panic!("refused")
        };
        assert_eq!((lock.hash, lock.pid, lock.exec_id, lock.event), (99, 70, 5, Event::Lock));
        assert_eq!((lock.stack, lock.owner, lock.waker, lock.released), (1, None, Some(3), true));
        assert_eq!((lock.address, lock.kind, lock.bucket), (0x7f00, LockKind::PriorityInheritance, None));
        let Some(Message::Lock(of_length)) = decode_message(&message(Event::LockLength, 1, 1)) else {
            panic!("refused")
        };
        assert_eq!((of_length.event, of_length.bucket), (Event::LockLength, Some(0)));
        let Some(Message::Lock(shared)) = decode_message(&message(Event::Lock, 0x101, 0)) else {
            panic!("refused")
        };
        assert_eq!((shared.kind, shared.shared, lock.shared), (LockKind::Wait, true, false));
        for kind in [0, 12, 0x10c, 0x201] {
            assert_eq!(decode_message(&message(Event::Lock, kind, 0)), None, "kind {kind}");
        }
    }
}

//! What the kernel side and clocks say, in the terms of the recording.
//!
//! `State`, `WalkEnd` and `Counters` exist in both crates. Those of `kernel` have the numbers of the programs, those of `recording` are
//! encoded in files, and `recording` knows no kernel, so either can change without the other.

use std::time::{SystemTime, UNIX_EPOCH};

use recording::{
    Attached, Counters, EventId, KernelLock, LockKind, Object, Occurrence, PythonCounter, PythonWalks, Role,
    State, Values, WalkEnd,
};

/// The event that a key counts. The programs make no key with an unknown number.
pub(crate) fn event_of_key(hash: u64) -> EventId {
    event(kernel::Event::of_key(hash).unwrap_or(kernel::Event::Clock))
}

/// An event of the programs in the recordings of a capture.
pub(crate) fn event(event: kernel::Event) -> EventId {
    match event {
        kernel::Event::Scheduler => EventId(1),
        kernel::Event::Lock => EventId::LOCKS,
        kernel::Event::LockLength => EventId::LOCK_LENGTHS,
        sampled => EventId::sampled(sampled.sampled_number().unwrap_or_default()),
    }
}

/// A lock with the further stacks of waits for it, by their keys.
pub(crate) fn lock(message: &kernel::LockMessage) -> Attached {
    let kind = match message.kind {
        kernel::LockKind::WaitBitset => LockKind::WaitBitset,
        kernel::LockKind::PriorityInheritance => LockKind::PriorityInheritance,
        kernel::LockKind::Goroutine => LockKind::Goroutine,
        kernel::LockKind::KernelSpin => LockKind::Kernel(KernelLock::Spin),
        kernel::LockKind::KernelReadWrite => LockKind::Kernel(KernelLock::ReadWrite),
        kernel::LockKind::KernelMutex => LockKind::Kernel(KernelLock::Mutex),
        kernel::LockKind::KernelReadWriteSemaphore => LockKind::Kernel(KernelLock::ReadWriteSemaphore),
        kernel::LockKind::KernelRealTime => LockKind::Kernel(KernelLock::RealTime),
        kernel::LockKind::KernelPerCpu => LockKind::Kernel(KernelLock::PerCpu),
        kernel::LockKind::KernelSemaphore => LockKind::Kernel(KernelLock::Semaphore),
        _ => LockKind::Wait,
    };
    let waker = if message.released { Role::Releaser } else { Role::Waker };
    let links = [(Role::Owner, message.owner), (waker, message.waker)];
    Attached {
        links: links.into_iter().filter_map(|(role, key)| Some((role, key?))).collect(),
        object: Some(Object { address: message.address, lock: Some(kind) }),
        time_bin: message.bucket,
    }
}

/// The end of a walk.
pub(crate) fn walk_end(end: kernel::WalkEnd) -> WalkEnd {
    match end {
        kernel::WalkEnd::Root => WalkEnd::Root,
        kernel::WalkEnd::NoMapping => WalkEnd::NoMapping,
        kernel::WalkEnd::NoRow => WalkEnd::NoRow,
        kernel::WalkEnd::UnsupportedRule => WalkEnd::UnsupportedRule,
        kernel::WalkEnd::FpChain => WalkEnd::FpChain,
        kernel::WalkEnd::Fault => WalkEnd::Fault,
        kernel::WalkEnd::FrameLimit => WalkEnd::FrameLimit,
        kernel::WalkEnd::TableNotReady => WalkEnd::TableNotReady,
        kernel::WalkEnd::StackSwitch => WalkEnd::StackSwitch,
        kernel::WalkEnd::Code32Bit => WalkEnd::Code32Bit,
        kernel::WalkEnd::ZeroFrame => WalkEnd::ZeroFrame,
        kernel::WalkEnd::NoRegisters => WalkEnd::NoRegisters,
        kernel::WalkEnd::NoUserStack => WalkEnd::NoUserStack,
        kernel::WalkEnd::Exiting => WalkEnd::Exiting,
    }
}

/// What a thread was doing.
pub(crate) fn state(state: kernel::State) -> State {
    match state {
        kernel::State::Sampled => State::Sampled,
        kernel::State::Blocked => State::Blocked,
        kernel::State::IoWait => State::IoWait,
        kernel::State::Preempted => State::Preempted,
        kernel::State::OnCpu => State::OnCpu,
        kernel::State::Waker => State::Waker,
        kernel::State::WakerInSoftirq => State::WakerInSoftirq,
        kernel::State::NotRunYet => State::NotRunYet,
        kernel::State::Freed => State::Freed,
    }
}

/// What the further stack of a message has to do with it.
fn role(role: kernel::Role) -> Option<Role> {
    match role {
        kernel::Role::Waker => Some(Role::Waker),
        kernel::Role::Owner => Some(Role::Owner),
        _ => None,
    }
}

/// What a message tells of a stack besides its frames; `None` if that is nothing.
pub(crate) fn attached(attached: &kernel::Attached) -> Option<Attached> {
    let links = attached.links.iter().filter_map(|link| Some((role(link.role)?, link.key))).collect();
    let object = attached.object.map(|address| Object { address, lock: None });
    let attached = Attached { links, object, time_bin: attached.time_bin };
    (attached != Attached::default()).then_some(attached)
}

/// The sums of one stack.
pub(crate) fn sums(sums: kernel::Sums) -> Values {
    Values(sums.values)
}

// Both sides have the same slots.
const _: () = assert!(recording::VALUE_SLOTS == kernel::VALUE_SLOTS);

/// A single sample, or a single interval with its time.
pub(crate) fn occurrence(sample: &kernel::SingleSample) -> Occurrence {
    Occurrence {
        time_ns: sample.time_ns,
        cpu: sample.at.cpu,
        tid: sample.tid,
        interval: sample.at.side_changes,
        waker: sample.waker,
        values: match sample.event {
            kernel::Event::Scheduler => std::iter::once(1).chain(sample.values).collect(),
            _ => sample.values.to_vec(),
        },
    }
}

/// The same of a sample that was walked in user space.
pub(crate) fn walked_occurrence(
    stack: &kernel::StackMessage,
    at: kernel::SampledAt,
    value: u64,
) -> Occurrence {
    Occurrence {
        time_ns: stack.time_ns,
        cpu: at.cpu,
        tid: stack.tid,
        interval: at.side_changes,
        waker: None,
        // It is one sample.
        values: vec![1, value],
    }
}

/// What programs counted about walks of Python frames.
fn python(walks: &kernel::PythonWalks) -> PythonWalks {
    PythonCounter::NAMES.map(|(_, counter)| match counter {
        PythonCounter::Root => walks.walks(kernel::PythonEnd::Root),
        PythonCounter::NoState => walks.walks(kernel::PythonEnd::NoState),
        PythonCounter::OtherThread => walks.walks(kernel::PythonEnd::OtherThread),
        PythonCounter::Fault => walks.walks(kernel::PythonEnd::Fault),
        PythonCounter::Limit => walks.walks(kernel::PythonEnd::Limit),
        PythonCounter::NoFrame => walks.walks(kernel::PythonEnd::NoFrame),
        PythonCounter::Open => walks.walks(kernel::PythonEnd::Open),
        PythonCounter::HalfLinked => walks.half_linked,
        PythonCounter::CodeSent => walks.codes_sent,
        PythonCounter::CodeUnsent => walks.codes_unsent,
        PythonCounter::CodeUnreadable => walks.codes_unreadable,
    })
}

/// What programs counted.
pub(crate) fn counters(counters: &kernel::Counters) -> Counters {
    let mut walks = [0; WalkEnd::ALL.len()];
    for end in kernel::WalkEnd::ALL {
        walks[walk_end(end) as usize] = counters.walks(end);
    }
    Counters {
        samples: counters.samples,
        lost_ring_full: counters.lost_ring_full,
        lost_map_full: counters.lost_map_full,
        lost_no_memory: counters.lost_no_memory,
        lost_busy: counters.lost_busy,
        lost_unseen: counters.lost_unseen,
        outside_namespace: counters.outside_namespace,
        memo_hits: counters.memo_hits,
        memo_checked: counters.memo_checked,
        memo_differed: counters.memo_differed,
        frames: counters.frames,
        frames_walked: counters.frames_walked,
        stacks_sent: counters.stacks_sent,
        deferred: counters.deferred,
        requests_lost: counters.requests_lost,
        processes_lost: counters.processes_lost,
        threads_lost: counters.threads_lost,
        skipped_min_block: counters.skipped_min_block,
        skipped_min_block_ns: counters.skipped_min_block_ns,
        wakers_lost: counters.wakers_lost,
        lifetime_ns: counters.lifetime_ns,
        leaves_undecided: counters.leaves_undecided,
        seams_lost: counters.seams_lost,
        lock_waits: counters.lock_waits,
        locks_lost: counters.locks_lost,
        owners_lost: counters.owners_lost,
        lengths_lost: counters.lengths_lost,
        unsent_of_process: counters.unsent_of_process,
        unsent_of_machine: counters.unsent_of_machine,
        unsent_ring_full: counters.unsent_ring_full,
        values_unreadable: counters.values_unreadable,
        values_negative: counters.values_negative,
        python: python(&counters.python),
        walks,
    }
}

/// A time as ns since the epoch.
pub(crate) fn since_epoch_ns(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;

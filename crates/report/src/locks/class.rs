//! What kind of lock threads wait for, by the functions above the system call.

use recording::{KernelLock, LockKind};

/// What kind of lock threads wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LockClass {
    /// One thread has it, the others wait.
    Mutex,
    /// The same, where each waiting thread sleeps on a word of its own: monitors of the JVM, mutexes of parking_lot, locks of PostgreSQL.
    Monitor,
    /// Many readers have it, or one writer.
    ReadWrite,
    /// The lock of an interpreter: one thread runs code of the language.
    Interpreter,
    /// A lock of a runtime itself.
    Runtime,
    /// Threads wait until another one has initialized something.
    Once,
    /// Threads wait for another one to signal.
    Condition,
    /// Threads wait for another one to post.
    Semaphore,
    /// Threads wait until all of them are there.
    Barrier,
    /// A thread waits for the end of another one.
    Join,
    /// A thread waits to be unparked.
    Parker,
    /// A thread of Go's scheduler without work.
    Idle,
    /// Goroutines wait until others are done.
    WaitGroup,
    /// Goroutines send to a channel or receive from one.
    Channel,
    /// Goroutines wait for one of several channels.
    Select,
    /// A lock of the kernel whose waiters spin.
    KernelSpin,
    /// The same: many readers have it, or one writer.
    KernelSpinReadWrite,
    /// A mutex of the kernel.
    KernelMutex,
    /// A semaphore of the kernel that many readers have, or one writer.
    KernelReadWrite,
    /// A mutex of the kernel with priority inheritance.
    KernelRealTime,
    /// A semaphore of the kernel that each CPU reads by itself.
    KernelPerCpu,
    /// A counting semaphore of the kernel.
    KernelSemaphore,
    /// None of these is known of it.
    Other,
}

use LockClass::{
    Barrier, Channel, Condition, Idle, Interpreter, Join, KernelMutex, KernelPerCpu, KernelReadWrite,
    KernelRealTime, KernelSemaphore, KernelSpin, KernelSpinReadWrite, Monitor, Mutex, Once, Other, Parker,
    ReadWrite, Runtime, Select, Semaphore, WaitGroup,
};

impl LockClass {
    /// As reports name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mutex => "mutex",
            Monitor => "monitor",
            ReadWrite => "rwlock",
            Interpreter => "interpreter lock",
            Runtime => "runtime lock",
            Once => "once",
            Condition => "condition",
            Semaphore => "semaphore",
            Barrier => "barrier",
            Join => "join",
            Parker => "parker",
            Idle => "idle",
            WaitGroup => "wait group",
            Channel => "channel",
            Select => "select",
            KernelSpin => "kernel spinlock",
            KernelSpinReadWrite => "kernel rwlock",
            KernelMutex => "kernel mutex",
            KernelReadWrite => "kernel rwsem",
            KernelRealTime => "kernel rt-mutex",
            KernelPerCpu => "kernel percpu-rwsem",
            KernelSemaphore => "kernel semaphore",
            Other => "futex",
        }
    }

    /// Whether a thread holds it while others wait: its waits are contention. Of the others, most waits are for work.
    #[must_use]
    pub fn is_held(self) -> bool {
        matches!(self, Mutex | Monitor | ReadWrite | Interpreter | Runtime | Once) || self.is_of_kernel()
    }

    /// Whether it is a lock of the kernel.
    #[must_use]
    pub fn is_of_kernel(self) -> bool {
        matches!(
            self,
            KernelSpin
                | KernelSpinReadWrite
                | KernelMutex
                | KernelReadWrite
                | KernelRealTime
                | KernelPerCpu
                | KernelSemaphore
        )
    }

    fn of_kernel(lock: KernelLock) -> Self {
        match lock {
            KernelLock::Spin => KernelSpin,
            KernelLock::ReadWrite => KernelSpinReadWrite,
            KernelLock::Mutex => KernelMutex,
            KernelLock::ReadWriteSemaphore => KernelReadWrite,
            KernelLock::RealTime => KernelRealTime,
            KernelLock::PerCpu => KernelPerCpu,
            KernelLock::Semaphore => KernelSemaphore,
        }
    }

    /// Whether its address tells nothing, because each thread waits on a word of its own, or for something else of other threads.
    pub(super) fn is_told_by_place(self) -> bool {
        self == Monitor || !self.is_held()
    }
}

/// How a name is compared.
enum Name {
    /// It is this one, whatever underscores it begins with.
    Is(&'static str),
    /// It begins so, after its underscores.
    Begins(&'static str),
    /// It has this in it.
    Has(&'static str),
}

use Name::{Begins, Has, Is};

/// The functions by which threads wait. Of the functions of a stack, the outermost one that is here decides: `take_gil` waits by a
/// condition, and is the lock of an interpreter.
const FUNCTIONS: &[(Name, LockClass)] = &[
    // glibc, musl
    (Begins("lll_lock_wait"), Mutex),
    (Begins("pthread_mutex_"), Mutex),
    (Is("GI___pthread_mutex_lock"), Mutex),
    (Is("GI___lll_lock_wait"), Mutex),
    (Begins("pthread_rwlock_"), ReadWrite),
    (Begins("pthread_cond_"), Condition),
    (Is("cnd_wait"), Condition),
    (Is("cnd_timedwait"), Condition),
    (Is("sem_wait"), Semaphore),
    (Is("sem_timedwait"), Semaphore),
    (Is("sem_clockwait"), Semaphore),
    (Begins("new_sem_wait"), Semaphore),
    (Begins("old_sem_wait"), Semaphore),
    (Begins("pthread_join"), Join),
    (Begins("pthread_timedjoin"), Join),
    (Begins("pthread_clockjoin"), Join),
    (Is("thrd_join"), Join),
    (Begins("pthread_barrier_wait"), Barrier),
    (Begins("pthread_once"), Once),
    (Is("call_once"), Once),
    (Begins("cxa_guard_acquire"), Once),
    // C++
    (Begins("std::mutex::lock"), Mutex),
    (Begins("std::condition_variable"), Condition),
    (Begins("std::thread::join"), Join),
    (Has("atomic_futex_unsigned"), Condition),
    (Begins("absl::Mutex::Await"), Condition),
    (Begins("absl::CondVar"), Condition),
    (Begins("absl::Mutex"), Mutex),
    // Rust
    (Has("::sync::mutex::futex::Mutex::lock"), Mutex),
    (Has("::rwlock::futex::RwLock"), ReadWrite),
    (Has("::sync::condvar::futex::Condvar"), Condition),
    (Has("::sync::once::futex::Once"), Once),
    (Has("::sys::sync::once::"), Once),
    (Has("thread_parking::"), Parker),
    (Begins("std::thread::park"), Parker),
    (Has("JoinInner"), Join),
    (Has("::thread::Thread::join"), Join),
    (Has("::thread::unix::Thread::join"), Join),
    (Has("RawMutex::lock"), Monitor),
    (Has("raw_mutex::RawMutex"), Monitor),
    (Has("raw_rwlock::RawRwLock"), Monitor),
    (Has("parking_lot::condvar::Condvar"), Condition),
    (Has("runtime::park::"), Parker),
    (Has("multi_thread::park::"), Parker),
    // CPython, and its module threading
    (Is("Condition.wait"), Condition),
    (Is("Event.wait"), Condition),
    (Is("Barrier.wait"), Barrier),
    (Is("Semaphore.acquire"), Semaphore),
    (Is("Thread.join"), Join),
    (Is("Thread._wait_for_tstate_lock"), Join),
    (Is("take_gil"), Interpreter),
    (Begins("PyMutex_Lock"), Mutex),
    (Begins("PyThread_acquire_lock"), Mutex),
    // The JVM
    (Begins("ObjectMonitor::enter"), Monitor),
    (Has("ObjectMonitor::EnterI"), Monitor),
    (Begins("ObjectMonitor::wait"), Condition),
    (Begins("PlatformMonitor::wait"), Condition),
    (Begins("Monitor::wait"), Condition),
    (Begins("MonitorLocker::wait"), Condition),
    (Begins("JVM_MonitorWait"), Condition),
    (Begins("PosixSemaphore::wait"), Semaphore),
    (Begins("Semaphore::wait"), Semaphore),
    (Begins("Mutex::lock"), Mutex),
    (Begins("Parker::park"), Parker),
    (Is("Unsafe_Park"), Parker),
    // Go: threads, then goroutines
    (Is("runtime.lock2"), Runtime),
    (Has("sync.(*RWMutex)."), ReadWrite),
    (Has("sync.(*Mutex)."), Mutex),
    (Begins("internal/poll.(*fdMutex)."), Mutex),
    (Has("sync.(*Once)."), Once),
    (Begins("sync.(*WaitGroup)."), WaitGroup),
    (Is("runtime.notifyListWait"), Condition),
    (Is("sync.runtime_notifyListWait"), Condition),
    (Is("runtime.chanrecv"), Channel),
    (Is("runtime.chansend"), Channel),
    (Is("runtime.selectgo"), Select),
    (Is("runtime.block"), Select),
    (Is("runtime.semacquire1"), Semaphore),
    (Is("runtime.mPark"), Idle),
    (Is("runtime.stopm"), Idle),
    (Is("runtime.notesleep"), Idle),
    (Begins("runtime.notetsleep"), Idle),
    (Begins("runtime.futexsleep"), Idle),
    // PostgreSQL, MariaDB and MySQL, libuv
    (Begins("LWLockAcquire"), Monitor),
    (Begins("rw_lock_"), ReadWrite),
    (Begins("uv_mutex_lock"), Mutex),
    (Begins("uv_cond_"), Condition),
    (Begins("uv_sem_wait"), Semaphore),
];

/// Functions that decide whatever calls them: a thread that was signalled takes the mutex of its condition again.
const DECISIVE: &[(Name, LockClass)] = &[
    (Begins("pthread_mutex_cond_lock"), Mutex),
    (Begins("condvar_acquire_lock"), Mutex),
    (Is("Condition._acquire_restore"), Mutex),
];

/// Functions of an interpreter between those of a program.
const GLUE: &[Name] = &[
    Begins("PyObject_"),
    Begins("PyEval_EvalFrame"),
    Begins("PyEval_Vector"),
    Begins("PyFunction_Vectorcall"),
    Begins("PyVectorcall_"),
    Begins("PyIter_"),
    Begins("method_vectorcall"),
    Begins("cfunction_"),
    Begins("object_vacall"),
    Begins("slot_tp_call"),
    Is("Interpreter"),
    Begins("gen_send_ex"),
    Begins("gen_iternext"),
];

/// Names of functions that lead from the functions above to the system call, or belong to the same libraries.
const INNER: &[Name] = &[
    Is("syscall"),
    Begins("futex_"),
    Begins("lll_"),
    Begins("do_futex"),
    Begins("syscall_c"),
    Begins("timedwait"),
    Begins("new_sem_post"),
    Begins("PyThread_release_lock"),
    Begins("lock_PyThread_release_lock"),
    Begins("drop_gil"),
    Begins("PyEval_SaveThread"),
    Is("sem_post"),
    Begins("libc_"),
    Begins("GI_"),
    Begins("gthread_"),
    Begins("std::sys::"),
    Begins("std::sync::"),
    Begins("std::thread::Thread"),
    Begins("std::thread::JoinHandle"),
    Begins("std::unique_lock"),
    Begins("std::lock_guard"),
    Begins("std::scoped_lock"),
    Begins("std::this_thread"),
    Begins("lock_api::"),
    Begins("parking_lot"),
    Begins("std::_"),
    Begins("PyEval_RestoreThread"),
    Begins("PyEval_AcquireThread"),
    Begins("PyThreadState_Attach"),
    Begins("PySemaphore_"),
    Begins("PyParkingLot_"),
    Begins("PyMutex_"),
    Is("acquire_timed"),
    Begins("lock_PyThread_acquire_lock"),
    Begins("lock_acquire"),
    Begins("PGSemaphoreLock"),
    Begins("os::Linux"),
    Begins("os::Posix"),
    Begins("ObjectMonitor::"),
    Begins("ObjectSynchronizer::"),
    Begins("complete_monitor_locking"),
    Begins("os::PlatformEvent::"),
    Begins("SharedRuntime::"),
    Begins("InterpreterRuntime::"),
    Begins("Runtime1::"),
    Begins("PlatformEvent::"),
    Begins("ParkEvent"),
    Begins("LWLock"),
    Begins("runtime."),
    Has("sync.runtime_"),
    Begins("sync.(*Cond)."),
    Begins("internal/poll.runtime_"),
];

/// Functions of the kernel by which threads wait for its locks.
const OF_KERNEL: &[Name] = &[
    Begins("queued_spin_lock_slowpath"),
    Begins("native_queued_spin_lock_slowpath"),
    Begins("pv_queued_spin_lock_slowpath"),
    Begins("resilient_queued_spin_lock_slowpath"),
    Begins("queued_read_lock_slowpath"),
    Begins("queued_write_lock_slowpath"),
    Begins("pv_spin_lock"),
    Begins("raw_spin_lock"),
    Begins("raw_spin_trylock"),
    Begins("raw_read_lock"),
    Begins("raw_write_lock"),
    Begins("raw_res_spin_lock"),
    Begins("mutex_lock"),
    Begins("ww_mutex_lock"),
    Begins("rwsem_"),
    Begins("down_read"),
    Begins("down_write"),
    Begins("rt_mutex_"),
    Begins("rtlock_"),
    Begins("rt_spin_lock"),
    Begins("percpu_down_"),
    Begins("percpu_rwsem_"),
    Begins("down"),
    Begins("do_trace_contention_"),
    Begins("trace_contention_"),
];

/// Functions of the C library from which threads and programs begin: they tell nothing.
const OUTERMOST: &[Name] = &[
    Is("start"),
    Begins("libc_start_"),
    Is("start_thread"),
    Is("clone"),
    Is("clone3"),
    Begins("pthread_create"),
    Is("runtime.goexit"),
];

impl Name {
    fn is_of(&self, name: &str) -> bool {
        let bare = name.trim_start_matches('_');
        match self {
            Self::Is(whole) => bare == *whole,
            Self::Begins(begin) => bare.starts_with(begin),
            Self::Has(part) => name.contains(part),
        }
    }
}

/// The kind of lock by the names of the functions of a waiter, innermost first, or by the call.
pub(super) fn class_of<'a>(
    names: impl Iterator<Item = &'a str>,
    has_owner: bool,
    kind: Option<LockKind>,
) -> LockClass {
    if let Some(LockKind::Kernel(lock)) = kind {
        return LockClass::of_kernel(lock);
    }
    deciding(names).map(|(_, class)| class).unwrap_or(match kind {
        _ if has_owner => Mutex,
        Some(LockKind::Goroutine) => Semaphore,
        Some(LockKind::PriorityInheritance | LockKind::Wait) => Mutex,
        _ => Other,
    })
}

/// Functions from the call on that may tell. Farther out, a function of these names only called something that waits.
const MAX_FUNCTIONS: usize = 16;

/// The position of the function that tells the kind of lock, and this kind.
fn deciding<'a>(names: impl Iterator<Item = &'a str>) -> Option<(usize, LockClass)> {
    let mut found = None;
    for (at, name) in names.take(MAX_FUNCTIONS).enumerate() {
        if let Some(class) = look_up(DECISIVE, name) {
            return Some((at, class));
        }
        found = look_up(FUNCTIONS, name).map(|class| (at, class)).or(found);
    }
    found
}

fn look_up(table: &[(Name, LockClass)], name: &str) -> Option<LockClass> {
    table.iter().find(|(pattern, _)| pattern.is_of(name)).map(|(_, class)| *class)
}

/// How many functions of a stack, innermost first, belong to a lock rather than to the program that waits for it or lets it go.
pub(super) fn of_lock(names: &[String]) -> usize {
    let decided = deciding(names.iter().map(String::as_str)).map_or(0, |(at, _)| at + 1);
    let is_of_lock =
        |name: &String| look_up(FUNCTIONS, name).is_some() || INNER.iter().any(|pattern| pattern.is_of(name));
    decided + names[decided..].iter().take_while(|name| is_of_lock(name)).count()
}

/// How many functions of a stack that begins in the kernel, innermost first, wait for a lock of the kernel.
pub(super) fn of_kernel_lock(names: &[String]) -> usize {
    names.iter().take_while(|name| OF_KERNEL.iter().any(|pattern| pattern.is_of(name))).count()
}

/// Whether a function stands between those of a program because an interpreter runs it.
pub(super) fn is_glue(name: &str) -> bool {
    GLUE.iter().any(|pattern| pattern.is_of(name))
}

/// Whether threads begin with this function, whatever they do.
pub(super) fn is_outermost(name: &str) -> bool {
    OUTERMOST.iter().any(|pattern| pattern.is_of(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_function_that_is_known_decides() {
        let class = |names: &str, kind| class_of(names.split(' '), false, kind);
        for (names, expected) in [
            ("__lll_lock_wait ___pthread_mutex_lock lookup main", Mutex),
            ("__futex_abstimed_wait_common ___pthread_cond_wait worker", Condition),
            (
                "__futex_abstimed_wait_common pthread_cond_timedwait take_gil PyEval_RestoreThread f",
                Interpreter,
            ),
            ("__new_sem_wait_slow64.constprop.0 worker", Semaphore),
            ("__pthread_clockjoin_ex main", Join),
            (
                "std::sys::pal::unix::futex::futex_wait std::sys::sync::mutex::futex::Mutex::lock_contended f",
                Mutex,
            ),
            ("futex_wait std::sys::sync::thread_parking::futex::Parker::park std::thread::park f", Parker),
            ("___pthread_cond_wait Parker::park Unsafe_Park [jit]", Parker),
            (
                "runtime.semacquire1 internal/sync.runtime_SemacquireMutex internal/sync.(*Mutex).lockSlow internal/sync.(*Mutex).Lock \
                 sync.(*Mutex).Lock main.f",
                Mutex,
            ),
            ("runtime.semacquire1 sync.runtime_SemacquireRWMutexR sync.(*RWMutex).RLock main.f", ReadWrite),
            (
                "runtime.semacquire1 sync.(*Mutex).lockSlow sync.(*Mutex).Lock sync.(*RWMutex).Lock main.f",
                ReadWrite,
            ),
            ("runtime.semacquire1 sync.runtime_SemacquireWaitGroup sync.(*WaitGroup).Wait main.f", WaitGroup),
            ("sync.runtime_notifyListWait sync.(*Cond).Wait main.f", Condition),
            ("runtime.semacquire1 sync.(*Mutex).lockSlow sync.(*Mutex).Lock sync.(*Cond).Wait main.f", Mutex),
            ("runtime.chanrecv runtime.chanrecv1 main.f", Channel),
            ("runtime.selectgo main.f", Select),
            ("__lll_lock_wait __pthread_mutex_cond_lock ___pthread_cond_wait worker", Mutex),
            ("___pthread_cond_wait PlatformEvent::park ObjectMonitor::EnterI(JavaThread*) L.lookup", Monitor),
            ("PyThread_acquire_lock_timed Condition.wait Queue.get worker", Condition),
            ("runtime.futex runtime.futexsleep runtime.lock2 runtime.schedule", Runtime),
            ("runtime.futex runtime.futexsleep runtime.notesleep runtime.mPark", Idle),
        ] {
            assert_eq!(class(names, Some(LockKind::WaitBitset)), expected, "{names}");
        }
        let kinds =
            [Some(LockKind::Wait), Some(LockKind::WaitBitset), Some(LockKind::PriorityInheritance), None];
        assert_eq!(kinds.map(|kind| class("f main", kind)), [Mutex, Other, Mutex, Other]);
        assert_eq!(class_of("f".split(' '), true, Some(LockKind::WaitBitset)), Mutex, "it has an owner");
        let inner = |names: &str| of_lock(&names.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(inner("futex_wait f PyCOND_TIMEDWAIT take_gil PyEval_RestoreThread pysleep main"), 5);
        assert_eq!([inner("__new_sem_post give main"), inner("f main"), inner("")], [1, 0, 0]);
        let far_out = format!("{} pthread_mutex_lock", ["f"; MAX_FUNCTIONS].join(" "));
        assert_eq!(class(&far_out, None), Other);
    }
}

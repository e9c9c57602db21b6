//! `perf_event_open` and the ioctls of its descriptors.
//!
//! [`Attr`] is the kernel's `perf_event_attr` up to version 5 (112 bytes). All kernels from 4.8 on know all of it;
//! newer kernels treat the missing rest as zero.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `perf_event_attr`. The default is all zero except `size`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// `type`: [`TYPE_HARDWARE`], [`TYPE_SOFTWARE`], … or a number from `/sys/bus/event_source`.
    pub kind: u32,
    /// Size of this struct; the kernel reads it as the version.
    pub size: u32,
    /// Event within its type.
    pub config: u64,
    /// `sample_period`, or `sample_freq` in Hz with [`FREQ`].
    pub sample_period: u64,
    /// `PERF_SAMPLE_*` bits.
    pub sample_type: u64,
    /// `PERF_FORMAT_*` bits.
    pub read_format: u64,
    /// The bit field of the C struct: [`DISABLED`], [`FREQ`], …
    pub flags: u64,
    /// `wakeup_events`, or `wakeup_watermark` in bytes with the flag `watermark`.
    pub wakeup: u32,
    /// Kind of hardware breakpoint.
    pub bp_type: u32,
    /// `bp_addr`, `config1`, …
    pub config1: u64,
    /// `bp_len`, `config2`, …
    pub config2: u64,
    /// `PERF_SAMPLE_BRANCH_*` bits.
    pub branch_sample_type: u64,
    /// User registers in samples.
    pub sample_regs_user: u64,
    /// Bytes of user stack in samples.
    pub sample_stack_user: u32,
    /// Clock of the time stamps with [`USE_CLOCKID`].
    pub clockid: i32,
    /// Registers of the interrupted context in samples.
    pub sample_regs_intr: u64,
    /// Wake-up mark of the AUX area in bytes.
    pub aux_watermark: u32,
    /// Limit of frames in a sample's call chain.
    pub sample_max_stack: u16,
    /// Zero.
    pub reserved: u16,
}

const _: () = assert!(size_of::<Attr>() == 112);

impl Default for Attr {
    fn default() -> Self {
        Self {
            kind: 0,
            size: size_of::<Self>() as u32,
            config: 0,
            sample_period: 0,
            sample_type: 0,
            read_format: 0,
            flags: 0,
            wakeup: 0,
            bp_type: 0,
            config1: 0,
            config2: 0,
            branch_sample_type: 0,
            sample_regs_user: 0,
            sample_stack_user: 0,
            clockid: 0,
            sample_regs_intr: 0,
            aux_watermark: 0,
            sample_max_stack: 0,
            reserved: 0,
        }
    }
}

macro_rules! constants {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$doc])* pub const $name: $type = $value;)*
    };
}

constants! {
    /// Generic hardware events.
    TYPE_HARDWARE: u32 = 0;
    /// Events that the kernel counts itself.
    TYPE_SOFTWARE: u32 = 1;
    /// Generic cache events.
    TYPE_HW_CACHE: u32 = 3;
    /// Raw event numbers of the CPU.
    TYPE_RAW: u32 = 4;
    /// Of [`TYPE_HARDWARE`]: cycles.
    HW_CPU_CYCLES: u64 = 0;
    /// Of [`TYPE_SOFTWARE`]: a timer on each CPU.
    SW_CPU_CLOCK: u64 = 0;
    /// Of [`TYPE_SOFTWARE`]: counts nothing, gives only side-band records.
    SW_DUMMY: u64 = 9;

    /// Flag: start disabled.
    DISABLED: u64 = 1 << 0;
    /// Flag: also for children.
    INHERIT: u64 = 1 << 1;
    /// Flag: do not count user mode.
    EXCLUDE_USER: u64 = 1 << 4;
    /// Flag: do not count kernel mode.
    EXCLUDE_KERNEL: u64 = 1 << 5;
    /// Flag: do not count the hypervisor.
    EXCLUDE_HV: u64 = 1 << 6;
    /// Flag: do not count while idle.
    EXCLUDE_IDLE: u64 = 1 << 7;
    /// Flag: records of executable mappings.
    MMAP: u64 = 1 << 8;
    /// Flag: records of threads that get a name.
    COMM: u64 = 1 << 9;
    /// Flag: `sample_period` is a frequency in Hz.
    FREQ: u64 = 1 << 10;
    /// Flag: enable at the next exec.
    ENABLE_ON_EXEC: u64 = 1 << 12;
    /// Flag: records of threads that begin and end.
    TASK: u64 = 1 << 13;
    /// Flag: the fields of `sample_type` follow every record.
    SAMPLE_ID_ALL: u64 = 1 << 18;
    /// Flag: mapping records carry device and inode.
    MMAP2: u64 = 1 << 23;
    /// Flag: the ring keeps the newest records, each before the one that was written last.
    WRITE_BACKWARD: u64 = 1 << 27;
    /// Flag, with [`INHERIT`] since Linux 5.13: only for threads of the same process.
    INHERIT_THREAD: u64 = 1 << 35;
    /// Flag: time stamps from `clockid`.
    USE_CLOCKID: u64 = 1 << 25;

    /// Sample: time.
    SAMPLE_TIME: u64 = 1 << 2;

    /// Read: time enabled.
    FORMAT_TOTAL_TIME_ENABLED: u64 = 1 << 0;
    /// Read: time running.
    FORMAT_TOTAL_TIME_RUNNING: u64 = 1 << 1;

    /// Record: records were lost.
    RECORD_LOST: u32 = 2;
    /// Record: a thread got a name.
    RECORD_COMM: u32 = 3;
    /// Record: a thread ended.
    RECORD_EXIT: u32 = 4;
    /// Record: the event was throttled.
    RECORD_THROTTLE: u32 = 5;
    /// Record: the event runs again.
    RECORD_UNTHROTTLE: u32 = 6;
    /// Record: a thread began.
    RECORD_FORK: u32 = 7;
    /// Record: mapping with device and inode.
    RECORD_MMAP2: u32 = 10;
    /// Record: samples were lost.
    RECORD_LOST_SAMPLES: u32 = 13;

    /// `misc` of a mapping record: has a build-id instead of device and inode.
    MISC_MMAP_BUILD_ID: u16 = 1 << 14;
}

const FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;

const fn ioctl_number(direction: u32, number: u32, size: u32) -> u32 {
    direction << 30 | size << 16 | (b'$' as u32) << 8 | number
}

const IOC_ENABLE: u32 = ioctl_number(0, 0, 0);
const IOC_DISABLE: u32 = ioctl_number(0, 1, 0);
const IOC_RESET: u32 = ioctl_number(0, 3, 0);
const IOC_SET_OUTPUT: u32 = ioctl_number(0, 5, 0);
const IOC_SET_FILTER: u32 = ioctl_number(1, 6, 8);
const IOC_ID: u32 = ioctl_number(2, 7, 8);
const IOC_SET_BPF: u32 = ioctl_number(1, 8, 4);
const IOC_PAUSE_OUTPUT: u32 = ioctl_number(1, 9, 4);

/// The first size of the kernel's attribute, which every kernel takes.
const SMALLEST_ATTR: usize = 64;
/// Place of `size` in the attribute.
const ATTR_SIZE: std::ops::Range<usize> = 4..8;

/// Opens an event for `pid` (-1: all) on `cpu` (-1: any).
///
/// # Errors
/// The errno of `perf_event_open(2)`.
pub fn open(attr: &Attr, pid: i32, cpu: i32, group: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    let group_fd = group.map_or(-1, |fd| fd.as_raw_fd());
    // If the kernel refuses the attribute, it writes its own size into it.
    let mut attr = Attr { size: size_of::<Attr>() as u32, ..*attr };
    // SAFETY: `attr` is a live, initialized `perf_event_attr` of the size that it states.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw mut attr, pid, cpu, group_fd, FLAG_FD_CLOEXEC)
    };
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor, and no other code has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// As [`open`], with the attribute in the kernel's bytes, as long as its own `size` says. `pid` is the descriptor of a cgroup's directory with the
/// flag `PERF_FLAG_PID_CGROUP`. After `E2BIG` the attribute holds the kernel's size at its own.
///
/// # Errors
/// The errno of `perf_event_open(2)`; `EINVAL` if `size` is not the length of `attr`.
pub fn open_bytes(
    attr: &mut [u8],
    pid: i32,
    cpu: i32,
    group: Option<BorrowedFd<'_>>,
    flags: u32,
) -> io::Result<OwnedFd> {
    let size = attr.get(ATTR_SIZE).and_then(|size| size.try_into().ok()).map(u32::from_ne_bytes);
    if attr.len() < SMALLEST_ATTR || size.and_then(|size| usize::try_from(size).ok()) != Some(attr.len()) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let group_fd = group.map_or(-1, |fd| fd.as_raw_fd());
    let flags = libc::c_ulong::from(flags) | FLAG_FD_CLOEXEC;
    // SAFETY: `attr` has as many bytes as it states; the kernel writes nothing but its size.
    let fd =
        unsafe { libc::syscall(libc::SYS_perf_event_open, attr.as_mut_ptr(), pid, cpu, group_fd, flags) };
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor, and no other code has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn ioctl(event: BorrowedFd<'_>, request: u32, argument: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the requests passed here take a number, no pointer.
    let result = unsafe { libc::ioctl(event.as_raw_fd(), request as _, argument) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Starts counting.
///
/// # Errors
/// The errno of the ioctl.
pub fn enable(event: BorrowedFd<'_>) -> io::Result<()> {
    ioctl(event, IOC_ENABLE, 0)
}

/// Stops counting.
///
/// # Errors
/// The errno of the ioctl.
pub fn disable(event: BorrowedFd<'_>) -> io::Result<()> {
    ioctl(event, IOC_DISABLE, 0)
}

/// Sets the count to 0.
///
/// # Errors
/// The errno of the ioctl.
pub fn reset(event: BorrowedFd<'_>) -> io::Result<()> {
    ioctl(event, IOC_RESET, 0)
}

/// Writes the records of `event` into the ring of `owner`, which is an event of the same CPU and clock.
///
/// # Errors
/// The errno of the ioctl.
pub fn set_output(event: BorrowedFd<'_>, owner: BorrowedFd<'_>) -> io::Result<()> {
    let owner = libc::c_ulong::try_from(owner.as_raw_fd()).map_err(io::Error::other)?;
    ioctl(event, IOC_SET_OUTPUT, owner)
}

/// Lets only those occurrences of a tracepoint through that the filter describes.
///
/// # Errors
/// The errno of the ioctl; `EINVAL` if the filter is not understood, `EEXIST` if the event has one.
pub fn set_filter(event: BorrowedFd<'_>, filter: &CStr) -> io::Result<()> {
    // SAFETY: the kernel reads a text that ends with NUL, and keeps no pointer to it.
    let result = unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_FILTER as _, filter.as_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The kernel's number of the event, which its records carry.
///
/// # Errors
/// The errno of the ioctl.
pub fn event_id(event: BorrowedFd<'_>) -> io::Result<u64> {
    let mut id = 0u64;
    // SAFETY: the kernel writes one word of 8 bytes.
    let result = unsafe { libc::ioctl(event.as_raw_fd(), IOC_ID as _, &raw mut id) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(id) }
}

/// Runs the BPF program at every overflow of the event (4.1 and later). The event keeps its own reference.
///
/// # Errors
/// The errno of the ioctl; `EEXIST` if the event has a program already.
pub fn set_bpf(event: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let program = libc::c_ulong::try_from(program.as_raw_fd()).map_err(io::Error::other)?;
    ioctl(event, IOC_SET_BPF, program)
}

/// Writes no records into the ring of an event, or does again.
///
/// # Errors
/// The errno of the ioctl; `EINVAL` for an event without a ring.
pub fn pause_output(event: BorrowedFd<'_>, paused: bool) -> io::Result<()> {
    ioctl(event, IOC_PAUSE_OUTPUT, libc::c_ulong::from(paused))
}

/// The count of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Occurrences while the event was counted.
    pub value: u64,
    /// Time for which the event was enabled, in ns.
    pub enabled_ns: u64,
    /// Time for which the event was counted, in ns.
    pub running_ns: u64,
}

/// Reads an event that was opened with a `read_format` of [`FORMAT_TOTAL_TIME_ENABLED`] and
/// [`FORMAT_TOTAL_TIME_RUNNING`], including the counts of children that inherited it.
///
/// # Errors
/// The errno of `read(2)`; an unexpected length if the event has another format or is in the error state.
pub fn read_count(event: BorrowedFd<'_>) -> io::Result<Count> {
    // Longer than the format, so that a longer read is noticed.
    let mut bytes = [0u8; 32];
    let len = rustix::io::retry_on_intr(|| rustix::io::read(event, &mut bytes))?;
    let field =
        |index: usize| bytes.as_chunks::<8>().0.get(index).map_or(0, |field| u64::from_ne_bytes(*field));
    if len == 24 {
        Ok(Count { value: field(0), enabled_ns: field(1), running_ns: field(2) })
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("read {len} bytes, a count has 24")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event_open_sys::bindings;
    use std::os::fd::AsFd;

    fn as_bytes<T>(value: &T) -> Vec<u8> {
        // SAFETY: both attribute structs are made of integers without padding.
        unsafe { std::slice::from_raw_parts((&raw const *value).cast(), size_of::<T>()) }.to_vec()
    }

    #[test]
    fn the_layout_equals_that_of_the_kernel_header() {
        let mut theirs = bindings::perf_event_attr {
            type_: 1,
            size: size_of::<Attr>() as u32,
            config: 9,
            sample_type: 4,
            read_format: 3,
            bp_type: 5,
            branch_sample_type: 6,
            sample_regs_user: 7,
            sample_stack_user: 8,
            clockid: 10,
            sample_regs_intr: 11,
            aux_watermark: 12,
            sample_max_stack: 13,
            ..Default::default()
        };
        theirs.__bindgen_anon_1.sample_freq = 99;
        theirs.__bindgen_anon_2.wakeup_watermark = 100;
        theirs.__bindgen_anon_3.config1 = 101;
        theirs.__bindgen_anon_4.config2 = 102;
        theirs.set_disabled(1);
        theirs.set_inherit(1);
        theirs.set_exclude_user(1);
        theirs.set_task(1);
        theirs.set_exclude_kernel(1);
        theirs.set_exclude_hv(1);
        theirs.set_exclude_idle(1);
        theirs.set_mmap(1);
        theirs.set_freq(1);
        theirs.set_enable_on_exec(1);
        theirs.set_sample_id_all(1);
        theirs.set_mmap2(1);
        theirs.set_use_clockid(1);
        theirs.set_inherit_thread(1);
        let ours = Attr {
            kind: TYPE_SOFTWARE,
            config: SW_DUMMY,
            sample_period: 99,
            sample_type: SAMPLE_TIME,
            read_format: FORMAT_TOTAL_TIME_ENABLED | FORMAT_TOTAL_TIME_RUNNING,
            flags: [
                DISABLED,
                INHERIT,
                EXCLUDE_USER,
                EXCLUDE_KERNEL,
                EXCLUDE_HV,
                EXCLUDE_IDLE,
                MMAP,
                FREQ,
                ENABLE_ON_EXEC,
                TASK,
                SAMPLE_ID_ALL,
                MMAP2,
                USE_CLOCKID,
                INHERIT_THREAD,
            ]
            .into_iter()
            .sum(),
            wakeup: 100,
            bp_type: 5,
            config1: 101,
            config2: 102,
            branch_sample_type: 6,
            sample_regs_user: 7,
            sample_stack_user: 8,
            clockid: 10,
            sample_regs_intr: 11,
            aux_watermark: 12,
            sample_max_stack: 13,
            ..Attr::default()
        };
        assert_eq!(as_bytes(&ours), as_bytes(&theirs)[..size_of::<Attr>()]);
    }

    #[test]
    fn constants_equal_those_of_the_kernel_header() {
        assert_eq!(IOC_ENABLE, bindings::ENABLE);
        assert_eq!(IOC_DISABLE, bindings::DISABLE);
        assert_eq!(IOC_SET_BPF, bindings::SET_BPF);
        assert_eq!(IOC_PAUSE_OUTPUT, bindings::PAUSE_OUTPUT);
        assert_eq!([IOC_RESET, IOC_SET_OUTPUT], [bindings::RESET, bindings::SET_OUTPUT]);
        assert_eq!([IOC_SET_FILTER, IOC_ID], [bindings::SET_FILTER, bindings::ID]);
        assert_eq!(RECORD_MMAP2, bindings::PERF_RECORD_MMAP2);
        assert_eq!([RECORD_FORK, RECORD_EXIT], [bindings::PERF_RECORD_FORK, bindings::PERF_RECORD_EXIT]);
        assert_eq!(RECORD_LOST_SAMPLES, bindings::PERF_RECORD_LOST_SAMPLES);
        assert_eq!(RECORD_UNTHROTTLE, bindings::PERF_RECORD_UNTHROTTLE);
        assert_eq!(u32::from(MISC_MMAP_BUILD_ID), bindings::PERF_RECORD_MISC_MMAP_BUILD_ID);
        assert_eq!(SW_DUMMY, u64::from(bindings::PERF_COUNT_SW_DUMMY));
    }

    #[test]
    fn the_task_clock_of_this_thread_counts() {
        let format = FORMAT_TOTAL_TIME_ENABLED | FORMAT_TOTAL_TIME_RUNNING;
        // PERF_COUNT_SW_TASK_CLOCK
        let attr = Attr { kind: TYPE_SOFTWARE, config: 1, read_format: format, ..Attr::default() };
        let Ok(event) = open(&attr, 0, -1, None) else {
            testkit::skip!("perf events are not permitted");
        };
        let first = read_count(event.as_fd()).unwrap();
        let second = read_count(event.as_fd()).unwrap();
        assert!(second.value > first.value);
        assert_eq!(second.enabled_ns, second.running_ns);
        // A format of two words instead of three.
        let shorter = Attr { read_format: FORMAT_TOTAL_TIME_ENABLED, ..attr };
        let event = open(&shorter, 0, -1, None).unwrap();
        assert_eq!(read_count(event.as_fd()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn an_attribute_in_bytes_is_as_long_as_it_says() {
        let mut bytes = as_bytes(&Attr { kind: TYPE_SOFTWARE, config: SW_DUMMY, ..Attr::default() });
        for len in [0, 7, 63, 104] {
            let error = open_bytes(&mut bytes[..len], 0, -1, None, 0).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{len}");
        }
        let Ok(event) = open_bytes(&mut bytes, 0, -1, None, 0) else {
            testkit::skip!("perf events are not permitted");
        };
        let other = open_bytes(&mut bytes, 0, -1, None, 0).unwrap();
        assert_ne!(event_id(event.as_fd()).unwrap(), event_id(other.as_fd()).unwrap());
        reset(event.as_fd()).unwrap();
        assert!(set_filter(event.as_fd(), c"pid == 1").is_err(), "only tracepoints have filters");
        assert!(set_output(event.as_fd(), event.as_fd()).is_err(), "its own ring");
        bytes.resize(4096, 1);
        bytes[ATTR_SIZE].copy_from_slice(&4096u32.to_ne_bytes());
        let error = open_bytes(&mut bytes, 0, -1, None, 0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::E2BIG));
        assert!(
            (64..4096).contains(&u32::from_ne_bytes(bytes[ATTR_SIZE].try_into().unwrap())),
            "the kernel's size"
        );
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused() {
        let attr = Attr { kind: TYPE_SOFTWARE, config: SW_DUMMY, ..Attr::default() };
        let error = open(&attr, -1, 1 << 20, None).unwrap_err();
        assert!(
            [libc::EINVAL, libc::EACCES, libc::EPERM, libc::ENODEV].contains(&error.raw_os_error().unwrap())
        );
    }
}

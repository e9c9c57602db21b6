//! The kernel's numbers, each set with its names and one past its last number.

macro_rules! sets {
    ($($(#[$doc:meta])* $set:ident: $type:ty, max $max:expr => { $($name:ident = $value:expr,)* })*) => {
        $(
            $(#[$doc])*
            #[allow(missing_docs, reason = "the names are the kernel's")]
            pub mod $set {
                $(pub const $name: $type = $value;)*
                /// One past the last number, or the first bit above the last.
                pub const MAX: $type = $max;
                /// All numbers with their names.
                pub const ALL: &[(&str, $type)] = &[$((stringify!($name), $name)),*];
                /// The name of a number.
                #[must_use]
                pub fn name(number: $type) -> Option<&'static str> {
                    ALL.iter().find(|(_, known)| *known == number).map(|(name, _)| *name)
                }
            }
        )*
    };
}

sets! {
    /// `type` of an attribute. Other numbers are those of PMUs in sysfs.
    event_type: u32, max 6 => { HARDWARE = 0, SOFTWARE = 1, TRACEPOINT = 2, HW_CACHE = 3, RAW = 4, BREAKPOINT = 5, }
    /// `config` of hardware events.
    hardware: u64, max 10 => {
        CPU_CYCLES = 0, INSTRUCTIONS = 1, CACHE_REFERENCES = 2, CACHE_MISSES = 3, BRANCH_INSTRUCTIONS = 4, BRANCH_MISSES = 5,
        BUS_CYCLES = 6, STALLED_CYCLES_FRONTEND = 7, STALLED_CYCLES_BACKEND = 8, REF_CPU_CYCLES = 9,
    }
    /// `config` of software events.
    software: u64, max 12 => {
        CPU_CLOCK = 0, TASK_CLOCK = 1, PAGE_FAULTS = 2, CONTEXT_SWITCHES = 3, CPU_MIGRATIONS = 4, PAGE_FAULTS_MIN = 5,
        PAGE_FAULTS_MAJ = 6, ALIGNMENT_FAULTS = 7, EMULATION_FAULTS = 8, DUMMY = 9, BPF_OUTPUT = 10, CGROUP_SWITCHES = 11,
    }
    /// The caches of cache events.
    cache: u64, max 7 => { L1D = 0, L1I = 1, LL = 2, DTLB = 3, ITLB = 4, BPU = 5, NODE = 6, }
    /// The operations of cache events; shifted by 8.
    cache_op: u64, max 3 => { READ = 0, WRITE = 1, PREFETCH = 2, }
    /// The results of cache events; shifted by 16.
    cache_result: u64, max 2 => { ACCESS = 0, MISS = 1, }
    /// Bits of `sample_type`.
    sample: u64, max 1 << 25 => {
        IP = 1 << 0, TID = 1 << 1, TIME = 1 << 2, ADDR = 1 << 3, READ = 1 << 4, CALLCHAIN = 1 << 5, ID = 1 << 6, CPU = 1 << 7,
        PERIOD = 1 << 8, STREAM_ID = 1 << 9, RAW = 1 << 10, BRANCH_STACK = 1 << 11, REGS_USER = 1 << 12, STACK_USER = 1 << 13,
        WEIGHT = 1 << 14, DATA_SRC = 1 << 15, IDENTIFIER = 1 << 16, TRANSACTION = 1 << 17, REGS_INTR = 1 << 18,
        PHYS_ADDR = 1 << 19, AUX = 1 << 20, CGROUP = 1 << 21, DATA_PAGE_SIZE = 1 << 22, CODE_PAGE_SIZE = 1 << 23,
        WEIGHT_STRUCT = 1 << 24,
    }
    /// Bits of `read_format`.
    read_format: u64, max 1 << 5 => { TOTAL_TIME_ENABLED = 1, TOTAL_TIME_RUNNING = 2, ID = 4, GROUP = 8, LOST = 16, }
    /// Bits of `branch_sample_type` that change what a sample holds.
    branch_sample: u64, max 1 << 20 => { HW_INDEX = 1 << 17, COUNTERS = 1 << 19, }
    /// Flags of `perf_event_open`.
    open_flags: u64, max 1 << 4 => { FD_NO_GROUP = 1, FD_OUTPUT = 2, PID_CGROUP = 4, FD_CLOEXEC = 8, }
    /// Requests of `ioctl`.
    ioctl: u32, max 0x240c => {
        ENABLE = 0x2400, DISABLE = 0x2401, REFRESH = 0x2402, RESET = 0x2403, PERIOD = 0x4008_2404, SET_OUTPUT = 0x2405,
        SET_FILTER = 0x4008_2406, ID = 0x8008_2407, SET_BPF = 0x4004_2408, PAUSE_OUTPUT = 0x4004_2409,
        QUERY_BPF = 0xc008_240a, MODIFY_ATTRIBUTES = 0x4008_240b,
    }
    /// Types of records.
    record: u32, max 22 => {
        MMAP = 1, LOST = 2, COMM = 3, EXIT = 4, THROTTLE = 5, UNTHROTTLE = 6, FORK = 7, READ = 8, SAMPLE = 9, MMAP2 = 10, AUX = 11,
        ITRACE_START = 12, LOST_SAMPLES = 13, SWITCH = 14, SWITCH_CPU_WIDE = 15, NAMESPACES = 16, KSYMBOL = 17, BPF_EVENT = 18,
        CGROUP = 19, TEXT_POKE = 20, AUX_OUTPUT_HW_ID = 21,
    }
    /// Bits of `misc` in headers, and the values of its low three bits.
    misc: u16, max 1 << 15 => {
        CPUMODE_KERNEL = 1, CPUMODE_USER = 2, CPUMODE_HYPERVISOR = 3, CPUMODE_GUEST_KERNEL = 4, CPUMODE_GUEST_USER = 5,
        CPUMODE_MASK = 7, COMM_EXEC = 1 << 13, SWITCH_OUT = 1 << 13, MMAP_BUILD_ID = 1 << 14, SWITCH_OUT_PREEMPT = 1 << 14,
    }
    /// Marks in call chains: what the addresses behind them belong to.
    context: u64, max 0u64.wrapping_sub(4095) => {
        HV = 0u64.wrapping_sub(32), KERNEL = 0u64.wrapping_sub(128), USER = 0u64.wrapping_sub(512),
        GUEST = 0u64.wrapping_sub(2048), GUEST_KERNEL = 0u64.wrapping_sub(2176), GUEST_USER = 0u64.wrapping_sub(2560),
    }
}

/// Argument of the ioctls that enable, disable and reset: the whole group.
pub const IOC_FLAG_GROUP: u32 = 1;

#[cfg(test)]
mod tests {
    use perf_event_open_sys::bindings as header;

    #[test]
    fn numbers_equal_those_of_the_kernel_header() {
        assert_eq!(super::event_type::MAX, header::PERF_TYPE_MAX);
        assert_eq!(super::hardware::MAX, u64::from(header::PERF_COUNT_HW_MAX));
        assert_eq!(super::software::MAX, u64::from(header::PERF_COUNT_SW_MAX));
        assert_eq!(super::cache::MAX, u64::from(header::PERF_COUNT_HW_CACHE_MAX));
        assert_eq!(super::sample::MAX, u64::from(header::PERF_SAMPLE_MAX));
        assert_eq!(super::read_format::MAX, u64::from(header::PERF_FORMAT_MAX));
        assert_eq!(super::record::AUX_OUTPUT_HW_ID, header::PERF_RECORD_AUX_OUTPUT_HW_ID);
        assert_eq!(super::record::TEXT_POKE, header::PERF_RECORD_TEXT_POKE);
        assert_eq!(super::branch_sample::HW_INDEX, u64::from(header::PERF_SAMPLE_BRANCH_HW_INDEX));
        assert_eq!(super::branch_sample::COUNTERS, u64::from(header::PERF_SAMPLE_BRANCH_COUNTERS));
        assert_eq!(super::context::GUEST_USER, header::PERF_CONTEXT_GUEST_USER);
        let ioctls = [
            header::ENABLE,
            header::DISABLE,
            header::REFRESH,
            header::RESET,
            header::PERIOD,
            header::SET_OUTPUT,
            header::SET_FILTER,
            header::ID,
            header::SET_BPF,
            header::PAUSE_OUTPUT,
            header::QUERY_BPF,
            header::MODIFY_ATTRIBUTES,
        ];
        assert_eq!(super::ioctl::ALL.iter().map(|(_, number)| *number).collect::<Vec<_>>(), ioctls);
        assert_eq!(super::sample::ALL.len(), 25);
        for (at, (name, bit)) in super::sample::ALL.iter().enumerate() {
            assert_eq!(*bit, 1 << at, "{name}");
        }
        assert_eq!(super::software::name(10), Some("BPF_OUTPUT"));
        assert_eq!(super::software::name(99), None);
    }
}

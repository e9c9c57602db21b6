"""What the kernel allows this process, found by trying. As a program: fails if it refuses profiling."""

import ctypes
import errno
import os
import platform
import sys

# Numbers of the calls bpf and perf_event_open.
CALLS = {"x86_64": (321, 298), "aarch64": (280, 241)}
BPF_MAP_CREATE, BPF_MAP_TYPE_ARRAY = 0, 2
PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK = 1, 0
REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSYS)


def call(number, *arguments):
    """The error of a system call that opens a descriptor, or 0. The descriptor is closed."""
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = library.syscall(ctypes.c_long(number), *arguments)
    if descriptor < 0:
        return ctypes.get_errno()
    os.close(descriptor)
    return 0


def refuses_profiling():
    """Whether BPF programs or events of all processes are impossible here: BTF is missing, or the kernel or a filter refuses."""
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        return True
    if platform.machine() not in CALLS:
        return False
    bpf, perf_event_open = CALLS[platform.machine()]
    new_map = (ctypes.c_uint32 * 32)(BPF_MAP_TYPE_ARRAY, 4, 4, 1)
    clock = (ctypes.c_uint32 * 32)(PERF_TYPE_SOFTWARE, 128, PERF_COUNT_SW_CPU_CLOCK)
    of_all, first_cpu, no_group, no_flags = ctypes.c_int(-1), ctypes.c_int(0), ctypes.c_int(-1), ctypes.c_ulong(0)
    errors = [
        call(bpf, ctypes.c_int(BPF_MAP_CREATE), ctypes.byref(new_map), ctypes.c_uint(ctypes.sizeof(new_map))),
        call(perf_event_open, ctypes.byref(clock), of_all, first_cpu, no_group, no_flags),
    ]
    return any(error in REFUSALS for error in errors)


def who():
    """The words of expected-skips.txt that are true of this process."""
    if os.geteuid() != 0:
        return {"all", "other"}
    return {"all", "root", "container"} if refuses_profiling() else {"all", "root"}


if __name__ == "__main__":
    sys.exit(refuses_profiling())

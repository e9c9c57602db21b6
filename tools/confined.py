#!/usr/bin/env python3
"""Runs a command as most containers run theirs: as root with few capabilities, under a filter of system calls, without BPF.

    confined.py COMMAND [ARGUMENT…]

Capabilities and filter are those that Docker gives by default, as far as the tests notice them. Needs root.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 47, 4
CAPABILITY_VERSION_3 = 0x20080522

# chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, net_raw, sys_chroot, mknod, audit_write, setfcap
KEPT = {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}

# The numbers of the refused calls, for x86-64 and aarch64.
REFUSED = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "kcmp": (312, 272),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
CLONE, CLONE3 = (56, 220), (435, 435)
# CLONE_NEW…, but for the time namespace, whose bit is that of a signal here.
NAMESPACES = 0x7E020000
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

# Instructions of the filter: code, jump if true, jump if false, operand.
LOAD, JUMP_IF_EQUAL, JUMP_IF_ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
# struct seccomp_data: number, architecture, instruction pointer, arguments.
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16

LIBC = ctypes.CDLL(None, use_errno=True)


def check(what, result):
    if result < 0:
        sys.exit(f"confined.py: {what}: {os.strerror(ctypes.get_errno())}; it needs root")


def program():
    """The filter: calls of another architecture are allowed, since the tests make none that matter."""
    if platform.machine() not in ARCHITECTURES:
        sys.exit(f"confined.py: no numbers of system calls of {platform.machine()} are known")
    index, architecture = ARCHITECTURES[platform.machine()]
    lines = [(LOAD, 0, 0, ARCHITECTURE), (JUMP_IF_EQUAL, 1, 0, architecture), (RETURN, 0, 0, ALLOW), (LOAD, 0, 0, NUMBER)]
    for numbers in REFUSED.values():
        lines += [(JUMP_IF_EQUAL, 0, 1, numbers[index]), (RETURN, 0, 0, REFUSE | errno.EPERM)]
    lines += [(JUMP_IF_EQUAL, 0, 1, CLONE3[index]), (RETURN, 0, 0, REFUSE | errno.ENOSYS)]
    lines += [(JUMP_IF_EQUAL, 0, 3, CLONE[index]), (LOAD, 0, 0, FIRST_ARGUMENT)]
    lines += [(JUMP_IF_ANY_BIT, 0, 1, NAMESPACES), (RETURN, 0, 0, REFUSE | errno.EPERM), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in lines), len(lines)


def install_filter():
    code, length = program()
    buffer = ctypes.create_string_buffer(code)
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", length, ctypes.addressof(buffer)))
    check("install a filter of system calls", LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header))


def drop_capabilities():
    for capability in range(64):
        if capability not in KEPT and LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            # There is no capability of this number, or the filter of capabilities may not be changed.
            if ctypes.get_errno() != errno.EINVAL:
                check(f"drop capability {capability}", -1)
    LIBC.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    kept = sum(1 << capability for capability in KEPT)
    header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
    # Effective, permitted and inheritable: the low words, then the high ones.
    data = struct.pack("6I", kept, kept, 0, 0, 0, 0)
    check("drop capabilities", LIBC.capset(header, data))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    install_filter()
    drop_capabilities()
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        sys.exit(f"confined.py: run {sys.argv[1]}: {error.strerror}")


main()

#!/usr/bin/env python3
"""What the tests left on the machine.

    leftovers.py snapshot FILE                      before the tests: writes to FILE what exists
    leftovers.py compare FILE [--ignore PATTERNS]   after the tests: prints one line per leftover; exits with 1 if there is any

Each thing that is new since the snapshot is a leftover: a file, mount, control group, probe, pinned BPF object or piece of shared
memory; and a process, if the tests started it. PATTERNS is a file with one shell pattern per line; what they match is ignored.
"""

import collections
import fnmatch
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve()
HOME = Path.home()
# Folders whose whole content is compared.
WHOLE = ["/tmp", "/var/tmp", "/dev/shm", "/var/crash", "/sys/fs/bpf"]
# Folders whose entries are compared, without what is in these entries.
SHALLOW = [HOME, HOME / ".cache", HOME / ".config"]
# Things that systemd makes at any time, and the caches of the project.
ALLOWED = [
    "file /tmp/systemd-private-*",
    "file /var/tmp/systemd-private-*",
    f"file {HOME}/.cache",
    f"file {HOME}/.cache/perf-agent*",
    f"file {HOME}/.config",
    "mount /proc/sys/fs/binfmt_misc *",
    "mount /run/credentials/*",
    "mount /run/user/*",
    *(f"control group *.{unit}" for unit in ("automount", "mount", "scope", "service", "slice", "socket", "swap")),
]
# How long a leftover may take to go away, in seconds: processes that were killed need a moment.
PATIENCE = 10


def text(path):
    """The text of a file; empty if it cannot be read, like that of a process that has ended."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def entries(folder):
    """The entries of a folder that this user can have made, with their status."""
    try:
        with os.scandir(folder) as found:
            for entry in found:
                status = entry.stat(follow_symlinks=False)
                if os.geteuid() in (0, status.st_uid):
                    yield entry, status
    except OSError:
        # It was removed meanwhile, or belongs to somebody else.
        return


def below(folder, device):
    """All paths below a folder, in its own file system."""
    for entry, status in entries(folder):
        if status.st_dev == device:
            yield entry.path
            if entry.is_dir(follow_symlinks=False):
                yield from below(entry.path, device)


def files():
    for folder in WHOLE:
        if os.path.isdir(folder):
            yield from below(folder, os.stat(folder).st_dev)
    for folder in SHALLOW:
        yield from (entry.path for entry, _ in entries(folder))


def mounts():
    """Mount points with the type of their file system. The second mount at one place has a number."""
    seen = collections.Counter()
    for line in text("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        mount = f"{before.split()[4]} {after.split()[0]}"
        seen[mount] += 1
        yield mount if seen[mount] == 1 else f"{mount} {seen[mount]}"


def control_groups():
    for folder, children, _ in os.walk("/sys/fs/cgroup"):
        yield from (os.path.join(folder, child) for child in children)


def probes():
    for events in "kprobe_events", "uprobe_events":
        yield from text(f"/sys/kernel/tracing/{events}").splitlines()


def shared_memory():
    for kind in "msg", "sem", "shm":
        yield from (f"{kind} {line.split()[1]}" for line in text(f"/proc/sysvipc/{kind}").splitlines()[1:])


def status_of(pid):
    """Parent, session and start time of a process; None if it has ended."""
    fields = text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[1]), int(fields[3]), fields[19]) if fields and fields[0] not in "ZX" else None


def processes():
    """Process numbers with the start time, since the kernel reuses numbers."""
    for name in os.listdir("/proc"):
        status = status_of(name) if name.isdecimal() else None
        if status:
            yield f"{name} {status[2]}"


def is_of_tests(pid):
    """Whether the tests started a process: it has our session, the environment that cargo gives to tests, or is of our build."""
    status = status_of(pid)
    if not status:
        return False
    try:
        is_built_here = Path(os.readlink(f"/proc/{pid}/exe")).is_relative_to(TARGET)
    except OSError:
        is_built_here = False
    variables = text(f"/proc/{pid}/environ").split("\0")
    is_of_cargo = any(variable.startswith(f"CARGO_MANIFEST_DIR={ROOT}/") for variable in variables)
    # Without a leader in this namespace, the number is 0, which threads of the kernel have too.
    session = os.getsid(0)
    is_of_session = session != 0 and status[1] == session
    return is_of_session or is_built_here or is_of_cargo


def ancestors():
    """The numbers of this process, its parent, and so on."""
    pid = os.getpid()
    while pid:
        yield pid
        pid = (status_of(pid) or (0,))[0]


KINDS = {
    "file": files,
    "mount": mounts,
    "control group": control_groups,
    "probe": probes,
    "shared memory": shared_memory,
    "process": processes,
}


def snapshot():
    return {kind: sorted(set(found())) for kind, found in KINDS.items()}


def leftovers(before, ignored):
    """A line for each thing that is new. Things inside a new folder are not listed."""
    own = set(ancestors())
    for kind, now in snapshot().items():
        new = set(now) - set(before[kind])
        for name in sorted(new):
            if os.path.dirname(name) in new:
                continue
            if kind == "process":
                pid = int(name.split()[0])
                if pid in own or not is_of_tests(pid):
                    continue
                name = f"{pid} {text(f'/proc/{pid}/cmdline').replace(chr(0), ' ').strip()}"
            line = f"{kind} {name}"
            if not any(fnmatch.fnmatchcase(line, pattern) for pattern in ALLOWED + ignored):
                yield line


def lasting(before, ignored):
    """The leftovers that are still present after a while."""
    found = set(leftovers(before, ignored))
    end = time.monotonic() + PATIENCE
    while found and time.monotonic() < end:
        time.sleep(0.1)
        found &= set(leftovers(before, ignored))
    return sorted(found)


def read(file):
    try:
        return Path(file).read_text()
    except OSError as error:
        print(f"leftovers.py: cannot read {file}: {error.strerror}", file=sys.stderr)
        sys.exit(2)


def patterns(file):
    """Patterns of a file, for any kind of thing, and for everything below it."""
    lines = (line.strip() for line in read(file).splitlines())
    named = [line for line in lines if line and not line.startswith("#")]
    return [f"* {line}{end}" for line in named for end in ("", "/*")]


def main():
    match sys.argv[1:]:
        case ["snapshot", file]:
            found = snapshot()
            Path(file).write_text(json.dumps(found))
        case ["compare", file, *options] if not options or (options[0] == "--ignore" and len(options) == 2):
            ignored = [f"file {os.path.abspath(file)}"] + (patterns(options[1]) if options else [])
            found = lasting(json.loads(read(file)), ignored)
            print(*found, sep="\n", end="\n" if found else "")
            sys.exit(bool(found))
        case _:
            print(__doc__, file=sys.stderr)
            sys.exit(2)


if __name__ == "__main__":
    main()

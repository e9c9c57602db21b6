#!/usr/bin/env python3
"""Runs perf-agent and tells the kernel memory of its maps and event rings after five seconds.

    kernel_memory.py PERF-AGENT OPTION…
"""

import subprocess
import sys
import time
from pathlib import Path


def maps(pid):
    """Bytes of each map by its id. Several descriptors may be of one map."""
    found = {}
    for descriptor in Path(f"/proc/{pid}/fdinfo").iterdir():
        fields = dict(line.split(":", 1) for line in descriptor.read_text().splitlines() if ":" in line)
        if "map_id" in fields:
            found[fields["map_id"]] = int(fields["memlock"])
    return found


def rings(pid):
    """Bytes of the mapped rings of events."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    ranges = [line.split()[0].split("-") for line in lines if "perf_event" in line]
    return sum(int(end, 16) - int(start, 16) for start, end in ranges)


def main():
    agent = subprocess.Popen([*sys.argv[1:], "--duration", "8s"])
    time.sleep(5)
    of_maps = maps(agent.pid)
    total, events = sum(of_maps.values()) / 2**20, rings(agent.pid) / 2**20
    print(f"{len(of_maps)} maps {total:.1f} MiB, rings of events {events:.1f} MiB: {total + events:.1f} MiB", flush=True)
    sys.exit(agent.wait())


main()

#!/usr/bin/env python3
"""What takes longer than the tests may: a new machine, a container, an ordinary user, aarch64 and full preemption in emulation, endurance, chaos, injection, fuzzing.

FUZZ_SECONDS is the time of each fuzz target (60).
"""

import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
from steps import ROOT, TARGET, Gate  # noqa: E402

BUILD = 3600
# Tests that `make test` leaves out, because they repeat for minutes what shorter tests show: package, target and filter.
REPEATED = [("python_trampoline", ["--lib"], "long_"), ("truth", ["--test", "whole"], "long_")]


def guests(gate):
    for guest in ["many_cpus", "preempt", "arm64"]:
        script = f"tests/vm/{guest}.sh"
        if not gate.run(guest, script, limit=BUILD):
            gate.failures.append(guest)
            continue
        skipped = [line for line in gate.log_of(guest).splitlines() if line.startswith(f"skipped: {script} ")]
        if skipped:
            gate.skip(guest, skipped[0].removeprefix(f"skipped: {script} "))
        else:
            gate.passed += 1


def new_machine(gate):
    """README's first commands in an empty Debian 12; there, the tests in a container without BPF and as an ordinary user."""
    folder = TARGET / "new-machine"
    for name, options in [("new-machine", []), ("container", ["--container"]), ("user", ["--user"])]:
        gate.step(name, "tools/new_machine.sh", *options, folder, limit=2 * BUILD)
    subprocess.run(["rm", "-rf", "--one-file-system", folder])


def fuzzing(gate):
    seconds = int(os.environ.get("FUZZ_SECONDS", 60))
    nightly = subprocess.run(["cargo", "+nightly", "--version"], env=gate.environment, capture_output=True).returncode == 0
    if not nightly and not gate.run("nightly", "rustup", "toolchain", "install", "nightly", "--profile", "minimal"):
        return gate.skip("fuzzing", "no nightly Rust, and none can be installed")
    if not shutil.which("cargo-fuzz", path=gate.environment["PATH"]):
        folder = TARGET / "cargo-fuzz"
        if not gate.run("cargo-fuzz", "cargo", "install", "--locked", "--target-dir", folder, "cargo-fuzz"):
            return gate.skip("fuzzing", "no cargo-fuzz, and it cannot be installed")
        shutil.rmtree(folder)
    listed = subprocess.run(["cargo", "+nightly", "fuzz", "list"], cwd=ROOT, env=gate.environment, capture_output=True, text=True)
    for name in listed.stdout.split():
        gate.step(f"fuzz-{name}", "tools/fuzz.sh", seconds, name, limit=seconds + 1800)


def main():
    gate = Gate("long")
    if gate.step("build", "cargo", "build", "--release", "--locked", "-p", "cli", "-p", "bench", "-p", "truth", limit=BUILD):
        gate.step("endurance", TARGET / "release/bench", "--out", TARGET / "truth", "endurance", "--check")
        # Each agent takes a second.
        gate.environment["PERF_AGENT_CHAOS_AGENTS"] = "500"
        gate.step("chaos", "cargo", "test", "--locked", "-p", "truth", "--test", "whole", "chaos::", limit=BUILD)
    for package, target, tests in REPEATED:
        command = ["cargo", "test", "--locked", "-p", package, *target, tests, "--", "--ignored", "--test-threads=1"]
        gate.step(f"{package}-{tests.rstrip('_:')}", *command, limit=5400)
    guests(gate)
    new_machine(gate)
    fuzzing(gate)
    gate.end()


main()

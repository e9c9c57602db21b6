#!/usr/bin/env python3
"""Builds the program and its tests, and runs the tests. The last line is `N passed, N failed, N skipped`.

    test.py [--parts] [--repeat N] [--load N] [-- FILTER…]

    --parts    only what needs no root and no whole captures
    --repeat   runs the tests N times
    --load     compiles beside the tests, in N loops
    FILTER     only tests whose name contains one of these words
"""

import argparse
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import threading

sys.dont_write_bytecode = True
import test_programs  # noqa: E402
from steps import ROOT, Gate, tell  # noqa: E402

# Builds do not hang, but other work on the machine may make them slow.
BUILD = 3600
# Executables of whole captures, and of the command line, whose captures are short.
CAPTURES, COMMAND_LINE = "whole", "command_line"
PARTS = ["--lib", "--bins", "--test", "suite"]
# Tests in modules of this name look at the whole machine: nothing runs beside them.
ALONE = "alone::"


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--load", type=int, default=0)
    parser.add_argument("filters", nargs="*")
    return parser.parse_args()


class Load:
    """Compilations in loops, beside the tests."""

    SOURCES = sorted(ROOT.glob("truth/programs/*.c"))

    def __init__(self, loops):
        self.ended = threading.Event()
        self.loops = [threading.Thread(target=self._loop) for _ in range(loops)]

    def _loop(self):
        while not self.ended.is_set():
            for source in self.SOURCES:
                subprocess.run(["cc", "-O2", "-S", "-o", os.devnull, source], stdin=subprocess.DEVNULL, capture_output=True)
                if self.ended.is_set():
                    return

    def __enter__(self):
        for loop in self.loops:
            loop.start()

    def __exit__(self, *_):
        self.ended.set()
        for loop in self.loops:
            loop.join()


class Tests:
    """Runs executables and counts what their tests say."""

    def __init__(self, gate, filters):
        self.gate, self.filters = gate, filters
        self.lock = threading.Lock()
        self.times = []

    def run(self, executable):
        """All tests of an executable but those that run alone."""
        self._run(executable, executable.name, [*self.filters, "--skip", ALONE])

    def run_alone(self, executable):
        """The tests of an executable that run alone, one after the other."""
        found = test_programs.names(executable, self.gate.environment, self.filters)
        names = [name for name in found if ALONE in name]
        if names:
            self._run(executable, f"{executable.name}-alone", ["--exact", "--test-threads=1", *names])

    def _run(self, executable, name, options):
        report = test_programs.run(executable, self.gate.logs / f"{name}.log", self.gate.environment, options)
        with self.lock:
            self._count(executable, name, report)

    def _count(self, executable, name, report):
        count = report.passed + len(report.failed) + len(report.skipped)
        if not count:
            return
        verdict = "FAILED" if report.failed else "ok"
        tell(name, verdict, report.seconds, f"{count:4} tests, {report.cpu_seconds:4.0f} s of CPU")
        self.gate.passed += report.passed
        self.times += [(seconds, f"{executable.name} {test}") for seconds, test in report.times]
        for test, cause in report.failed:
            self.gate.fail(f"{executable.name} {test}: {cause}")
        for test, reason in report.skipped:
            self.gate.skip(f"{executable.name} {test}", reason, test)

    def run_all(self, executables, more):
        """Whole captures one after the other, beside them the other tests and `more`; then what runs alone. Each takes about half of the time."""
        captures = sorted((one for one in executables if one.target == CAPTURES), key=lambda one: one.name)
        parts = [one for one in executables if one.target != CAPTURES]
        parts.sort(key=lambda one: one.target != COMMAND_LINE)

        def lane(jobs):
            for job in jobs:
                if not test_programs.RUNNING.has_ended:
                    job()

        lanes = [
            [lambda one=one: self.run(one) for one in captures],
            [lambda one=one: self.run(one) for one in parts] + more,
        ]
        with concurrent.futures.ThreadPoolExecutor(len(lanes)) as pool:
            for done in [pool.submit(lane, jobs) for jobs in lanes]:
                done.result()
        for one in executables:
            if one.target in (CAPTURES, COMMAND_LINE):
                self.run_alone(one)

    def write_times(self):
        """Writes the times of all tests, the longest first."""
        lines = [f"{seconds:8.2f} {test}\n" for seconds, test in sorted(self.times, reverse=True)]
        (self.gate.logs / "times").write_text("".join(lines))


def build(gate, parts_only):
    """The executables of the tests, and the program itself in the release profile; none if they cannot be built."""
    if not parts_only:
        # The tests of whole captures run this program.
        if not gate.step("build", "cargo", "build", "--release", "--locked", "-p", "cli", limit=BUILD):
            return []
        gate.run("build-again", "cargo", "build", "--release", "--locked", "-p", "cli", "--verbose", limit=BUILD)
        compiled = re.search(r"^ *(Compiling|Dirty|Running).*", gate.log_of("build-again"), re.M)
        if compiled:
            gate.fail(f"a second build is not empty: {compiled[0].strip()}")
        else:
            gate.passed += 1
    kinds = PARTS if parts_only else []
    command = ["cargo", "test", "--workspace", "--locked", "--no-run", "--message-format", "json-render-diagnostics", *kinds]
    if not gate.step("build-tests", *command, limit=BUILD):
        return []
    return list(test_programs.executables(gate.log_of("build-tests")))


def outside(gate):
    """A program outside of the workspace that uses the library."""
    if not gate.run("outside", "tests/outside/run.sh", limit=BUILD):
        gate.failures.append("outside")
        return
    skipped = [line.removeprefix("skipped: ") for line in gate.log_of("outside").splitlines() if line.startswith("skipped: ")]
    if not skipped:
        gate.passed += 1
    else:
        gate.skip("outside", skipped[0])


def documentation(gate):
    """The examples in the documentation: each is a test."""
    gate.run("doc-tests", "cargo", "test", "--workspace", "--locked", "--doc", limit=BUILD)
    results = re.findall(r"^test (.*) \.\.\. (ok|FAILED)$", gate.log_of("doc-tests"), re.M)
    gate.passed += sum(verdict == "ok" for _, verdict in results)
    for name, verdict in results:
        if verdict != "ok":
            gate.fail(f"doc-tests {name}")
    if not results:
        gate.fail("doc-tests: none was run")


def interpreters(gate):
    """What the tests need and Debian 12 has no package of: a recent Go, and other versions of Python."""
    for script, use in [("tools/go.sh", add_to_path), ("tools/pythons.sh", add_pythons)]:
        found = subprocess.run([ROOT / script], cwd=ROOT, env=gate.environment, capture_output=True, text=True)
        if found.returncode == 0:
            use(gate.environment, found.stdout.strip())
        else:
            print(f"{script} found nothing: {found.stderr.strip()}", flush=True)


def add_to_path(environment, folder):
    environment["PATH"] = f"{folder}:{environment['PATH']}"


def add_pythons(environment, programs):
    named = environment.get("PERFAGENT_PYTHONS", "")
    environment["PERFAGENT_PYTHONS"] = ":".join(filter(None, [named, programs]))


class Leftovers:
    """No file, mount, probe or process of a test outlives it: tools/leftovers.py compares the machine before and after."""

    def __init__(self, gate):
        self.gate, self.before = gate, gate.logs / "before.json"

    def __enter__(self):
        self.gate.run("leftovers-before", "tools/leftovers.py", "snapshot", self.before)

    def __exit__(self, *_):
        self.gate.step("leftovers", "tools/leftovers.py", "compare", self.before)


class Tracepoints:
    """Tracefs describes tracepoints. It is mounted while the tests run, if this user may mount it."""

    FOLDER = "/sys/kernel/tracing"

    def __enter__(self):
        present = os.path.isdir(f"{self.FOLDER}/events")
        mount = ["mount", "-t", "tracefs", "none", self.FOLDER]
        self.mounted = not present and os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0

    def __exit__(self, *_):
        if self.mounted:
            subprocess.run(["umount", self.FOLDER])


def main():
    options = arguments()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, test_programs.RUNNING.end)
    gate = Gate("test")
    interpreters(gate)
    tests = Tests(gate, options.filters)
    executables = build(gate, options.parts)
    # A filter names tests, and these have no names.
    more = [] if options.parts or options.filters else [lambda: documentation(gate), lambda: outside(gate)]
    if executables:
        with Tracepoints(), Leftovers(gate):
            for _ in range(options.repeat):
                with Load(options.load):
                    tests.run_all(executables, more)
    if options.filters and not tests.times:
        gate.fail(f"no test has a name that contains {' or '.join(options.filters)}")
    tests.write_times()
    gate.end()


if __name__ == "__main__":
    main()

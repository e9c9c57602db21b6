"""Steps of a gate: a command with a log, a line with its time, and counts for the last line.

Used by lint.py, test.py and long.py. Each gate runs all its steps, also after a failure, and ends with
`N passed, N failed, N skipped`.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import rights

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
# The last lines of a log that a failure shows.
SHOWN = 40


def environment():
    """The path finds Rust, Go and the programs of root; builds are not incremental; Go's caches are among the project's own."""
    found = dict(os.environ)
    cache = Path(found.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "perf-agent-go"
    config = Path(found.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    # Go writes its counters where settings are, so its settings are named.
    found.setdefault("GOENV", str(config / "go/env"))
    found["XDG_CONFIG_HOME"] = str(cache / "config")
    found.setdefault("GOCACHE", str(cache / "build"))
    found.setdefault("GOMODCACHE", str(cache / "modules"))
    more = [f"{Path.home()}/.cargo/bin", "/usr/local/go/bin", "/usr/sbin", "/sbin"]
    found["PATH"] = ":".join([found.get("PATH", "/usr/bin:/bin"), *more])
    # A fresh clone is built once, so what incremental compilation stores is never used.
    if found.get("CI"):
        found.setdefault("CARGO_INCREMENTAL", "0")
    return found


class Gate:
    """The counts of a gate."""

    def __init__(self, name):
        self.begun = time.monotonic()
        self.logs = TARGET / "gate" / name
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir(parents=True)
        self.environment = environment()
        self.expected = Expected((ROOT / "tools/expected-skips.txt").read_text(), rights.who())
        self.passed = 0
        self.failures = []
        self.skips = []
        self.tree = self.changes()
        if shutil.which("cargo", path=self.environment["PATH"]) is None:
            sys.exit("error: cargo is missing: install stable Rust, see https://rustup.rs")

    @staticmethod
    def changes():
        """The files of the working tree that differ from its commit."""
        return subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True).stdout

    def fail(self, failure):
        """Counts a failure and prints it at once."""
        self.failures.append(failure)
        print(f"FAILED {failure}", flush=True)

    def skip(self, name, reason, test=None):
        """Counts a skip, and a failure if no line of expected-skips.txt has the reason. `test`: its name there, if it is another."""
        self.skips.append((name, reason))
        if not self.expected.has(test or name, reason):
            self.fail(f"{name}: skipped for a reason that tools/expected-skips.txt does not list: {reason}")

    def run(self, name, *command, limit=1200, **more):
        """Runs a command with its output in a log. Prints its time, and the end of the log if it failed."""
        begun = time.monotonic()
        log = self.logs / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(word) for word in command],
                cwd=ROOT, env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, **more,
            )
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                process.kill()
                status = f"not within {limit} s"
                process.wait()
        tell(name, "ok" if status == 0 else "FAILED", time.monotonic() - begun)
        if status != 0:
            lines = log.read_text(errors="replace").splitlines()[-SHOWN:]
            print(*(f"    {line}" for line in lines), sep="\n", flush=True)
        return status == 0

    def step(self, name, *command, **more):
        """A command that is one check."""
        held = self.run(name, *command, **more)
        if held:
            self.passed += 1
        else:
            self.failures.append(name)
        return held

    def log_of(self, name):
        return (self.logs / f"{name}.log").read_text(errors="replace")

    def end(self):
        """Prints the summary and ends the program."""
        if self.changes() == self.tree:
            self.passed += 1
        else:
            self.fail("the working tree changed meanwhile: see git status")
        print()
        for count, reason in reasons(self.skips):
            print(f"skipped: {count:4} {reason}")
        for failure in self.failures:
            print(f"failed: {failure}")
        took = int(time.monotonic() - self.begun)
        print(f"took {took // 60} min {took % 60} s; logs in {self.logs}")
        print(f"{self.passed} passed, {len(self.failures)} failed, {len(self.skips)} skipped", flush=True)
        sys.exit(bool(self.failures))


def tell(name, verdict, seconds, more=""):
    print(f"{name:28} {verdict:6} {seconds:5.0f} s  {more}".rstrip(), flush=True)


def reasons(skips):
    """How many tests have which reason, the most frequent first. A reason that one test has alone keeps the test's name."""
    tests = {}
    for name, reason in skips:
        tests.setdefault(reason, []).append(name)
    rows = [(len(names), reason if len(names) > 1 else f"{names[0]}: {reason}") for reason, names in tests.items()]
    return sorted(rows, key=lambda row: (-row[0], row[1]))


class Expected:
    """The permitted reasons of skips, from expected-skips.txt."""

    def __init__(self, text, who):
        lines = [line.split(None, 1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
        self.patterns = [re.compile(pattern) for user, pattern in lines if user in who]

    def has(self, name, reason):
        return any(pattern.search(f"{name}: {reason}") for pattern in self.patterns)

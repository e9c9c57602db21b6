"""Runs test executables of cargo and reads what they report.

In: which executables a build made, what each test said, how long it took, why it failed or was skipped.
libtest reports in JSON, one event a line; that form is unstable, so the environment allows it to the executable.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

# An executable hangs if it reports nothing for this time, in seconds.
LIMIT = 600


@dataclass(frozen=True)
class Executable:
    """Tests that one process runs."""

    path: str
    # The folder of its package, where cargo runs it.
    folder: Path
    # The target in its package: `lib`, `bin` or the name of an integration test.
    target: str

    @property
    def name(self):
        return f"{self.folder.name}-{self.target}"


def executables(messages):
    """The executables of `cargo test --no-run --message-format json`."""
    for line in messages.splitlines():
        if not line.startswith("{"):
            continue
        message = json.loads(line)
        if message["reason"] != "compiler-artifact" or not message["executable"] or not message["profile"]["test"]:
            continue
        kind, name = message["target"]["kind"][0], message["target"]["name"]
        target = name if kind == "test" else kind
        yield Executable(message["executable"], Path(message["manifest_path"]).parent, target)


@dataclass
class Report:
    """What the tests of one executable said."""

    passed: int = 0
    # Pairs of a test and one line.
    failed: list = field(default_factory=list)
    skipped: list = field(default_factory=list)
    # Pairs of seconds and a test.
    times: list = field(default_factory=list)
    # Tests that have begun and not ended.
    running: set = field(default_factory=set)
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def read(self, line):
        """Takes in one line of output. Returns what libtest does not report, such as output of child processes."""
        try:
            event = json.loads(line)
            kind, name, verdict = event["type"], event.get("name", ""), event["event"]
        except (ValueError, TypeError, KeyError):
            return line
        if kind != "test":
            return None
        if verdict == "started":
            self.running.add(name)
            return None
        self.running.discard(name)
        self.times.append((event.get("exec_time", 0.0), name))
        output = event.get("stdout", "")
        if verdict == "failed":
            self.failed.append((name, cause(output) or event.get("message", "no message")))
        elif verdict == "ignored":
            self.skipped.append((name, event.get("message", "ignored unless asked for")))
        elif verdict == "ok":
            reason = skip_reason(output)
            if reason is None:
                self.passed += 1
            else:
                self.skipped.append((name, reason))
        return None


def skip_reason(output):
    """Why a test was skipped, in whole or in part, as crate testkit prints it. The first of several reasons."""
    found = re.search(r"^skipped: \S+: (.*)", output, re.M)
    return found and found[1]


def cause(output):
    """The messages of a test's panics, on one line."""
    messages = []
    inside = False
    for line in output.splitlines():
        if re.search(r"panicked at ", line):
            inside = True
            messages.append([])
        elif re.match(r"note: |stack backtrace:$| +[0-9]+: |$", line):
            inside = False
        elif inside:
            messages[-1].append(" ".join(line.split()))
    return " / ".join("; ".join(lines) for lines in messages if lines)


class Running:
    """The executables that run now. A signal ends them with their children, and no further one starts."""

    def __init__(self):
        self.processes = set()
        self.has_ended = False

    def end(self, *_):
        self.has_ended = True
        for process in self.processes.copy():
            kill(process)
        sys.exit(130)


def kill(process):
    """Kills a process that leads a session, with all of that session's process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        # All of it has ended.
        pass


RUNNING = Running()


def names(executable, environment, filters=()):
    """The names of the tests that these filters leave."""
    command = [executable.path, "--list", "--format", "terse", *filters]
    listed = subprocess.run(command, cwd=executable.folder, env=environment, capture_output=True, text=True).stdout
    return [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]


class Watchdog:
    """Kills a process and its children if nothing is heard of it for LIMIT seconds."""

    def __init__(self, process):
        self.process = process
        self.has_killed = False
        self.last = time.monotonic()
        self.ended = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def heard(self):
        self.last = time.monotonic()

    def stop(self):
        self.ended.set()

    def _watch(self):
        while not self.ended.wait(1):
            if time.monotonic() - self.last > LIMIT:
                self.has_killed = True
                kill(self.process)
                return


def run(executable, log, environment, filters=(), threads=None):
    """Runs an executable's tests and returns their report. Each line of its output goes to a log."""
    command = [executable.path, "--format", "json", "-Z", "unstable-options", "--report-time", "--show-output"]
    if threads:
        command.append(f"--test-threads={threads}")
    environment = {**environment, "RUSTC_BOOTSTRAP": "1", "CARGO_MANIFEST_DIR": str(executable.folder)}
    report = Report()
    if RUNNING.has_ended:
        return report
    begun = time.monotonic()
    process = subprocess.Popen(
        [*command, *filters],
        cwd=executable.folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
    )
    RUNNING.processes.add(process)
    with log.open("a") as file:
        watchdog = Watchdog(process)
        for line in process.stdout:
            file.write(line)
            watchdog.heard()
            report.read(line)
        process.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        watchdog.stop()
    RUNNING.processes.discard(process)
    report.seconds = time.monotonic() - begun
    report.cpu_seconds = usage.ru_utime + usage.ru_stime
    # libtest ends with 101 if a test has failed, and with 0 else.
    if process.returncode != 0 and not report.failed:
        what = f"did not end within {LIMIT} s" if watchdog.has_killed else f"ended with {process.returncode}"
        during = ", ".join(sorted(report.running)) or "no test"
        report.failed.append((during, f"the test executable {executable.name} {what} while this ran"))
    return report

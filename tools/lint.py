#!/usr/bin/env python3
"""What can be said of the sources without running them: formats, rules of the workspace, lints, documentation, packaging.

    lint.py [--sources]    with --sources only what needs no build
"""

import shutil
import sys

sys.dont_write_bytecode = True
from steps import Gate, ROOT  # noqa: E402

# Builds do not hang, but other work on the machine may make them slow.
BUILD = 3600


def sources(*patterns):
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


def sources_alone(gate):
    """Checks that need no build. `clang-format` is checked where it is installed."""
    gate.step("format", "cargo", "fmt", "--all", "--check", "--", "--color", "never")
    if shutil.which("clang-format"):
        gate.step("format-c", "clang-format", "--dry-run", "-Werror", *sources("bpf/*.[ch]", "bpf/abi/*.h", "bench/bpf/*.[ch]"))
    gate.run("workspace", "/usr/bin/python3", "tools/workspace.py")
    lines = gate.log_of("workspace").splitlines()
    gate.passed += sum(line.startswith("passed: ") for line in lines)
    complaints = [line.removeprefix("failed: ") for line in lines if line.startswith("failed: ")]
    for complaint in complaints:
        gate.fail(complaint)
    if not complaints and not any(line.startswith("passed: ") for line in lines):
        gate.fail("workspace")
    # The test command counts the skips that testkit prints, and no others.
    gate.step("skips-in-one-place", "sh", "-c", r"""! grep -rnE 'print(ln)?!\("skipped' crates --include='*.rs' --exclude-dir=testkit""")


def main():
    gate = Gate("lint")
    sources_alone(gate)
    if "--sources" in sys.argv[1:]:
        gate.end()
    # workspace.py checks the same rules; this is the tool that they are written for.
    if shutil.which("cargo-deny", path=gate.environment["PATH"]):
        gate.step("deny", "cargo", "deny", "check", "licenses", "bans", "sources")
    gate.step("clippy", "cargo", "clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings", limit=BUILD)
    gate.environment["RUSTDOCFLAGS"] = "-D warnings"
    gate.step("documentation", "cargo", "doc", "--workspace", "--no-deps", "--locked", limit=BUILD)
    gate.step("package", "tools/package.sh", "--allow-dirty", limit=BUILD)
    gate.end()


main()

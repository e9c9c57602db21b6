"""Tests of test_programs and steps: reports are read, failures and skips are counted."""

import io
import json
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

import steps
import test_programs
from test_programs import Executable, Report


def event(verdict, name="a::b", **more):
    return json.dumps({"type": "test", "event": verdict, "name": name, **more})


class Reports(unittest.TestCase):
    def of(self, *lines):
        report = Report()
        for line in lines:
            report.read(line)
        return report

    def test_a_test_that_passed_counts_once(self):
        report = self.of(event("started"), event("ok", exec_time=0.5))
        self.assertEqual((report.passed, report.failed, report.skipped), (1, [], []))
        self.assertEqual((report.times, report.running), ([(0.5, "a::b")], set()))

    def test_a_test_that_passed_and_said_so_was_skipped(self):
        report = self.of(event("ok", stdout="skipped: a::b: needs root\nskipped: a::b: no tool\n"))
        self.assertEqual((report.passed, report.skipped), (0, [("a::b", "needs root")]))

    def test_a_test_that_prints_the_word_was_not_skipped(self):
        self.assertEqual(self.of(event("ok", stdout="Ledger { lost: 0, skipped: 0, walks: 1 }\n")).passed, 1)

    def test_an_ignored_test_keeps_its_reason(self):
        self.assertEqual(self.of(event("ignored", message="takes minutes")).skipped, [("a::b", "takes minutes")])

    def test_the_first_line_of_a_failure_has_what_was_expected_and_what_came(self):
        output = (
            "some output\n\nthread 'a::b' (7) panicked at crates/x.rs:1:2:\nassertion `left == right` failed: sum\n"
            "  left: 1\n right: 2\nnote: run with RUST_BACKTRACE\n"
        )
        self.assertEqual(
            self.of(event("failed", stdout=output)).failed, [("a::b", "assertion `left == right` failed: sum; left: 1; right: 2")]
        )

    def test_what_libtest_does_not_report_is_returned(self):
        report = Report()
        for line in ["warning: from a child\n", "17\n", '{"type": "test"}\n']:
            self.assertEqual(report.read(line), line)
        self.assertIsNone(report.read('{"type": "suite", "event": "started", "test_count": 1}'))


class Executables(unittest.TestCase):
    def run_script(self, text):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        script = folder / "program"
        script.write_text(f"#!{sys.executable}\n{text}")
        script.chmod(0o755)
        return test_programs.run(Executable(str(script), folder, "suite"), folder / "log", {}, ["word"])

    def test_an_executable_that_is_killed_fails_by_the_test_that_ran(self):
        report = self.run_script(f"print({event('started')!r}, flush=True)\nimport os\nos.kill(os.getpid(), 9)")
        [(test, cause)] = report.failed
        self.assertEqual(test, "a::b")
        self.assertIn("ended with -9", cause)

    def test_an_executable_that_hangs_is_killed(self):
        with mock.patch.object(test_programs, "LIMIT", 0.5):
            report = self.run_script(f"print({event('started')!r}, flush=True)\nimport time\ntime.sleep(60)")
        self.assertIn("did not end within", report.failed[0][1])

    def test_only_tests_are_taken_from_the_messages_of_cargo(self):
        def message(kind, name, test, executable="/x"):
            return json.dumps({
                "reason": "compiler-artifact", "manifest_path": "/crates/cli/Cargo.toml", "executable": executable,
                "target": {"kind": [kind], "name": name}, "profile": {"test": test},
            })

        lines = [message("bin", "perf-agent", False), message("lib", "cli", True), message("test", "suite", True),
                 message("lib", "other", False, None), '{"reason": "build-finished"}', "warning: text"]
        found = [executable.name for executable in test_programs.executables("\n".join(lines))]
        self.assertEqual(found, ["cli-lib", "cli-suite"])


class Skips(unittest.TestCase):
    def test_reasons_are_expected_of_those_who_have_them(self):
        expected = steps.Expected("# comment\n\nall   no PMU\nother needs root$\n", {"all", "root"})
        self.assertTrue(expected.has("x::y", "no PMU here"))
        self.assertFalse(expected.has("x::y", "needs root"))

    def test_a_skip_for_a_reason_that_is_not_listed_is_a_failure(self):
        gate = steps.Gate.__new__(steps.Gate)
        gate.skips, gate.failures, gate.expected = [], [], steps.Expected("all ^b: known$\n", {"all"})
        with redirect_stdout(io.StringIO()):
            gate.skip("program b", "known", "b")
            self.assertEqual(gate.failures, [])
            gate.skip("program c", "new", "c")
        self.assertEqual((len(gate.failures), len(gate.skips)), (1, 2))

    def test_reasons_are_counted(self):
        rows = steps.reasons([("a", "needs root"), ("b", "no PMU"), ("c", "needs root")])
        self.assertEqual(rows, [(2, "needs root"), (1, "b: no PMU")])


if __name__ == "__main__":
    unittest.main()

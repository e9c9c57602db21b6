"""Tests of leftovers: each kind of thing is found when it is new, and only then."""

import io
import os
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import leftovers

SLEEP = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]


class Leftovers(unittest.TestCase):
    def setUp(self):
        # Other processes make files and mounts at the same time: only one folder is looked at, and no mount but those that a test names.
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in "whole", "shallow/old":
            (self.folder / name).mkdir(parents=True)
        self.patch("WHOLE", [self.folder / "whole"])
        self.patch("SHALLOW", [self.folder / "shallow"])
        self.patch("PATIENCE", 0)
        nothing = {kind: lambda: [] for kind in leftovers.KINDS}
        self.kinds = self.enterContext(mock.patch.dict(leftovers.KINDS, nothing | {"file": leftovers.files}))

    def patch(self, name, value):
        self.enterContext(mock.patch.object(leftovers, name, value))

    def found(self, before, ignored=()):
        return leftovers.lasting(before, list(ignored))

    def start(self, **options):
        process = subprocess.Popen(SLEEP, stdout=subprocess.PIPE, **options)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.stdout.readline()
        return process

    def numbers_of_processes(self, before):
        return [int(line.split()[1]) for line in self.found(before)]

    def test_a_new_file_is_a_leftover_and_an_old_one_is_not(self):
        (self.folder / "whole/old").mkdir()
        before = leftovers.snapshot()
        self.assertEqual(self.found(before), [])
        (self.folder / "whole/old/new").touch()
        self.assertEqual(self.found(before), [f"file {self.folder}/whole/old/new"])

    def test_things_inside_a_new_folder_are_not_listed(self):
        before = leftovers.snapshot()
        (self.folder / "whole/a/b").mkdir(parents=True)
        (self.folder / "whole/a/b/c").touch()
        self.assertEqual(self.found(before), [f"file {self.folder}/whole/a"])

    def test_a_shallow_folder_is_compared_by_its_entries(self):
        before = leftovers.snapshot()
        (self.folder / "shallow/old/new").touch()
        self.assertEqual(self.found(before), [])
        (self.folder / "shallow/new").touch()
        self.assertEqual(self.found(before), [f"file {self.folder}/shallow/new"])

    def test_paths_of_the_list_are_ignored_with_all_below(self):
        (self.folder / "whole/theirs").mkdir()
        listed = self.folder / "list"
        listed.write_text(f"# of others\n\n{self.folder}/whole/theirs\n{self.folder}/whole/th?s\n")
        before = leftovers.snapshot()
        for name in "theirs/new", "thus", "ours":
            (self.folder / "whole" / name).touch()
        self.assertEqual(self.found(before, leftovers.patterns(listed)), [f"file {self.folder}/whole/ours"])

    def test_what_goes_away_is_no_leftover(self):
        before = leftovers.snapshot()
        file = self.folder / "whole/new"
        file.touch()
        code = "import os, sys, time; time.sleep(0.3); os.unlink(sys.argv[1])"
        remover = subprocess.Popen([sys.executable, "-c", code, file])
        self.addCleanup(remover.wait)
        self.patch("PATIENCE", 60)
        self.assertEqual(self.found(before), [])

    def test_processes_of_our_session_and_of_cargo_are_leftovers(self):
        self.kinds["process"] = leftovers.processes
        before = leftovers.snapshot()
        foreign = self.start(start_new_session=True)
        of_session = self.start(env={}, start_new_session=True)
        of_cargo = self.start(env={"CARGO_MANIFEST_DIR": f"{leftovers.ROOT}/crates/x"}, start_new_session=True)
        of_other_tree = self.start(env={"CARGO_MANIFEST_DIR": "/elsewhere/crates/x"}, start_new_session=True)
        # The session of the test itself may be 0.
        with mock.patch.object(os, "getsid", lambda pid: of_session.pid):
            found = self.numbers_of_processes(before)
        self.assertIn(of_session.pid, found)
        self.assertIn(of_cargo.pid, found)
        self.assertNotIn(foreign.pid, found)
        self.assertNotIn(of_other_tree.pid, found)

    def test_session_0_is_no_session_of_the_tests(self):
        process = self.start(env={}, start_new_session=True)
        self.patch("status_of", lambda pid: (2, 0, "1"))
        with mock.patch.object(os, "getsid", lambda pid: 0):
            self.assertFalse(leftovers.is_of_tests(process.pid))

    def test_a_program_of_the_build_is_a_leftover(self):
        self.kinds["process"] = leftovers.processes
        self.patch("TARGET", Path(sys.executable).resolve().parent)
        before = leftovers.snapshot()
        process = self.start(env={}, start_new_session=True)
        self.assertIn(process.pid, self.numbers_of_processes(before))

    def test_ended_and_older_processes_and_ancestors_are_none(self):
        self.kinds["process"] = leftovers.processes
        older = self.start()
        before = leftovers.snapshot()
        before["process"] = [name for name in before["process"] if int(name.split()[0]) != os.getpid()]
        ended = self.start()
        ended.kill()
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        found = self.numbers_of_processes(before)
        self.assertFalse({older.pid, ended.pid, os.getpid()} & set(found), found)

    def test_mounts_have_their_place_and_type_and_are_counted(self):
        lines = "22 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n" + "40 22 0:9 / /mnt rw - tmpfs none rw\n" * 2
        with mock.patch.object(leftovers, "text", {"/proc/self/mountinfo": lines}.get):
            self.assertEqual(list(leftovers.mounts()), ["/ ext4", "/mnt tmpfs", "/mnt tmpfs 2"])

    def test_units_of_systemd_are_allowed_and_groups_inside_of_them_are_not(self):
        groups = []
        self.kinds["control group"] = lambda: groups
        before = leftovers.snapshot()
        groups += ["/g/x.service", "/g/x.service/y", "/g/user.slice/test", "/g/test"]
        self.assertEqual(self.found(before), ["control group /g/test", "control group /g/user.slice/test"])

    def test_probes_and_shared_memory_are_read_from_the_kernel(self):
        probe, memory = "p:uprobes/test /bin/sh:0x1", "key shmid\n 0 7 600\n"
        texts = {"/sys/kernel/tracing/uprobe_events": f"{probe}\n", "/proc/sysvipc/shm": memory}
        with mock.patch.object(leftovers, "text", lambda path: texts.get(path, "")):
            self.assertEqual(list(leftovers.probes()), [probe])
            self.assertEqual(list(leftovers.shared_memory()), ["shm 7"])

    def test_the_exit_status_has_the_result(self):
        file, listed = self.folder / "snapshot", self.folder / "list"
        listed.write_text("*\n")
        self.assertEqual(self.run_command("snapshot", file), (0, ""))
        new = self.folder / "whole/new"
        new.touch()
        self.assertEqual(self.run_command("compare", file), (1, f"file {new}\n"))
        self.assertEqual(self.run_command("compare", file, "--ignore", listed), (0, ""))
        self.assertEqual(self.run_command("compare"), (2, ""))
        self.assertEqual(self.run_command("compare", self.folder / "missing"), (2, ""))

    def run_command(self, *arguments):
        """The exit status and the output."""
        output, status = io.StringIO(), 0
        argv = ["leftovers.py", *map(str, arguments)]
        with mock.patch.object(sys, "argv", argv), redirect_stdout(output), redirect_stderr(io.StringIO()):
            try:
                leftovers.main()
            except SystemExit as end:
                status = int(end.code)
        return status, output.getvalue()


if __name__ == "__main__":
    unittest.main()

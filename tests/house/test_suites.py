#!/usr/bin/env python3
"""What is made of a suite that fails (suites.py): run once more, alone, when --again says so; unsteady when it passes then.

Instead of meson, results are given: a list for each suite, one result for each time that it runs."""
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import processes  # noqa: E402
import suites  # noqa: E402

GOOD, BAD, DIED = ("OK", "suite it: 3 passed, 0 failed, 1 skipped", 0), ("FAIL", "why\nsuite it: 2 passed, 1 failed, 0 skipped", 1), ("FAIL", "", -11)


class Runs:
    """Instead of meson."""

    def __init__(self, plans, leaves=()):
        self.plans, self.leaves, self.there, self.calls = {name: list(p) for name, p in plans.items()}, list(leaves), set(), []

    def run(self, build, names, slower, *options):
        self.calls.append((names, options))
        results = []
        for name in names:
            result, out, status = self.plans[name].pop(0)
            results.append({"name": f"group / {name}", "result": result, "stdout": out, "stderr": "", "returncode": status, "duration": 0.5})
        self.there |= {self.leaves.pop(0)} if self.leaves else set()
        return int(any(r["result"] != "OK" for r in results)), results

    def end(self):
        """A process that ends takes away what it says that it does."""
        self.there -= {x for x in self.there if x.endswith("/socket")}
        return []


class Test(unittest.TestCase):
    def judge(self, plans, *options, leaves=()):
        """The exit status, what was printed, the two logs, and which suites ran when."""
        runs, said = Runs(plans, leaves), io.StringIO()
        with tempfile.TemporaryDirectory() as build, contextlib.redirect_stdout(said), mock.patch.multiple(
                suites, list_suites=lambda *_: list(plans), run_suites=runs.run, traces=lambda _: set(runs.there), end_orphans=runs.end,
                private_places=lambda _: None), mock.patch.object(sys, "argv", ["suites.py", build, *options]):
            status = suites.main()
            logs = [pathlib.Path(build, name).read_text() for name in ("unsteady.log", "failed.log")]
        return status, said.getvalue(), *logs, runs.calls

    def test_which_are_chosen(self):
        lines = ["ninja: no work to do.", "tensord:house / imports", "tensord:python / python_nn", "tensord:python+compat / python_prune"]
        for arguments, names in ((("",), "imports python_nn python_prune"), (("python",), "python_nn python_prune"), (("*_nn,imp",), "imports python_nn"),
                                 (("", "compat"), "python_prune"), (("", "", "compat"), "imports python_nn"), (("nn", "compat"), "")):
            self.assertEqual(suites.chosen(lines, *arguments), names.split())

    def test_all_pass(self):
        status, said, unsteady, failed, calls = self.judge({"a": [GOOD], "b": [GOOD]}, "--again")
        self.assertEqual((status, said.splitlines()[-1], unsteady, failed, len(calls)), (0, "6 passed, 0 failed, 2 skipped", "", "", 1))

    def test_once_by_chance(self):
        for once in BAD, DIED:
            status, said, unsteady, failed, calls = self.judge({"a": [GOOD], "b": [once, GOOD]}, "--again")
            self.assertEqual((status, said.splitlines()[-1], failed), (0, "6 passed, 0 failed, 2 skipped", ""))
            self.assertIn("UNSTEADY b: ", said)
            self.assertIn("why" if once is BAD else "ended by SIGSEGV", unsteady)
            self.assertEqual(calls[1], (["b"], ("--num-processes", "1")))

    def test_twice(self):
        status, said, unsteady, failed, _ = self.judge({"a": [GOOD], "b": [BAD, BAD], "c": [BAD, GOOD]}, "--again")
        self.assertEqual((status, said.splitlines()[-1]), (1, "8 passed, 1 failed, 2 skipped"))
        self.assertIn("== b: fail", failed)
        self.assertIn("UNSTEADY c: ", said)
        self.assertNotIn("UNSTEADY b", said)
        self.assertNotIn("== b", unsteady)

    def test_only_when_told(self):
        status, said, unsteady, failed, calls = self.judge({"b": [BAD, GOOD]})
        self.assertEqual((status, said.splitlines()[-1], len(calls)), (1, "2 passed, 1 failed, 0 skipped", 1))

    def test_many_are_no_chance(self):
        plans = {f"s{k}": [BAD, GOOD] for k in range(suites.CHANCE + 1)}
        status, _, unsteady, _, calls = self.judge(plans, "--again")
        self.assertEqual((status, unsteady, len(calls)), (1, "", 1))

    def test_what_is_left(self):
        """Behind a suite that failed it is a part of its failure; behind others, or by the second run, it is a failure."""
        status, said, unsteady, *_ = self.judge({"b": [BAD, GOOD]}, "--again", leaves=["/x"])
        self.assertEqual((status, "left behind: /x" in unsteady), (0, True))
        for leaves, plan in ((["/x"], [GOOD]), (["/x"], [BAD, BAD]), ([], [BAD, GOOD])):
            status, said, *_ = self.judge({"b": plan}, "--again", leaves=leaves or ["/x", "/y"])
            self.assertEqual(status, 1)
            self.assertIn(f"left behind: {leaves[0] if leaves else '/y'}", said)

    def test_what_hangs(self):
        """It is ended with all its processes, and where they stood is said; meson, the parent of the suite, goes on."""
        suite = ["sh", "-c", "sleep 98765 & wait"]
        meson = [sys.executable, "-c", f"import subprocess, sys; sys.exit(subprocess.run({suite}).returncode != -9)"]
        # It has run for long as soon as its own process is there.
        with mock.patch.object(suites, "seconds_of", lambda pid: 1e9 if ["sleep", "98765"] in map(suites.command_of, suites.below(pid)) else 0):
            status, said = suites.run_reaping(meson)
        self.assertEqual((status, list(said)), (0, [tuple(suite)]))
        text = "\n".join(said[tuple(suite)])
        self.assertRegex(text, r"(?s)HANGS: .*process \d+: sh -c .*process \d+: sleep 98765\n    sleep: \S+")
        self.assertEqual([p for p in suites.processes() if suites.command_of(p[0]) == ["sleep", "98765"]], [])

    def test_stacks_by_gdb(self):
        text = ('Thread 2 (Thread 0x1 (LWP 8) "worker"):\n#0  __futex_wait (x=1) at ./nptl/futex.c:57\n#1  0x00 in uv_cond_wait () from /lib/libuv.so\n'
                '#2  0x01 in td_pool_pick (p=0x7) at ../daemon/sched/queue.c:207\n#3  0x02 in start_thread (arg=1) at ./nptl/create.c:4\n\n'
                'Thread 1 (Thread 0x2 (LWP 7)):\n#0  __waits () at wait.c:3\n')
        self.assertEqual(processes.threads_by_gdb(text), ["worker: __futex_wait futex.c:57 < uv_cond_wait < td_pool_pick queue.c:207", "?: __waits wait.c:3"])

    def test_what_goes_with_its_process(self):
        """It is not left behind: processes end first."""
        self.assertEqual(self.judge({"a": [GOOD]}, leaves=["/run/socket"])[0], 0)


if __name__ == "__main__":
    unittest.main()

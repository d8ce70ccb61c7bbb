#!/usr/bin/env python3
"""Run the suites of a build directory through `meson test`, show each runner's own summary, and add up.

A suite says what it checked by a line `suite NAME: P passed, F failed, S skipped` (cunit_main.h prints it) and one line
`SKIP what: why` for each skip; of a suite without such a line CUnit's own count is
taken, or else it is one check. Invariant: the last line printed is
`N passed, N failed, N skipped`, and it counts as failures a suite that died before it could say so, and whatever the suites
left behind: processes, names in /dev/shm, files outside the build directory. What failed is said again in BUILD/failed.log, for whoever runs
several builds and can only show the end.

With --again a suite that failed is run once more, alone. What passes then counts as passed, is named in a line `UNSTEADY NAME: ...`, and the
first run's words are kept in BUILD/unsteady.log: chance must not stop a change, and an unsteady suite is a defect.

A suite that hangs is ended, and a line for each thread of its processes says where it stood: meson would wait for as long as a sanitizer makes a
suite slower, which is longer than a whole run may take, and would say nothing."""
import argparse
import contextlib
import ctypes
import fnmatch
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

from processes import below, command_of, processes, seconds_of, stacks

COUNTS = re.compile(r"^suite \S+: (\d+) passed, (\d+) failed, (\d+) skipped$", re.M)
CUNIT = re.compile(r"^Run Summary:.*?^ +tests +\d+ +(\d+) +(\d+) +(\d+).*?asserts.*?$", re.M | re.S)
SKIPPED = re.compile(r"^SKIP\b:? *(.*)$", re.M)
CHANCE = 8  # suites: where more failed it was none
HANGS = 600  # seconds: a suite that takes longer hangs. The slowest takes half as long, with a sanitizer


def chosen(lines, only, group="", no_group=""):
    """Names of the tests that meson lists as `project:group+group / name`: all, or those that contain (or match, as a glob) one of the patterns of
    `only`, are in `group`, and are not in `no_group`."""
    rows = [line.split(" / ") for line in lines if " / " in line]
    tests = [(row[-1].strip(), row[0].strip().rpartition(":")[2].split("+")) for row in rows]
    return [n for n, groups in tests if (not only or any(p in n or fnmatch.fnmatch(n, p) for p in only.split(","))) and
            (not group or group in groups) and (not no_group or no_group not in groups)]


def list_suites(build, only, group, no_group):
    listed = subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--list"], capture_output=True, text=True)
    if listed.returncode:
        sys.exit(f"suites: meson cannot list the tests of {build}: {listed.stderr.strip() or listed.stdout.strip()}")
    return chosen(listed.stdout.splitlines(), only, group, no_group)


def private_places(build):
    """Where sockets and temporary files of the suites go: below the build directory when a socket's path fits there."""
    for variable, name in ("TMPDIR", "tmp"), ("XDG_RUNTIME_DIR", "run"):
        place = os.path.join(os.path.abspath(build), name)
        if len(place) < 40:
            shutil.rmtree(place, ignore_errors=True)
            os.makedirs(place, mode=0o700)
            os.environ[variable] = place
        elif variable == "XDG_RUNTIME_DIR":
            os.environ.pop(variable, None)


def traces(source):
    """What must be the same before and after: our names in /dev/shm and for temporary files, files outside the build."""
    left = {"/dev/shm/" + n for n in os.listdir("/dev/shm") if "tensord" in n or n.startswith("td")}
    for place in filter(None, map(os.environ.get, ("TMPDIR", "XDG_RUNTIME_DIR"))):
        left |= {os.path.join(place, n) for n in os.listdir(place)}
    git = subprocess.run(["git", "-C", source, "status", "--porcelain", "--ignored"], capture_output=True, text=True)
    return left | {line[3:] for line in git.stdout.splitlines() if not line[3:].startswith("build")}


def orphans():
    """Processes that the suites started and left to us (we are the subreaper)."""
    return [(pid, name) for pid, name, state, parent in processes() if parent == os.getpid() and state != "Z"]


def end_orphans():
    """End them, and say who they were. What ends by itself has time to: a private daemon whose program was killed before it could connect
    waits ten seconds for it, and one with items in a queue a minute for somebody who takes them."""
    deadline = time.monotonic() + 100
    while orphans() and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [(pid, name, " ".join(command_of(pid))[:200]) for pid, name in orphans()]
    for pid, *_ in left:
        os.kill(pid, signal.SIGKILL)
    return [f"process {pid} ({name}): {words}" for pid, name, words in left]


class Hangs:
    """Looks, beside a run of meson, at each suite that meson has started; ends those that hang. `said` has lines for the command of each."""

    def __init__(self, meson):
        self.meson, self.said, self.ended = meson, {}, threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self):
        while not self.ended.wait(2):
            for pid, _, _, parent in processes():
                if parent == self.meson and seconds_of(pid) > HANGS:
                    self.end(pid)

    def end(self, suite):
        """The suite's processes, and those that it left to us: one of them may be what it waits for."""
        theirs = [suite, *sorted(below(suite)), *(pid for pid, _ in orphans() if pid != self.meson)]
        lines = [f"HANGS: it has run for {HANGS} s, and is ended. Its processes, and those that their parents left, stood in:"]
        for pid in theirs:
            if command := command_of(pid):  # else it has ended meanwhile
                lines += [f"  process {pid}: {' '.join(command)[:200]}", *(f"    {line}" for line in stacks(pid))]
        self.said[tuple(command_of(suite))] = lines
        for pid in [suite, *below(suite)]:  # it first: it would take a child that ends for an answer
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self):
        """Look no more; what was said."""
        self.ended.set()
        self.thread.join()
        return self.said


def run_reaping(command):
    """Run meson; meanwhile collect, as init would, what the suites' processes leave to us when they have ended. Meson's status, and what is said of
    suites that hung: lines for the command of each."""
    run = subprocess.Popen(command)
    hangs = Hangs(run.pid)
    while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT).si_pid) != run.pid:
        with contextlib.suppress(ChildProcessError):  # it was gdb, and `hangs` has waited for it
            os.waitpid(ended, 0)
    return run.wait(), hangs.stop()


def run_suites(build, names, slower, *options):
    """Run suites of a build directory; meson's exit status and what it says of each, a dict with `name`, `result`, `stdout` and so on."""
    log = os.path.join(build, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.unlink(log)
    status, hung = run_reaping(["meson", "test", "-C", build, "--no-rebuild", "-t", str(slower), *options, *names])
    try:
        with open(log) as f:
            results = [json.loads(line) for line in f]
    except OSError:
        sys.exit("suites: meson test left no log")
    for result in results:
        if result.get("returncode") == -signal.SIGKILL and (lines := hung.get(tuple(result["command"]))):
            result["stderr"] = "\n".join([result.get("stderr") or "", *lines])
    return status, results


def name_of(result):
    """A suite's name, without its project's and its group's."""
    return result["name"].split(" / ")[-1]


def count(result):
    """(passed, failed, skipped) of one suite."""
    out = result.get("stdout") or ""
    said = COUNTS.findall(out)
    good = result["result"] in ("OK", "SKIP")
    passed, failed, skipped = (sum(int(s[k]) for s in said) for k in range(3))
    if not said and (counted := CUNIT.search(out)):
        passed, failed = int(counted.group(2)), int(counted.group(3))
    elif not said:
        passed, failed, skipped = int(result["result"] == "OK"), int(not good), int(result["result"] == "SKIP")
    if not good and not failed:
        failed = 1  # it counted nothing wrong, but did not end well: a crash, a leak at exit
    return passed, failed, skipped


def heading(result):
    return f"== {name_of(result)}: {result['result'].lower()}, {result['duration']:.1f} s"


def words(result):
    """The last lines that a failed suite said, under its heading."""
    lines = [line for k in ("stdout", "stderr") for line in (result.get(k) or "").strip().splitlines()[-100:]]
    if result.get("returncode", 0) < 0:
        lines.append(f"ended by {signal.Signals(-result['returncode']).name}")
    return [heading(result), *lines]


def report(result):
    """Show one suite; its (passed, failed, skipped)."""
    out = result.get("stdout") or ""
    passed, failed, skipped = count(result)
    print("\n" + "\n".join(words(result) if failed else [heading(result)]))
    if failed:
        pass  # that is all
    elif summary := CUNIT.search(out):
        print(summary.group(0))
    elif lines := [x for x in out.strip().splitlines() if not SKIPPED.match(x) and not COUNTS.match(x)]:
        print(lines[-1])
    reasons = SKIPPED.findall(out)
    for reason in reasons or (["no reason given"] if skipped else []):
        print(f"SKIP {reason}")
    print(f"suite {name_of(result)}: {passed} passed, {failed} failed, {skipped} skipped")
    return passed, failed, skipped


def left_behind(source, before):
    """What the suites left, as it is told; it is not there any more, or known, when they run again."""
    processes = end_orphans()  # a private daemon removes its socket when it ends
    now = traces(source)
    left = processes + sorted(now - before)
    before |= now
    return [f"FAILED the suites left behind: {what}" for what in left]


def failed(results):
    """Names of those that failed."""
    return [name_of(r) for r in results if count(r)[1]]


def run_again(build, slower, first):
    """Once more, one at a time, what failed of the first results: the results there are then, and the first ones of those that passed now."""
    names = failed(first)
    if not 0 < len(names) <= CHANCE:
        return first, []
    print(f"\nonce more, alone: {', '.join(names)}", flush=True)
    second = {name_of(r): r for r in run_suites(build, names, slower, "--num-processes", "1")[1]}
    results = [second.get(name_of(r), r) for r in first]
    return results, [r for r in first if name_of(r) in set(names) - set(failed(results))]


def keep(build, name, lines):
    with open(os.path.join(build, name), "w") as f:
        f.writelines(line + "\n" for line in lines)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("build")
    ap.add_argument("--only", default="", help="patterns of names of suites, separated by commas")
    ap.add_argument("--group", default="", help="only suites of this group of meson.build")
    ap.add_argument("--no-group", default="", help="no suite of this group")
    ap.add_argument("--list", action="store_true", help="say which suites these are, and run none")
    ap.add_argument("--as-it-is", action="store_true", help="let TMPDIR and XDG_RUNTIME_DIR be what they are")
    ap.add_argument("--again", action="store_true", help="run once more, alone, what failed")
    ap.add_argument("--slower", type=float, default=1, help="times by which time limits are longer")
    args = ap.parse_args()
    names = list_suites(args.build, args.only, args.group, args.no_group)
    if not names:
        sys.exit(f"suites: no suite matches '{args.only}'" + f" in the group '{args.group}'" * bool(args.group))
    if args.list:
        print("\n".join(names))
        return 0
    source = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
    if not args.as_it_is:
        private_places(args.build)
    os.environ["TENSORD_BELOW"] = str(os.getpid())  # each suite is a program of its own, with a private daemon of its own
    before = traces(source)
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: what suites leave becomes ours
    # Many wait more than they compute: one more than there are processors keeps these at work.
    status, results = run_suites(args.build, names, args.slower, "--num-processes", str(len(os.sched_getaffinity(0)) + 1))
    left, unsteady, chance = left_behind(source, before), [], []
    if args.again:
        results, unsteady = run_again(args.build, args.slower, results)
        if unsteady and not failed(results):  # what a suite leaves behind that fails is a part of its failure
            left, chance = [], left
        left += left_behind(source, before)
    total = [sum(column) for column in zip(*map(report, results))] or [0, 0, 0]
    total[1] += len(left) + (1 if status and not total[1] and not unsteady else 0) + max(0, len(names) - len(results))
    print("\n".join([f"UNSTEADY {name_of(r)}: it failed, and passed once more, alone" for r in unsteady] + left))
    keep(args.build, "unsteady.log", [line for r in unsteady for line in words(r)] + chance)
    keep(args.build, "failed.log", [line for r in results if count(r)[1] for line in words(r)] + left)
    if failed(results):
        print(f"\nfailed: {', '.join(failed(results))}; what they said is in {os.path.relpath(args.build)}/failed.log")
    print("\n{} passed, {} failed, {} skipped".format(*total))
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main())

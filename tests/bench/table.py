#!/usr/bin/env python3
"""Run the benchmarks of a build directory and put their lines together: name | ours | reference | ratio | goal.

A program prints `ours`, `reference` and `skip` lines (see bench.h); a reference to `@NAME` is what tensord took for that
one, in another program of the same run. Invariant: a name appears once, with a reference that
was measured in this run; one without is a skip with its reason. The exit status is 0 unless a program failed: a goal that
is missed is marked, and no error."""
import argparse
import json
import os
import shutil
import subprocess
import sys

PROGRAMS = ["bench_wire", "bench_handoff", "bench_train", "bench_kernels", "bench_daemon", "bench_programs", "bench_turns", "bench_mpi", "bench_http"]
PYTHON_PROGRAMS = ["bench_python", "bench_train", "bench_python_handoff", "bench_loader", "bench_files", "bench_serve", "bench_models", "bench_infer", "bench_cnn", "bench_group"]  # the first torch's python, or this one
ASKED_FOR = ["bench_every_op"]  # takes minutes: by --only alone


class Results:
    def __init__(self):
        self.ours, self.references, self.skips = {}, {}, {}

    def read(self, text):
        for line in text.splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "ours":
                name, value, more = rest.split(" ", 2)
                unit, _, goal = more.rpartition(" ")  # a unit may be of several words
                self.ours[name] = float(value), unit, float(goal)
            elif kind == "reference":
                name, value, what = rest.split(" ", 2)
                self.references[name] = float(value), what
            elif kind == "skip":
                name, _, reason = rest.partition(" ")
                self.skips[name] = reason

    def rows(self, no_torch):
        rows = []
        for name, (value, unit, goal) in self.ours.items():
            if name not in self.references:
                self.skips[name] = no_torch or "no reference was measured"
                continue
            reference, what = self.references[name]
            if what.startswith("@"):
                if what[1:] not in self.ours:
                    self.skips[name] = f"{what[1:]} was not measured"
                    continue
                reference, what = self.ours[what[1:]][0], f"{what[1:]}, the same in C"
            rows.append({"name": name, "ours": value, "reference": reference, "unit": unit,
                         "ratio": value / reference, "goal": goal, "against": what})
        return rows


def run(command, env, results):
    """Run one program; the reason why it failed, or None."""
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    results.read(done.stdout)
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]


def torch_python():
    """The first python that can import torch (of $TENSORD_TORCH_PYTHON, the caller's $PATH, Debian's), or why there is none."""
    for python in filter(None, (os.environ.get("TENSORD_TORCH_PYTHON"), shutil.which("python3"), "/usr/bin/python3")):
        if subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0:
            return python, None
    return None, "torch is not importable (python3-torch is not installed, and $TENSORD_TORCH_PYTHON names no other)"


def short(ratio):
    return f"{ratio:.2f}" if ratio >= 0.1 or not ratio else f"{ratio:.2g}"


def show(rows, skips):
    table = [("name", "ours", "reference", "ratio", "goal", "", "against")]
    for r in rows:
        table.append((r["name"], f"{r['ours']:.4g} {r['unit']}", f"{r['reference']:.4g} {r['unit']}", short(r["ratio"]),
                      f"<= {short(r['goal'])}", "" if r["ratio"] <= r["goal"] else "missed", r["against"]))
    width = [max(len(line[k]) for line in table) for k in range(7)]
    for line in table:
        cells = [line[0].ljust(width[0])] + [line[k].rjust(width[k]) for k in range(1, 5)]
        print(" | ".join(cells) + "  " + line[5].ljust(width[5]) + "  " + line[6])
    for name, reason in skips.items():
        print(f"SKIP {name}: {reason}")


def conditions():
    """What figures are worth depends on: a table that is shown elsewhere says it too."""
    policy = {os.SCHED_OTHER: "ordinary", os.SCHED_FIFO: "real-time (FIFO)", os.SCHED_RR: "real-time (RR)"}
    priority = policy.get(os.sched_getscheduler(0), "other") + (f", nice {os.nice(0)}" if os.nice(0) else "")
    return (f"{len(os.sched_getaffinity(0))} processors, Linux {os.uname().release.split('-')[0]}, {priority} priority, "
            f"load of the last minute before it began {os.getloadavg()[0]:.2f}")


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("build")
    ap.add_argument("--json", action="store_true")
    ap.add_argument("--only", default="", help="programs whose names contain this")
    args = ap.parse_args()
    env = dict(os.environ, TENSORD_DAEMON=os.path.join(args.build, "daemon", "server", "tensord"))
    env.pop("TENSORD_SOCKET", None)
    results, failed, began = Results(), False, conditions()
    python, no_torch = torch_python()
    commands = [[os.path.join(args.build, "tests", "bench", p)] for p in PROGRAMS if args.only in p]
    here = os.path.dirname(os.path.abspath(__file__))
    env["PYTHONPATH"] = os.path.join(args.build, "client", "python")
    if python:
        commands.append([python, os.path.join(here, "torch_reference.py")])
    commands += [[python or sys.executable, os.path.join(here, p + ".py")] for p in PYTHON_PROGRAMS + ASKED_FOR * bool(args.only) if args.only in p]
    for command in commands:
        print(f"running {os.path.basename(command[-1])}", file=sys.stderr, flush=True)
        if reason := run(command, env, results):
            print(f"bench: {os.path.basename(command[-1])} failed: {reason}", file=sys.stderr)
            failed = True
    rows = results.rows(no_torch)
    print(f"measured on {began}", file=sys.stderr if args.json else sys.stdout)
    if args.json:
        print(json.dumps(rows, indent=1))
        for name, reason in results.skips.items():
            print(f"SKIP {name}: {reason}", file=sys.stderr)
    else:
        show(rows, results.skips)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

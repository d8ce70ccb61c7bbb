"""Each byte that a daemon holds is in a row of td.status("tensors"): of whatever kind, and when its program has ended or was killed, in none."""
import collections
import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
import tensord as td
from common import SLOW, daemon, wait_for

BEGIN = """
import pickle, sys, threading, time
import tensord as td
from tensord import jit

def until(met):
    while not met(): time.sleep(0.001)

def queue(name):
    return next(row for row in td.status("queues") if row["queue"] == name)
"""

# Of a C program, which has no other library.
LEASE = """
import ctypes, os, sys
lib = ctypes.CDLL(os.path.join(os.path.dirname(os.environ["TENSORD_DAEMON"]), "../../client/libtensord.so"))
lib.td_connect.argtypes, lib.td_connect.restype = [ctypes.c_char_p], ctypes.c_void_p
lib.td_lease_new.argtypes, lib.td_lease_new.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_void_p
assert lib.td_lease_new(lib.td_connect(None), 100000)
"""

# What a program does; kind, name and bytes of a row that is there then.
KINDS = {
    "tensor": ("x = td.ones(1000)", ("tensor", "", 4032)),
    "views": ("x = td.ones(1000); y = [x[k:] for k in range(50)]", ("tensor", "", 4032)),
    "gradient": ("w = td.ones(1000, requires_grad=True); w.sum().backward()", ("gradient", "", 4032)),
    "graph": ("w = td.ones(1000, requires_grad=True); y = (w * 2).exp().sin().sum()", ("graph", "", 4032)),
    "name": ("td.ones(1000).publish('a name')", ("name", "a name", 4032)),
    "tree": ("td.publish('a tree', {'a': td.ones(500), 'b': [td.ones(500)]})", ("tree", "a tree", 4352)),
    "handle": ("kept = td.ones(1000); pickled = pickle.dumps(kept)", ("handle", None, 4032)),
    "queue item": ("q = td.Queue('a queue', 3, keep=0); q.put({'x': td.ones(1000), 'y': [td.ones(1)]})", ("queue item", "a queue", 4096)),
    "item without tensors": ("q = td.Queue('a queue', 3, keep=0); q.put('x' * 100000)", ("queue item", "a queue", 0)),
    "item that waits for room": ("q = td.Queue('a queue', 1, keep=0); q.put(1); threading.Thread(target=lambda: q.put(td.ones(1000)), daemon=True).start(); "
                                 "until(lambda: queue('a queue')['waiting_put'])", ("queue item", "a queue", 4032)),
    "large item": ("q = td.Queue('a queue', 1, keep=0); q.put([td.ones(1) for _ in range(1000)])", ("queue item", "a queue", 64000)),
    "copy": ("q = td.Queue('a queue', 3, keep=0); x = td.ones(1000); q.put(x); x += 1", ("copy", "a queue", 4032)),
    "program": ("w = td.ones(1000); f = jit.trace(lambda x: x * w, td.ones(1000)); f.publish('a program'); del f, w; g = jit.open('a program'); td.drop('a program')", ("program", "", 4032)),
    "program of tensors that are there": ("w = td.ones(1000); f = jit.trace(lambda x: x * w, td.ones(1000)); f(w).sum().item()", ("program", "", 0)),
    "named program": ("w = td.ones(1000); f = jit.trace(lambda x: x * w, td.ones(1000)); f.publish('a program'); del f, w", ("program", "a program", 4032)),
    "ring": ("x = td.ones(1)\nfor _ in range(100): x.item()", ("ring", "", 262400)),
    "memory to fill": (LEASE, ("lease", "", 100032)),
    "stream under way": ("x = td.ones(300, 300)\nfor _ in range(200): x = x @ x * 1e-3\ntd.sync()", ("tensor", "", 360000)),
}


class Program:
    """A program at the daemon that does what it is told, then stays."""

    running: "list[Program]" = []

    def __init__(self, path, text):
        begin, end = ("", "") if text is LEASE else (BEGIN, "td.sync()")
        source = f"{begin}\n{textwrap.dedent(text)}\n{end}\nprint('there', flush=True)\nsys.stdin.read()\n"
        env = {**os.environ, "TENSORD_SOCKET": path}
        self.process = subprocess.Popen([sys.executable, "-c", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.running.append(self)
        assert self.process.stdout.readline() == "there\n"

    def end(self, killed):
        self.running.remove(self)
        if killed:
            self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=100 * SLOW)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with daemon(str(tmp_path_factory.mktemp("daemon"))) as d:
        td.connect(d.path)
        for _ in range(200):
            td.ones(1).item()  # who waits often has a ring: from now on
        yield d.path
        td.disconnect()


@pytest.fixture(autouse=True)
def alone(place):
    """Nothing is there when a test begins, and what a failed one leaves goes."""
    nothing_is_left()
    yield
    while Program.running:
        Program.running[0].end(killed=True)
    nothing_is_left([row["name"] for row in td.status("names")])


def sums(rows):
    """Of what lies on the CPU: used, and committed; and of the daemon's own memory, where connections' buffers are apart: they change as this is told."""
    here = [row for row in rows if row["device"] == "cpu"]
    used = sum(row["bytes_used"] for row in here)
    return used, used + sum(row["bytes_idle"] for row in here), sum(row["bytes_own"] for row in rows if row["kind"] != "connection")


def counted():
    s = {row["key"]: row["value"] for row in td.status()}
    return s["bytes_used"], s["bytes_committed"], s["bytes_own"] - s["bytes_of_connections"]


def of_all():
    """The rows, once they add up to what the daemon counts: what has just ended may go between the two tables."""
    td.sync()
    seen = []

    def agree():
        rows = td.status("tensors")
        seen[:] = [rows, sums(rows), counted()]
        return seen[1] == seen[2]

    assert wait_for(agree), seen
    return seen[0]


def of_others(rows):
    """Bytes by kind that are not this process's."""
    by = collections.Counter()
    for row in rows:
        if row["pid"] != os.getpid():
            by[row["kind"]] += row["bytes_used"]
    return {kind: n for kind, n in by.items() if n}


def nothing_is_left(names=()):
    for name in names:
        td.drop(name)
    assert wait_for(lambda: not of_others(td.status("tensors"))), td.status("tensors")
    assert not of_others(of_all())


@pytest.mark.parametrize("killed", (False, True), ids=("ends", "is killed"))
@pytest.mark.parametrize("what", KINDS)
def test_each_byte_is_in_a_row(what, killed, place):
    text, (kind, name, used) = KINDS[what]
    p = Program(place, text)
    rows = [row for row in of_all() if row["kind"] == kind and row["pid"] == p.process.pid and name in (None, row["name"])]
    assert rows and used in (None, sum(row["bytes_used"] for row in rows)) or used in [row["bytes_used"] for row in rows], rows
    assert all(row["uid"] == os.getuid() and row["session"] and row["program"] for row in rows)
    p.end(killed)
    nothing_is_left([row["name"] for row in td.status("names")])
    assert {row["kind"] for row in of_all() if row["pid"] != os.getpid()} <= {"free", "warm", "records", "connection"}


def test_all_kinds_together(place):
    """What several hold counts once."""
    programs = [Program(place, text if text is LEASE else text.replace("'a ", f"'{k} a ")) for k, (text, _) in enumerate(KINDS.values())]
    rows = of_all()
    assert {kind for kind, _, _ in (row for _, row in KINDS.values())} <= {row["kind"] for row in rows}
    for k, p in enumerate(programs):
        p.end(k % 2)
        of_all()
    nothing_is_left([row["name"] for row in td.status("names")])


def test_what_others_hold_of_one_that_was_killed(place):
    """A graph that another has extended, an item that stays: they say whose it was."""
    q = td.Queue("of the killed", 3)
    p = Program(place, "q = td.Queue('of the killed', 3); w = td.ones(1000, requires_grad=True); q.put((w * 2).exp().sin()); q.put(td.ones(500))")
    y = q.get()
    z = (y * 3).sum()
    pid = p.process.pid
    p.end(killed=True)

    def ended():
        return {row["kind"]: row["bytes_used"] for row in of_all() if row["pid"] == pid and row["bytes_used"]}

    assert wait_for(lambda: ended() == {"queue item": 2048, "ended session": 8064}), ended()  # w, and what sin() has saved
    assert q.get().tolist() == [1] * 500
    del y, z
    nothing_is_left()


def test_more_than_there_are_rows_for(place):
    """The rest of each kind is in one row, of each session."""
    p = Program(place, "x = [td.ones(1) for _ in range(12000)]; y = [x[0][:] for _ in range(10)]")
    rows = of_all()
    mine = [row for row in rows if row["pid"] == p.process.pid and row["kind"] == "tensor"]
    assert 9000 < len(mine) <= 10001 and sum(row["bytes_used"] for row in mine) == 12000 * 64
    assert mine[-1]["tensor"] == f"and {12010 - len(mine) + 1} more" and mine[-1]["program"] == mine[0]["program"]
    p.end(killed=True)
    nothing_is_left()


def test_queues_tell_what_they_hold(place):
    def held():
        return next(row["bytes"] for row in td.status("queues") if row["queue"] == "weighed")

    q = td.Queue("weighed", 2)
    q.put(td.ones(1000))
    one = held()
    assert 4000 <= one < 4400
    x = td.ones(2000)
    q.put({"a": x, "b": x[:1000]})
    both = held()
    assert one + 12000 <= both < one + 12400
    p = Program(place, "q = td.Queue('weighed', 2); threading.Thread(target=lambda: q.put(td.ones(5000)), daemon=True).start(); until(lambda: queue('weighed')['waiting_put'])")
    assert both + 20000 <= held() < both + 20400
    p.end(killed=True)
    assert wait_for(lambda: held() == both)
    q.get()
    assert held() == both - one
    q.get()
    assert held() == 0


def test_tensorctl_shows_them(place):
    p = Program(place, "td.ones(1000).publish('shown'); q = td.Queue('shown', 3, keep=0); q.put(td.ones(2000))")
    tensorctl = os.path.join(os.path.dirname(os.environ["TENSORD_DAEMON"]), "../../client/tensorctl")

    def tell(*args):
        return subprocess.run([tensorctl, "--socket", place, *args], check=True, timeout=60 * SLOW, stdout=subprocess.PIPE, text=True).stdout

    shown = [line.split() for line in tell("tensors").splitlines()]
    assert shown[0] == ["program", "pid", "kind", "bytes", "bytes_own", "rows", "oldest_s", "largest", "where"]
    pid = str(p.process.pid)
    assert ["python3", pid, "name", "4.0", "kB"] in [line[:5] for line in shown] or [pid, "name", "4.0", "kB"] in [line[1:5] for line in shown], shown
    assert [pid, "queue", "item", "8.0", "kB"] in [line[1:6] for line in shown], shown
    rows = json.loads(tell("--json", "tensors"))
    assert {"bytes_used", "bytes_idle", "bytes_own", "kind", "name"} <= rows[0].keys()
    assert [line[:2] for line in shown[-2:]] == [["all", "used"], ["all", "committed"]]
    assert "8.0 kB" in tell("queues") and 'queue_bytes{queue="shown"} 8' in tell("--prometheus")
    p.end(killed=False)
    td.drop("shown")


def test_segments_are_told_in_parts(place):
    """Each once, of a session that has many, too."""
    p = Program(place, "x = [td.ones(1 << 20) for _ in range(40)]")

    def told():
        rows, counts = td.status("segments"), {row["key"]: row["value"] for row in td.status()}
        committed = sum(row["bytes"] for row in rows) + counts["bytes_warm"]
        seen[:] = rows, committed, counts["bytes_committed"]
        return committed == counts["bytes_committed"]

    seen = []
    assert wait_for(told), seen
    rows = seen[0]
    many = [row for row in rows if row["session"] == next(s["session"] for s in td.status("sessions") if s["pid"] == p.process.pid)]
    assert len(many) > 12 and len({(row["segment"], row["generation"]) for row in rows}) == len(rows)
    p.end(killed=True)


def test_it_is_told_while_all_of_it_changes(place):
    """Names, items, programs and sessions come and go while the table is made."""
    churn = """
        def change(k):
            q = td.Queue("churn", 200, keep=0)
            while True:
                for _ in range(100): q.put([td.ones(k + 1) for k in range(20)])
                td.ones(10).publish(f"churn {k}")
                fs = [jit.trace(lambda x: x + w, td.ones(1)) for w in td.ones(30)]
                for f in fs: f(td.ones(1))
                del fs, f
                for _ in range(100): q.get()
                td.drop(f"churn {k}")
        threading.Thread(target=change, args=(%d,), daemon=True).start()
        until(lambda: td.status("queues"))
    """
    programs = []
    for k in range(12):
        programs.append(Program(place, churn % k))
        for _ in range(3):
            assert all(row["bytes_used"] >= 0 and row["bytes_idle"] >= 0 and row["bytes_own"] >= 0 for row in td.status("tensors"))
        if len(programs) > 2:
            programs.pop(0).end(killed=True)
    for p in programs:
        p.end(killed=True)
    nothing_is_left([row["name"] for row in td.status("names")])

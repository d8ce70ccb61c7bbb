"""Ctrl-C ends every wait at once, whatever is waited for; and afterwards everything goes on."""
import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from common import SLOW, daemon, script, seed

# What waits while the daemon does not answer (it is stopped): how it is made ready, and the wait.
STOPPED = {
    "a value": ("x = td.ones(3)", "x.tolist()"),
    "a number": ("x = td.ones(1)", "x.item()"),
    "a truth": ("x = td.ones(1)", "bool(x)"),
    "text": ("x = td.ones(3)", "repr(x)"),
    "everything": ("x = td.ones(3)", "td.sync()"),
    "an array": ("import numpy; x = td.ones(3000)", "x.numpy()"),
    "a buffer": ("x = td.ones(3000)", "memoryview(x)"),
    "a capsule": ("x = td.ones(3000)", "x.__dlpack__()"),
    "memory to fill": ("data = bytes(1 << 20)", "td.asarray(memoryview(data))"),
    "a shape": ("x = td.arange(4)", "td.nonzero(x).shape"),
    "a mask": ("x = td.arange(4)", "x[x > 1].tolist()"),
    "a gradient": ("x = td.ones(3, requires_grad=True); (x * x).sum().backward()", "x.grad"),
    "backward": ("x = td.ones(3, requires_grad=True); y = (x * x).sum()", "y.backward(); x.grad.tolist()"),
    "gradients": ("x = td.ones(3, requires_grad=True); y = (x * x).sum()", "td.autograd.grad(y, x)[0].tolist()"),
    "requires_grad": ("x = td.open('w')", "x.requires_grad"),
    "a name": ("", "td.open('w')"),
    "a name's end": ("", "td.drop('no')"),
    "publishing": ("x = td.ones(2)", "x.publish('p', replace=True)"),
    "pickling": ("import pickle; x = td.ones(2)", "pickle.loads(pickle.dumps(x))"),
    "a table": ("", "td.status('sessions')"),
    "a queue's put": ("q = td.Queue('a', 4); q.put(0)", "q.put(1, timeout=500)"),
    "a queue's get": ("q = td.Queue('b', 4); q.put(0); q.put(1); q.get()", "q.get()"),
    "a queue": ("", "td.Queue('c', 4).put(1)"),
    "a write": ("import numpy; x = td.ones(3)", "x.writing().__enter__()"),
    "room to send": ("x = td.ones(3)", "for _ in range(10 ** 9): x.add_(1)"),
    "a connection": ("", "td.connect(td.connection()['path'])"),
}
# What waits for somebody else while the daemon answers: also the wait's own deadline is none.
OTHERS = {
    "a name that nobody gave": ("", "td.open('never', timeout=None)"),
    "an empty queue": ("q = td.Queue('d'); q.put(0); q.get()", "q.get()"),
    "the items of a queue": ("q = td.Queue('f'); q.put(0)", "list(q)"),
    "a full queue": ("q = td.Queue('h', 1); q.put(0)", "q.put(1)"),
    "a full queue, for a time": ("q = td.Queue('e', 1); q.put(0, timeout=1)", "q.put(1, timeout=500)"),
    "a handle that nobody made": ("from tensord import _C", "_C._take('handle/' + '0' * 32, None)"),
}
LOADERS = {
    "a worker that sleeps": ("it = iter(DataLoader(Slow(), num_workers=2))", "next(it)"),
    "this process's own sample": ("it = iter(DataLoader(Slow()))", "next(it)"),
}
PROGRAM = """
import os, pickle, signal, sys, threading, time
import tensord as td
stop, ready, loader = sys.argv[1] == "stop", sys.argv[2], sys.argv[4] == "loader"
wait = compile(sys.argv[3], "wait", "exec")  # exec() of text makes Python end by the signal, although it was caught

class Slow:
    def __len__(self): return 8
    def __getitem__(self, i):
        time.sleep(1000)

if loader:
    from tensord.data import DataLoader
td.zeros(1).sum().item()
names = {"td": td, "pickle": pickle, "Slow": Slow, **({"DataLoader": DataLoader} if loader else {})}
exec(ready, names)
td.flush() if stop or loader else None
pid = td.connection()["pid"]
if stop:
    td.sync()
    os.kill(pid, signal.SIGSTOP)
try:
    print("ready", flush=True)  # from here on a signal may come
    exec(wait, names)
    print("it did not wait", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
finally:
    if stop:
        os.kill(pid, signal.SIGCONT)
names.clear()
if sys.argv[4] != "behind":
    print("goes on", (td.ones(2) + 1).tolist(), flush=True)
    q = td.Queue("after")
    q.put(7)
    print("queue", q.get(timeout=60), flush=True)
print("end", flush=True)
"""


@contextlib.contextmanager
def waiting(place, ready, wait, *, stop=False, kind=""):
    """A process that waits, as far as one can tell."""
    p = subprocess.Popen([sys.executable, "-X", "dev", "-W", "error", "-c", PROGRAM, "stop" if stop else "", ready, wait, kind], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, env={**os.environ, "TENSORD_SOCKET": place.path})
    try:
        assert within(p, p.stdout.readline) == "ready\n", p.communicate()[1]
        time.sleep(0.1)  # were that too short, the signal would only come before the wait instead of in it
        yield p
    finally:
        p.kill()
        p.communicate()
        os.kill(place.pid, signal.SIGCONT)


def within(p, read):
    """What it says; a process that says nothing for too long is ended."""
    watch = threading.Timer(20 * SLOW, p.kill)
    watch.start()
    try:
        return read()
    finally:
        watch.cancel()


def interrupt(p):
    """No wait here ends by itself before within() gives up."""
    p.send_signal(signal.SIGINT)
    line = within(p, p.stdout.readline)
    assert line == "interrupted\n", (line, within(p, p.stderr.read))


def ended_well(p):
    out, err = within(p, p.stdout.read), within(p, p.stderr.read)
    assert out.endswith("end\n") and p.wait() == 0 and not err, (p.returncode, out, err)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with daemon(str(tmp_path_factory.mktemp("signals")), "--memory", "512M") as d:
        yield d


SETUP = "td.ones(2).publish('w', replace=True)\n"


@pytest.mark.parametrize("name", STOPPED)
def test_a_daemon_that_does_not_answer(name, place):
    ready, wait = STOPPED[name]
    with waiting(place, SETUP + ready, wait, stop=True) as p:
        interrupt(p)
        ended_well(p)


@pytest.mark.parametrize("name", OTHERS)
def test_others_do_not_come(name, place):
    with waiting(place, *OTHERS[name]) as p:
        interrupt(p)
        ended_well(p)


@pytest.mark.parametrize("name", LOADERS)
def test_loaders(name, place):
    with waiting(place, *LOADERS[name], kind="loader") as p:
        interrupt(p)
        ended_well(p)


def test_a_full_queue(place):
    """A put may be on its way when it returns; the one after it waits for room, but the program's end does not."""
    with waiting(place, "q = td.Queue('g', 1); q.put(0); td.sync(); q.put(1)", "q.put(2)", kind="behind") as p:
        interrupt(p)
        ended_well(p)


def test_a_get_that_asks_other_daemons_for_its_queue(tmp_path):
    """After a second it looks who else has one of that name; a daemon that does not answer then takes a second more."""
    private = {"XDG_RUNTIME_DIR": str(tmp_path), "TMPDIR": str(tmp_path), "TENSORD_SOCKET": "", "TENSORD_BELOW": str(os.getpid())}
    other = "import tensord as td; td.ones(1).item(); print(td.connection()['pid'], flush=True); input()"
    text = """
import sys, tensord as td
q = td.Queue("nobody", role="consumer")
print("ready", flush=True)
try:
    q.get()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    def start(code):
        return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **private})

    with start(other) as silent, start(text) as p:
        pid = int(within(silent, silent.stdout.readline))
        try:
            assert within(p, p.stdout.readline) == "ready\n"
            os.kill(pid, signal.SIGSTOP)
            time.sleep(1.4)  # it looks by now; were that too short, the signal would only come before
            interrupt(p)
            assert within(p, p.wait) == 0
        finally:
            os.kill(pid, signal.SIGCONT)
            p.kill()


def test_what_comes_when_it_is_interrupted_is_not_lost(place):
    """Items are put while getters are interrupted again and again, and leave: every one is got, once."""
    text = """
        import itertools, os, random, signal, sys, threading, time
        import tensord as td
        got = []
        def interrupt():
            rng = random.Random(int(sys.argv[1]))
            while not done.is_set():
                time.sleep(rng.random() * 0.02)
                os.kill(os.getpid(), signal.SIGUSR1)
        class Again(Exception): pass
        def gather(): # in C, so that what was got is in the list whenever the handler runs
            got.extend(itertools.starmap(member.get, itertools.repeat((20,), 60 - len(got))))
        def handler(number, frame):
            if frame.f_code is gather.__code__: raise Again
        done = threading.Event()
        stays = td._C._RawQueue("kept", 4, 1) # or what lies in the queue goes with it, when the only getter leaves after who put it
        member = td._C._RawQueue("kept", 4, 2)
        signal.signal(signal.SIGUSR1, handler)
        t = threading.Thread(target=interrupt)
        t.start()
        print("ready", flush=True)
        while len(got) < 60:
            try:
                gather()
            except Again: # what it was about to get is anybody's
                member.close()
                member = td._C._RawQueue("kept", 4, 2)
            except td.Error as e:
                print(e)
                os._exit(1)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        done.set()
        print([int(item[0][0]) for item in got] == list(range(60)), flush=True)
    """
    given = seed()
    p = subprocess.Popen([sys.executable, "-X", "dev", "-c", textwrap.dedent(text), str(given)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         env={**os.environ, "TENSORD_SOCKET": place.path})
    try:
        assert within(p, p.stdout.readline) == "ready\n"
        put = """
            import random, sys, time, tensord as td
            rng, q = random.Random(int(sys.argv[1])), td.Queue("kept", 4)
            for k in range(60):
                time.sleep(rng.random() * 0.03)
                q._role(1).put((td.tensor([k]),), b"", None)
            td.sync()
        """
        assert script(put, given, TENSORD_SOCKET=place.path).returncode == 0
        assert within(p, p.stdout.read) == "True\n", p.stderr.read()
    finally:
        p.kill()
        p.communicate()


def test_an_interrupt_beside_success():
    """A handler may raise while a call waits whose answer comes all the same: it is that exception, and nothing else, that is seen."""
    r = script("""
        import signal, tensord as td

        class Alarm(BaseException):
            pass

        def handler(*ignored):
            raise Alarm

        x, w = td.ones(3), td.ones(2, requires_grad=True)
        calls = [lambda: x.publish("n", replace=True), lambda: td.open("n"), x.tolist, lambda: x[0].item(), lambda: td.autograd.grad((w * w).sum(), w),
                 lambda: w.requires_grad, lambda: td.status("sessions"), lambda: repr(x), td.sync]
        for call in calls:
            call()
        signal.signal(signal.SIGALRM, handler)
        for k in range(900):
            call, start = calls[k % len(calls)], 1e-5 + (k // len(calls)) * 2e-6
            try:
                signal.setitimer(signal.ITIMER_REAL, start)
                while True:
                    call()
            except Alarm:
                pass
        assert td.is_grad_enabled() and x.tolist() == [1, 1, 1]
        print("well")
    """)
    assert r.stdout == "well\n", r.stderr

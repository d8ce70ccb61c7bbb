"""What several suites need: scripts in processes of their own, a daemon of a test's own, what a daemon holds."""
import contextlib
import gc
import importlib.util
import io
import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
import time
import types

import tensord as td
from run import seed_of

HERE = os.path.dirname(os.path.abspath(__file__))
DEBUG = os.environ.get("TENSORD_DEBUG_PYTHON") or next((p for p in ("/usr/bin/python3-dbg", "/usr/bin/python3.11-dbg") if os.path.exists(p)), None)
SANITIZED = "LD_PRELOAD" in os.environ
SLOW = 6 if SANITIZED else 1  # how much longer waits may take


def seed():
    """This test's seed, the same in every run: what a run finds, the next one finds too. TENSORD_SEED gives another, `random` one that nobody knows;
    it is shown when the test fails."""
    path, _, name = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0].partition("::")
    given = seed_of(f"{os.path.basename(path)}::{name}")
    if given is None:
        given = random.SystemRandom().randrange(1, 10**9)
    print(f"TENSORD_SEED={given}")
    return given


def imported(path, source):
    """The module of a file that is written now: inspect finds its source, as programs need it."""
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def script(text, *args, python=sys.executable, timeout=150, flags=("-X", "dev", "-W", "error"), **env):
    """Run Python in a process of its own; a crash of it prints where."""
    return subprocess.run([python, *flags, "-c", textwrap.dedent(text), *map(str, args)], capture_output=True, text=True, timeout=timeout * SLOW,
                          env={**os.environ, "PYTHONFAULTHANDLER": "1", **env})


def without(*modules):
    """The environment of a script() that finds none of these modules, as where they are not installed."""
    return {"TENSORD_WITHOUT": ",".join(modules), "PYTHONPATH": os.pathsep.join([os.path.join(HERE, "without"), os.environ["PYTHONPATH"]])}


def listens(path):
    """The socket's name is there a moment before anybody listens at it."""
    with socket.socket(socket.AF_UNIX) as s:
        return s.connect_ex(path) == 0


@contextlib.contextmanager
def daemon(place, *options):
    """A daemon that is this test's alone: its socket's path, its pid. Fails when the daemon did not end well."""
    path = os.path.join(place, "s")
    process = subprocess.Popen([os.environ["TENSORD_DAEMON"], "--socket", path, *options], stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: listens(path) or process.poll() is not None)
        yield types.SimpleNamespace(path=path, pid=process.pid)
    finally:
        alive = process.poll() is None
        process.send_signal(signal.SIGCONT)
        process.terminate()
        told = process.communicate(timeout=60)[1]
        assert alive and process.returncode == 0, f"the daemon ended with {process.returncode}: {told}"


def wait_for(condition, seconds=60):
    """True as soon as it is true; False when the time is up."""
    end = time.monotonic() + seconds * SLOW
    while not (met := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return met


def held():
    """What this process's own daemon holds when all that was asked has been done: bytes, storages, names, sessions; and this process's descriptors."""
    gc.collect()
    td.sync()
    now = {r["key"]: r["value"] for r in td.status()}
    return now["bytes_used"], now["storages"], now["names"], now["sessions"], len(os.listdir("/proc/self/fd"))


def at_rest(seconds=60):
    """held() when everybody else has gone, and what earlier tests left. Processes that have ended may still be sessions to the daemon, so what is
    counted before that may become less by itself."""
    def alone():
        return held()[3] == 1 and all(row["pid"] == os.getpid() for row in td.status("names"))

    for _ in range(50):
        td.ones(1).item()  # who waits often has a ring: from now on
    assert wait_for(alone, seconds), f"others are still there: {td.status('sessions')}, {td.status('names')}"
    return held()


def settles(before, seconds=60):
    """held(), as soon as it is `before` again. Others look in for a moment: `tensorctl daemons` does at all daemons of a user."""
    seen = [held()]
    wait_for(lambda: seen[-1] == before or seen.append(held()), seconds)
    return seen[-1]


class Stream:
    """A file that can only be read on, and gives at most so many bytes at once."""

    def __init__(self, data, most=None):
        self.file, self.most = io.BytesIO(data), most

    def seekable(self):
        return False

    def read(self, n=-1):
        return self.file.read(n if self.most is None else min(n, self.most))

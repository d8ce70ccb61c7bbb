#!/usr/bin/env python3
"""Handing an array from process to process in Python: through tensord's queue, torch's, vineyard, Plasma and Ray, as far as they can be
imported, and, with every byte written and read, through one plain shared mapping.

Prints the lines that table.py reads. One hand-over: the producer makes an array and fills it (or touches its first byte), hands it over, the
consumer reads it (or its first byte) and says so by a token through a socket; the median of many, after some that are not counted. As in
bench_handoff.c, producer and consumer keep to a processor each, in every kind; servers go where they like. Peers are given what they have
for this: memory of the store that is filled in place."""
import contextlib
import itertools
import mmap
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

from bench_python import child, ours, reference, skip

SIZES = {"64B": 64, "38MB": 38_500_000, "268MB": 268_000_000}
BEGINNING = 10
PROCESSORS = sorted(os.sched_getaffinity(0))


def keep_to(which):
    if len(PROCESSORS) > 1:
        os.sched_setaffinity(0, PROCESSORS[which : which + 1])


def times(size):
    return 200 if size < 1 << 20 else 30


@contextlib.contextmanager
def consumer(body):
    """A child that runs body(); it says when it is ready, and answers each item with a token. Gives the wait for one token."""
    def run(there):
        keep_to(1)
        with contextlib.suppress(BrokenPipeError):
            body(lambda: there.send(b"x" * 64))

    pid, here = child(run)

    def token():
        if not here.recv(64, socket.MSG_WAITALL):
            raise RuntimeError("the consumer has ended")

    try:
        yield token
    finally:
        here.close()
        os.kill(pid, signal.SIGKILL)  # it may wait for one more item
        os.waitpid(pid, 0)


def median(hand_over, token, count):
    took = []
    for k in range(-BEGINNING, count):
        began = time.perf_counter()
        hand_over(k % 256)
        token()
        if k >= 0:
            took.append(time.perf_counter() - began)
    return statistics.median(took)


def fill(array, value, whole):
    if whole:
        array.fill(value)
    else:
        array[0] = value


def read(array, whole):
    return int(np.add.reduce(array[: len(array) // 8 * 8].view(np.uint64))) if whole else int(array[0])


# ---- the kinds: each gives hand_over(value) and its consumer ----------------------------------------------------------


def by_tensord(size, whole=False):
    q = td.Queue("bench", 2)

    def body(say):
        mine = td.Queue("bench", 2)
        say()
        while True:
            read(np.asarray(mine.get()), whole)
            say()

    def hand_over(value):
        array = np.empty(size, np.uint8)
        fill(array, value, whole)
        q.put(array)

    with consumer(body) as token, td.numpy_memory():
        token()
        return median(hand_over, token, times(size))


def by_mapping(size, whole):
    memory = np.frombuffer(mmap.mmap(-1, size), np.uint8)
    memory.fill(1)
    bell, there = socket.socketpair()

    def body(say):
        read(memory, True)
        say()
        while there.recv(64, socket.MSG_WAITALL):
            read(memory, whole)
            say()

    def hand_over(value):
        fill(memory, value, whole)
        bell.send(b"x" * 64)

    with consumer(body) as token:
        token()
        return median(hand_over, token, times(size))


def by_torch(size):
    import torch.multiprocessing

    q = torch.multiprocessing.get_context("fork").Queue()

    def body(say):
        torch.set_num_threads(1)
        say()
        while True:
            q.get()[0].item()
            say()

    def hand_over(value):
        t = torch.empty(size, dtype=torch.uint8)
        t[0] = value
        q.put(t)

    with consumer(body) as token:
        token()
        return median(hand_over, token, times(size))


@contextlib.contextmanager
def server(*command):
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        p.terminate()
        p.wait()


@contextlib.contextmanager
def quiet():
    """What peers say on stderr while they connect."""
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


def ids_through_a_pipe(connect, make, take, size):
    """Stores know objects by ids, which the program carries itself."""
    there, bell = os.pipe()

    def body(say):
        store = connect()
        say()
        while name := os.read(there, 64):
            take(store, name)
            say()

    with consumer(body) as token:
        token()
        store = connect()
        try:
            return median(lambda value: os.write(bell, make(store, size, value)), token, times(size))
        finally:
            os.close(there)
            os.close(bell)


def by_vineyard(size):
    import vineyard

    place = tempfile.mkdtemp()
    path = place + "/socket"
    program = os.path.join(os.path.dirname(vineyard.__file__), "bdist", "vineyardd")
    last = []

    def connect():
        for _ in range(100):
            with contextlib.suppress(Exception), quiet():
                return vineyard.connect(path)
            time.sleep(0.1)
        raise RuntimeError("vineyardd did not come up")

    def make(store, size, value):
        if last:
            store.delete(last.pop())
        blob = store.create_blob(size)
        np.asarray(blob)[:1].view(np.uint8)[0] = value
        last.append(blob.seal(store).id)
        return str(last[0]).encode()

    def take(store, name):
        int(np.frombuffer(store.get_blob(vineyard.ObjectID(name.decode().split('"')[1])), np.uint8)[0])

    with server(program, "--socket", path, "--size", "2G", "--meta", "local", "--rpc=false"):
        try:
            return ids_through_a_pipe(connect, make, take, size)
        finally:
            shutil.rmtree(place, ignore_errors=True)


def by_plasma(size):
    from pyarrow import plasma

    place = tempfile.mkdtemp()
    path = place + "/socket"
    program = os.path.join(os.path.dirname(plasma.__file__), "plasma-store-server")
    numbers, last = itertools.count(1), []

    def connect():
        with quiet():
            return plasma.connect(path, num_retries=100)

    def make(store, size, value):
        if last:
            store.delete([last.pop()])
        last.append(plasma.ObjectID(next(numbers).to_bytes(20, "big")))
        np.frombuffer(store.create(last[0], size), np.uint8)[0] = value
        store.seal(last[0])
        return last[0].binary()

    def take(store, name):
        int(np.frombuffer(store.get_buffers([plasma.ObjectID(name)])[0], np.uint8)[0])

    with server(program, "-s", path, "-m", str(2 << 30)):
        try:
            return ids_through_a_pipe(connect, make, take, size)
        finally:
            shutil.rmtree(place, ignore_errors=True)


def by_ray(size):
    import ray

    with quiet():
        ray.init(num_cpus=2, object_store_memory=1 << 30, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        @ray.remote
        class Consumer:
            def take(self, array):
                return int(array[0])

        there = Consumer.remote()

        def hand_over(value):
            array = np.empty(size, np.uint8)
            array[0] = value
            ray.get(there.take.remote(ray.put(array)))  # the answer is the token

        return median(hand_over, lambda: None, 50 if size < 1 << 20 else 10)
    finally:
        with quiet():
            ray.shutdown()


# ---- all of them ----------------------------------------------------------------------------------------------------

PEERS = {"torch": (by_torch, "torch", {"64B": 1 / 50, "38MB": 1 / 1000}), "vineyard": (by_vineyard, "vineyard", dict.fromkeys(SIZES, 0.1)),
         "plasma": (by_plasma, "pyarrow.plasma", dict.fromkeys(SIZES, 1)), "ray": (by_ray, "ray", {"64B": 1, "38MB": 1})}


def beside(peer, mine):
    """One line for each size that a goal is set for; a peer that is not there, or does not work here, is said so."""
    run, module, goals = PEERS[peer]
    for size, goal in goals.items():
        name = f"py.handoff.{size}.{peer}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                __import__(module)
                theirs = run(SIZES[size])
        except ImportError as e:
            skip(name, f"{module} is not importable ({str(e).splitlines()[0][:60]})")
        except Exception as e:
            skip(name, f"{peer} does not work here: {type(e).__name__} {(str(e).splitlines() or [''])[0][:80]}")
        else:
            ours(name, mine[size] * 1e6, "us", goal)
            reference(name, theirs * 1e6, f"{peer} {getattr(sys.modules[module.split('.')[0]], '__version__', '')}")


def main():
    td.ones(1).tolist()  # the daemon is up before anybody keeps to a processor
    os.environ["TENSORD_SOCKET"] = td.connection()["path"]
    keep_to(0)
    mine = {}
    for name, size in SIZES.items():
        mine[name] = by_tensord(size)
        ours(f"py.handoff.{name}", mine[name] * 1e6, "us", 2)
        reference(f"py.handoff.{name}", 0, f"@handoff.pass.{name}")
    # Memory is the bottleneck of this one: the kinds take turns, so that others' load meets both.
    both = [(by_tensord(SIZES["38MB"], True), by_mapping(SIZES["38MB"], True)) for _ in range(3)]
    ours("py.handoff.all", statistics.median(a for a, _ in both) * 1e3, "ms", 1.05)
    reference("py.handoff.all", statistics.median(b for _, b in both) * 1e3, "38.5 MB through one plain mapping, filled and read by NumPy")
    for peer in PEERS:
        beside(peer, mine)


if __name__ == "__main__":
    try:
        import numpy as np
        import tensord as td
    except ImportError as e:
        skip("py.handoff", f"{e.name} is not importable")
        sys.exit(0)
    main()

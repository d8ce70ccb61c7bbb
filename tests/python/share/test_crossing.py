"""Several programs of several threads each that use one daemon for everything at once: who waits is woken, whatever crosses whose way.

Answers of megabytes, descriptors and small ones go to and fro through the same sockets and rings, and connections begin and end meanwhile; a wake-up that
is lost shows as a thread that waits for ever, and only here: one client alone on a machine is always looked at in time."""
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from common import SANITIZED, SLOW, daemon, seed

# Each thread asks and waits by turns; the main thread sees whether all of them come on.
PROGRAM = """
import faulthandler, os, random, sys, threading, time
import tensord as td

given, seconds, patience, me, least = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), sys.argv[4], int(sys.argv[5])
SIZES = 0, 100, 5_000, 60_000, 150_000, 700_000, 2_000_000
names = [f"crossing/{p}/{k}" for p in range(3) for k in range(3)]

def put(rng, q):
    n = rng.choice(SIZES)
    kept = [td.full((rng.choice((1, 300, 40_000, 600_000)),), n) for _ in range(rng.choice((0, 0, 1, 3)))]
    try:
        q.put((n, bytes([n % 251]) * n, kept), timeout=rng.choice((0, 0.01, 0.2)))
    except td.QueueFull:
        pass

def get(rng, q):
    try:
        n, note, kept = q.get(timeout=rng.choice((0, 0.01, 0.2)))
    except (td.QueueEmpty, td.Closed):  # or everybody else has just left
        return
    assert len(note) == n and note == bytes([n % 251]) * n
    assert all(x[-1].item() == n for x in kept)

def value(rng, q):
    n = rng.choice((1, 50, 3_000, 400_000))
    assert (td.full((n,), 2.0) * 3)[-1].item() == 6

def array(rng, q):
    n = rng.choice((1, 3_000, 2_000_000))
    assert td.full((n,), 7.0).numpy()[-1] == 7

def name(rng, q):
    td.full((rng.choice((2, 500_000)),), 5.0).publish(rng.choice(names), replace=True)
    try:
        assert td.open(rng.choice(names))[0].item() == 5
    except td.NotFound:
        pass

def status(rng, q):
    td.status(rng.choice(("status", "names", "sessions")))

beats, failed, rounds = {}, [], 0

def work(k, until):
    rng = random.Random(given * 1000 + rounds * 10 + k)
    q = td.Queue("crossing/items", 6)
    try:
        while time.monotonic() < until:
            rng.choice((put, put, get, get, get, value, value, array, name, status))(rng, q)
            beats[k] = time.monotonic()
        q.close()
    except BaseException as e:
        failed.append(e)
        raise

end = time.monotonic() + seconds
while (time.monotonic() < end or rounds < least) and not failed:
    now = time.monotonic()
    beats.update({k: now for k in range(3)})
    threads = [threading.Thread(target=work, args=(k, now + 1), daemon=True) for k in range(3)]
    for t in threads: t.start()
    while any(t.is_alive() for t in threads):
        time.sleep(0.02)
        late = [k for k, t in enumerate(threads) if t.is_alive() and time.monotonic() - beats[k] > patience]
        if late:
            faulthandler.dump_traceback(all_threads=True)
            print(f"program {me}: thread {late} waits for more than {patience} s", file=sys.stderr, flush=True)
            os._exit(3)
    td.disconnect()
    rounds += 1
sys.exit(bool(failed))
"""


@pytest.mark.parametrize("ring", [1, 0])
def test_nobody_waits_for_ever(tmp_path, ring):
    given, seconds, patience, least = seed(), 6, 60 * SLOW, 1 if SANITIZED else 3  # rounds
    env = {**os.environ, "PYTHONFAULTHANDLER": "1", "TENSORD_RING": str(ring)}
    with daemon(str(tmp_path), "--memory", "512M") as d:
        env["TENSORD_SOCKET"] = d.path
        programs = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(PROGRAM), str(given + p), str(seconds), str(patience), str(p), str(least)], env=env, text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE) for p in range(3)]
        try:
            told = [p.communicate(timeout=seconds + least * patience) for p in programs]
        finally:
            for p in programs:
                if p.poll() is None:
                    p.send_signal(signal.SIGKILL)
                    p.wait()
        assert all(p.returncode == 0 for p in programs), "\n".join(err[-3000:] for _, err in told)

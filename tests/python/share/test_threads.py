"""Many threads on one connection: tensors, graphs, queues, and some that disconnect under the others' feet. A seed gives the same programs, though not the same turns."""
import os
import random
import textwrap
import threading
import time

import pytest
import tensord as td
from common import SLOW, daemon, script, seed


def together(work, n=6, seconds=2):
    """Run work(rng, end) in threads until the time is up; their exceptions."""
    failed, given = [], seed()
    end = time.monotonic() + seconds

    def run(k):
        try:
            work(random.Random(given + k), lambda: time.monotonic() > end)
        except BaseException as e:  # noqa: BLE001
            failed.append(e)

    threads = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60 * SLOW)
    assert not any(t.is_alive() for t in threads), "a thread hangs"
    return failed


def test_everything_at_once():
    shared = td.zeros(8)
    w = td.full((4,), 2.0, requires_grad=True)

    def work(rng, end):
        k = threading.get_ident()
        q = td.Queue(f"threads/{k}", 4)
        while not end():
            what = rng.randrange(8)
            if what == 0:
                x = td.arange(6).reshape(2, 3) * rng.randrange(9)
                assert (x @ x.T).shape == (2, 2) and x[1].tolist()[0] % 3 == 0
            elif what == 1:
                assert td.autograd.grad((w * w).sum(), w)[0].tolist() == [4] * 4
            elif what == 2:
                q.put({"k": k, "x": td.ones(3)})
                got = q.get(timeout=60 * SLOW)
                assert got["k"] == k and got["x"].sum().item() == 3
            elif what == 3:
                with td.no_grad():
                    assert not (w * 2).requires_grad
                assert (w * 2).requires_grad
            elif what == 4:
                assert bytes(memoryview(td.full((16,), 7, dtype=td.uint8))) == b"\x07" * 16
            elif what == 5:
                with pytest.raises(IndexError):
                    td.ones(2)[td.tensor([5])].tolist()
            elif what == 6:
                shared.add_(1)
            else:
                name = f"threads/{k}/{rng.randrange(3)}"
                td.full((2,), 5).publish(name, replace=True)
                assert td.open(name).tolist() == [5, 5]
        q.close()

    failed = together(work)
    assert not failed, failed
    values = shared.tolist()
    assert len(set(values)) == 1


def test_a_queue_between_threads():
    got, n = [], 100

    def work(rng, end, turn=iter(range(6))):
        role = next(turn)
        if role == 0:
            for k in range(n):
                q.put((k, td.full((3,), k)), timeout=60 * SLOW)
            return
        while len(got) < n and not end():
            try:
                k, x = q.get(timeout=0.05)
                got.append((k, x[0].item()))
            except TimeoutError:
                pass

    q = td.Queue("threads/between", 3)
    failed = together(work, n=3, seconds=30 * SLOW)
    assert not failed, failed
    assert sorted(got) == [(k, k) for k in range(n)]


@pytest.mark.parametrize("maxsize", [1, 2])
@pytest.mark.parametrize("ring", [0, 1])
def test_producers_and_consumers_of_one_process(maxsize, ring):
    """As with queue.Queue: several of each, a queue that is full most of the time, nobody with a timeout. Each item is got once, those of a
    producer in their order; and other threads go on."""
    r = script("""
        import sys, threading
        import tensord as td
        MAXSIZE, PRODUCERS, CONSUMERS, N = int(sys.argv[1]), 3, 3, 150
        q, got, other = td.Queue("crowd", MAXSIZE), [[] for _ in range(CONSUMERS)], [0]
        def counts():
            td.sync()
            return {r["key"]: r["value"] for r in td.status() if r["key"] in ("tensors", "bytes_used", "queues", "names")}
        def produce(p):
            for k in range(N):
                q.put({"p": p, "k": k, "x": td.full((2,), k)})
        def consume(mine):
            while (item := q.get()) is not None:
                assert item["x"].tolist() == [item["k"]] * 2
                mine.append((item["p"], item["k"]))
        def work():
            while not done.is_set():
                other[0] += (td.ones(3) + 1).sum().item() == 6
        td.ones(1).item()
        before, done = counts(), threading.Event()
        ps = [threading.Thread(target=produce, args=(p,)) for p in range(PRODUCERS)]
        cs = [threading.Thread(target=consume, args=(mine,)) for mine in got]
        w = threading.Thread(target=work)
        for t in (*ps, *cs, w): t.start()
        for t in ps: t.join()
        for _ in cs: q.put(None)
        for t in cs: t.join()
        done.set(), w.join()
        q.close()
        assert sorted(sum(got, [])) == [(p, k) for p in range(PRODUCERS) for k in range(N)]
        assert all([k for p, k in mine if p == one] == sorted(k for p, k in mine if p == one) for mine in got for one in range(PRODUCERS))
        assert other[0] > 0 and counts() == before, (other, before, counts())
    """, maxsize, TENSORD_RING=str(ring))
    assert r.returncode == 0 and not r.stderr, r.stderr[-3000:]


def test_closing_a_full_queue_beside_its_consumer():
    """close() waits until what was put is in; the consumer is another thread, and takes it."""
    q, back = td.Queue("threads/full", 1), td.Queue("threads/full", 1)
    q.put(0)
    td.sync()
    q.put(1)  # on its way
    t = threading.Thread(target=q.close, daemon=True)
    t.start()
    assert [back.get(timeout=20 * SLOW) for _ in range(2)] == [0, 1]
    t.join(20 * SLOW)
    assert not t.is_alive()
    with pytest.raises(EOFError):
        back.get(timeout=20 * SLOW)
    back.close()


def test_a_waiting_thread_stops_nobody():
    """A thread in a queue's get; another goes on, and ends its wait by closing the queue."""
    q, told = td.Queue("threads/closed", 2), []

    def wait():
        try:
            q.get()
        except td.Error as e:
            told.append(e)

    t = threading.Thread(target=wait, daemon=True)
    t.start()
    for _ in range(5):
        assert (td.ones(3) + 1).sum().item() == 6
    time.sleep(0.1)
    q.close()
    t.join(20 * SLOW)
    assert not t.is_alive() and isinstance(told[0], EOFError), told


def test_disconnecting_under_others(tmp_path):
    """Threads compute and wait while others disconnect and connect again: every call works or says that the connection is gone."""
    with daemon(str(tmp_path), "--memory", "128M") as d:
        r = script("""
            import random, sys, threading, time
            import tensord as td
            sys.setswitchinterval(0.0002)
            end, fine, odd = time.monotonic() + 2, [0], []
            late = end + 40  # on a busy machine until enough was tried
            def run(k):
                rng = random.Random(int(sys.argv[1]) + k)
                while time.monotonic() < (end if fine[0] > 20 else late):
                    try:
                        if k < 2 and rng.random() < 0.3:
                            rng.choice([td.disconnect, td.connect])()
                            time.sleep(rng.random() * 0.01)
                        what = rng.randrange(6)
                        if what == 0: td.sync()
                        elif what == 1: (td.ones(3) * 2).tolist()
                        elif what == 2: td.Queue("d", 2).get(timeout=0.01)
                        elif what == 3: td.status("sessions")
                        elif what == 4: td.open("nobody", timeout=0.01)
                        else: memoryview(td.ones(4000)); td.ones(4, requires_grad=True).sum().backward()
                        fine[0] += 1
                    except (TimeoutError, td.ConnectionLost, td.InvalidError, td.Closed): pass
                    except BaseException as e: odd.append(e)
            threads = [threading.Thread(target=run, args=(k,)) for k in range(6)]
            for t in threads: t.start()
            for t in threads: t.join()
            td.connect()
            print(odd, fine[0] > 20, (td.ones(2) + 1).tolist())
        """, seed(), flags=("-X", "dev"), TENSORD_SOCKET=d.path)
    assert r.returncode == 0 and r.stdout == "[] True [2.0, 2.0]\n", (r.returncode, r.stdout, r.stderr[-3000:])


# What ends the connection while a call is between finding it and using it; what is freed is filled with other bytes.
ENDS = {
    "a callback of a request, when another daemon's connection takes the place of a lost one": """
        q = _C._RawQueue("q", 4, 2)
        pid = td.connection()["pid"]
        request = _C._aio_get(q, None, td.disconnect)
        os.kill(pid, signal.SIGKILL)
        while td.connection():
            try: td.sync()
            except td.Error: pass
        del q, request
        told = lambda: td.ones(3).tolist()
        """,
    "a variable of the environment, when a name was found in another program's daemon": """
        other = subprocess.Popen([sys.executable, "-c", "import tensord as td, sys; t = td.ones(3).publish('there'); print(1, flush=True); sys.stdin.read()"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, env={**os.environ, "TENSORD_BELOW": str(os.getpid())})
        other.stdout.readline()
        class Environment(dict):
            def setdefault(self, name, value):
                td.disconnect()
        os.environ = Environment(os.environ)
        def told():
            try: return td.open("there").tolist()
            finally: other.communicate()
        """,
    "an object, while it is packed for a name": """
        class Ending(collections.namedtuple("Ending", "x")):
            __slots__ = ()
            def __iter__(self):
                td.disconnect()
                return super().__iter__()
        told = lambda: td.publish("n", {"e": Ending(3)}) > 0
        """,
}


@pytest.mark.parametrize("what", ENDS)
def test_a_connection_that_ends_before_it_is_used(what, tmp_path):
    private = {"XDG_RUNTIME_DIR": str(tmp_path), "TMPDIR": str(tmp_path), "TENSORD_SOCKET": "", "TENSORD_BELOW": str(os.getpid()), "MALLOC_PERTURB_": "85"}
    r = script("import collections, os, signal, subprocess, sys\nimport tensord as td\nfrom tensord import _C\n" + textwrap.dedent(ENDS[what]) + textwrap.dedent("""
        try:
            print(told())
        except td.ConnectionLost as e:
            print("ended while it was made" in str(e))
        print(td.ones(2).tolist())
        """), timeout=60, **private)
    assert r.returncode == 0 and r.stdout == "True\n[1.0, 1.0]\n", (r.stdout, r.stderr[-3000:])


def test_an_open_whose_time_went_by_while_it_connected_is_late(tmp_path):
    with daemon(str(tmp_path), "--memory", "128M") as d:
        r = script("""
            import tensord as td
            told = set()
            for _ in range(60):
                try: td.open("nobody", timeout=0.001)
                except td.Timeout as e: told.add('late')
                except Exception as e: told.add(type(e).__name__)
                td.disconnect()
            print(told)
        """, TENSORD_SOCKET=d.path)
    assert r.stdout == "{'late'}\n", (r.stdout, r.stderr[-3000:])


def test_a_queue_is_closed_beneath_busy_threads():
    """Whoever puts or gets meanwhile is told that it was closed, wherever it is just then."""
    told = []

    def work(q, act):
        try:
            while True:
                try:
                    act(q)
                except TimeoutError:
                    pass
        except td.Error as e:
            told.append(e)

    for k in range(60):
        q = td.Queue(f"threads/beneath{k}", 2)
        threads = [threading.Thread(target=work, args=(q, act), daemon=True)
                   for act in (lambda q: q.put(1, timeout=0.001), lambda q: q.get(timeout=0.001)) for _ in range(2)]
        for t in threads:
            t.start()
        for _ in range(k % 7):
            (td.ones(3) + 1).sum().item()
        q.close()
        for t in threads:
            t.join(20 * SLOW)
        assert not any(t.is_alive() for t in threads)
    assert len(told) == 4 * 60 and all(isinstance(e, (td.Closed, td.InvalidError)) for e in told), {str(e) for e in told}


def test_threads_of_a_forked_child_use_what_it_inherited():
    """All at once, the first time; then it is closed beneath them."""
    r = script("""
        import os, sys, threading
        import tensord as td
        q = td.Queue("inherited")
        q.put(1), q.get()
        for k in range(12):
            pid = os.fork()
            if pid:
                assert os.waitpid(pid, 0)[1] == 0
                continue
            told, started = [], threading.Barrier(9)
            def get():
                started.wait()
                try:
                    while True:
                        try:
                            q.get(timeout=0.01)
                        except TimeoutError:
                            pass
                except td.Error as e:
                    told.append(e)
            threads = [threading.Thread(target=get, daemon=True) for _ in range(8)]
            for t in threads: t.start()
            started.wait()
            for _ in range(k): (td.ones(3) + 1).tolist()
            q.close()
            for t in threads: t.join(60)
            good = len(told) == 8 and all(isinstance(e, (td.Closed, td.InvalidError)) for e in told)
            if not good: print(told, file=sys.stderr, flush=True)
            os._exit(not good)
    """, MALLOC_PERTURB_="85")
    assert r.returncode == 0 and not r.stderr, r.stderr[-3000:]


def test_threads_that_come_first_share_one_connection():
    """Each finds no connection: none of them may end another's by making one anew. Numbers of a seed begin again, as connect() says."""
    r = script("""
        import threading
        import tensord as td
        td.manual_seed(5)
        first = td.rand(3).tolist()
        for k in range(20):
            td.disconnect()
            start, failed = threading.Barrier(4), []
            def come():
                start.wait()
                try:
                    q = td.Queue(f"first/{k}", 4, keep=0)
                    q.put(k)
                    q.close()
                except td.Error as e:
                    failed.append(e)
            threads = [threading.Thread(target=come) for _ in range(4)]
            for t in threads: t.start()
            for t in threads: t.join()
            assert not failed, failed
        assert td.rand(3).tolist() == first
    """)
    assert r.returncode == 0, r.stderr[-3000:]

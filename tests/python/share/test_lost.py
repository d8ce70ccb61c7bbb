"""The daemon goes while a program goes on: what is old says so, what is new finds another daemon."""
import os
import signal
import subprocess
import sys
import textwrap

import pytest
import tensord as td
from common import SLOW, daemon, script
from onnx_file import FLOAT, write

BEGIN = """
import asyncio, os, pickle, select, signal, sys, threading, time
import tensord as td, tensord.aio

def loop(main):
    "asyncio.run() that does not say which steps took long, as in development mode: one may start a daemon."
    return asyncio.run(main, debug=False)

def gone(x):
    "An old tensor says that its daemon has gone, whose that was, and what makes another connection."
    try: x.sum().item()
    except td.ConnectionLost as e:
        assert "td.connect()" in str(e) and f"pid {os.getpid()}" in str(e) and "private daemon of" in str(e), e
        return True
    raise AssertionError("it is there")

def kill():
    "The daemon of this process has gone when this returns, and nobody here knows it yet."
    process = os.pidfd_open(td.connection()["pid"])
    signal.pidfd_send_signal(process, signal.SIGKILL)
    select.select([process], [], [])  # its sockets are closed by then
    os.close(process)

def lose():
    "The same, and it is known."
    x = td.ones(3)
    x.tolist()
    before = td.connection()["pid"]
    kill()
    assert gone(x)
    return before
"""


def run(text, *args, **env):
    r = script(BEGIN + textwrap.dedent(text), *args, TENSORD_BELOW=str(os.getpid()), **env)
    assert r.returncode == 0 and r.stderr == "" and r.stdout.endswith("done\n"), r.stdout + r.stderr


NEW = {
    "a tensor": "assert td.ones(2).tolist() == [1, 1]",
    "of data": "assert td.tensor([1, 2]).tolist() == [1, 2]",
    "of another library's": "import array; assert td.asarray(array.array('i', [5])).tolist() == [5]",
    "random": "td.manual_seed(3); assert td.rand(2).tolist() == a",
    "a queue": "q = td.Queue('q'); q.put(1); assert q.get() == 1",
    "a name": "td.ones(2).publish('n'); assert td.open('n').tolist() == [1, 1]",
    "no name": "\ntry: td.open('none')\nexcept td.NotFound: pass",
    "a table": "assert td.status()",
    "a handle": "assert pickle.loads(pickle.dumps(td.ones(2))).tolist() == [1, 1]",
    "a module": "assert td.nn.Linear(2, 1)(td.ones(1, 2)).shape == (1, 1)",
    "a gradient": "w = td.ones(2, requires_grad=True); w.sum().backward(); assert w.grad.tolist() == [1, 1]",
    "a program": "assert f(td.ones(2)).tolist() == [2, 2]",
    "a file": "td.save({'x': td.ones(2)}, path); assert td.load(path)['x'].tolist() == [1, 1]",
    "its item in a loop": "assert loop(td.aio.item(td.ones(2).sum())) == 2",
    "a queue in a loop": "\nasync def main():\n    q = td.aio.Queue('aq'); await q.put(2); return await q.get()\nassert loop(main()) == 2",
}


@pytest.mark.parametrize("what", NEW)
def test_what_is_new_connects_anew(what, tmp_path):
    (tmp_path / "f.py").write_text("import tensord as td\n@td.jit.script\ndef f(x):\n    return x * 2\n")
    run(f"""
        path = sys.argv[1] + "/x.td"
        sys.path.insert(0, sys.argv[1])
        from f import f
        td.manual_seed(3)
        a = td.rand(2).tolist()
        f(td.ones(2)).tolist()
        before = lose()
        assert td.connection() is None
        {NEW[what].replace(chr(10), chr(10) + " " * 8)}
        assert td.connection()["pid"] != before
        print("done")
    """, tmp_path)


def test_old_tensors_stay_lost():
    """Whatever is done with one: and beside a new one, too."""
    run("""
        old = td.ones(3, requires_grad=True)
        view, loss = old[1:], (old * 2).sum()
        loss.item()
        lose()
        new = td.ones(3)
        for call in (lambda: old + new, lambda: new + old, lambda: new.copy_(old), lambda: loss.backward(), lambda: old.grad, lambda: view.clone(), lambda: td.cat([new, old]),
                     lambda: old.publish("o"), lambda: td.Queue("q").put({"x": [new, old]}), lambda: pickle.dumps(old), lambda: old.detach().numpy(), lambda: loop(td.aio.item(loss))):
            try: print(call())
            except td.ConnectionLost as e: assert "td.connect()" in str(e), e
            else: raise AssertionError(call)
        assert new.tolist() == [1, 1, 1] and old.shape == (3,)
        del old, view, loss
        assert td.status("sessions")[0]["objects"] == 1
        print("done")
    """)


def test_a_model_is_opened_anew(tmp_path):
    """By the next call after a daemon has one of its name again; until then each call says what to do. A session loads its file again."""
    pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")
    path = write(tmp_path / "m.onnx", [("Neg", ["x"], ["y"])], [("x", FLOAT, ["n"])], [("y", FLOAT, ["n"])])
    run("""
        def says(call, *words):
            try: call()
            except td.ConnectionLost as e: assert all(w in str(e) for w in words), e
            else: raise AssertionError("it was answered")

        path = sys.argv[1]
        mine, session = td.load_model(path), td.InferenceSession(path)
        td.load_model(path).publish("m")
        model, first, other = td.model("m"), td.model("m", version=1), td.model("m")
        assert model([1.0]).tolist() == first([1.0]).tolist() == mine([1.0]).tolist() == [-1]
        lose()
        says(lambda: mine([1.0]), "load its file again")
        for _ in range(2):
            says(lambda: model([1.0]), "has none of that name", "publish it there: the next call opens it")
            says(lambda: loop(td.aio.infer(other, [1.0])), "publish it there: the next call opens it")
        again = td.load_model(path).publish("m")
        assert model([2.0]).tolist() == first([2.0]).tolist() == [-2] and loop(td.aio.infer(other, [2.0])).tolist() == [-2]
        assert session.run(None, {"x": [3.0]})[0].tolist() == [-3]
        lose()
        td.load_model(path).publish("m")
        assert again([4.0]).tolist() == [-4] and model.version == 1 and model.inputs[0]["name"] == "x"  # who published it, too
        says(lambda: mine([1.0]), "load its file again")
        lose()
        os.environ["TENSORD_SOCKET"] = "/nowhere/socket"
        says(lambda: model([1.0]), "/nowhere/socket", "once a daemon has the model 'm' again, the next call opens it there")
        print("done")
    """, path)


def test_a_queue_is_joined_anew():
    """By the next call, whichever; an item that was on its way when the daemon went is told of first."""
    run("""
        q, quiet = td.Queue("jobs"), td.Queue("others", role="consumer")
        for k in range(3):
            q.put(k)
            assert q.get() == k
            lose()
        assert quiet.qsize() == 0
        q.put("here")
        assert q.get(timeout=60) == "here" and td.status("queues")[0]["queue"] in ("jobs", "others")
        kill()
        try:
            while True: q.put("it may not come")
        except td.ConnectionLost: pass
        q.put("it comes")
        assert q.get(timeout=60) == "it comes"
        full = td.Queue("full", 1)
        full.put(1)
        assert full.full()
        full.put(2)  # is on its way, and waits for room
        kill()
        try: td.sync()
        except td.ConnectionLost: pass
        try: full.put(3)
        except td.ConnectionLost: pass
        else: raise AssertionError("2 was lost without a word")
        full.put(4)
        assert full.get(timeout=60) == 4 and full.empty()
        lose()
        q.close(), quiet.close(), full.close()
        print("done")
    """)


def test_waits_end_and_go_on_in_the_next():
    """Threads in each kind of wait are told, and what they ask for next meets in one daemon, not in one each."""
    run("""
        told, at, lock = [], set(), threading.Barrier(6)
        def wait(call):
            try: call()
            except td.ConnectionLost as e: told.append(str(e))
            lock.wait()
            x = td.full((2,), 7)
            assert x.tolist() == [7, 7]
            at.add(td.connection()["pid"])
            lock.wait()
            together.put(threading.get_ident())
        never, together = td.Queue("never"), td.Queue("together", 10)
        calls = [lambda: never.get(), lambda: td.open("never", timeout=None), lambda: td.Queue("never").get(timeout=600),
                 lambda: loop(td.aio.open("never")), lambda: loop(td.aio.Queue("never").get()), lambda: td.open("never", timeout=None, newer_than=0)]
        threads = [threading.Thread(target=wait, args=(call,)) for call in calls]
        td.ones(1).tolist()
        for t in threads: t.start()
        while sum(r["waiting_get"] for r in td.status("queues")) < 3 or "more" not in td.status("sessions")[0]["waits_for"]: time.sleep(0.001)
        kill()
        for t in threads: t.join()
        assert len(told) == 6 and all("it ended or was killed" in line for line in told) and len(at) == 1, (told, at)
        assert {together.get(timeout=60) for _ in threads} == {t.ident for t in threads}
        print("done")
    """)


def test_a_tensor_of_the_next_daemon_is_unpickled_by_who_did_not_notice():
    """A worker of a pool, for one, that waited for its next task while the daemon was killed. What lay in the one before is said to be lost with it."""
    run("""
        old = td.ones(3)
        old.tolist()
        before, (here, there), (again, back) = pickle.dumps(old), os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(back)
            kill()
            while True:
                try: old.sum().item()
                except td.ConnectionLost: break
            x = td.full((3,), 7)
            os.write(there, pickle.dumps(x))
            os.read(again, 1)
            os._exit(0)
        assert pickle.loads(os.read(here, 10000)).tolist() == [7, 7, 7]
        os.write(back, b".")
        assert os.waitpid(pid, 0)[1] == 0
        kill()
        assert gone(pickle.loads(before))
        print("done")
    """)


def test_forked_children_connect_anew():
    """Children of before and of after: each has new tensors, old ones are lost, and all meet by a name."""
    run("""
        def forked(work):
            pid = os.fork()
            if pid == 0:
                try: os._exit(0 if work() else 1)
                except BaseException as e: print(repr(e), flush=True)
                os._exit(2)
            return pid
        def ends(pid): assert os.waitpid(pid, 0)[1] == 0
        old = td.ones(3)
        old.tolist()
        here, there = os.pipe()
        def later():
            os.read(here, 1)
            while True:
                try: old.sum().item()
                except td.ConnectionLost: break
            return td.Queue("meet").put(os.getpid()) is None and td.ones(2).tolist() == [1, 1]
        before = [forked(later) for _ in range(2)]
        keeps = td.Queue("before"); keeps.put(1); keeps.qsize()
        kill()
        try: old.sum().item()
        except td.ConnectionLost: pass
        met, stays = td.Queue("meet", role="consumer"), td.Queue("meet", role="producer")  # one child may leave before the other comes
        os.write(there, b"..")
        assert {met.get(timeout=60) for _ in before} == set(before)
        for pid in before: ends(pid)
        met.close(), stays.close()
        lost = td.ones(2); lost.tolist()
        kill()
        ends(forked(lambda: td.full((2,), 5).tolist() == [5, 5]))  # this process does not know yet
        try: lost.sum().item()
        except td.ConnectionLost: pass
        ends(forked(lambda: keeps.put(2) is None and td.ones(2).tolist() == [1, 1]))  # it knows
        assert td.ones(2).tolist() == [1, 1] and keeps.get(timeout=60) == 2  # which the daemon would wait with, and live
        print("done")
    """)


def test_a_loop_goes_on():
    """A task that waits is told; another connection's descriptor may have the number of the one before."""
    run("""
        async def main():
            for _ in range(20):
                q = td.aio.Queue("q")
                gets = [asyncio.create_task(q.get()) for _ in range(3)]
                while not any(r["waiting_get"] == 3 for r in await td.aio.status("queues")): await asyncio.sleep(0)
                kill()
                try:
                    while True: td.ones(1).tolist()  # before the loop has seen it
                except td.ConnectionLost: pass
                assert await td.aio.item(td.ones(4).sum(), timeout=60) == 4  # beside them
                told = await asyncio.gather(*gets, return_exceptions=True)
                assert [type(e) for e in told] == [td.ConnectionLost] * 3, told
                put = asyncio.create_task(q.get(timeout=60))
                await td.aio.Queue("q").put(5)
                assert await put == 5
                await q.close()
        loop(main())
        print("done")
    """)


def test_hooks_are_each_connections_own():
    """One that is removed late takes none away that has come since."""
    run("""
        called = []
        w = td.ones(2, requires_grad=True)
        handles = [w.register_hook(called.append) for _ in range(3)]
        node = (w * 2).grad_fn
        lose()
        v = td.ones(2, requires_grad=True)
        v.register_hook(called.append)
        loss = (v * 3).sum()
        for h in handles: h.remove()
        del node
        loss.backward()
        td.sync()
        assert [g.tolist() for g in called] == [[3, 3]] and v.grad.tolist() == [3, 3]
        print("done")
    """)


def test_the_socket_that_was_named_is_named_again(tmp_path):
    """Not a private one in its place: until somebody listens there, each call says that the connection is lost, and why there is no other."""
    path = str(tmp_path / "s")
    with daemon(tmp_path) as d:
        p = subprocess.Popen([sys.executable, "-c", f"""
import sys, tensord as td
td.connect({path!r})
td.ones(2).publish("x"), print(td.open("x").tolist(), flush=True)
for line in sys.stdin:
    try: print(td.ones(2).tolist(), td.open("x", timeout=0) is None, flush=True)
    except td.Error as e: print(type(e).__name__, str(e).replace(chr(10), " "), flush=True)
"""], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={k: v for k, v in os.environ.items() if k != "TENSORD_SOCKET"})

        def asks():
            p.stdin.write("\n")
            p.stdin.flush()
            return p.stdout.readline()

        assert p.stdout.readline() == "[1.0, 1.0]\n"
        assert d.pid
        p.send_signal(signal.SIGSTOP)
    # the daemon ended while the program was stopped
    p.send_signal(signal.SIGCONT)
    try:
        lines = [asks() for _ in range(3)]
        assert all(line.startswith("ConnectionLost ") for line in lines) and "no other can be made: no daemon answers at " + path in lines[-1], lines
        with daemon(tmp_path):
            assert asks().startswith("NotPublished ")  # connected, and the name is not there
        assert p.poll() is None
    finally:
        p.stdin.close()
        p.wait(timeout=60 * SLOW)
        p.stdout.close()
    assert p.returncode == 0


def test_a_name_that_began_anew_is_told(tmp_path):
    """Whoever waits for a version after one of another daemon is told at once, also before anybody has published, and goes on from 0."""
    versions = []
    for k in range(3):
        with daemon(tmp_path) as d:
            r = script("""
                import asyncio, sys, tensord as td, tensord.aio
                td.connect(sys.argv[1])
                before = int(sys.argv[2])
                def told(newer_than, timeout):
                    for ask in (lambda: td.open("w", newer_than=newer_than, timeout=timeout), lambda: asyncio.run(td.aio.open("w", newer_than=newer_than, timeout=timeout))):
                        try: ask()
                        except td.Closed as e: assert "'w' began anew" in str(e) and "newer_than=0" in str(e), e
                        else: raise AssertionError(newer_than)
                if before: told(before, None), told(before, 0)
                told(1, None), told(2**62, None)
                first = td.publish("w", {"x": td.ones(2)})
                if before: told(before, None)
                assert first > before
                tree, seen = td.open("w", newer_than=0)
                td.drop("w")
                second = td.publish("w", {"x": td.zeros(2)})  # dropped and published again, in one daemon: it is newer
                tree, again = td.open("w", newer_than=seen, timeout=None)
                assert seen == first and again == second > first and tree["x"].tolist() == [0, 0]
                print(second)
            """, d.path, versions[-1] if versions else 0)
        assert r.returncode == 0, r.stderr
        versions.append(int(r.stdout))
    assert versions == sorted(set(versions))


@pytest.mark.parametrize("answers", [True, False])
def test_a_program_ends_without_another_daemon(tmp_path, answers):
    """What is cleared away at the end, of a daemon that has gone, starts none; also where it has not answered the last put."""
    another = tmp_path / "another"
    another.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    another.chmod(0o700)
    (tmp_path / "run").mkdir(0o700)
    r = script(BEGIN + f"""
q, t = td.Queue("q"), td.ones(2)
q.put(t)
q.qsize()
if not {answers}:
    os.kill(td.connection()["pid"], signal.SIGSTOP)
    q.put(t)
kill()
os.environ["TENSORD_DAEMON"] = sys.argv[1]
try: t.sum().item()
except td.ConnectionLost: print("done")
""", another, TENSORD_BELOW=str(os.getpid()), XDG_RUNTIME_DIR=str(tmp_path / "run"))
    assert r.returncode == 0 and r.stdout == "done\n" and r.stderr == "", r
    assert not (tmp_path / "started").exists() and os.listdir(tmp_path / "run") == []


def test_limits_of_the_daemon_that_is_started():
    """Said by the program or its environment; for one that runs already, with another memory, an error that says whose it is."""
    run("""
        td.connect(memory="64M", session_memory=32 << 20, workers=1)
        def limits(): return {r["key"]: r["value"] for r in td.status()}
        assert limits()["bytes_limit"] == 64 << 20 and limits()["workers"] == 1
        td.connect(memory=64 << 20)  # the same
        try: td.connect(memory="128M")
        except td.AlreadyExists as e: assert f"pid {os.getpid()}" in str(e) and "67.1 MB" in str(e) and "134.2" in str(e), e
        else: raise AssertionError("it has 64 MB")
        try: td.ones(9 << 20).sum().item()
        except td.QuotaExceeded as e: assert "33554432" in str(e), e
        else: raise AssertionError("36 MB")
        for wrong in (0, -1, "1x", "", 5, 2.5, [1]):
            try: td.connect(memory=wrong)
            except (ValueError, TypeError) as e: assert "memory" in str(e), e
            else: raise AssertionError(wrong)
        kill()
        try:
            while True: td.sync()
        except td.ConnectionLost: pass
        td.ones(1).item()
        assert limits()["bytes_limit"] == 64 << 20  # the next one, too
        print("done")
    """)
    run("""
        td.ones(1).item()
        told = {r["key"]: r["value"] for r in td.status()}
        assert told["bytes_limit"] == 80 << 20 and told["workers"] == 2
        print("done")
    """, TENSORD_MEMORY="80M", TENSORD_WORKERS="2")


def test_a_users_quota_names_who_holds_it(tmp_path):
    with daemon(tmp_path, "--user-memory", "64M") as d:
        hold = subprocess.Popen([sys.executable, "-c", f"import tensord as td\ntd.connect({d.path!r})\nx = td.ones(12 << 20); x[0].item(); print('', flush=True); input()"],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert hold.stdout.readline() == "\n"
        r = script("""
            import sys, tensord as td
            td.connect(sys.argv[1])
            try: td.ones(8 << 20).sum().item()
            except td.QuotaExceeded as e: print(e)
        """, d.path)
        hold.communicate("\n")
    assert "biggest holders: " in r.stdout and f"(pid {hold.pid}) 50.3 MB" in r.stdout, r.stdout + r.stderr


OPENED = """
import sys
sys.path.insert(0, sys.argv[1])
from f import f

def opened(**timeout):
    "A program of a name, of a daemon that has gone, and nobody here knows it."
    f.publish("served")
    p = td.jit.open("served", **timeout)
    assert p(td.ones(2)).tolist() == [2, 2] and p._program.is_there()
    kill()
    try: p(td.ones(2)).tolist()
    except td.ConnectionLost: pass
    else: raise AssertionError("it is there")
    return p
"""


def run_opened(tmp_path, text):
    (tmp_path / "f.py").write_text("import tensord as td\n@td.jit.script\ndef f(x):\n    return x * 2\n@td.jit.script\ndef g(x, k: int):\n    return x * k\n")
    run(OPENED + textwrap.dedent(text), tmp_path)


@pytest.mark.parametrize("call", ("p(td.ones(3)).tolist()", "loop(td.aio.call(p, td.ones(3))).tolist()", "p(x=td.ones(3)).tolist()"))
def test_an_opened_program_is_opened_anew(call, tmp_path):
    """By its name, by the next call; again and again, and as what has the name then."""
    run_opened(tmp_path, f"""
        p = opened()
        for k in range(3):
            f.publish("served")
            assert {call} == [2, 2, 2]
            lose()
        f.publish("served")
        assert p.plan() is not None and p.save_to_buffer()
        lose()
        f.publish("served")
        p.publish("again")
        assert td.jit.open("again")(td.ones(1)).item() == 2
        lose()
        from f import g
        g.publish("served")
        assert p(td.ones(1), 5).item() == 5 and p(x=td.ones(1), k=7).item() == 7 and "k" in p.graph
        print("done")
    """)


def test_an_opened_program_that_nobody_published_again(tmp_path):
    """Says so; a call waits for the name as open() did, but in a loop, which would stand still."""
    run_opened(tmp_path, """
        p, patient = opened(), opened(timeout=60)
        for call in (lambda: p(td.ones(1)), lambda: loop(td.aio.call(p, td.ones(1))), lambda: loop(td.aio.call(patient, td.ones(1))), lambda: p.publish("other")):
            try: call()
            except td.NotFound as e: assert "'served'" in str(e) and "published" in e.__notes__[0], (e, e.__notes__)
            else: raise AssertionError("it is there")
        got = []
        t = threading.Thread(target=lambda: got.append(patient(td.ones(1)).item()))
        t.start()
        while not any("served" in row["waits_for"] for row in td.status("sessions")): time.sleep(0.001)
        f.publish("served")
        t.join()
        assert got == [2]
        print("done")
    """)


def test_an_opened_program_in_threads_and_in_another_daemon(tmp_path):
    """Those who call at once all get there; td.connect() names where."""
    with daemon(str(tmp_path)) as d:
        run_opened(tmp_path, f"""
            p = opened()
            f.publish("served")
            results, threads = [], [threading.Thread(target=lambda k=k: results.append(p(td.ones(k)).sum().item())) for k in range(1, 9)]
            for t in threads: t.start()
            for t in threads: t.join()
            assert sorted(results) == [2 * k for k in range(1, 9)]
            lose()
            td.connect({d.path!r})
            f.publish("served")
            assert p(td.ones(2)).tolist() == [2, 2]
            assert td.connection()["path"] == {d.path!r}
            td.drop("served")
            print("done")
        """)

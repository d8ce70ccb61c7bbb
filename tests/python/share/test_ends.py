"""Programs that end while everything lives, in every way a program can end; sub-interpreters; forks in the middle of everything."""
import pathlib
import random
import re
import signal
import sys

import pytest
import tensord as td
from common import script, seed

LIVE = {
    "tensors": "keep = [td.ones(3), td.ones(2, requires_grad=True) * 2, td.ones(1000)[::2]]",
    "views of the bytes": "keep = [memoryview(td.ones(2)), td.ones(2).__dlpack__(), td.ones(9).__dlpack__(max_version=(1, 0))]",
    "arrays": "import numpy; keep = [td.ones(3).numpy(), numpy.asarray(td.ones(5000))[::3]]",
    "an open lease": "w = td.ones(5).writing(); keep = [w, w.__enter__()]",
    "queues": "q = td.Queue('ends', 4); q.put({'x': td.ones(2)}); keep = [q, q.get(), td.Queue('other')]",
    "handles": "import pickle; keep = pickle.dumps(td.ones(3))",
    "a mode": "keep = td.no_grad(); keep.__enter__()",
    "what was asked only": "a = td.rand(300, 300)\nfor _ in range(20): a = a @ a\nkeep = a",
    "a graph": "w = td.ones(3, requires_grad=True); keep = w\nfor _ in range(200): keep = keep * w",
    "a loader": "from tensord.data import DataLoader; keep = iter(DataLoader(range(100), num_workers=2)); next(keep)",
    "a waiting thread": "import threading; threading.Thread(target=td.Queue('nobody').get, daemon=True).start()",
    "working threads": "import threading\ndef work():\n    while True: (td.ones(4) + 1).sum().item()\nfor _ in range(3): threading.Thread(target=work, daemon=True).start()",
    "a cycle": "class Node: pass\nn = Node(); n.me = n; n.t = td.ones(3); n.q = td.Queue('cycle', 2); del n",
    "a finalizer": "import weakref\nclass Late:\n    def __del__(self): td.ones(2).tolist()\nkeep = Late()",
    "in a module": "sys.keep = [td.ones(3), td.Queue('module', 1)]; sys.modules['hold'] = type(sys)('hold'); sys.modules['hold'].t = td.ones(2)",
}
ENDS = {"falls off": "", "sys.exit": "sys.exit(0)", "an exception": "raise Mine", "Ctrl-C": "signal.raise_signal(signal.SIGINT)", "disconnected": "td.disconnect()",
        "os._exit": "os._exit(0)", "the daemon was killed": "os.kill(td.connection()['pid'], signal.SIGKILL); time.sleep(0.05)", "SIGTERM": "signal.raise_signal(signal.SIGTERM)"}
CODES = {"an exception": 1, "Ctrl-C": -signal.SIGINT, "SIGTERM": -signal.SIGTERM}


@pytest.mark.parametrize("end", ENDS)
def test_ends(end):
    """Some of everything alive, in an order that is drawn."""
    rng = random.Random(seed())
    parts = rng.sample(sorted(LIVE), len(LIVE))
    for chosen in (parts[: len(parts) // 2], parts[len(parts) // 2 :]):
        if end in ("the daemon was killed", "disconnected"):  # threads and finalizers would rightly be told
            chosen = [c for c in chosen if "thread" not in c and c != "a finalizer"]
        lines = ["import os, signal, sys, time", "import tensord as td", "class Mine(Exception): pass", "td.ones(1).item()"]
        lines += [f"def part{k}():\n    global keep{k}, a, w, q, n\n    " + LIVE[name].replace("\n", "\n    ") + f"\n    keep{k} = locals().get('keep')" for k, name in enumerate(chosen)]
        lines += [f"part{k}()" for k in range(len(chosen))] + [ENDS[end]]
        r = script("\n".join(lines).replace("global keep0, a, w, q, n", "global keep0").replace(", a, w, q, n", ""))
        told = [x for x in r.stderr.splitlines() if x and not x.startswith((" ", "Traceback", "tensord: get() has waited"))]
        expected = {"an exception": ["__main__.Mine", "Mine"], "Ctrl-C": ["KeyboardInterrupt"]}.get(end, [])
        assert r.returncode == CODES.get(end, 0) and all(t in expected for t in told), (chosen, r.returncode, r.stderr[-3000:])


def test_sub_interpreters():
    """One interpreter of a process has the package; another is told, and both go on."""
    r = script("""
        import sys
        import _xxsubinterpreters as sub
        import tensord as td
        x = td.ones(3)
        for _ in range(3):
            other = sub.create()
            try:
                sub.run_string(other, "import tensord")
                print("imported")
            except Exception as e:
                print("ImportError" in str(e), "interpreter" in str(e))
            sub.destroy(other)
            assert (x + 1).tolist() == [2, 2, 2]
        print("end")
    """ if sys.version_info < (3, 13) else """
        import _interpreters as sub, tensord as td
        x = td.ones(3)
        for _ in range(3):
            other = sub.create()
            told = sub.run_string(other, "import tensord")
            print("ImportError" in str(told and told.formatted), "interpreter" in str(told and told.formatted))
            sub.destroy(other)
            assert (x + 1).tolist() == [2, 2, 2]
        print("end")
    """, flags=("-X", "dev"))
    assert r.stdout == "True True\n" * 3 + "end\n" and r.returncode == 0, (r.stdout, r.stderr)


FORKS = {
    "inside no_grad": "with td.no_grad():\n    fork(lambda: not (td.ones(2, requires_grad=True) * 2).requires_grad)",
    "inside inference": "with td.inference_mode():\n    fork(lambda: not (td.ones(2, requires_grad=True) * 2).requires_grad)",
    "inside a write lease": "t = td.zeros(4)\nwith t.writing() as a:\n    a[0] = 5\n    fork(lambda: (td.ones(2) + 1).tolist() == [2, 2])\n    a[1] = 6\nassert t.tolist() == [5, 6, 0, 0]",
    "in the middle of a batch": "x = td.zeros(3)\nfor k in range(500):\n    x += 1\n    k % 100 or fork(lambda: x.tolist() == [k + 1] * 3 and (x * 2).sum().item() == 6 * (k + 1))\nassert x.tolist() == [500] * 3",
    "in the middle of a graph": "w = td.ones(3, requires_grad=True)\ny = (w * 3).sum()\nfork(lambda: (y.backward(), w.grad.tolist() == [3, 3, 3])[1])",
    "with a thread in a wait": "q = td.Queue('fw', 2)\nt = threading.Thread(target=lambda: got.append(q.get(timeout=30)))\ngot = []\nt.start(); time.sleep(0.05)\nfork(lambda: td.ones(3).sum().item() == 3)\ntd.Queue('fw', 2).put(7); t.join()\nassert got == [7]",
    "with threads at work": "stop = []\ndef work():\n    while not stop: (td.ones(4) * 2).sum().item()\nts = [threading.Thread(target=work) for _ in range(3)]\n[t.start() for t in ts]\nfor _ in range(4): fork(lambda: (td.arange(3) + 1).tolist() == [1, 2, 3])\nstop.append(1); [t.join() for t in ts]",
    "while a loader runs": "from tensord.data import DataLoader\nn = 0\nfor b in DataLoader(range(40), batch_size=4, num_workers=2):\n    n += 1\n    n % 3 or fork(lambda: td.ones(2).sum().item() == 2)\nassert n == 10",
    "with items in a queue": "q = td.Queue('fi', 9)\n[q.put(k) for k in range(4)]\nfork(lambda: q.get() == 0)\nassert q.get() == 1",
    "with a handle in flight": "import pickle\nh = pickle.dumps(td.full((3,), 7))\nfork(lambda: pickle.loads(h).tolist() == [7] * 3)",
    "from a signal's handler in a wait": "signal.signal(signal.SIGUSR1, lambda *a: fork(lambda: td.ones(2).sum().item() == 2))\nthreading.Timer(0.1, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)).start()\nwhile not forked:\n    try: td.open('never', timeout=0.6)\n    except TimeoutError: pass\nassert forked == 1",
    "of a fork of a fork": "x = td.ones(2)\nfork(lambda: fork(lambda: fork(lambda: (x + 3).tolist() == [4, 4]) or True) or True)",
    "after its daemon was killed": "x = td.ones(2); x.tolist(); os.kill(td.connection()['pid'], signal.SIGKILL)\ndef child():\n    try: x.sum().item()\n    except td.ConnectionLost: return True\nfork(child)\ntd.connect(); assert td.ones(2).tolist() == [1, 1]",
}
FORK = """
import os, signal, sys, threading, time
import tensord as td
forked = 0
td.ones(1).item()
def fork(check):
    global forked
    forked += 1
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            code = 0 if check() else 1
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(code)
    status = os.waitpid(pid, 0)[1]
    assert status == 0, f"the child ended with {status}"
"""


@pytest.mark.parametrize("name", FORKS)
def test_forks(name):
    r = script(FORK + FORKS[name] + "\nassert (td.ones(2) + 1).tolist() == [2, 2] and td.is_grad_enabled()\n", flags=("-X", "dev", "-W", "error", "-W", "ignore::DeprecationWarning"))
    assert r.returncode == 0 and not r.stderr, r.stderr[-3000:]


ELSEWHERE = {  # a thread does the first, is at `here()` while the main thread forks, and goes on when that wants to
    "imports what pickles tensors": ("pickle.dumps(x)", "pickle.loads(pickle.dumps(x)).tolist() == [7] * 3"),
    "imports queues": ("td.Queue", "td.Queue('elsewhere', 2, keep=0).put(td.ones(1)) is None"),
    "imports layers": ("td.nn.Linear", "td.nn.Linear(2, 3)(td.ones(1, 2)).shape == (1, 3)"),
    "draws with a generator": ("dice._draw(here)", "[td.rand(3, generator=dice).shape, td.rand(3).tolist()] == [(3,), first]"),
    "has the turn of a program": ("with turn: here()", "turn.__enter__() is None"),
    "makes a program": ("with made.lock: here()", "made.lock.acquire(timeout=60)"),
    "looks at a result to come": ("with future._changed: here()", "future.set_result(7) is None and future.wait() == 7"),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_fork_while_another_thread(name):
    """The child waits for no thread, as it has only the one that forked."""
    work, check = ELSEWHERE[name]
    setup = """
import pickle
x = td.full((3,), 7)
there, forking = threading.Event(), threading.Event()
def here(*ignored):
    if threading.current_thread() is not threading.main_thread() and not there.is_set():
        there.set()
        assert forking.wait(60)
"""
    if name.startswith("imports"):
        setup += "class Slow: find_spec = staticmethod(here)\nsys.meta_path.insert(0, Slow)\n"
    else:
        setup += """
from tensord.program._mutex import Turn
from tensord.program._unions import Made
td.manual_seed(3); first = td.rand(3).tolist(); td.manual_seed(3)
dice, turn, made, future = td.Generator().manual_seed(1), Turn(), Made(), td.futures.Future()
"""
    body = f"""
def work():
    {work}
thread = threading.Thread(target=work, daemon=True)
thread.start()
assert there.wait(60)
os.register_at_fork(before=forking.set)
fork(lambda: (signal.alarm(100), {check})[1])
thread.join()
"""
    r = script(FORK + setup + body, flags=("-X", "dev", "-W", "error", "-W", "ignore::DeprecationWarning"))
    assert r.returncode == 0 and not r.stderr, r.stderr[-3000:]


def test_a_fork_while_another_thread_imports_the_package():
    """As above, of all of it."""
    r = script("""
        import os, signal, sys, threading
        there, forking = threading.Event(), threading.Event()
        class Slow:
            def find_spec(name, *ignored):
                if name == "tensord._C":
                    there.set()
                    assert forking.wait(60)
        sys.meta_path.insert(0, Slow)
        def work():
            import tensord
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        assert there.wait(60)
        os.register_at_fork(before=forking.set)
        pid = os.fork()
        if pid == 0:
            signal.alarm(100)
            import tensord as td
            os._exit(td.ones(3).tolist() != [1, 1, 1])
        assert os.waitpid(pid, 0)[1] == 0
        thread.join()
    """, flags=("-X", "dev", "-W", "error", "-W", "ignore::DeprecationWarning"))
    assert r.returncode == 0 and not r.stderr, r.stderr[-3000:]


def test_all_locks_are_free_in_a_child():
    """Those that core/_forking.py makes are."""
    files = pathlib.Path(td.__file__).parent.rglob("*.py")
    others = [file.name for file in files if file.name != "_forking.py" and re.search(r"\b(Lock|RLock|Condition|Semaphore|BoundedSemaphore)\(\)", file.read_text())]
    assert not others, others


def test_a_fork_that_returns_into_a_wait():
    """A handler forks while its program waits, and the child goes on after it: it is told that the answer is not its own."""
    r = script("""
        import os, signal, threading, tensord as td
        td.ones(1).item()
        children = []
        signal.signal(signal.SIGUSR1, lambda *a: children.append(os.fork()))
        threading.Timer(0.15, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)).start()
        told = None
        while not children:
            try:
                td.open("never", timeout=1)
            except (TimeoutError, td.Cancelled) as e:  # between two questions to the daemon the child goes on waiting by itself
                told = e
        if children == [0]:
            good = told is None or isinstance(told, TimeoutError) or "fork" in str(told)
            os._exit(0 if good and (td.ones(2) + 1).tolist() == [2, 2] else 1)
        assert os.waitpid(children[0], 0)[1] == 0
        print("parent" if told is None or isinstance(told, TimeoutError) else told)
    """, flags=("-X", "dev", "-W", "ignore"))
    assert r.stdout == "parent\n" and r.returncode == 0, r.stderr

"""Processes and threads: import, fork, every start method, the GIL."""
import multiprocessing
import os
import re
import subprocess
import sys
import threading
import time

import pytest
import tensord as td
from common import SANITIZED, SLOW, script, wait_for


def test_import_starts_nothing():
    r = script("""
        import os, sys
        before = set(sys.modules)
        import tensord
        print(tensord.connection(), len(os.listdir("/proc/self/task")), sorted(m for m in ("numpy", "torch", "asyncio") if m in sys.modules))
        print(any("socket" in os.readlink(f"/proc/self/fd/{f}") for f in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{f}")))
    """)
    assert r.stdout == "None 1 []\nFalse\n" and r.stderr == "", r.stderr


def test_a_seed_starts_nothing():
    """It is kept for the daemon that comes, and for each one behind it."""
    r = script("""
        import tensord as td
        td.manual_seed(5)
        assert td.connection() is None
        state = td.get_rng_state()
        first = td.rand(3).tolist()
        assert td.rand(3).tolist() != first
        td.set_rng_state(state)
        assert td.rand(3).tolist() == first
        td.disconnect()
        td.manual_seed(5)
        assert td.connection() is None and td.rand(3).tolist() == first
    """)
    assert r.returncode == 0, r.stderr


def test_no_threads_are_started():
    r = script("import os, tensord as td; td.ones(3).tolist(); print(len(os.listdir('/proc/self/task')))")
    assert r.stdout == "1\n", r.stderr


def test_shutdown_with_tensors_alive():
    r = script("""
        import sys, tensord as td
        x = td.ones(3)
        sys.keep = [x, x + 1, memoryview(td.ones(2)), td.ones(2).__dlpack__()]
        y = x * 2
    """)
    assert r.returncode == 0 and r.stderr == "", r.stderr


def test_what_was_asked_at_the_end_is_done():
    path = td.connection() or (td.ones(1), td.connection())[1]
    td.zeros(1).publish("end/a")
    subprocess.run([sys.executable, "-c", "import tensord as td; td.open('end/a').add_(5)"], check=True, timeout=60,
                   env={**os.environ, "TENSORD_SOCKET": path["path"]})
    assert td.open("end/a").item() == 5
    td.drop("end/a")


def test_an_error_that_nobody_asked_about_is_told_at_the_end():
    r = script("""
        import tensord as td
        w = td.ones(3)[td.tensor([7])]
    """)
    assert "out of" in r.stderr and "asked for at" in r.stderr and "gnored" not in r.stderr and r.returncode == 1, r.stderr
    r = script("""
        import tensord as td
        w = td.ones(3)[td.tensor([7])]
        try: td.sync()
        except td.OutOfRange: pass
    """)
    assert r.stderr == "" and r.returncode == 0, "it was told before"


@pytest.mark.parametrize("end, status, told", [("", 1, True), ("sys.exit(0)", 1, True), ("sys.exit(3)", 3, True), ("1 / 0", 1, False),
                                               ("sys.stdout.flush(); os._exit(0)", 0, False), ("sys.executable = '/bin/sh'", 0, True)])
def test_the_exit_status_tells_of_it(end, status, told):
    """Whatever else is done at the end is done; what the program chose stays, and the status of a program that only has Python inside."""
    r = script(f"""
        import atexit, os, sys, tensord as td
        atexit.register(print, "last")
        w = td.ones(3)[td.tensor([7])]
        atexit.register(print, "first")
        print("done")
        {end}
    """)
    assert r.returncode == status and ("nobody looked at its result" in r.stderr) is told, (r.returncode, r.stderr)
    assert r.stdout == ("done\n" if "_exit" in end else "done\nfirst\nlast\n")


def test_the_end_waits_for_no_thread():
    r = script("""
        import threading, time, tensord as td
        q = td.Queue("process/nobody")
        threading.Thread(target=q.get, daemon=True).start()
        time.sleep(0.2)
        td.ones(3)
    """)  # which gives up in the end
    assert r.returncode == 0 and "Error" not in r.stderr, r.stderr


def _child(conn, name):
    t = td.open(name)
    t.add_(1)
    td.sync()
    conn.send(t.tolist())


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_start_methods(method, monkeypatch):
    """A child finds the private daemon of its parent, however it was started."""
    monkeypatch.delenv("TENSORD_BELOW", raising=False)
    monkeypatch.delenv("TENSORD_SOCKET", raising=False)
    td.zeros(3).publish(f"start/{method}")
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    p = context.Process(target=_child, args=(theirs, f"start/{method}"))
    p.start()
    theirs.close()
    assert ours.recv() == [1, 1, 1]
    p.join()
    assert p.exitcode == 0 and td.open(f"start/{method}").tolist() == [1, 1, 1]
    td.drop(f"start/{method}")


WHERE = "import tensord as td; td.ones(1); print(td.connection()['path'])"


def where(command, **environment):
    """The daemon that another program finds, whose environment has nothing of ours but what is named here."""
    names = "PATH", "PYTHONPATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "TENSORD_DAEMON", "XDG_RUNTIME_DIR"
    kept = {k: os.environ[k] for k in names if k in os.environ}
    r = subprocess.run(command, capture_output=True, text=True, timeout=60 * SLOW, env={**kept, **environment})
    assert r.returncode == 0, r.stderr
    return r.stdout.strip()


def test_programs_started_by_this_one(monkeypatch):
    monkeypatch.delenv("TENSORD_BELOW", raising=False)
    td.ones(1)
    here = td.connection()["path"]
    assert f"/{os.getpid()}-" in here
    assert where([sys.executable, "-c", WHERE]) == here
    assert where(["sh", "-c", f'"$0" -c "{WHERE}"; true', sys.executable]) == here, "two below"
    apart = where([sys.executable, "-c", WHERE], TENSORD_BELOW=str(os.getpid()))
    assert apart != here and wait_for(lambda: not os.path.exists(apart)), "kept apart, and removed at its end"
    pid = os.fork()
    if pid == 0:  # its own connection, not the inherited one
        td.disconnect()
        td.ones(1)
        os._exit(0 if td.connection()["path"] == here else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_one_private_daemon_a_process():
    """Whichever thread is first; and again and again while the one before is ending."""
    r = script("""
        import os, threading, tensord as td
        places = []
        def work(barrier):
            barrier.wait()
            td.connect()
            places.append(td.connection()["path"])
        for _ in range(10):
            barrier = threading.Barrier(4)
            threads = [threading.Thread(target=work, args=(barrier,)) for _ in range(4)]
            for t in threads: t.start()
            for t in threads: t.join()
            td.disconnect()
            assert td.ones(2).tolist() == [1, 1]
            td.disconnect()
        assert len(places) == 40 and len(set(places)) == 1, places
    """)
    assert r.returncode == 0 and not r.stderr, r.stderr


def test_a_killed_private_daemon_is_replaced():
    r = script("""
        import os, signal, tensord as td
        td.ones(1)
        before = td.connection()
        os.kill(before["pid"], 9)
        try:
            while True: td.ones(1).item()
        except td.ConnectionLost:
            td.connect()
        now = td.connection()
        assert now["path"] == before["path"] and now["pid"] != before["pid"] and td.ones(1).item() == 1
    """)
    assert r.returncode == 0 and not r.stderr, r.stderr


def test_fork_in_the_middle():
    x = td.arange(5)
    y = x * 2  # not waited for
    shared = td.zeros(1)
    pids = []
    for k in range(5):
        pid = os.fork()
        if pid == 0:
            try:
                good = (y + 1).tolist() == [1, 3, 5, 7, 9] and td.ones(2).sum().item() == 2
                shared.add_(1)
                td.sync()
                os._exit(0 if good else 1)
            except BaseException:
                os._exit(2)
        pids.append(pid)
        y = y + 0
    assert [os.waitpid(p, 0)[1] for p in pids] == [0] * 5
    assert shared.item() == 5 and (y + 1).tolist() == [1, 3, 5, 7, 9]


def test_fork_beside_a_timer():
    """The parent waits for its child's connection, whatever signals come meanwhile."""
    r = script("""
        import os, signal
        import tensord as td
        x = td.ones(3)
        signal.signal(signal.SIGALRM, lambda *ignored: None)
        for _ in range(10):
            signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)
            pid = os.fork()
            signal.setitimer(signal.ITIMER_REAL, 0)
            if not pid:
                print(x.sum().item(), flush=True)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
    """)
    assert (r.stdout, r.returncode) == ("3.0\n" * 10, 0), r.stderr


def test_fork_beside_threads():
    stop = threading.Event()
    failed = []

    def work():
        try:
            while not stop.is_set():
                assert (td.ones(4) * 2).sum().item() == 8
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    try:
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                os._exit(0 if (td.ones(2) + 1).tolist() == [2, 2] else 1)
            assert os.waitpid(pid, 0)[1] == 0
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not failed


def test_threads():
    results = []

    def work(k):
        with td.no_grad():
            x = td.full((8,), k)
            for _ in range(200):
                x = x + 1
            results.append(x.sum().item() == 8 * (k + 200))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [True] * 8 and td.is_grad_enabled()


def test_waits_let_other_threads_run():
    td.ones(1).item()
    got = []
    t = threading.Thread(target=lambda: got.append(td.open("process/late", timeout=60 * SLOW)))
    t.start()
    for _ in range(100):  # each time the lock of the interpreter is asked for anew
        time.sleep(0.001)
    assert not got
    td.full((2,), 5).publish("process/late")
    t.join()
    assert got[0].tolist() == [5, 5]
    td.drop("process/late")


def test_a_killed_child_harms_nobody():
    x = td.ones(1000)
    pid = os.fork()
    if pid == 0:
        y = x * 2
        y.sum().item()
        os.kill(os.getpid(), 9)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == 9
    assert (x + 1).sum().item() == 2000


def test_a_program_is_called_by_its_script(tmp_path):
    """Not "python3"; a child that multiprocessing spawns as its parent, a module by its name."""
    (tmp_path / "learn.py").write_text("""
import multiprocessing, tensord as td
def look():
    td.ones(1).item()
    print([row["program"] for row in td.status("sessions")], flush=True)
if __name__ == "__main__":
    look()
    p = multiprocessing.get_context("spawn").Process(target=look)
    p.start()
    p.join()
""")
    for how, name in ((["-X", "dev", "learn.py"], "learn.py"), (["-m", "learn"], "learn"), ([str(tmp_path / "learn.py")], "learn.py")):
        r = subprocess.run([sys.executable, *how], cwd=tmp_path, capture_output=True, text=True, timeout=60 * SLOW)
        assert r.stdout == f"['{name}']\n['{name}', '{name}']\n", r.stdout + r.stderr


def test_what_takes_memory_and_who_waits_for_what_is_told(tmp_path):
    """By tensorctl: program and line, the most bytes first, views once; waits by the queue's or the tensor's name."""
    (tmp_path / "learn.py").write_text("""
import subprocess, sys, threading, time, tensord as td
small = [td.zeros(10, 10) for _ in range(5)]
large = td.ones(500, 500)
view = large[1:].T
copied = td.arange(100.0).publish("learn/copied")
def get():
    try: td.Queue("learn/jobs").get(timeout=60)
    except td.Error: pass
def open():
    try: td.open("learn/late", timeout=60)
    except td.Error: pass
for f in get, open:
    threading.Thread(target=f, daemon=True).start()
    while not any("learn/" in r["waits_for"] for r in td.status("sessions")): time.sleep(0.01)
def tell(what):
    return subprocess.run([sys.argv[1], what], check=True, timeout=60, stdout=subprocess.PIPE, text=True).stdout
print(tell("tensors"), end="")
until = time.monotonic() + 60
while "1 more" not in (told := tell("sessions")) and time.monotonic() < until: pass  # who waits asks again and again
print(told)
""")
    tensorctl = os.path.join(os.path.dirname(os.environ["TENSORD_DAEMON"]), "../../client/tensorctl")
    r = subprocess.run([sys.executable, str(tmp_path / "learn.py"), tensorctl], capture_output=True, text=True, timeout=100 * SLOW)
    rows = [re.split(r"  +", line.strip()) for line in r.stdout.splitlines()]
    assert rows[0] == ["program", "pid", "kind", "bytes", "bytes_own", "rows", "oldest_s", "largest", "where"], r.stdout + r.stderr
    mine = [row for row in rows[1:] if "/learn.py:" in row[-1]]  # a long path has its end only
    assert [(row[0], row[2], row[3], row[5], row[7], os.path.basename(row[8])) for row in mine] == [
        ("learn.py", "tensor", "1.0 MB", "1", "float32[500, 500]", "learn.py:4"), ("learn.py", "tensor", "2.2 kB", "5", "float32[10, 10]", "learn.py:3"),
        ("learn.py", "tensor", "0 B", "1", "float32[500, 499]", "learn.py:5"), ("learn.py", "tensor", "0 B", "1", "float32[100]", "learn.py:6")], r.stdout
    assert ["learn.py", "name", "448 B", "float32[100]", "learn/copied"] in [[row[k] for k in (0, 2, 3, 7, 8)] for row in rows[1:] if len(row) == 9], r.stdout
    assert [row[:2] for row in rows if row[0] == "all"] == [["all", "used"], ["all", "committed"]], r.stdout
    assert re.search("(an item of a queue 'learn/jobs'|the name 'learn/late'|a name 'learn/late'), and 1 more", r.stdout), r.stdout


@pytest.fixture
def apart():
    """Starts programs that nobody starts together: each has a private daemon, and publishes its number under the names that it is given."""
    running = []

    def start(tmp_path, *names):
        program = tmp_path / f"keeper{len(running)}.py"
        program.write_text("import sys, tensord as td\nfor name in sys.argv[1:]: td.full((2,), %d).publish(name)\nprint(flush=True)\nsys.stdin.read()" % len(running))
        p = subprocess.Popen([sys.executable, str(program), *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        running.append(p)
        p.stdout.readline()
        return p

    yield start
    for p in running:
        p.communicate()


def test_a_name_is_found_in_another_program_s_daemon(tmp_path, apart):
    """As the first thing that a program does; then its children go there too."""
    keeper = apart(tmp_path, "far/w")
    r = script("""
        import subprocess, sys
        import tensord as td
        w = td.open("far/w").add_(5)
        td.sync()
        child = "import tensord as td; print(td.open('far/w').tolist(), td.ones(1).item())"
        subprocess.run([sys.executable, "-c", child], check=True)
        print(sorted(row["program"] for row in td.status("sessions") if row["program"].endswith(".py")))
        td.disconnect()
        print(td.ones(1).item() + len(td.status("sessions")))
    """)
    assert (r.stdout, r.stderr) == ("[5, 5] 1.0\n['keeper0.py']\n2.0\n", "")
    assert keeper.poll() is None


def test_a_name_that_comes_later_is_waited_for_in_all_daemons(tmp_path, apart):
    waits = subprocess.Popen([sys.executable, "-c", "import tensord as td; print(td.open('far/later', timeout=60).tolist())"], stdout=subprocess.PIPE, text=True)
    time.sleep(0.5)
    apart(tmp_path, "far/later")
    assert waits.communicate(timeout=60)[0] == "[0, 0]\n"


def test_who_has_a_name_is_told_to_who_cannot_go_there(tmp_path, apart):
    look = """
        import tensord as td
        td.ones(1).item()
        try:
            td.open("far/w", timeout=0.01)
        except (td.NotFound, td.Timeout) as e:
            print(e)
    """
    assert "no other daemon of yours has the name" in script(look).stdout
    keeper = apart(tmp_path, "far/w")
    told = script(look).stdout
    found = re.search(rf"private daemon of keeper0.py \(pid {keeper.pid}\) has it: start this program with (TENSORD_SOCKET)=(\S+)", told)
    assert found and "TENSORD_SOCKET" not in script(look, **{found[1]: found[2]}).stdout, told
    assert script("import tensord as td; print(td.open('far/w').tolist())", **{found[1]: found[2]}).stdout == "[0, 0]\n"
    apart(tmp_path, "far/w")
    r = script("import tensord as td; td.open('far/w')")  # which one is not guessed
    assert "2 other private daemons have it" in r.stderr, r.stderr


def test_a_queue_in_another_program_s_daemon_is_told(tmp_path):
    """It is not joined: two runs of one script would mix their items."""
    program = tmp_path / "producer.py"
    program.write_text("import sys, tensord as td\nq = td.Queue('far/jobs')\nq.put(7)\nprint(flush=True)\nsys.stdin.read()")
    producer = subprocess.Popen([sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        producer.stdout.readline()
        get = "import queue, tensord as td\ntry: print(td.Queue('far/jobs').get(timeout=1.5))\nexcept queue.Empty: print('empty')"
        r = script(get)
        found = re.search(rf"private daemon of producer.py \(pid {producer.pid}\) has a queue of this name with items or a producer: start this program with (TENSORD_SOCKET)=(\S+)", r.stderr)
        assert r.stdout == "empty\n" and r.stderr.count("\n") == 1 and found, r.stderr
        r = script(get, **{found[1]: found[2]})
        assert (r.stdout, r.stderr) == ("7\n", "")
        assert "start `tensord` before" in script(get.replace("far", "near")).stderr, "there is none anywhere"
    finally:
        producer.communicate()


@pytest.mark.skipif(SANITIZED, reason="the sanitizer's memory comes and goes by the page")
def test_products_work_in_memory_that_is_there():
    """What a library allocates for a product by a transposed matrix went back to the system each time: three times the product's own time."""
    def faults():
        with open(f"/proc/{td.connection()['pid']}/stat") as f:
            return int(f.read().rsplit(")", 1)[1].split()[7])

    x, w = td.ones(64, 784), td.ones(128, 784)
    for _ in range(50):
        td.nn.functional.linear(x, w)
    td.sync()
    before = faults()
    for _ in range(100):
        td.nn.functional.linear(x, w)
    td.sync()
    assert faults() - before < 2000  # 190 a product when it goes wrong

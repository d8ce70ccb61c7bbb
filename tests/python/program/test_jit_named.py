"""Programs under names: published by one process, called by others, also when it is gone; gradients; kinds; what is said."""
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import tensord as td
from common import script

PUBLISHER = """
import os, signal
import tensord as td
w, b = td.full((2, 2), 0.5), td.tensor([1.0, -1.0], requires_grad=True)
@td.jit.script
def layer(x, scale: float = 2.0):
    return td.relu(x @ w + b) * scale
layer.publish("layer")
os.kill(os.getpid(), signal.SIGKILL)
"""


def published(tmp_path):
    td.ones(1)  # now there is a daemon
    path = tmp_path / "publisher.py"
    path.write_text(PUBLISHER)
    ran = script(f"import runpy; runpy.run_path({str(path)!r})", TENSORD_SOCKET=td.connection()["path"])
    assert ran.returncode == -9, ran.stderr


def test_a_program_outlives_its_publisher(tmp_path):
    published(tmp_path)
    layer = td.jit.open("layer", timeout=60)
    x = td.ones((1, 2), requires_grad=True)
    y = layer(x, 2.0)
    assert y.tolist() == [[4.0, 0.0]] and layer(scale=1.0, x=x).tolist() == [[2.0, 0.0]]
    y.sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0]]
    assert "td::relu" in layer.graph and repr(layer) == "<tensord.jit.OpenedProgram(x, scale)>"
    with pytest.raises(TypeError, match=r"no parameter 'size', or it was given before; it takes \(x, scale\)"):
        layer(x, size=3)
    with pytest.raises(TypeError, match="takes 2 arguments, and 1 are given"):
        layer(x)
    with pytest.raises(TypeError, match=r"'layer' is a program, not a tensor: .*tensord.jit.open\(\)"):
        td.open("layer")
    layer.publish("again")
    td.drop("layer")
    assert layer(x, 1.0).tolist() == td.jit.open("again")(x, 1.0).tolist() == [[2.0, 0.0]]
    td.drop("again")


def test_names_and_kinds():
    @td.jit.script
    def double(x):
        return x * 2

    @td.jit.script
    def triple(x):
        return x * 3

    x = td.tensor([2.0])
    double.publish("times")
    with pytest.raises(Exception, match="the name 'times' is taken"):
        triple.publish("times")
    old = td.jit.open("times")
    triple.publish("times", replace=True)
    assert (old(x).item(), td.jit.open("times")(x).item()) == (4.0, 6.0)
    rows = {row["name"]: row for row in td.status("names")}
    assert rows["times"]["kind"] == "program" and rows["times"]["tensor"].startswith("program of ")
    td.drop("times")
    x.publish("times")
    with pytest.raises(TypeError, match=r"'times' is a tensor, not a program: .*tensord.open\(\)"):
        td.jit.open("times")
    td.drop("times")
    with pytest.raises(td.NotFound, match="nothing is published as 'times'"):
        td.jit.open("times")
    with pytest.raises(TimeoutError, match="nobody published 'times' in time"):
        td.jit.open("times", timeout=0.01)


def test_a_module_is_published_as_it_is():
    model = td.nn.Sequential(td.nn.Linear(3, 4), td.nn.ReLU(), td.nn.Linear(4, 1))
    x = td.randn(5, 3)
    td.jit.script(model).publish("model")
    served, before = td.jit.open("model"), model(x).tolist()
    with td.no_grad():
        model[0].weight.zero_()
    assert served(x).tolist() == before != model(x).tolist()
    td.drop("model")


def test_captured_leaves_in_service_memory_are_shared():
    with td.service_memory():
        w = td.tensor([3.0], requires_grad=True)

    @td.jit.script
    def times(x):
        return x * w

    times.publish("times w")
    td.jit.open("times w")(td.tensor([5.0])).backward()
    assert w.grad.tolist() == [5.0]
    td.drop("times w")


@td.jit.script
def endless(x, k: int):
    while k >= 0:
        k = (k + 1) % 1000
        x = x + 1
    return x, k


@td.jit.script
def endless_tensors(x):
    k = 0
    while k >= 0:
        k = (k + 1) % 1000
        if x.sum() < 0:  # it waits for values
            k = -1
        x = x + 1
    return x


@pytest.mark.parametrize("program, more", [(endless, (1,)), (endless_tensors, ())])
def test_a_program_without_an_end_is_stopped(program, more):
    x = td.ones(3)
    for seconds in (0.05, 0.2):
        with td.jit.timeout(seconds), pytest.raises(td.Timeout, match=rf"not come to its end in {seconds:.3f} seconds"):
            program(x, *more)
        assert (x + 1).tolist() == [2.0] * 3  # the session goes on
    # Ctrl-C stops it, whether the call waits for it or the next one that looks at what it gives
    for _ in range(3):
        threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            y = program(x, *more)
            y.tolist()
        assert (x + 1).tolist() == [2.0] * 3
    with td.jit.timeout(None):
        assert td.jit.script(double)(x).tolist() == [2.0] * 3
    with td.jit.timeout(30):
        y = td.jit.script(double)(x)
        with td.jit.timeout(0.05), pytest.raises(td.Timeout):
            program(x, *more)
        assert y.tolist() == [2.0] * 3
    for wrong in (0, -1.0, float("nan")):
        with pytest.raises(td.InvalidError, match="more than 0"):
            td.jit.timeout(wrong)


def double(x):
    return x * 2


def test_a_fork_stops_nothing():
    """It waits three seconds for what runs, and gives up waiting: the parent's program goes on."""
    ended = []

    def work():
        try:
            with td.jit.timeout(4):
                endless(td.ones(1), 1)
        except td.Error as e:
            ended.append(type(e))

    td.ones(1).item()
    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.2)
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    thread.join()
    assert ended == [td.Timeout]


HOLDER = """
import sys
import tensord as td
x = td.zeros(4)
q = td.Queue("held", 1)
q.put(x)
sys.stdin.readline()
with x.writing():
    print("writes", flush=True)
    sys.stdin.readline()
"""


def test_what_waits_for_who_writes_is_stopped(tmp_path):
    """Another process has a tensor to write to, and takes its time."""
    td.ones(1).item()
    path = tmp_path / "holder.py"
    path.write_text(HOLDER)
    env = {**os.environ, "TENSORD_SOCKET": td.connection()["path"]}
    with subprocess.Popen([sys.executable, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as holder:
        x = td.Queue("held", 1).get(timeout=30)
        f = td.jit.script(total)
        assert f(x) == 0.0
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "writes\n"
        with td.jit.timeout(0.1), pytest.raises(td.Timeout):
            f(x)
        assert (td.ones(2) + 1).tolist() == [2.0, 2.0]
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert holder.wait(30) == 0
    assert f(x) == 0.0


def total(x):
    return x.sum().item() + 0.0


def test_one_thread_stops_its_own_program():
    """Others' calls of the same session go on."""
    results = []

    def work():
        results.append(steady(td.ones(2), 200000)[0].tolist())

    steady(td.ones(2), 1)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    with td.jit.timeout(0.05), pytest.raises(td.Timeout):
        endless(td.ones(1), 1)
    for t in threads:
        t.join()
    assert results == [[2.0, 2.0]] * 3


@td.jit.script
def steady(x, n: int):
    k = 0
    for i in range(n):
        k += 1
    return x + 1, k

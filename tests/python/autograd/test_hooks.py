"""Hooks of gradients: what PyTorch does with the same programs, and what is the daemon's own: other processes, threads, what is left behind."""
import gc
import json
import os
import subprocess
import sys
import threading

import hook_programs
import pytest
import tensord as td
from common import held, script, wait_for
from tensord.autograd import _hooks

with open(os.path.join(os.path.dirname(__file__), "hook_results.json")) as f:
    EXPECTED = json.load(f)  # of PyTorch 2.13

try:
    import torch
except ImportError:
    torch = None
NEW = torch is not None and tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 5)


@pytest.mark.parametrize("program", hook_programs.HOOKS, ids=lambda p: p.__name__)
def test_as_pytorch(program):
    assert hook_programs.n(program(td)) == EXPECTED[program.__name__]


@pytest.mark.skipif(not NEW, reason="wants a PyTorch of today")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", hook_programs.HOOKS + hook_programs.FUNCTIONS, ids=lambda p: p.__name__)
def test_pytorch_itself(program):
    assert hook_programs.n(program(torch)) == EXPECTED[program.__name__]


# ---- the lines of section 4 that are about hooks


def test_a11_hooks_of_inputs_run_and_leaves_are_left_alone():
    x, seen = td.ones(2, requires_grad=True), []
    y = x * 2
    y.retain_grad()
    x.register_hook(lambda g: seen.append("x") or g * 3)
    y.register_hook(lambda g: seen.append("y"))
    assert td.autograd.grad(y.sum(), x)[0].tolist() == [6, 6]
    assert seen == ["y", "x"] and x.grad is None and y.grad.tolist() == [1, 1]


def test_a12_order_at_a_node():
    assert [e[0] for e in hook_programs.order_at_a_node(td)] == ["first", "second", "third", "before", "after", "leaf", "accumulated", "y.grad", "x.grad"]


def test_a12_hooks_stay_with_the_old_value_and_retain_grad_follows():
    assert hook_programs.n(hook_programs.in_place_after(td)) == EXPECTED["in_place_after"]


def test_a14_nothing_is_left_behind():
    def work():
        x = td.ones(4, requires_grad=True)
        y = x * 2
        big = [0] * 1000
        y.register_hook(lambda g: (len(big), g)[1])
        y.grad_fn.register_prehook(lambda go: None)
        x.register_post_accumulate_grad_hook(lambda p: None)
        (y * y).sum().backward()

        class F(td.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                out = a * 2
                ctx.save_for_backward(a, out)  # its own output: no circle
                ctx.big = big
                return out

            @staticmethod
            def backward(ctx, g):
                return g * 2

        F.apply(x).sum().backward()
        F.apply(x)  # and one that nobody differentiates

    work()
    td.sync()
    gc.collect()
    _hooks.sweep()
    objects, slots = held(), len(_hooks._slots)
    for _ in range(20):
        work()
    gc.collect()
    td.sync()
    td.sync()
    _hooks.sweep()
    assert len(_hooks._slots) <= slots and held() == objects


def test_a18_backward_within_backward():
    """As deep as it goes; its failure fails the outer one."""
    x = td.ones(1, requires_grad=True)
    depth = []

    def once_more(k):
        def hook(g):
            depth.append(k)
            if k < 20:
                with td.enable_grad():
                    y = x * 1
                    y.register_hook(once_more(k + 1))
                    y.sum().backward()
            elif k == 20:
                raise ZeroDivisionError("deep down")
        return hook

    y = x * 1
    y.register_hook(once_more(0))
    with pytest.raises(ZeroDivisionError, match="deep down"):
        y.sum().backward()
    assert depth == list(range(21)) and x.grad is None


def test_too_deep_is_an_error():
    x = td.ones(1, requires_grad=True)

    def hook(g):
        with td.enable_grad():
            y = x * 1
            y.register_hook(hook)
            y.sum().backward()

    y = x * 1
    y.register_hook(hook)
    with pytest.raises(td.InvalidError, match="64 backwards of this session wait for their hooks"):
        y.sum().backward()
    assert (x * 2).sum().item() == 2  # all is well


# ---- other processes


BUILDER = """
import sys
import tensord as td

x = td.tensor([1.0, 2.0], requires_grad=True)
y = x * 3
{hook}
td.Queue("graphs").put([x, y])
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def built():
    """built(hook): a process that made y = x * 3 and hung a hook there; and its x and y."""
    made = []

    def build(hook):
        p = subprocess.Popen([sys.executable, "-c", BUILDER.replace("{hook}", hook)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "TENSORD_SOCKET": td.connection()["path"]})
        made.append(p)
        td.sync()
        assert p.stdout.readline() == "ready\n"
        return p, *td.Queue("graphs").get(timeout=30)

    td.sync()
    yield build
    for p in made:
        p.kill()
        p.wait()
        p.stdin.close()
        p.stdout.close()


def test_a19_hooks_of_another_process_are_not_skipped(built):
    p, x, y = built("y.register_hook(lambda g: g * 2)")
    with pytest.raises(td.AutogradError, match=rf"a hook of 'mul' is a function of session \d+ \(pid {p.pid}\): only a backward that this one calls"):
        y.sum().backward()
        x.grad
    mine = y * 2
    mine.register_hook(lambda g: g)  # the same in a backward that answers hooks
    with pytest.raises(td.AutogradError, match=rf"a hook of 'mul' .* \(pid {p.pid}\)"):
        mine.sum().backward()
    assert x.grad is None
    p.kill()
    p.wait()
    assert wait_for(lambda: len(td.status("sessions")) == 1)
    with pytest.raises(td.AutogradError, match=rf"\(pid {p.pid}\), which has ended"):
        mine.sum().backward()


def test_a19_what_another_process_packed(built):
    p, x, y = built("""
with td.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
    y = x * x
""")
    with pytest.raises(td.AutogradError, match=rf"what unpacks a saved tensor of 'mul' is a function of session \d+ \(pid {p.pid}\)"):
        y.sum().backward()
        x.grad


def test_a19_functions_of_another_process(built):
    p, x, y = built("""
class F(td.autograd.Function):
    forward = staticmethod(lambda ctx, x: x * 2)
    backward = staticmethod(lambda ctx, g: g * 2)
y = F.apply(x)
""")
    with pytest.raises(td.AutogradError, match=rf"the backward of 'FBackward' is a function of session \d+ \(pid {p.pid}\)"):
        y.sum().backward()
        x.grad
    assert y.grad_fn.name() == "FBackward"


def test_hooks_of_a_leaf_are_for_their_own_process(built):
    p, x, y = built("x.register_hook(lambda g: g * 100); x.register_post_accumulate_grad_hook(print)")
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    (x * 5).sum().backward()
    assert x.grad.tolist() == [5, 5] and seen == [[5, 5]]
    with pytest.raises(td.AutogradError, match=rf"a hook of 'accumulate_grad' .* \(pid {p.pid}\)"):
        y.sum().backward()  # what that process built is built with its hooks


# ---- threads


def test_hooks_run_in_the_thread_that_asks_and_others_go_on():
    """While a hook runs, the stream of this process's other threads is not held up."""
    x = td.ones(2, requires_grad=True)
    y = x * 2
    inside, leave, ran_in = threading.Event(), threading.Event(), []

    def hook(g):
        ran_in.append(threading.current_thread())
        inside.set()
        assert leave.wait(30)
        return g * 5

    y.register_hook(hook)
    t = threading.Thread(target=lambda: y.sum().backward())
    t.start()
    assert inside.wait(30)
    assert (td.ones(3) + 1).tolist() == [2, 2, 2]
    z = x * x
    z.sum().backward()
    assert x.grad.tolist() == [2, 2]
    leave.set()
    t.join(30)
    assert ran_in == [t] and x.grad.tolist() == [12, 12]


def test_two_threads_with_hooks():
    x, total = td.zeros(1, requires_grad=True), []

    def work(k):
        for _ in range(20):
            y = x * k
            y.register_hook(lambda g: g * 2)
            y.sum().backward()
        total.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3, 4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert x.grad.tolist() == [2 * 20 * (1 + 2 + 3 + 4)]


def test_a_fork_has_the_hooks_that_were_there():
    done = script("""
        import os
        import tensord as td

        x = td.ones(1, requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: g * 5)
        pid = os.fork()
        td.autograd.private_grads()
        y.sum().backward(retain_graph=True)
        assert x.grad.tolist() == [10], x.grad
        if pid:
            assert os.waitpid(pid, 0)[1] == 0
        else:
            os._exit(0)
        print("well")
    """)
    assert done.stdout == "well\n", done.stderr


def test_ctrl_c_in_a_hook_gives_the_backward_up():
    x = td.ones(1, requires_grad=True)
    y = x * 2

    def hook(g):
        raise KeyboardInterrupt

    h = y.register_hook(hook)
    with pytest.raises(KeyboardInterrupt):
        y.sum().backward()
    h.remove()
    y.sum().backward()
    assert x.grad.tolist() == [2]


def test_many_tensors_for_one_hook():
    x = td.ones(300, requires_grad=True)
    parts = x.unbind()
    seen = []
    parts[0].grad_fn.register_prehook(lambda go: seen.append(sum(g is not None for g in go)))
    td.stack(parts).sum().backward()
    assert seen == [300] and x.grad.tolist() == [1] * 300


def test_checkpoints_and_hooks():
    x, seen = td.tensor([1.0, 2.0], requires_grad=True), []

    def f(x):
        y = x.exp() * x
        y.register_hook(lambda g: seen.append(g.tolist()) or g * 2)
        return y.sin() * x

    td.checkpoint(f, x).sum().backward()
    kept, x.grad = x.grad, None
    f(x).sum().backward()
    assert kept.tolist() == x.grad.tolist() and seen[0] == seen[1]


def test_programs_refuse_what_has_hooks():
    x = td.ones(2, requires_grad=True)

    @td.jit.script
    def step(y):
        y.sum().backward()

    y = x * 2
    y.register_hook(lambda g: g)
    with pytest.raises(td.AutogradError, match="a hook of 'mul' is a function of session"):
        step(y)


def test_multi_grad_hook():
    a, b = td.ones(1, requires_grad=True), td.ones(1, requires_grad=True)
    seen = []
    with td.autograd.graph.register_multi_grad_hook((a, b), lambda grads: seen.append([g.tolist() for g in grads])):
        (a * 2 + b * 3).sum().backward()
    (a * 2 + b * 3).sum().backward()
    assert seen == [[[2.0], [3.0]]]


def _edges(lib):
    graph = lib.autograd.graph
    a = lib.tensor([1.0, 2.0, 3.0], dtype=lib.float64, requires_grad=True)
    b = a * 2
    edge, leaf = graph.get_gradient_edge(b), graph.get_gradient_edge(a)
    c = (b * b).sum()
    got = [lib.autograd.grad(c, edge, retain_graph=True), lib.autograd.grad(c, [edge, a, leaf], retain_graph=True), lib.autograd.grad(edge, leaf, lib.ones_like(b), retain_graph=True),
           lib.autograd.grad(c, graph.GradientEdge(*leaf[:2]), retain_graph=True), lib.autograd.grad(graph.get_gradient_edge(c), a, retain_graph=True)]
    lib.autograd.backward(c, inputs=[leaf], retain_graph=True)
    c.backward(inputs=[leaf], retain_graph=True)
    c.backward(inputs=leaf)
    return [[g.tolist() for g in gs] for gs in got] + [a.grad.tolist(), type(edge).__name__, edge.node is b.grad_fn, edge.output_nr, leaf.node.name()]


def test_edges_stand_for_tensors():
    assert _edges(td) == [[[4, 8, 12]], [[4, 8, 12], [8, 16, 24], [8, 16, 24]], [[2, 2, 2]], [[8, 16, 24]], [[8, 16, 24]], [24, 48, 72], "GradientEdge", True, 0,
                          "torch::autograd::AccumulateGrad"]
    if NEW:
        assert _edges(td) == _edges(torch)
    a = td.ones(2, requires_grad=True)
    b = a * 2
    edge, c = td.autograd.graph.get_gradient_edge(b), (b * 3).sum()
    with pytest.raises(td.AutogradError, match="MulBackward0 made is not known here: take edges from"):
        td.autograd.grad(c, td.autograd.graph.GradientEdge(b.grad_fn, 0))
    b.mul_(2)
    with pytest.raises(td.AutogradError, match="written in place since: its gradient does not come to MulBackward0"):
        td.autograd.grad(b.sum(), edge)
    with pytest.raises(td.AutogradError, match="does not require gradients"):
        td.autograd.graph.get_gradient_edge(td.ones(1))


def test_pictures():
    x = td.ones(2, requires_grad=True)
    y = (x * 2 + x).sum()
    text = td.graph(y, {"weight": x})
    assert text.startswith("digraph") and text.count("label=") == 4 and "weight (2,)" in text and "SumBackward0" in text and text.count("->") == 4
    assert td.graph(td.ones(1)).count("label=") == 0
    import xml.etree.ElementTree as ET

    parts = [e.tag.rpartition("}")[2] for e in ET.fromstring(td.graph(y, {"<weight>": x}, kind="svg")).iter()]
    assert parts.count("rect") == 4 and parts.count("line") == 4
    deep = x
    for _ in range(2000):
        deep = deep * 1
    assert td.graph(deep, kind="svg").count("<rect") == 2001
    with pytest.raises(td.InvalidError, match="'dot' or 'svg'"):
        td.graph(y, kind="png")


def test_nodes_of_a_fork():
    done = script("""
        import os
        import tensord as td

        x = td.ones(1, requires_grad=True)
        y = x * 2 + 1
        fn = y.grad_fn
        pid = os.fork()
        assert [f.name() for f, _ in fn.next_functions[:1]] == ["MulBackward0"] and y.grad_fn is fn
        if not pid:
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        print("well")
    """)
    assert done.stdout == "well\n", done.stderr


def test_status_says_what_is_waited_for():
    x, seen = td.ones(1, requires_grad=True), []
    y = x * 2
    y.register_hook(lambda g: seen.append([r["waits_for"] for r in td.status("sessions")]))
    y.sum().backward()
    assert seen == [["its program's answer to a hook"]]


def test_many_hooks_come_and_go():
    x = td.ones(1, requires_grad=True)
    for _ in range(6000):
        x.register_hook(lambda g: g).remove()
    td.sync()
    _hooks.sweep()
    assert (x * 2).sum().backward() is None and x.grad.tolist() == [2]


def test_traces_refuse():
    net = td.nn.Linear(1, 1)

    def f(x):
        y = net(x)
        y.register_hook(lambda g: g)
        return y

    with pytest.raises(td.Unsupported, match="a hook on what it makes cannot be part of a program"):
        td.jit.trace(f, td.ones(1, 1))


def frames():
    return next(r["value"] for r in td.status() if r["key"] == "frames_in")


def test_what_hooks_cost():
    """A hook is a question and an answer, and no more."""
    x = td.ones(1, requires_grad=True)
    y = x * 1
    for _ in range(50):
        y = y * 1
        y.register_hook(lambda g: None)
    td.sync()
    before = frames()
    y.sum().backward()
    assert x.grad.tolist() == [1] and 50 <= frames() - before < 60

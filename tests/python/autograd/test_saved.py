"""What ops save, kept by the program: what PyTorch does with the same programs, and what is the daemon's own: memory, processes, threads, what is left behind."""
import gc
import json
import os
import threading
import time

import pytest
import saved_programs
import tensord as td
from common import held
from hook_programs import n
from tensord.autograd import _hooks

with open(os.path.join(os.path.dirname(__file__), "saved_results.json")) as f:
    EXPECTED = json.load(f)  # of PyTorch 2.13

try:
    import torch
except ImportError:
    torch = None
NEW = torch is not None and tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 8)
hooks = td.autograd.graph.saved_tensors_hooks


@pytest.mark.parametrize("program", saved_programs.PROGRAMS, ids=lambda p: p.__name__)
def test_as_pytorch(program):
    assert n(program(td)) == EXPECTED[program.__name__]


@pytest.mark.skipif(not NEW, reason="wants a PyTorch of today")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", saved_programs.PROGRAMS, ids=lambda p: p.__name__)
def test_pytorch_itself(program):
    assert n(program(torch)) == EXPECTED[program.__name__]


def test_packing_is_no_part_of_a_graph():
    seen = []

    def look(t):
        seen.append((td.is_grad_enabled(), (t * 2).requires_grad))
        return t

    x = td.ones(2, requires_grad=True)
    with td.autograd.graph.saved_tensors_hooks(look, look):
        y = (x.exp() * x).sum()
    y.backward()
    assert seen == [(False, False)] * 6 and td.is_grad_enabled()


def test_threads_are_told_of_their_own():
    """The daemon has one list of what was saved; packs take their time, and what each gives back is its own thread's."""
    wrong = []

    def work(value):
        own = threading.get_ident()

        def pack(t):
            time.sleep(0)  # others go on
            return own, t.tolist()

        def unpack(packed):
            assert packed[0] == own
            return td.tensor(packed[1])

        try:
            for _ in range(20):
                h = w = td.full((3,), value, requires_grad=True)
                with hooks(pack, unpack):
                    for _ in range(4):
                        h = h * w
                h.sum().backward()
                assert w.grad.tolist() == [5 * value**4] * 3
        except Exception as e:
            wrong.append(e)

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_pack_that_fails_lets_others_go_on():
    def refuse(t):
        raise ValueError("no")

    x = td.ones(2, requires_grad=True)
    with hooks(refuse, refuse), pytest.raises(ValueError):
        x * x
    done = []

    def work():
        with hooks(lambda t: t.tolist(), td.tensor):
            done.append((x * x).sum())

    t = threading.Thread(target=work)
    t.start()
    t.join(20)
    assert done


def deep(x):
    for _ in range(16):
        x = x.tanh()
    return x


def test_what_is_packed_is_not_held(tmp_path):
    """16 results of 1 MiB each: in a file they take nothing, in half the dtype a half."""
    def to_file(t):
        path = str(tmp_path / f"{len(os.listdir(tmp_path))}.npy")
        td.save(t.detach(), path)
        return path

    x = td.randn(1 << 18, requires_grad=True)
    plain = deep(x)
    plain.sum().backward()
    expected, x.grad = x.grad.clone(), None
    for pack, unpack, most, exact in ((to_file, td.load, 3 << 20, True),
                                      (lambda t: t.detach().to(td.float16), lambda p: p.to(td.float32), 11 << 20, False),
                                      (lambda t: t.detach(), lambda p: p, 19 << 20, True)):
        before = held()
        with hooks(pack, unpack):
            y = deep(x)
        td.sync()
        assert held()[0] - before[0] < most
        y.sum().backward()
        assert td.equal(x.grad, expected) if exact else td.allclose(x.grad, expected, rtol=5e-2, atol=1e-2)
        x.grad = None


def test_nothing_is_left_behind():
    def work():
        x = td.ones(64, requires_grad=True)
        with hooks(lambda t: t, lambda t: t):
            y = (x * x).exp().tanh()
            z = x.sin()
        y.sum().backward()
        del z

    work()
    gc.collect()
    td.sync()
    _hooks.sweep()
    before, slots = held(), len(_hooks._slots)
    for _ in range(20):
        work()
    gc.collect()
    td.sync()
    _hooks.sweep()
    assert (held(), len(_hooks._slots)) == (before, slots)


def test_threads_have_their_own():
    seen, x = [], td.ones(2, requires_grad=True)

    def other():
        for _ in range(50):
            x * x

    with hooks(lambda t: seen.append(1) or t.detach(), lambda t: t):
        thread = threading.Thread(target=other)
        thread.start()
        for _ in range(50):
            y = x.exp()
        thread.join()
    assert len(seen) == 50 and td.autograd.grad(y.sum(), x)[0].tolist() == [y[0].item()] * 2


def test_a_checkpoint_saves_what_it_begins_with():
    seen, x = [], td.ones(2, requires_grad=True)
    y = x * 1
    with hooks(lambda t: seen.append(t.shape) or t.detach(), lambda t: t):
        z = td.utils.checkpoint.checkpoint(lambda t: t.exp().exp().exp(), y)
    assert len(seen) == 0
    expected = z.detach() * (1.0 * td.ones(2)).exp() * td.ones(2).exp().exp()
    assert td.allclose(td.autograd.grad(z.sum(), x)[0], expected)


def test_what_comes_back_looks_as_it_did():
    x = td.ones(2, requires_grad=True)
    for unpack, words in ((lambda t: t[:1], r"gave \[float32\[1\]\] for what 'mul' saved, which was \[float32\[2\]\]"), (lambda t: t.double(), "gave .float64")):
        with hooks(lambda t: t.detach(), unpack):
            y = x * x
        with pytest.raises(td.Error, match=words):
            y.sum().backward()
        assert x.grad is None


def test_other_errors_are_not_taken_for_ones_of_packing():
    x = td.ones(2, requires_grad=True)
    with hooks(lambda t: t.detach(), lambda t: t):
        with pytest.raises(td.ShapeError):
            x * td.ones(3)
        y = x * x
    assert td.autograd.grad(y.sum(), x)[0].tolist() == [2, 2]


def test_values_of_nodes():
    x, w = td.randn(2, 3, requires_grad=True), td.randn(4, 3, requires_grad=True)
    y = td.nn.functional.linear(x, w)
    assert td.equal(y.grad_fn._saved_weight, w) and "_saved_bias" not in dir(y)
    v = (y * 1).exp_()
    assert td.equal(v.grad_fn._saved_result, v)
    del v
    with td.no_grad():
        w.add_(1)
    with pytest.raises(td.VersionError):
        y.sum().backward()

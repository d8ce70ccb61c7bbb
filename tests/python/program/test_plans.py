"""Programs that are run again and again, whose rows of small ops become single calls (plans), do what Python does op by op: values to the bit, layouts,
what shares memory with what, errors with their lines; for shapes and dtypes that come and go, and on sizes at both sides of what is small."""
import contextlib
import inspect
import math
import os
import random
import subprocess
from typing import List

import pytest

import tensord as td
from common import HERE, at_rest, script, seed, settles

FLOATS = [td.float32, td.float64, td.float16, td.bfloat16]
PLANS = os.environ.get("TENSORD_PLANS") != "0"
CODE = os.environ.get("TENSORD_JIT") != "0" and os.path.exists("/proc/cpuinfo") and " avx2 " in open("/proc/cpuinfo").read()
COUNT = int(os.environ.get("TENSORD_DRAWN", "60"))


def planned():
    """How many ops were not issued one by one."""
    return {row["key"]: row["value"] for row in td.status()}["run_planned"]


def dim(r, x):
    return r.randrange(-x.ndim, x.ndim)


def whole(x):
    return x.reshape(-1)


def paired(x):
    return (x.reshape(-1, 1), x.reshape(1, -1)) if x.numel() < 300 else (x, td.ones(1, dtype=x.dtype))


# What is drawn when a function is written, with tensors like those that it will be called with: (chance, a tensor) -> what it does.
ONE = {
    "relu": lambda r, x: lambda t: td.relu(t),
    "exp": lambda r, x: lambda t: t.clamp(max=3).exp(),
    "tanh": lambda r, x: lambda t: t.tanh() * 2 - 1,
    "numbers": lambda r, x, n=(0, 1, -1.5, 3): (lambda a, b: lambda t: (t * a + b) / 3)(r.choice(n), r.choice(n)),
    "softmax": lambda r, x: (lambda d: lambda t: t.softmax(d))(dim(r, x)) if x.ndim else None,
    "log_softmax": lambda r, x: (lambda d: lambda t: td.nn.functional.log_softmax(t, d))(dim(r, x)) if x.ndim else None,
    "sum": lambda r, x: (lambda d, k: lambda t: t.sum(dim=d, keepdim=k))(dim(r, x), r.random() < 0.5) if x.ndim else None,
    "mean": lambda r, x: lambda t: t - t.mean(),
    "std": lambda r, x: (lambda d: lambda t: t.std(d, keepdim=True, correction=0))(dim(r, x)) if x.ndim else None,
    "cumsum": lambda r, x: (lambda d: lambda t: t.cumsum(d))(dim(r, x)) if x.ndim else None,
    "max": lambda r, x: (lambda d: lambda t: t.amax(d))(dim(r, x)) if x.ndim and x.numel() else None,
    "sort": lambda r, x: (lambda d: lambda t: t.sort(d)[0])(dim(r, x)) if x.ndim else None,
    "argmax": lambda r, x: lambda t: t + t.argmax() if x.numel() else t,
    "half": lambda r, x: lambda t: t.to(td.float16).to(t.dtype),
    "compare": lambda r, x: lambda t: td.where(t > 0.5, t, -t),
    "mask": lambda r, x: lambda t: t.masked_fill(t < 0, 0.25),
    "flip": lambda r, x: lambda t: t.flip(0) if x.ndim else t,
    "norm": lambda r, x: lambda t: td.nn.functional.layer_norm(t, t.shape[-1:]) if x.ndim and x.shape[-1] else t,
    "pad": lambda r, x: lambda t: td.nn.functional.pad(t, (1, 2)) if x.ndim else t,
    "tril": lambda r, x: lambda t: t.tril() if x.ndim > 1 else t,
    "made": lambda r, x: lambda t: t + td.ones(t.shape[-1:] if x.ndim else ()),
    "gather": lambda r, x: lambda t: t.index_select(0, td.zeros(3, dtype=td.int64)) if x.ndim and x.shape[0] else t,
    # views
    "t": lambda r, x: (lambda a, b: lambda t: t.transpose(a, b))(dim(r, x), dim(r, x)) if x.ndim else None,
    "reshape": lambda r, x: lambda t: whole(t),
    "unsqueeze": lambda r, x: lambda t: t.unsqueeze(0) if x.ndim < 4 else t.squeeze(),
    "narrow": lambda r, x: (lambda d: lambda t: t.narrow(d, x.shape[d] // 3, x.shape[d] // 2))(dim(r, x)) if x.ndim else None,
    "step": lambda r, x: lambda t: t[..., ::2] if x.ndim else t,
    "row": lambda r, x: lambda t: t[-1] if x.ndim and x.shape[0] else t,
    "expand": lambda r, x: lambda t: t.unsqueeze(0).expand(2, *t.shape) if x.ndim < 3 and x.numel() < 3000 else t,
    "parts": lambda r, x: lambda t: t.chunk(2, 0)[0] if x.ndim and x.shape[0] > 1 else t,
    "detach": lambda r, x: lambda t: t.detach(),
    "same": lambda r, x: lambda t: t.contiguous(),
}
TWO = {
    "add": lambda a, b: a + b,
    "outer": lambda a, b: paired(a)[0] * paired(b)[1],
    "product": lambda a, b: paired(a)[0] @ paired(b)[1] if a.dtype == b.dtype and max(a.numel(), b.numel()) < 300 else a,
    "cat": lambda a, b: td.cat([whole(a), whole(b)]),
    "stack": lambda a, b: td.stack([whole(a)[:1], whole(b)[:1], whole(a)[:1]]),
    "lerp": lambda a, b: td.maximum(whole(a)[:1], whole(b)[:1]) - a,
}


SMALL = [(), (1,), (5,), (2, 3), (0, 3), (4, 1, 3), (17, 33), (64, 100)]
LARGE = [(70001,), (300, 401), (50, 3000), (257, 1024), (1, 90000), (3, 40, 1000), (1,), (401,), (300, 1)]  # some that spread over the others


def tensor(r, shapes):
    """What it is like: contiguous, or a view that lies somehow."""
    return [r.choice(shapes), r.choice(FLOATS[:2] * 4 + FLOATS), r.choice(["plain", "plain", "t", "step", "offset", "expand"])]


def filled(r, what):
    shape, dtype, how = what
    count = math.prod(shape)
    if count < 7000:
        n = td.tensor([r.uniform(-2, 2) for _ in range(2 * count + 2)], dtype=td.float64).to(dtype)
    else:
        n = (td.arange(2.0 * count + 2, dtype=td.float64) * r.uniform(0.1, 3)).sin().mul(2).to(dtype)
    if how == "t" and len(shape) == 2:
        return n[:count].reshape(shape[1], shape[0]).t()
    if how == "step" and len(shape) == 1:
        return n[: 2 * count : 2]
    if how == "offset":
        return n[n.numel() - count :].reshape(shape) if count else n[:0].reshape(shape)
    if how == "expand" and len(shape) == 2 and shape[0]:
        return n[: shape[1]].expand(*shape)
    return n[:count].reshape(shape)


LOOPS = ["relu", "exp", "tanh", "numbers", "numbers", "half", "compare", "mask", "made", "mean", "unsqueeze", "same", "detach", "sum"]


def drawn(r, args, names, two=TWO, often=0.3):
    """Steps, each of which names the values that it takes; what a step gives is a value, too."""
    steps, values = [], list(args)
    for _ in range(r.randint(3, 14)):
        i = r.randrange(len(values)) if r.random() < 0.3 else len(values) - 1
        if r.random() < often:
            j, f = r.randrange(len(values)), r.choice(list((two if r.random() < 0.8 else TWO).values()))
            if max(values[i].numel(), values[j].numel()) > 400000:
                continue
            f = (lambda f: lambda a, b: f(a, b))(f)
        else:
            j, f = None, ONE[r.choice(names)](r, values[i])
        if f is None:
            continue
        try:
            values.append(f(values[i]) if j is None else f(values[i], values[j]))
        except td.Error:
            continue
        steps.append((f, i, j))
    keep = sorted(r.sample(range(len(values)), min(len(values), 3)))

    def function(*args):
        values = list(args)
        for f, i, j in steps:
            values.append(f(values[i]) if j is None else f(values[i], values[j]))
        return [values[k] for k in keep] + [values[-1]]

    return function


def bits(t):
    return (str(t.dtype), tuple(t.shape), t.stride(), bytes(memoryview((t.float() if t.dtype == td.bfloat16 else t).contiguous())) if t.numel() else b"")


def sharing(tensors):
    """Which of them lie in one memory: the number of the first that does."""
    first = {}
    return [first.setdefault(t.data_ptr() - t.storage_offset() * t.element_size(), k) for k, t in enumerate(tensors) if t.numel()]


@pytest.mark.parametrize("shapes, names, count", [(SMALL, list(ONE), COUNT), (LARGE, LOOPS, COUNT // 3)], ids=["small", "large"])
@pytest.mark.filterwarnings("ignore:a comparison of a size")  # of what is drawn, for the sizes that it is called with
def test_drawn_functions_are_what_they_are_op_by_op(shapes, names, count):
    r = random.Random(seed())
    spared = planned()
    for number in range(count):
        looks = [tensor(r, shapes) for _ in range(2)]
        with td.no_grad() if r.random() < 0.5 else td.enable_grad():
            function = drawn(r, [filled(r, w) for w in looks], names)
            args = [filled(r, w) for w in looks]
            program = td.jit.trace(function, tuple(args), check=False)
            for turn in range(6):
                args = [filled(r, w) for w in looks]
                ours, theirs = program(*args), function(*args)
                for k, (a, b) in enumerate(zip(ours, theirs)):
                    assert bits(a) == bits(b), f"number {number}, turn {turn}, result {k}, of {looks}\n{program.code}\n{a}\n{b}"
                assert sharing([*args, *ours]) == sharing([*args, *theirs]), f"number {number}, turn {turn}\n{program.code}"
    assert not PLANS or planned() > spared + 3 * count


def fitting(a, b):
    return b if b.shape == a.shape else whole(b)[:1]


# What is written: into the first, through views or as it is, with something of the second, which may be the same, or lie there.
WRITES = {
    "add_": lambda a, b: a.add_(fitting(a, b)),
    "mul_": lambda a, b: a.mul_(-0.5).sub_(1).clamp_(max=3),
    "relu_": lambda a, b: a.relu_(),
    "fill_": lambda a, b: a.fill_(1.25),
    "zero_": lambda a, b: a.zero_(),
    "copy_": lambda a, b: a.copy_(fitting(a, b)),
    "turned": lambda a, b: into(a, a.transpose(0, -1).add_(1)),
    "row": lambda a, b: into(a, a[-1].copy_(a[0])),
    "step": lambda a, b: into(a, a[..., ::2].mul_(2)),
    "deep": lambda a, b: into(a, a.unsqueeze(0)[..., 1:].flip(0).neg_()),
    "shifted": lambda a, b: into(a, a[1:].copy_(a[:-1])),
    "from": lambda a, b: into(a, a[:1].sub_(fitting(a[:1], b))),
    "cast": lambda a, b: a.copy_(fitting(a, b).to(td.float16)),
    "index": lambda a, b: a.index_put_((td.zeros(1, dtype=td.int64),), whole(b)[:1].to(a.dtype).reshape(())),
    "scan": lambda a, b: a.copy_(a.cumsum(0)),
}


def into(a, part):
    return a


def one_memory(how, args, look):
    """All are one tensor, or parts of one memory."""
    if how == 0 or math.prod(look[0]) < 2:
        return args
    if how == 1:
        return [args[0]] * len(args)
    if how == 2:
        return [args[0], args[0].view(args[0].shape)]
    both = td.cat([whole(t) for t in args])
    n = math.prod(look[0])
    return [both[:n].view(look[0]), both[n - (0 if how == 3 else 1) :][:n].view(look[0])]


def outcome(function, args):
    """What comes back, what shares memory, and what was written; or an error, and what had been written before."""
    try:
        said = function(*args)
        came = [bits(t) for t in said], sharing([*args, *said])
    except td.Error as e:
        came = str(e)
    return came, [bits(t) for t in args]


@pytest.mark.parametrize("shapes, names, count", [(SMALL, list(ONE), COUNT // 2), (LARGE, LOOPS, COUNT // 6)], ids=["small", "large"])
@pytest.mark.filterwarnings("ignore:a comparison of a size")  # of what is drawn, for the sizes that it is called with
def test_drawn_functions_write_what_they_write_op_by_op(shapes, names, count):
    r = random.Random(seed())
    spared = planned()
    for number in range(count):
        look = tensor(r, shapes)
        look[2] = r.choice(["plain", "plain", "t"])
        with td.no_grad() if r.random() < 0.5 else td.enable_grad():
            function = drawn(r, [filled(r, look) for _ in range(2)], names, WRITES, 0.6)
            program = td.jit.trace(function, tuple(filled(r, look) for _ in range(2)), check=False)
            for turn in range(10):
                how, state = r.randrange(5 if look[2] == "plain" else 3) if turn > 3 else 0, r.getstate()
                ours = outcome(program, one_memory(how, [filled(r, look) for _ in range(2)], look))
                once = function
                if isinstance(ours[0], str):  # eager work goes on behind it
                    once = td.jit.trace(function, tuple(filled(r, look) for _ in range(2)), check=False)
                r.setstate(state)
                theirs = outcome(once, one_memory(how, [filled(r, look) for _ in range(2)], look))
                assert ours == theirs, f"number {number}, turn {turn}, of {look}, {how}\n{program.code}"
        with contextlib.suppress(td.Error):
            td.sync()  # nobody else's errors
    assert not PLANS or planned() > spared + 3 * count


def reads_a_row(x, z):
    y = z * x[0]
    x.add_(1).mul_(2)
    return y, x - z


def reads_turned(x, z):
    y = z + x.t()
    x.sub_(y)
    return x * y


def writes_what_it_made(x, z):
    y = x * 2 + 1
    w = z - y[:1]
    y.mul_(3).add_(w)
    y.t().relu_()
    return w, y


def reads_the_other(x, z):
    y = z * 2
    x.add_(y).clamp_(max=9)
    return z - y


def averages(x, z):
    x.mul_(0.75).add_(z, alpha=0.25)
    y = (x * x).sqrt_()
    z.copy_(y - z)
    return y


@pytest.mark.parametrize("f", [reads_a_row, reads_turned, writes_what_it_made, reads_the_other, averages])
def test_tiles_come_in_no_other_order_than_writes(f):
    for n in (3, 150, 300):  # rows; sweeps
        program = td.jit.script(f)
        base = (td.arange(2.0 * n * n + n + 1) % 97 - 20) / 7

        def args(at):
            b = base.clone()
            x = b[: n * n].view(n, n)
            return [x, x if at is None else b[at : at + n * n].view(n, n) if at < n * n else b[at : at + n * n].view(n, n).clone()]

        for at in (n * n, n * n + 1, None, 0, 1, n):
            for _ in range(0 if f is averages and at in (1, n) else 4):  # an error
                ours, theirs = args(at), args(at)
                a, b = program(*ours), f(*theirs)
                for x, y in zip([*ours, *(a if isinstance(a, tuple) else [a])], [*theirs, *(b if isinstance(b, tuple) else [b])]):
                    assert bits(x) == bits(y), (n, at)


def test_gradients_see_what_rows_write():
    @td.jit.script
    def step(x, g):
        x.add_(g)
        x.mul_(0.5)
        x.sub_(g, alpha=0.25)

    spared, g = planned(), td.ones(3)
    for turn in range(6):
        x, w = td.full((3,), float(turn)), td.ones(3, requires_grad=True)
        y = (w * x).sum()
        step(x, g)
        assert x.tolist() == [0.5 * (turn + 1) - 0.25] * 3
        with pytest.raises(td.Error, match="is at version 3; expected version 0 instead. It was changed by 'sub'"):
            y.backward()
            w.grad.tolist()
        with pytest.raises(td.Error, match="leaf Variable that requires grad"):
            step(w, g)
        with td.no_grad():
            step(w, g)
        assert w.tolist() == [0.75] * 3 and w.requires_grad
    assert not PLANS or planned() > spared + 15


def test_what_is_lost_holds_up_no_write_before_it():
    @td.jit.script
    def f(x, y):
        x.add_(1)
        x.mul_(2)
        z = y * 2 + 1
        x.add_(1)
        return z.relu()

    table, places = td.ones(4, 3), [td.tensor([0, 1]), td.tensor([0, 9])]
    for turn in range(8):
        x, bad = td.ones(2, 3), turn % 4 == 3
        y = table.index_select(0, places[bad])
        if bad:
            with pytest.raises(td.Error, match="out of bounds"):
                f(x, y).tolist()
        else:
            assert f(x, y).tolist() == [[3.0] * 3] * 2
        assert x.tolist() == [[5.0] * 3] * 2


def test_what_may_fail_takes_no_write_along():
    @td.jit.script
    def f(x, table, places):
        x.add_(1)
        x.mul_(2)
        x.add_(1)
        rows = table.index_select(0, places) + 1
        x.mul_(2)
        x.sub_(1)
        x.mul_(2)
        return rows.relu() + x

    table, places = td.ones(4, 3), [td.tensor([0, 1]), td.tensor([0, 9])]
    for turn in range(8):
        x, bad = td.ones(2, 3), turn % 4 == 3
        if bad:
            with pytest.raises(td.Error, match="out of bounds"):
                f(x, table, places[1]).tolist()
        else:
            assert f(x, table, places[0]).tolist() == [[20.0] * 3] * 2
        assert x.tolist() == [[18.0] * 3] * 2


def test_errors_of_writes_are_as_ever():
    @td.jit.script
    def f(x, y, n: int):
        x.add_(1)
        x.mul_(2)
        y.add_(1)
        x[n].copy_(y)
        x.sub_(1)
        return x

    for turn in range(12):
        x, n = td.ones(3, 4), turn % 2
        wide, short, same = td.ones(1).expand(4), td.ones(3), x[n, :]
        for y, what, left in ((wide, "single memory location", 4.0), (short, "size of tensor|shape", 4.0), (same, "", None), (td.ones(4), "", None)):
            x.fill_(1)
            if what:
                with pytest.raises(td.Error, match=what):
                    f(x, y, n).tolist()
                assert x.tolist() == [[left] * 4] * 3
            else:
                f(x, y, n)
                rows = [[3.0] * 4 for _ in range(3)]
                rows[n] = [4.0 if y is same else 1.0] * 4
                assert x.tolist() == rows


def test_parts_that_scripts_set_are_rows():
    @td.jit.script
    def f(x, v):
        for i in range(4):
            x[i] = v
            x[i, 1:] = i
            x[:, 0].copy_(v[0])
        x[2:, ::2] = v[0]
        return x.shape[0]

    def plain(x, v):
        for i in range(4):
            x[i] = v
            x[i, 1:] = i
            x[:, 0].copy_(v[0])
        x[2:, ::2] = v[0]

    spared = planned()
    for dtype in (td.float32, td.int64, td.complex64):
        for turn in range(6):
            ours, theirs, v = td.zeros(4, 3, dtype=dtype), td.zeros(4, 3, dtype=dtype), td.tensor([turn + 1.5, 2, 3])
            f(ours, v), plain(theirs, v)
            assert bits(ours) == bits(theirs)
    assert not PLANS or planned() >= spared + 3 * 3 * 12

    @td.jit.script
    def shift(x):
        x[1:] = x[:-1]
        return x

    with pytest.raises(td.Error, match="single memory location"):
        shift(td.ones(4)).tolist()


def test_what_a_base_forbids_is_refused():
    """Whether a view of no_grad may be written follows from its base, which may have become a leaf since the row was made."""
    @td.jit.script
    def f(v):
        return v.add_(1).mul_(2).sub_(1)

    x, spared = td.ones(4), planned()
    with td.no_grad():
        v = x.view(2, 2)
    for _ in range(5):
        f(v)
    assert x.tolist() == [63] * 4
    assert not PLANS or planned() >= spared + 6
    x.requires_grad_()
    with pytest.raises(td.Error, match="view was created in no_grad mode"):
        f(v).tolist()
    with td.no_grad():
        f(v)
    assert x.tolist() == [127] * 4


def test_steps_of_optimizers_are_a_row():
    def step(*all):
        for p, g, m, v, count in zip(*[all[k::5] for k in range(5)]):
            td.ops.adam_step(p, g, m, v, count, 0.01)
            td.ops.sgd_step(p, g, m, 0.1, momentum=0.9)
        return all[0]

    def state():
        return [t for k in range(6) for t in [*((td.arange(n) + k).view(2, 3) / 7 for n in (6.0,) * 4), td.zeros(())]]

    ours, theirs = state(), state()
    with td.no_grad():
        program, spared = td.jit.trace(step, tuple(state()), check=False), planned()
        for _ in range(5):
            program(*ours), step(*theirs)
            assert [bits(t) for t in ours] == [bits(t) for t in theirs]
        assert not PLANS or planned() >= spared + 3 * 12


def test_other_shapes_and_dtypes_come_and_go():
    @td.jit.script
    def f(x, y):
        z = (x * 2 + y).relu() - y
        return z.sum(), z.transpose(0, 1), x.shape[0]

    before = at_rest()
    for turn in range(40):
        a, b = 1 + turn % 7, 1 + turn % 3
        x = td.arange(float(a * b)).reshape(a, b).to([td.float32, td.float64][turn % 2]) - 1.5
        y = td.full((b,), float(turn))
        s, t, n = f(x, y)
        z = (x * 2 + y).relu() - y
        assert (s.item(), t.tolist(), n) == (z.sum().item(), z.t().tolist(), a)
    del f, x, y, s, t, z
    assert settles(before) == before


def test_an_error_says_its_line():
    @td.jit.script
    def f(table, i):
        rows = table * 2 + 1
        rows = rows.index_select(0, i) + 1
        return rows.relu() - 1

    line = inspect.getsourcelines(test_an_error_says_its_line)[1] + 4
    table, good, bad = td.ones(4, 3), td.tensor([0, 3]), td.tensor([0, 4])
    for turn in range(8):
        if turn in (0, 3, 6):
            with pytest.raises(td.Error) as said:
                f(table, bad).tolist()
            assert "index_select" in str(said.value) and f"test_plans.py:{line}" in str(said.value), (turn, said.value)
        else:
            assert f(table, good).tolist() == [[3.0] * 3] * 2


def test_what_is_large_goes_by_itself():
    @td.jit.script
    def f(x, w):
        a = (x * 2).relu() + 1
        b = a @ w
        return (b - 1).tanh() * 3, a

    x, w = td.rand(300, 400), td.rand(400, 300)
    want = [((((x * 2).relu() + 1) @ w) - 1).tanh() * 3, (x * 2).relu() + 1]
    for _ in range(6):
        for a, b in zip(f(x, w), want):
            assert bits(a) == bits(b)


def test_numbers_count_by_value():
    @td.jit.script
    def f(x, n: int, a: float):
        y = x * n + a
        y = y - n
        for i in range(n):
            y = (y + i) * a - i
        return y

    for turn in range(30):
        x, n, a = td.arange(4.0), turn % 5, [0.5, 2.0, -1.0][turn % 3]
        y = x * n + a - n
        for i in range(n):
            y = (y + i) * a - i
        assert f(x, n, a).tolist() == y.tolist()


def test_lists_are_ones_own():
    @td.jit.script
    def f(xs: list[td.Tensor], y):
        a = xs[0] + y
        b = (a * 2, a - 1)
        both = [b[0], b[1], xs[1]]
        both.append(a)
        return both, len(xs)

    for turn in range(8):
        xs, y = [td.full((2,), float(turn)), td.ones(2)], td.full((2,), 0.5)
        got, n = f(xs, y)
        a = turn + 0.5
        assert [t.tolist() for t in got] == [[2 * a] * 2, [a - 1] * 2, [1.0] * 2, [a] * 2] and n == 2
        got[0].add_(1)  # nobody else's


def test_gradients_are_as_ever():
    @td.jit.script
    def f(x, w):
        return ((x * w).tanh() + x).sum()

    for turn in range(8):
        x, w = td.arange(3.0), td.full((3,), 0.5 + turn)
        if turn % 2:
            x.requires_grad_()
            f(x, w).backward()
            z = x.detach().requires_grad_()
            ((z * w).tanh() + z).sum().backward()
            assert x.grad.tolist() == z.grad.tolist()
        else:
            assert f(x, w).item() == ((x * w).tanh() + x).sum().item()


def test_inference_mode_marks_what_is_made():
    @td.jit.script
    def f(x):
        y = (x + 1).relu() * 2
        return y, y[0]

    x = td.ones(3)
    for _ in range(5):
        with td.inference_mode():
            inside = f(x)
        for t in inside:
            with pytest.raises(td.Error, match="inference"):
                t.mul(td.ones((), requires_grad=True)).sum().item()
        for t in f(x):
            t.mul(td.ones((), requires_grad=True)).sum().backward()


def exact(x, y, z):
    a = x * y + z
    b = (a.relu() - y / 3).sqrt()
    c = td.where(b > a, b, -a).clamp(-1, 5)
    d = td.sub(c, x, alpha=0.3)
    return td.maximum(d, b) * 2, a


def mixed(x, y, z):
    a = (x + y) * 0.5 - z
    b = (a.tanh() * 3 + 1).abs()
    c = a > b
    return (b - a).square().reciprocal(), c, td.where(c, b, z)


# Of x; y and z are broadcast: shapes where everything lies in a row, where rows share a row or have a number each, and others.
SWEPT = [([20011], [20011], [1]), ([257, 129], [129], [257, 129]), ([257, 129], [257, 1], [129]), ([64, 9, 40], [40], [64, 9, 40]),
         ([64, 9, 40], [64, 1, 40], [9, 1]), ([1000, 24], [24], [1000, 1]), ([9, 4000], [4000], [9, 1]), ([3, 5, 7, 200], [5, 1, 1], [3, 1, 1, 200])]


@pytest.mark.parametrize("f", [exact, mixed])
@pytest.mark.parametrize("dtype", [td.float32, td.float64, td.float16])
def test_exact_ops_in_one_loop(f, dtype):
    program = td.jit.script(f)
    for x, y, z in SWEPT:
        args = [td.randn(*shape, dtype=dtype) for shape in (x, y, z)]
        want = f(*args)
        for _ in range(4):
            assert [bits(t) for t in program(*args)] == [bits(t) for t in want]
        if len(x) > 1:
            args[0] = td.randn(*x[::-1], dtype=dtype).permute(*range(len(x))[::-1])
            want = f(*args)
            for _ in range(4):
                assert [bits(t) for t in program(*args)] == [bits(t) for t in want]


@pytest.mark.skipif(not PLANS or not CODE, reason="without plans, or code")
def test_loops_are_shown():
    args = [td.rand(300, 400) for _ in range(3)]
    alone, between = td.jit.script(exact).plan(*args), td.jit.script(mixed).plan(*args)
    assert "sweep of 13 ops" in alone and "  13 ops as one loop of machine code" in alone and "tiles of 8192 elements" in alone
    assert between.count("ops as one loop of machine code") == 3 and "tiles of 512 elements" in between


@pytest.mark.skipif(not PLANS, reason="without plans")
def test_a_row_is_recorded_while_memory_is_made():
    """A daemon that has just begun makes memory in the run that records; so does one that gave back what was idle."""
    r = script("""
        import sys
        import tensord as td
        sys.path[:0] = sys.argv[1:]
        from test_plans import exact

        args = [td.rand(300, 400) for _ in range(3)]
        print("1 plan" in td.jit.script(exact).plan(*args))
    """, HERE, os.path.dirname(__file__))
    assert r.stdout == "True\n", r.stderr


@pytest.mark.skipif(not PLANS, reason="without plans")
def test_a_plan_is_shown():
    @td.jit.script
    def f(x, w):
        y = ((x * 2 + 1).relu() - w).exp()
        return y.sum(), y

    assert "0 plans" in f.plan()
    f.publish("shown")
    opened = td.jit.open("shown")
    for program in (f, opened):
        small, large = program.plan(td.ones(3), td.ones(3)), program.plan(td.ones(300, 400), td.ones(400))
        assert "row of 6 ops" in small and "makes 2 tensors" in small and "test_plans.py:" in small
        assert "sweep of 5 ops" in large and "tiles of 400 elements" in large and small.splitlines()[1] in large
    both = f.plan()
    html = both._repr_html_()
    assert html.count("<pre ") == html.count("</pre>") == both.count("from node ") == 2 and "<b>from node 1: row of 6 ops" in html and repr(small) + "\n" == small
    ctl = os.path.join(os.path.dirname(os.environ["TENSORD_DAEMON"]), "../../client/tensorctl")
    said = subprocess.run([ctl, "--socket", td.connection()["path"], "program", "plan", "shown"], capture_output=True, text=True, check=True).stdout
    assert said == opened.plan()
    td.drop("shown")
    with td.enable_grad():
        x = td.ones(3, requires_grad=True)
        assert f.plan(x, td.ones(3)) == f.plan()


@pytest.mark.skipif(not PLANS, reason="without plans")
def test_a_plan_of_lists_is_made_once():
    @td.jit.script
    def f(xs: List[td.Tensor], dims: List[int]):
        y = td.cat(xs) * 2 + 1
        return y.relu(), td.stack(xs).sum(dims)

    for turn in range(9):
        xs = [td.full((3, 4), float(turn + k)) for k in range(3)]
        y, z = f(xs, [0])
        assert y.tolist() == [[2.0 * (turn + k) + 1] * 4 for k in range(3) for _ in range(3)] and z.tolist() == [[3.0 * turn + 3] * 4] * 3
        assert f.plan().count("from node") == (turn > 1)
    for made, others in (2, (xs[:2], [0])), (3, (xs, [1])):
        for _ in range(4):
            f(*others)
        assert f.plan().count("from node") == made


def test_what_is_in_a_tensor_counts_each_time():
    @td.jit.script
    def f(x, a):
        y = x * 2
        c = complex(a)
        z = y + c
        return (z - c) * c, c

    for turn in range(6):
        x, a = td.ones(2), td.tensor(complex(turn, 1))
        got, c = f(x, a)
        assert got.tolist() == [2 * complex(turn, 1)] * 2 and c == complex(turn, 1)


@pytest.mark.parametrize("shape, other", [((300, 401), (300, 1)), ((40 * 512 + 1,), (40 * 512 + 1,)), ((513, 400), (400,)), ((400, 300, 2), (400, 1, 1))])
@pytest.mark.parametrize("dtype", [td.float16, td.bfloat16])
def test_whole_numbers_beside_halves_are_rounded(shape, other, dtype):
    @td.jit.script
    def f(h, n):
        y = h * n
        return y + n, y

    h = td.full(shape, 3, dtype=dtype)
    for turn in range(5):
        n = td.full(other, 2049 + turn, dtype=td.int32)
        for a, b in zip(f(h, n), (h * n + n, h * n)):
            assert bits(a) == bits(b)


def test_modes_of_runs_may_differ():
    @td.jit.script
    def f(x, w):
        y = (x + w).relu() * 2
        return y, y[0]

    w = td.ones(3, requires_grad=True)
    for turn in range(24):
        x, mode = td.full((3,), float(turn)), [td.no_grad, td.enable_grad, td.inference_mode][turn % 3]
        with mode():
            ours = f(x, w)
            y = (x + w).relu() * 2
        assert [t.requires_grad for t in ours] == [y.requires_grad] * 2 and ours[0].tolist() == y.tolist()
        if turn % 3 == 1:
            ours[1].backward()
    assert w.grad.tolist() == [2.0 * 8, 0.0, 0.0]


def test_one_view_twice_is_one():
    @td.jit.script
    def f(x):
        y = x * 2 + 1
        v = y[0]
        return v, v.to(td.float32), y.relu()

    for turn in range(5):
        a, b, _ = f(td.ones(2, 2))
        a.requires_grad_()
        assert b.requires_grad and a.tolist() == [3.0, 3.0]


def by_rank(x, k: int, w):
    y = x.relu() + 1.0
    if x.ndim == 3:
        y, k, w = y.unsqueeze(0), k + 1, y.sum()
    z = y * k - w
    if x.ndim == 3:
        z = z.squeeze(0)
    return z.abs() + k, k


def test_branches_that_follow_from_shapes_are_no_ends():
    """An arm that was taken is a part of the row; what it hands on from before the row is looked at like what its ops take."""
    f = td.jit.script(by_rank)
    for turn in range(8):
        for x in td.randn(2, 3, 4), td.randn(3, 4):
            k, w = 2 + turn // 4, x if turn % 2 else td.randn(3, 4)
            got, want = f(x, k, w), by_rank(x, k, w)
            assert td.equal(got[0], want[0]) and got[1] == want[1]
    plan = str(f.plan(td.randn(3, 4), 7, td.randn(3, 4)))
    assert "row of 6 ops" in plan, plan


def by_value(x):
    y = x.relu() + 1.0
    if bool(y.sum() > 0):
        y = y * 2.0
    return y.abs() - 1.0


def test_branches_that_follow_from_values_end_a_row():
    f, x = td.jit.script(by_value), td.randn(5)
    for turn in range(6):
        y = x if turn % 2 else x - 1000.0
        assert td.equal(f(y), by_value(y))
    assert "before If" in str(f.plan(x)) or "waits for a value" in str(f.plan(x)), str(f.plan(x))

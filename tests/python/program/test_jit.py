"""Programs from Python: what they compute and the gradients through them are those of the same function called as it stands; what
cannot be a program is refused where it is decorated; and nothing stays behind."""
import gc
import inspect
import linecache
import math
import sys

import pytest

import tensord as td
from tensord.program import _script

SCALE = 2.5
BIAS = td.tensor([1.0, -2.0])
COUNT = td.zeros((1,))


def affine(x):
    return x * SCALE + BIAS


def branches(x, n: int = 3):
    for i in range(n):
        if i % 2 == 0:
            x = td.relu(x) + i
        else:
            x = x - i * 0.5
    if x.sum() > 4:
        return x / 2
    return affine(x)


def until(x, limit: float):
    n = 0
    while float(x.sum()) < limit:
        x = x * x + 1
        n += 1
    return x, n


def kinds(x, flag: bool, name: str, items: list[int], maybe: float | None = None):
    total = 0
    for i in items:
        total += i
    text = name if flag else "nobody"
    half = 0.5 if maybe is None else maybe
    return [x, x + 1], (total, text), half, int(math.floor(2.7)), len(items)


def texts(s: str, n: int, x: float, flag: bool, xs: list[float]):
    words = s.split()
    out = ["|".join(words), s.strip(), s.replace("a", "<>"), s.upper(), s.lower(), str(len(s)), f"{n}/{x} {flag} {xs}", s * 2 + "!"]
    for w in words:
        out.append(w[0] + w[-1] + w[1:] + w[::-1] + str(w.startswith("b")) + str(w.endswith("z")) + str(ord(w[0])) + chr(ord(w[0]) + n))
    out.append(str("an" in s) + str(s.find("本")) + str(s.count("a")) + str(s < "m") + str(s == "x"))
    for part in s.split("a"):
        out.append(part)
    for y in xs:
        out.append(str(y))
    return out


def lstm(x, h, c, w, u, b):
    for t in range(x.shape[0]):
        gates = x[t] @ w + h @ u + b
        i, f, g, o = td.sigmoid(gates[:, 0:4]), td.sigmoid(gates[:, 4:8]), td.tanh(gates[:, 8:12]), td.sigmoid(gates[:, 12:16])
        c = f * c + i * g
        h = o * td.tanh(c)
    return h, c


def counts(x):
    COUNT.add_(1)
    return x + COUNT


@pytest.mark.parametrize("n", range(6))
@pytest.mark.parametrize("start", [-3.0, 0.25, 7.0])
def test_control_flow_and_calls(n, start):
    x = td.tensor([start, 1.0])
    assert td.jit.script(branches)(x, n=n).tolist() == branches(x, n).tolist()


def test_defaults_and_keywords():
    f, x = td.jit.script(branches), td.tensor([1.0, 2.0])
    assert f(x).tolist() == branches(x).tolist()
    assert f(n=1, x=x).tolist() == branches(x, 1).tolist()
    with pytest.raises(TypeError, match="unexpected keyword"):
        f(x, m=1)


def test_a_loop_until_a_value():
    f = td.jit.script(until)
    for limit in (0.0, 10.0, 1e6):
        x = td.tensor([0.5, 1.5])
        (ours, n), (theirs, m) = f(x, limit), until(x, limit)
        assert (ours.tolist(), n) == (theirs.tolist(), m)


def test_values_of_all_kinds():
    f, x = td.jit.script(kinds), td.tensor([1.0])
    (a, b), *rest = f(x, True, "grüß", [3, 4, -2])
    assert (a.tolist(), b.tolist()) == ([1.0], [2.0])
    assert rest == [(5, "grüß"), 0.5, 2, 3]
    assert f(x, False, "", [], 7)[1:] == ((0, "nobody"), 7.0, 2, 0)


@pytest.mark.parametrize("s", ["", "banana", "  日本 a  la plage\tz ", "a", "日本語 text", "aa aaa"])
def test_texts(s):
    f, xs = td.jit.script(texts), [0.1, -1e16, 1e-5, 3.0, float("inf"), 1 / 3, 123456789012345.6, 5e-324, 1e22, -0.0]
    assert f(s, 3, 2.5, True, xs) == texts(s, 3, 2.5, True, xs)


def test_arguments_stand_as_the_signature_says():
    def places(x, at):
        picked = td.gather(x, 1, at) + td.gather(x, index=at, dim=1)
        return td.index_select(picked, 0, at[:, 0]), x.gather(0, at)

    x, at = td.tensor([[1.0, 2.0], [3.0, 4.0]]), td.tensor([[1], [0]])
    assert [y.tolist() for y in td.jit.script(places)(x, at)] == [y.tolist() for y in places(x, at)]


def quotients(a: int, b: int) -> float:
    return a / b


def shifted(a: int, n: int) -> int:
    return a << n


def test_ints_at_their_edges():
    f, g = td.jit.script(quotients), td.jit.script(shifted)
    edges = [1, 3, 7, 2731, 7231478155371584749, 84632355681659216, 2**53 - 1, 2**53 + 1, 2**61 + 3, 2**62 - 2**8 - 1, 6917529027641082369, 2**63 - 1, -2**63, -5]
    for a in (0, *edges, 9007199254740993 * 513):
        for b in edges:
            assert f(a, b) == a / b and math.copysign(1, f(a, b)) == math.copysign(1, a / b), (a, b)
    assert (g(-1, 63), g(1, 62), g(-3, 61)) == (-2**63, 2**62, -3 * 2**61)
    for a, n in [(1, 63), (-1, 64), (-3, 62), (2, 62)]:
        with pytest.raises(td.Error, match="64 bits"):
            g(a, n)


def sorts(n: int, words: list[str]):
    xs = [(i * 7919) % 65537 for i in range(n)]
    ys = [float(x) + 0.1 for x in xs[:3000]]
    shown = str(ys)
    xs.sort()
    more = words * 500
    more.sort()
    text = ",".join(more)
    return xs, shown, more, text.split(","), text[::-3], text.replace("a", "xyz"), [str(words)], f"{words}!"


def test_what_takes_many_steps():
    words = ["b", "a", "ab\t", "\x01", "\r\n'\\\x7f", "'\"", "é"]
    f = td.jit.script(sorts)
    assert f(60000, words) == sorts(60000, words)


def long_lists(n: int, words: list[str]):
    """Each of what goes on in a later step, at its ends and in between."""
    xs, ys = [str((i * 7919) % n) for i in range(n)], [(i * 7919) % n for i in range(n)]
    last, first, other = xs[n - 1], xs[0], xs.copy()
    looked = [last in xs, first in xs, "no" in xs, ys[n - 1] in ys, -1 in ys, xs == other, xs != other]
    other[n - 1] = "no"
    looked.extend([xs == other, xs != other, ys == ys[:], ys == ys[1:], ys != ys[::-1]])
    found = [xs.index(last), xs.index(first), ys.index(ys[n // 2]), (xs + xs).count(last), xs.count("no"), (ys * 2).count(ys[n // 3])]
    parts = [xs[3 : n - 3 : 7], xs[::-1][:5], (xs + words)[n - 2 :], (words * n)[n:][:4]]
    xs.extend(xs)
    xs.extend(words)
    sizes = [len(xs), len(words * 0), len(ys + ys)]
    ends = [xs[0], xs[n], xs[2 * n - 1], xs[2 * n]]
    ties = [(i % 3, i) for i in range(2)]
    floats = [float(y) for y in ys]
    floats.sort(reverse=True)
    down = sorted(other, reverse=True)
    other.sort()
    xs.clear()
    return looked, found, parts, sizes, ends, ties, floats, down, sorted(other), xs


@pytest.mark.parametrize("n", [2, 1023, 8192, 16383, 16384, 16385, 30000])
def test_long_lists(n):
    words = ["b", "a"]
    assert td.jit.script(long_lists)(n, words) == long_lists(n, words)


def missing(n: int):
    return [i for i in range(n)].index(n)


def too_many(n: int):
    xs = [0] * n
    return len(xs + xs)


def test_long_lists_that_fail():
    with pytest.raises(td.Error, match="the value is not in the list"):
        td.jit.script(missing)(40000)
    with pytest.raises(td.Error, match="at most 65536 items"):
        td.jit.script(too_many)(40000)


def test_long_texts_are_compared():
    def f(n: int):
        long = "x" * 60000
        xs = [long + str(i) for i in range(n)]
        ys = [long + str(i) for i in range(n)]
        ys.sort()
        return xs.index(long + str(n - 1)), ys[-1][60000:], xs == ys, xs.count(long)

    assert td.jit.script(f)(200) == f(200)


def test_an_index_that_may_be_a_mask():
    """Whether an argument is a mask is seen when it runs."""
    def taken(x, at):
        return x[at]

    def written(x, at):
        y = x.clone()
        y[at] = 0.0
        y[at] += 1
        return y

    x = td.arange(12.0).reshape(3, 4)
    places = [x > 3, td.tensor([True, False, True]), td.tensor(True), td.tensor(False), td.tensor([0, 2]), td.tensor([[0, 1], [2, 2]]), td.tensor(1),
              td.tensor([2], dtype=td.int32), td.zeros(0, dtype=td.int64), td.zeros(3, dtype=td.bool)]
    for function in (taken, written):
        program = td.jit.script(function)
        for at in places:
            want, got = function(x, at), program(x, at)
            assert want.shape == got.shape and td.equal(want, got), (function, at)
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    taken(a, x > 5).square().sum().backward()
    td.jit.script(taken)(b, x > 5).square().sum().backward()
    assert td.equal(a.grad, b.grad)
    with pytest.raises(td.Error, match="mask"):
        td.jit.script(taken)(x, td.ones(2, dtype=td.bool)).tolist()


def casts(x, y):
    a, b, c = x.to(td.float32), x.to(y.dtype), x.double()
    for z in (a, b, c):
        z.add_(1)
    x.float().mul_(2)
    return a, b, c, x.mT


def test_what_has_the_dtype_is_itself():
    for dtype in (td.float32, td.float64, td.int64):
        (x, y), z = (td.arange(12.0).reshape(2, 2, 3).to(dtype) for _ in range(2)), td.zeros(1)
        ours, theirs = td.jit.script(casts)(x, z), casts(y, z)
        assert [(t.dtype, t.tolist()) for t in (*ours, x)] == [(t.dtype, t.tolist()) for t in (*theirs, y)]


def test_much_is_given_as_tensors():
    f = td.jit.script(kinds)
    with pytest.raises(td.Error, match="1024 KB beside its tensors"):
        td.jit.script(lists)([[1] * 50000] * 3)
    assert f(td.ones(1), True, "", [1] * 60000)[1] == (60000, "")


def lists(n: list[list[int]]) -> int:
    return len(n)


def test_gradients():
    td.manual_seed(1)
    shapes = [(5, 3, 6), (3, 4), (3, 4), (6, 16), (4, 16), (16,)]
    inputs = [td.randn(s, dtype=td.float64, requires_grad=True) for s in shapes]
    f = td.jit.script(lstm)
    ours = td.autograd.grad(f(*inputs)[0].sum(), inputs, create_graph=True)
    theirs = td.autograd.grad(lstm(*inputs)[0].sum(), inputs, create_graph=True)
    assert [g.tolist() for g in ours] == [g.tolist() for g in theirs]
    again = [td.autograd.grad(g[0].pow(2).sum(), inputs[3])[0].tolist() for g in (ours, theirs)]
    assert again[0] == again[1]


def test_what_it_captures_is_shared():
    COUNT.zero_()
    f, x = td.jit.script(counts), td.tensor([10.0])
    assert [f(x).tolist() for _ in range(3)] == [[11.0], [12.0], [13.0]]
    assert COUNT.tolist() == [3.0]
    COUNT.fill_(5)
    assert f(x).tolist() == [16.0]


def test_a_closure():
    w = td.tensor([3.0])

    @td.jit.script
    def f(x):
        return x * w

    assert f(td.tensor([2.0])).tolist() == [6.0]
    assert f.__name__ == "f" and "td::mul" in f.graph


def test_no_grad():
    f = td.jit.script(affine)
    x = td.tensor([1.0, 2.0], requires_grad=True)
    assert f(x).requires_grad
    with td.no_grad():
        assert not f(x).requires_grad


def test_no_grad_around_a_call():
    """In a program too what is called is called without gradients, and those of who calls go on behind it."""

    @td.jit.script
    def f(x):
        with td.no_grad():
            y = affine(x)
        return y, x * y

    x = td.tensor([1.0, 2.0], requires_grad=True)
    y, z = f(x)
    assert not y.requires_grad and z.requires_grad


def refused(x):
    try:
        return x
    except ValueError:
        return x


def even(n: int) -> bool:
    return True if n == 0 else odd(n - 1)


def odd(n: int) -> bool:
    return False if n == 0 else even(n - 1)


def attributes(x):
    return x.affine() if False else x.mean()  # an attribute is not the function of that name above


def test_functions_that_call_each_other_are_refused():
    with pytest.raises(TypeError, match="cannot call itself"):
        td.jit.script(even)


def test_an_attribute_is_no_name_from_outside():
    assert "affine" not in _script._names_in(inspect.getsource(attributes).splitlines(), attributes)[0]


def test_refusals_say_where():
    line = refused.__code__.co_firstlineno
    with pytest.raises(td.Unsupported, match=rf"test_jit.py:{line + 1}:5: a program cannot catch errors"):
        td.jit.script(refused)
    with pytest.raises(TypeError, match="def, not lambda"):
        td.jit.script(lambda x: x)
    with pytest.raises(TypeError, match="takes a function or a module, not int"):
        td.jit.script(3)


def test_errors_say_where():
    f = td.jit.script(affine)
    with pytest.raises(TypeError, match=r"argument 1 \('x'\) is Tensor, and int is given"):
        f(3)
    line = affine.__code__.co_firstlineno + 1
    with pytest.raises(td.ShapeError, match=rf"asked for at test_jit.py:{line}, called at .*test_jit.py"):
        f(td.zeros((3,))).tolist()


def test_nothing_stays():
    def held():
        td.sync()
        return next(row for row in td.status() if row["key"] == "tensors")["value"]

    x = td.ones((4,))
    gc.collect()
    before = held()
    for _ in range(20):
        f = td.jit.script(affine)
        f(td.tensor([1.0, 2.0]))
        del f
    gc.collect()
    assert held() == before
    assert x.tolist() == [1.0] * 4


@td.jit.script
def talks(x, n: int, words: list[str]):
    print("begins with", words, 0.5, None, x.sum(), x)
    for i in range(n):
        print(i, x[0] * i)
    assert n < 3, "too many"
    return x


def test_print(capsys):
    print("before")
    talks(td.tensor([1.5, 2.0]), 2, ["a", "b'"])
    print("after")
    assert capsys.readouterr().out == """before
begins with ['a', "b'"] 0.5 None tensor(3.5000) tensor of shape [2]
0 tensor(0.)
1 tensor(1.5000)
after
"""
    with pytest.raises(td.Error, match="too many"):
        talks(td.tensor([1, 2]), 3, [])
    assert capsys.readouterr().out == "begins with [] 0.5 None tensor(3) tensor of shape [2]\n0 tensor(0)\n1 tensor(1)\n2 tensor(2)\n"

    @td.jit.script
    def much(n: int, line: str):
        for i in range(n):
            print(i, line)
        return n

    assert much(100000, "x" * 1000) == 100000
    out = capsys.readouterr().out.splitlines()
    assert out[:60] == [f"{i} {'x' * 1000}" for i in range(60)] and out[-1] == "... (a run prints at most 64 KiB)" and len(out) < 70
    with pytest.raises(td.Error, match="a text of a program has at most"):
        much(1, "x" * 65536)
    talk = td.jit.script(once)
    for x, shown in ((1e-7, "tensor(1.0000e-07)"), (2e9, "tensor(2.0000e+09)"), (float("nan"), "tensor(nan)"), (True, "tensor(True)"), (2 - 1j, "tensor(2.0000-1.0000j)")):
        talk(td.tensor(x))
        assert capsys.readouterr().out == shown + "\n"
    talk.publish("talk")
    td.jit.open("talk")(td.tensor(3))
    assert capsys.readouterr().out == "tensor(3)\n"
    td.drop("talk")


def once(x):
    print(x)
    return x


def test_print_where_nobody_listens(monkeypatch, capfd):
    class Broken:
        def write(self, text):
            raise ValueError("no")

    talk = td.jit.script(once)
    monkeypatch.setattr(sys, "stdout", Broken())
    monkeypatch.setattr(sys, "unraisablehook", lambda u: None)
    assert talk(td.tensor(1.0)).item() == 1.0
    monkeypatch.setattr(sys, "stdout", None)
    assert talk(td.tensor(1.0)).item() == 1.0


# ---- numbers

INTS = [0, 1, -1, 2, 3, -7, 10, 2**32, -2**62, 2**62, 2**63 - 1, -2**63]
FLOATS = [0.0, -0.0, 1.0, -2.5, 1e308, 5e-324, math.inf, -math.inf, math.nan]
OF_INTS = ["+", "-", "*", "//", "%", "&", "|", "^", "==", "!=", "<", "<=", ">", ">="]
OF_FLOATS = ["+", "-", "*", "/", "//", "%", "==", "!=", "<", "<=", ">", ">="]


def python_says(f, a, b):
    """What Python makes of it; None: what has no place in 64 bits, or is no number, is an error in a program."""
    try:
        r = f(a, b)
    except ZeroDivisionError:
        return None
    return None if type(r) is int and not -2**63 <= r < 2**63 else r


def is_same(a, b):
    if type(a) is not type(b):
        return False
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b)) if type(a) is float else a == b


@pytest.mark.parametrize("kind, op", [("int", op) for op in OF_INTS] + [("float", op) for op in OF_FLOATS] + [("bool", op) for op in ("and", "or")])
def test_numbers_are_pythons_at_every_edge(kind, op):
    source = f"def f(a: {kind}, b: {kind}):\n    return a {op} b\n"
    env, name = {}, f"<{kind} {op}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), env)
    p = td.jit.script(env["f"])
    values = {"int": INTS, "float": FLOATS, "bool": [False, True]}[kind]
    for a in values:
        for b in values:
            want = python_says(env["f"], a, b)
            if want is None:
                with pytest.raises(RuntimeError):
                    p(a, b)
            else:
                assert is_same(p(a, b), want), f"{a} {op} {b}: {p(a, b)}, and {want} in Python"


def test_a_loop_of_numbers_ends_where_one_does_not_fit():
    @td.jit.script
    def double(n: int):
        x, k = 1, 0
        while k < n:
            x = x + x
            k += 1
        return x

    assert double(62) == 2**62
    with pytest.raises(RuntimeError, match="does not fit into an int of 64 bits"):
        double(63)


def _accumulates(acc, w):
    acc.add_(w * w)


def test_what_a_program_writes_to_enters_its_graph():
    """Also where Python had looked before, and the program gives nothing back."""
    f, w, acc = td.jit.script(_accumulates), td.ones(2, requires_grad=True), td.zeros(2)
    assert not acc.requires_grad and acc.grad_fn is None
    f(acc, w)
    assert acc.requires_grad and acc.grad_fn is not None and not acc.is_leaf
    acc.sum().backward()
    assert w.grad.tolist() == [2, 2]

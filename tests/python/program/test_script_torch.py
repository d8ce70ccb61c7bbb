"""Forms that users of TorchScript know: a source as a program of ours, as one of PyTorch's (where that is there), and as Python runs it."""
import inspect
import math
import re
import typing

import pytest
import tensord as td
from common import imported

try:
    import torch
except ImportError:
    torch = None

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated")


def functions(source, place, module):
    """What a source defines, where `td` is this module."""
    path = place / f"of_{module.__name__}_{abs(hash(source))}.py"
    return imported(path, f"import collections\nimport math\nfrom typing import Dict, List, NamedTuple, Optional, Tuple\nimport {module.__name__} as td\n{source}")


def plain(x):
    if td.is_tensor(x) or (torch is not None and isinstance(x, torch.Tensor)):
        return x.tolist()
    if isinstance(x, (list, tuple)):
        return (type(x).__name__, getattr(x, "_fields", None), [plain(y) for y in x])
    return {k: plain(v) for k, v in x.items()} if isinstance(x, dict) else x


def outcome(function, args, refusals=(ValueError,)):
    try:
        return repr(plain(function(*args)))
    except refusals:
        return "refused"


wants_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")


def both(source, place, name):
    """A function of a source as it stands, and as a program of PyTorch's, of ours."""
    return getattr(functions(source, place, td), name), *(m.jit.script(getattr(functions(source, place, m), name)) for m in (torch, td))


def same_as_python(source, form, place, taken, args):
    """A program of a source around a form gives what Python does; PyTorch's, where it takes that."""
    source %= "\n".join("    " + line for line in form.split("\n"))
    for m in (td, torch):
        if m is td or m is not None and taken:
            assert plain(m.jit.script(functions(source, place, m).f)(*args(m))) == plain(functions(source, place, m).f(*args(m)))


# ---- numbers that texts say

NUMBERS = """
def whole(text: str):
    return int(text)

def real(text: str):
    return float(text)

def known(x):
    low, high = float("-inf"), float("inf")
    return low, high, float("nan"), float(" Infinity"[1:]), math.inf, -math.inf, math.nan, x + high, td.full((2,), low), max(low, 3.0)
"""
SAID = ["1", "+1", " 7", "007", "-9223372036854775808", "9223372036854775807", "0.5", "-1.5e-3", "1e5", "inf", "-inf", "nan", "infinity", ".5", "5.", "", "x", "1.5x", "1e", "--1", "12 3"]
PYTHONS = ["7 ", "\t5\n", "1_000", "1__0", "_1", "1_", "1_0.2_5e1_0", "1._5", "0x10", "9223372036854775808", "1e400", "-1e400", "nan(1)", "-NaN", "1\x002", "\x1c5", "\u0665", "0" * 200 + "5"]


def test_numbers_that_texts_say(tmp_path):
    ours = functions(NUMBERS, tmp_path, td)
    for name, python in (("whole", int), ("real", float)):
        program = td.jit.script(getattr(ours, name))
        for text in SAID + PYTHONS:
            want = outcome(python, [text])
            want = "refused" if name == "whole" and want != "refused" and not -2**63 <= int(want) < 2**63 or text == "\u0665" else want
            assert outcome(program, [text]) == want, (name, text)
    with pytest.raises(td.InvalidError, match="could not convert string to float: 'abc'"):
        td.jit.script(ours.real)("abc")
    with pytest.raises(td.InvalidError, match=r"invalid literal for int\(\) with base 10: '1.0'"):
        td.jit.script(ours.whole)("1.0")
    with pytest.raises(td.InvalidError, match="no number of more than 4096 characters"):
        td.jit.script(ours.real)("1" * 5000)
    assert td.jit.script(ours.real)("1" * 4096) == math.inf


def test_numbers_without_an_end(tmp_path):
    program = td.jit.script(functions(NUMBERS, tmp_path, td).known)
    want = repr(plain(functions(NUMBERS, tmp_path, td).known(td.ones(1))))
    assert repr(plain(program(td.ones(1)))) == want
    assert program.graph.count("prim::float.str") == 1  # the others are constants
    for end in "td", "pt":
        program.save(tmp_path / f"p.{end}")
        assert repr(plain(td.jit.load(tmp_path / f"p.{end}")(td.ones(1)))) == want


@wants_torch
def test_numbers_are_read_as_in_torch(tmp_path):
    for name in "whole", "real":
        python, their, our = both(NUMBERS, tmp_path, name)
        for text in SAID:
            assert outcome(our, [text]) == outcome(their, [text], Exception) == outcome(python, [text]), (name, text)
    _, their, our = both(NUMBERS, tmp_path, "known")
    our.save(tmp_path / "p.pt")
    want = repr(plain(our(td.ones(1))))
    assert repr(plain(their(torch.ones(1)))) == repr(plain(torch.jit.load(str(tmp_path / "p.pt"))(torch.ones(1)))) == want


# ---- texts that are put together

TEXTS = """
def plain(x: float, n: int, s: str, on: bool):
    return "{} {} {} {}".format(n, s, on, [n, 2]), f"{n}|{s}|{on}", "%s %d%% %s" % (s, n, on), "%d" % n, "%i and %d" % (n, x), "%s" % [n], "%c%c" % ("a", 98), "no fields".format()
"""
MORE_TEXTS = """
def specs(x: float, n: int, s: str, on: bool):
    return ("{:.3f}|{:>8d}|{:<5}|{:^7}|{:08.2f}|{:+}|{:,}|{:#x}|{:e}|{:.1%}|{:.3}".format(x, n, s, s, x, n, 1000 * n, n, x, x, x), f"{x:.2e} {n:5} {s:*>6} {on} {on:d}",
            f"{x!r} {s!r} {s!s:>5} {n=} {x + 1 = :.2f}", "{name} {0} {other:>4}".format(n, name=s, other=n), "{{}} {} {{{}}}".format(n, s), f"{{{n}}}", "{0} {1} {0}".format(n, s))

def percents(x: float, n: int, s: str, on: bool):
    return ("%.3f %5d|%-5d|%05d|%+d|% d|%x %X %o %#x" % (x, n, n, n, n, n, n, n, n, n), "%e %g %G %.1E" % (x, x, x, x), "%5s|%-5s|%.2s|%r|%5.1s|" % (s, s, s, s, s), "%f" % n, "%d" % 2.9, "%%",
            "%s %s %s" % (None, (n, s), x), "%03d:%02d" % (n // 60, n % 60), "%8.3f|%-8.2f|%08.1f" % (x, x, x), "%s" % on, "%d" % on)

def nested(x: float, n: int, s: str, on: bool):
    n = n % 30
    return f"{x:{n}.{n // 2}f}", f"{s:{'<' if on else '>'}{n}}", format(x, ".1f"), format(n), repr(s), format(s, "*^9"), [f"{k:02}" for k in range(n % 5)]

def tensors(x: float, n: int, s: str, on: bool):
    t = td.tensor(x)
    return f"{t:.2f} {t} {td.tensor(n):03d}", "{:.1e} {}".format(t, t), "%.1f %d" % (t, t), f"{td.tensor(on)}"
"""


def arguments():
    for x, n, s, on in ((1.5, 7, "ab", True), (-1234.5678, -12, "a long text", False), (0.0, 0, "", True), (1e-7, 1234567, "\u00e9{}%", False), (1e6, 65, "it's", True)):
        yield x, n, s, on


def test_texts_that_are_put_together(tmp_path):
    ours = functions(TEXTS + MORE_TEXTS, tmp_path, td)
    for name in "plain", "specs", "percents", "nested", "tensors":
        python, program = getattr(ours, name), td.jit.script(getattr(ours, name))
        program.save(tmp_path / "p.td")
        loaded = td.jit.load(tmp_path / "p.td")
        again = td.jit.script(functions(program.code, tmp_path, td).forward)
        for args in arguments():
            want = outcome(python, args)
            assert [outcome(p, args) for p in (program, loaded, again)] == [want] * 3, (name, args)


def test_texts_of_all_specs():
    import random

    draw = random.Random(7)
    programs = [(td.jit.script(f), values) for f, values in (
        (of_ints, [0, 1, -1, 255, -12345, 1234567, -2**63, 2**63 - 1]), (of_texts, ["", "a", "h\u00e9llo", "\u65e5\u672c\u8a9e"]), (of_bools, [True, False]),
        (of_floats, [0.0, -0.0, 1.0, -1.5, 1e-5, 123456.789, 99999.5, 1e16, -1e300, math.inf, -math.inf, math.nan, 5e-324]))]
    parts = (["", "", "<", ">", "^", "=", "*<", "\u00e9^", "0>", "0=", "x="], ["", "", "+", "-", " "], ["", "", "", "#"], ["", "", "0"], ["", "", "1", "5", "30"], ["", "", ",", "_"],
             ["", "", ".0", ".1", ".3", ".20"], ["", "", *"bdeEfFgGnosxX%"])
    for _ in range(3000):
        spec = "".join(map(draw.choice, parts))
        for program, values in programs:
            value = draw.choice(values)
            if isinstance(value, float) and "#" in spec and not spec[-1].isalpha() and spec[-1] != "%":
                continue  # not taken here
            assert outcome(program, (value, spec)) == outcome(format, (value, spec)), (value, spec)
    for spec, why in (("5000", "a width is at most 4096"), (".501f", "a precision is at most 500"), (".f", "a precision is missing"), ("q", "it is .*with a type of"), ("5" * 30, "a width")):
        with pytest.raises(td.InvalidError, match=why):
            programs[3][0](1.0, spec)
    assert len(programs[3][0](1e308, "\u00e9>4096,.500f")) == 4096 and programs[1][0]("x" * 40000, "4096")[-1] == "x"


def of_ints(x: int, spec: str):
    return format(x, spec)


def of_floats(x: float, spec: str):
    return format(x, spec)


def of_texts(x: str, spec: str):
    return format(x, spec)


def of_bools(x: bool, spec: str):
    return format(x, spec)


@wants_torch
def test_texts_as_in_torch(tmp_path):
    python, their, our = both(TEXTS, tmp_path, "plain")
    torch.jit.save(their, str(tmp_path / "theirs.pt"))
    our.save(tmp_path / "ours.pt")
    read, written = td.jit.load(tmp_path / "theirs.pt"), torch.jit.load(str(tmp_path / "ours.pt"))
    for args in arguments():
        want = outcome(python, args)
        assert [outcome(p, args) for p in (their, our, read, written)] == [want] * 4


# ---- the results of an op by their names

RESULTS = ["td.sort(x, 0).values", "x.sort(descending=True).indices", "x.max(1).indices", "td.max(x, dim=0, keepdim=True).values", "x.min(0).values", "td.topk(x, 2).values",
           "td.topk(x, k=1, largest=False).indices", "td.cummax(x, 1).indices", "x.cummin(0).values", "td.kthvalue(x, 2, 1).values", "x.aminmax(dim=1).max", "td.aminmax(x).min",
           "td.frexp(x).mantissa", "td.frexp(x).exponent", "td.geqrf(x).tau"]


OF_MATRICES = ["td.linalg.svd(x).Vh", "td.linalg.svd(x[:2], full_matrices=False).S", "td.linalg.qr(x).R", "td.linalg.qr(x[:, :2], mode='complete').Q", "td.linalg.slogdet(x).logabsdet",
               "x.slogdet().sign", "td.linalg.eigh(x @ x.mT, 'U').eigenvalues", "td.linalg.eig(x).eigenvectors", "td.linalg.lu(x).P", "td.linalg.lu_factor(x).pivots",
               "td.linalg.lu_factor_ex(x).info", "td.linalg.ldl_factor_ex(x @ x.mT).LD", "td.linalg.cholesky_ex(x @ x.mT, upper=True).L", "td.linalg.inv_ex(A=x).inverse",
               "td.linalg.solve_ex(x, x[0]).result", "td.linalg.lstsq(x, x).solution", "td.linalg.lstsq(x, x, rcond=1e-3).rank", "td.median(x, 1).indices", "x.median(dim=0, keepdim=True).values",
               "x.median()", "td.nanmedian(x, 1).values", "td.mode(x, 0).values", "x.mode().indices", "td.linalg.det(x) + x.det()", "td.linalg.inv(x) - td.inverse(x)",
               "td.linalg.solve(x, x[0])", "td.linalg.cholesky(x @ x.mT)", "td.linalg.svdvals(x)", "td.linalg.eigvals(x)", "td.linalg.eigvalsh(x @ x.mT)", "td.linalg.cross(x, x)"]


@pytest.mark.parametrize("expression", OF_MATRICES)
def test_results_of_matrices_by_name(expression, tmp_path):
    check_by_name(expression, tmp_path, ours=True)


def test_matrices_imported_by_name(tmp_path):
    x = td.tensor([[3.0, -1.5], [-2.0, 7.0]])
    source = "from tensord.linalg import qr\nfrom tensord import linalg\n\ndef f(x):\n    return qr(x, 'r').R, linalg.det(x)\n\ndef wrong(x):\n    return qr(x, 'all')\n"
    python = functions(source, tmp_path, td)
    assert plain(td.jit.script(python.f)(x)) == plain(python.f(x))
    with pytest.raises(td.Error, match="unrecognized mode 'all'"):
        td.jit.script(python.wrong)(x)[1].tolist()


def check_by_name(expression, place, ours=False):
    """As Python runs it: written as a program, read from a file, traced; and PyTorch's program."""
    python, theirs = (functions(f"def f(x):\n    return {expression}\n", place, m).f if m else None for m in (td, None if ours else torch))
    rows = [[3.0, -1.5, 0.25], [-2.0, 7.0, 1.0], [0.5, 4.0, -8.0]]
    x, program = td.tensor(rows), td.jit.script(python)
    want = python(x)
    program.save(place / "f.td")
    for each in (program, td.jit.load(place / "f.td"), td.jit.trace(python, (x,))):
        got = each(x)
        assert got.dtype is want.dtype and td.equal(got, want)
    if theirs:
        assert td.allclose(td.from_numpy(torch.jit.script(theirs)(torch.tensor(rows)).numpy()), want, atol=1e-4)


@pytest.mark.parametrize("expression", RESULTS)
def test_results_by_name(expression, tmp_path):
    check_by_name(expression, tmp_path)


BY_NAME = """
def parts(x):
    r = td.sort(x, 1)
    values, indices = r
    return r.values + values, r[1] + r.indices + indices, len(r)

def sorted_or_largest(x, n: int):
    r = x.sort(1)
    if n > 0:
        r = td.topk(x, n)
    return r.values

def last(x):
    r = x.max(0)
    for k in range(3):
        r = td.max(x + r.values * k, 0)
    return r.indices, r

def of(x) -> Tuple[td.Tensor, td.Tensor]:
    return x.max(1)

def either(x, n: int):
    r = x.sort(1)
    if n > 0:
        r = x.aminmax(dim=1)
    return r[0], r[1]

def plain_or_named(x, n: int):
    r = (x, x)
    if n > 0:
        r = x.sort(1)
    return r[0] + r[1]
"""


def test_results_by_name_go_everywhere(tmp_path):
    python, x = functions(BY_NAME, tmp_path, td), td.tensor([[3.0, -1.5, 0.25], [-2.0, 7.0, 1.0]])
    for name, args in {"parts": (x,), "sorted_or_largest": (x, 0), "last": (x,), "of": (x,), "either": (x, 1), "plain_or_named": (x, 1)}.items():
        got, want = td.jit.script(getattr(python, name))(*args), getattr(python, name)(*args)
        assert plain(got) == plain(tuple(map(tuple_or, want)) if isinstance(want, tuple) else want), name
    assert td.jit.script(python.sorted_or_largest)(x, 2).tolist() == [[3.0, 0.25], [7.0, 1.0]]
    with pytest.raises(td.Error, match="these results are called values, indices; there is no 'keys'"):
        td.jit.script(functions("def f(x):\n    return x.sort().keys\n", tmp_path, td).f)
    with pytest.raises(td.Error, match="a tuple of a program has no 'values'"):
        td.jit.script(functions("def f(x):\n    r = x.sort()\n    if x.sum() > 0:\n        r = x.aminmax()\n    return r.values\n", tmp_path, td).f)


def tuple_or(x):
    return tuple(x) if isinstance(x, tuple) else x


# ---- named tuples

NAMED = """
class Point(NamedTuple):
    x: td.Tensor
    n: int = 3
    by: float = 0.5

class Deep(NamedTuple):
    p: Point
    ps: List[Point]
    o: Optional[Point]
    d: Dict[str, Tuple[int, Point]]

Pair = collections.namedtuple("Pair", ["a", "b"])
class Box(NamedTuple):
    low: int
    high: float

def moved(p: Point, by: int) -> Point:
    return Point(p.x + by, p.n + 1, p.by)

def f(x, p: Point, maybe: Optional[Point] = None):
    q = Point(x + p.n, 4)
    r = Point(n=5, x=q.x * p.by)
    if x.sum() > 3:
        r = moved(q, 2)
    ps = [q, r]
    for k in range(2):
        ps.append(moved(ps[-1], k))
    a, n, by = r
    pair = Pair(a, b=a + 1)
    total = 0.0
    for each in ps:
        total += each.n * each.by
    other = q if maybe is None else maybe
    got: Optional[Point] = None
    if other.n == 7:
        got = Point(x)
    return Deep(q, ps, got, {"a": (n, other)}), pair.a + pair.b, ps[0].n, q[1], len(q), (other, total), [pair], by

class Net(td.nn.Module):
    def forward(self, x, p: Point) -> Deep:
        q = moved(p, 2)
        return Deep(Point(x + p.n), [q, p], p if p.n > 1 else None, {"b": (q.n, q)})
"""


def points(module):
    p = functions_at[module].Point
    return (module.ones(2), p(module.ones(2), 7)), (module.zeros(2), p(module.ones(2), 1), p(module.ones(2), 7, 2.0)), (module.ones(2) * 3, p(module.zeros(2)))


functions_at = {}


@pytest.fixture
def named(tmp_path):
    functions_at.update({m: functions(NAMED, tmp_path, m) for m in (td, torch) if m is not None})
    return functions_at


def test_named_tuples(named, tmp_path):
    ours = named[td]
    program = td.jit.script(ours.f)
    program.save(tmp_path / "f.td")
    loaded = td.jit.load(tmp_path / "f.td")
    for args in points(td):
        assert plain(program(*args)) == plain(ours.f(*args)) == plain(loaded(*args))
        assert type(program(*args)[0]) is ours.Deep and isinstance(program(*args)[0].ps[1], ours.Point)
    net, (x, p), _ = td.jit.script(ours.Net()), *points(td)[:2]
    net.save(tmp_path / "net.td"), net.save(tmp_path / "net.pt")
    for n in (0, 7):
        want = ours.Net()(x, p._replace(n=n))
        assert plain(net(x, p._replace(n=n))) == plain(want) == plain(td.jit.load(tmp_path / "net.td")(x, p._replace(n=n))) == plain(td.jit.load(tmp_path / "net.pt")(x, (x, n, 0.5)))
    again = tmp_path / "again.td"
    td.jit.load(tmp_path / "net.td").save(again)
    assert type(td.jit.load(again)(x, p)).__name__ == "Deep"
    w = td.ones(2, requires_grad=True)
    program(w, p)[0].p.x.sum().backward()
    assert w.grad.tolist() == [1.0, 1.0]


@wants_torch
def test_named_tuples_as_in_torch(named, tmp_path):
    ours, theirs = named[td], named[torch]
    scripted, its = td.jit.script(ours.f), torch.jit.script(theirs.f)
    for mine, their in zip(points(td), points(torch)):
        assert plain(scripted(*mine)) == plain(its(*their))
    torch.jit.save(torch.jit.script(theirs.Net()), str(tmp_path / "theirs.pt"))
    td.jit.script(ours.Net()).save(tmp_path / "ours.pt")
    read, opened = td.jit.load(tmp_path / "theirs.pt"), torch.jit.load(str(tmp_path / "ours.pt"))
    (x, p), (their_x, their_p) = points(td)[0], points(torch)[0]
    for n in (0, 7):
        want = theirs.Net()(their_x, their_p._replace(n=n))
        assert plain(read(x, p._replace(n=n))) == plain(want)
        assert tuples(opened(their_x, tuple(their_p._replace(n=n)))) == tuples(want)  # ours has no names there
    read.save(tmp_path / "again.td")
    assert plain(td.jit.load(tmp_path / "again.td")(x, p)) == plain(read(x, p))


def tuples(x):
    """Without names."""
    if isinstance(x, (list, tuple)):
        return [tuples(y) for y in x]
    return {k: tuples(v) for k, v in x.items()} if isinstance(x, dict) else plain(x)


def test_named_tuples_that_are_constants(named):
    Box, Point = named[td].Box, named[td].Point
    size, weighted, own = Box(2, 0.5), Point(td.ones(2), 4), collections_of(("a", "b"))

    class Scaled(td.nn.Module):
        def __init__(self):
            super().__init__()
            self.box = Box(3, 2.0)

        def forward(self, x):
            return x * self.box.high + self.box.low + size.low

    def f(x, b: Box = size):
        return x * b.high + b.low + weighted.x * weighted.n, own(x, x).b, size, weighted, [own(x, x + 1)]

    assert plain(td.jit.script(f)(td.ones(2))) == plain(f(td.ones(2)))
    assert plain(td.jit.script(f)(td.ones(2), Box(5, 1.0))) == plain(f(td.ones(2), Box(5, 1.0)))
    assert td.jit.script(Scaled())(td.ones(2)).tolist() == [7.0, 7.0]


def collections_of(fields):
    import collections

    return collections.namedtuple("Own", fields)


def test_what_named_tuples_cannot(tmp_path):
    source = """
class Point(NamedTuple):
    x: td.Tensor
    n: int = 3

class Loop(NamedTuple):
    inside: "Optional[Loop]"

class Odd(NamedTuple):
    when: collections.abc.Sequence

def field(p: Point):
    return p.y

def plain(p: Point):
    return (p.x, p.n).n

def missing(x):
    return Point(n=2)

def twice(x):
    return Point(x, 2, n=3)

def another(x):
    return Point(x, "two")

def itself(x):
    return Loop(None)

def odd(x: Odd):
    return x

def quoted(p: "Point") -> "Point":
    return Point(p.x, p.n)
"""
    made = functions(source, tmp_path, td)
    for name, why in (("field", "'Point' has no field 'y'"), ("plain", "a tuple of a program has no 'n'"), ("missing", "the argument 'x' is missing"), ("twice", "given twice|no such argument"),
                      ("another", "this is a str, and an int is wanted"), ("itself", "cannot be a part of itself"), ("odd", "a program has no such type")):
        with pytest.raises(td.Error, match=why):
            td.jit.script(getattr(made, name))
    p = made.Point(td.ones(1))
    assert plain(td.jit.script(made.quoted)(p)) == plain(p)
    with pytest.raises(td.Error, match="argument 1"):
        td.jit.script(made.quoted)((td.ones(1), 2, 3))


def test_files_whose_named_tuples_make_no_sense(named, tmp_path):
    from tensord import _C
    from tensord.program import _namedtuples

    for shape in (3, ["n"], ["n", 0, "A", ["x"]], ["n", 0, "A", ["1x"], None], ["n", 0, "import os", [], ], ["q", None], ["l"], ["l", None, None], [["l"]], {"n": 1}, ["n", 0, "A", "ab", None]):
        with pytest.raises(_C.InvalidError, match="makes no sense"):
            _namedtuples.loaded_giver(shape, "f")
    for shape, value in ((["n", 0, "A", ["x"], None], 3), (["l", ["t", None]], [1]), (["d", ["t"]], [1]), (["n", 0, "A", ["x", "y"], None, None], (1,))):
        with pytest.raises(_C.InvalidError, match="gives something else"):
            _namedtuples.loaded_giver(shape, "f")(value)


# ---- methods of modules inside

METHODS = """
class Sub(td.nn.Module):
    def __init__(self, by: float):
        super().__init__()
        self.w = td.nn.Parameter(td.ones(2) * by)

    def forward(self, x):
        return x * self.w

    def other(self, x, k: int = 1):
        return self.inner(x) + k

    def inner(self, x):
        return x - self.w

    @td.jit.export
    def out(self, x, by: float = 5.0):
        return self.other(x, 5) * by

class More(Sub):
    def third(self, x):
        return self.other(x) * 10

class Net(td.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Sub(2.0), More(3.0)
        self.row = td.nn.ModuleList([Sub(4.0), More(5.0)])
        self.same = self.a
        self.last = self.row[1]

    def forward(self, x):
        y = self.a.other(x) + self.b.third(x)
        for m in self.row:
            y = y + m.inner(x)
        return y + self.helper(x, self.b(x))

    def helper(self, x, y):
        return self.same.out(x) + self.last.third(y) + self.last.other(x, k=2)

    @td.jit.export
    def more(self, x, k: int = 3):
        return self.b.other(x, k=k), self.a.out(x, 0.5)
"""


def test_methods_of_modules_inside(tmp_path):
    made = functions(METHODS, tmp_path, td)
    net, x = made.Net(), td.arange(2.0)
    script = td.jit.script(net)
    for end in "td", "pt":
        script.save(tmp_path / f"m.{end}")
        loaded = td.jit.load(tmp_path / f"m.{end}")
        for call in (lambda m: m(x)), (lambda m: m.more(x)), (lambda m: m.more(x, k=7)):
            assert plain(call(script)) == plain(call(net)) == plain(call(loaded))
    alone, of_program = net.more, td.jit.script(made.Net()).more

    def captured(x):
        return net.more(x), script.more(x, 4), net.last.third(x), net.a(x), alone(x), of_program(x, k=2), script(x)

    class Outer(td.nn.Module):
        def __init__(self):
            super().__init__()
            self.script, self.behind = td.jit.script(made.Net()), made.Net()
            self.first = self.behind.b

        def forward(self, x):
            return self.script.more(x), self.first.third(x), self.behind.helper(x, x)

    assert plain(td.jit.script(captured)(x)) == plain(captured(x))
    assert plain(td.jit.script(Outer())(x)) == plain(Outer()(x))
    with pytest.raises(td.Error, match="cannot call 'net.nothing'|no 'nothing'"):
        td.jit.script(calls_nothing(net))
    w = net.a.w
    script.more(x)[1].sum().backward()
    assert w.grad.tolist() == [-0.5, -0.5]


def calls_nothing(net):
    def f(x):
        return net.nothing(x)

    return f


@wants_torch
def test_methods_of_modules_inside_as_in_torch(tmp_path):
    ours, theirs = (functions(METHODS, tmp_path, m).Net() for m in (td, torch))
    mine, its = td.jit.script(ours), torch.jit.script(theirs)
    mine.save(tmp_path / "ours.pt"), its.save(str(tmp_path / "theirs.pt"))
    read, opened = td.jit.load(tmp_path / "theirs.pt"), torch.jit.load(str(tmp_path / "ours.pt"))
    for call in (lambda m, x: m(x)), (lambda m, x: m.more(x)), (lambda m, x: m.more(x, 7)):
        want = plain(call(its, torch.arange(2.0)))
        assert plain(call(mine, td.arange(2.0))) == plain(call(read, td.arange(2.0))) == plain(call(opened, torch.arange(2.0))) == want


# ---- traces inside

TRACES = """
class Point(NamedTuple):
    x: td.Tensor
    y: td.Tensor

w = td.ones(3)

def plain(a):
    with td.no_grad():
        b = a * 2
    return b + a * w

def several(a, b):
    return a * b, a - 1

class Net(td.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.also = td.jit.trace(td.nn.Linear(3, 3), (td.ones(3),)), td.jit.trace(plain, (td.ones(3),))

    def forward(self, x):
        y = self.also(x)
        for k in range(2):
            y = self.inner(y) + k
        return y

def of(traced, second):
    def f(x):
        p, q = second(x, traced(x))
        if p.sum() > 0:
            p = traced(p)
        return p, q
    return f
"""


def test_traces_in_programs(tmp_path):
    made = functions(TRACES, tmp_path, td)
    x = td.tensor([1.0, -2.0, 3.0])
    f = made.of(td.jit.trace(made.plain, (x,)), td.jit.trace(made.several, (x, x)))
    p = td.jit.script(f)
    for each in x, -x, td.zeros(3):
        assert plain(p(each)) == plain(f(each))
    grads = []
    for g in p, f:
        w = x.clone().requires_grad_()
        sum(y.sum() for y in g(w)).backward()
        grads.append(w.grad.tolist())
    assert grads[0] == grads[1]
    net = made.Net()
    script = td.jit.script(net)
    assert plain(script(x)) == plain(net(x)) and list(script.state_dict()) == list(net.state_dict())
    for end in "td", "pt":
        script.save(tmp_path / f"m.{end}")
        loaded = td.jit.load(tmp_path / f"m.{end}")
        assert plain(loaded(x)) == plain(net(x)) and set(net.state_dict()) <= set(loaded.state_dict())
    script(x).sum().backward()
    assert net.inner.weight.grad is not None
    assert td.jit.script(net.also) is net.also and td.jit.script(net.inner) is net.inner


def test_traces_with_trees_in_programs(tmp_path):
    Point = functions(TRACES, tmp_path, td).Point

    def trees(pair, rows, made):
        return Point(pair[0] + rows[1], made["a"]), [pair[1], made["b"] * 2], {"k": (rows[0],)}

    x = td.ones(2)
    traced = td.jit.trace(trees, (Point(x, x * 2), [x, x + 1], {"a": x, "b": x}))

    def f(x):
        p, row, d = traced(Point(x, x + 2), [x * 2, x], {"a": x, "b": x * 3})
        return p, row, d, traced(made={"a": x, "b": x}, pair=p, rows=row)[0].y

    assert plain(td.jit.script(f)(x)) == plain(f(x))
    both_kinds = td.jit.trace(lambda x: [x, (x,)], (x,))

    def g(x):
        return both_kinds(x)

    with pytest.raises(td.Error, match="a list has items of one type"):
        td.jit.script(g)
    takes = td.jit.trace(lambda x: x[0], ([x, (x,)],))

    def h(x):
        return takes([x, x])

    with pytest.raises(td.Unsupported, match="a program calls no trace whose lists or dicts hold"):
        td.jit.script(h)


def test_traced_methods_in_programs():
    class Two(td.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = td.nn.Parameter(td.ones(2) * 3)

        def forward(self, x):
            return x * self.scale

        def back(self, x):
            return x / self.scale

    net, x = Two(), td.tensor([1.0, 2.0])
    traced = td.jit.trace_module(net, {"forward": (x,), "back": (x,)})

    def f(x):
        return traced(x), traced.back(x)

    assert plain(td.jit.script(f)(x)) == plain((net(x), net.back(x)))


@wants_torch
def test_traces_in_programs_as_in_torch(tmp_path):
    ours, theirs = functions(TRACES, tmp_path, td), functions(TRACES, tmp_path, torch)
    made = []
    for m, source in (td, ours), (torch, theirs):
        x = m.tensor([1.0, -2.0, 3.0])
        f = m.jit.script(source.of(m.jit.trace(source.plain, (x,)), m.jit.trace(source.several, (x, x))))
        made.append([plain(f(each)) for each in (x, -x, m.zeros(3))])
        net = source.Net()
        with m.no_grad():
            for p in net.parameters():
                p.fill_(0.5)
        script = m.jit.script(net)
        script.save(str(tmp_path / f"{m.__name__}.pt"))
        made[-1].append(plain(script(x)))
    assert made[0] == made[1]
    assert plain(td.jit.load(tmp_path / "torch.pt")(td.tensor([1.0, -2.0, 3.0]))) == made[0][-1]
    assert plain(torch.jit.load(str(tmp_path / "tensord.pt"))(torch.tensor([1.0, -2.0, 3.0]))) == made[0][-1]


# ---- parameters with two names

TIED = """
class Net(td.nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.o = td.nn.Embedding(4, 3), td.nn.Linear(3, 4, bias=False)
        self.o.weight = self.e.weight
        self.register_buffer("steps", td.zeros(1))
        self.also = self.steps

    def forward(self, i):
        return self.o(self.e(i)) + self.steps

class Twice(td.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = td.nn.Linear(2, 2)
        self.b, self.c = self.a, td.nn.Linear(2, 2)
        self.c.bias = self.a.bias

    def forward(self, x):
        return self.c(self.b(self.a(x)))
"""


def is_tied(loaded, i, want):
    assert [name for name, _ in loaded.named_parameters()] == ["e.weight"] and {"e.weight", "o.weight", "steps"} <= set(loaded.state_dict())
    assert loaded.e.weight is loaded.o.weight
    assert plain(loaded(i)) == want
    with td.no_grad():
        loaded.e.weight.mul_(2)
    twice = [[4 * y for y in row] for row in want]
    assert all(math.isclose(a, b, rel_tol=1e-6) for mine, theirs in zip(loaded(i).tolist(), twice) for a, b in zip(mine, theirs))
    loaded(i).sum().backward()
    assert loaded.o.weight.grad is not None


def test_tied_parameters(tmp_path):
    made, i = functions(TIED, tmp_path, td), td.tensor([1, 2])
    net = made.Net()
    for program in td.jit.script(net), td.jit.trace(net, (i,)):
        for end in "td", "pt":
            program.save(tmp_path / f"m.{end}")
            want = net(i).tolist()
            td.jit.load(tmp_path / f"m.{end}").save(tmp_path / f"again.{end}")
            for name in "m", "again":
                is_tied(td.jit.load(tmp_path / f"{name}.{end}"), i, want)
    twice = made.Twice()
    td.jit.script(twice).save(tmp_path / "t.td")
    loaded = td.jit.load(tmp_path / "t.td")
    assert [n for n, _ in loaded.named_parameters()] == [n for n, _ in twice.named_parameters()] and list(loaded.state_dict()) == list(twice.state_dict())
    assert loaded.b.weight is loaded.a.weight and loaded.c.bias is loaded.a.bias and loaded.c.weight is not loaded.a.weight


def test_files_that_tie_what_is_no_pair():
    from tensord.program import _archive

    def state():
        return {"a": td.zeros(2), "b": td.zeros(3)}

    for tied in {"b": "a"}, {"c": "x"}, {"b": 3}:
        with pytest.raises(td.InvalidError, match="is another tensor than the one"):
            _archive._tied([("f", "", (), {"tied": tied})], state())
    good = state()
    _archive._tied([("f", "", (), {"tied": {"c": "a"}}), ("g", "", (), None)], good)
    assert good["c"] is good["a"]


@wants_torch
def test_tied_parameters_as_in_torch(tmp_path):
    ours, theirs = functions(TIED, tmp_path, td).Net(), functions(TIED, tmp_path, torch).Net()
    td.jit.script(ours).save(tmp_path / "ours.pt")
    torch.jit.script(theirs).save(str(tmp_path / "theirs.pt"))
    i = torch.tensor([1, 2])
    is_tied(td.jit.load(tmp_path / "theirs.pt"), td.tensor([1, 2]), td.jit.load(tmp_path / "theirs.pt")(td.tensor([1, 2])).tolist())
    assert torch.allclose(torch.tensor(td.jit.load(tmp_path / "theirs.pt")(td.tensor([1, 2])).tolist()), theirs(i))
    opened = torch.jit.load(str(tmp_path / "ours.pt"))
    assert [n for n, _ in opened.named_parameters()] == ["e.weight"] and set(opened.state_dict()) == {"e.weight", "o.weight", "steps"}
    td.jit.load(tmp_path / "theirs.pt").save(tmp_path / "again.td")
    again = td.jit.load(tmp_path / "again.td")
    assert again.o.weight is again.e.weight


# ---- attributes of modules that are written

WRITTEN = """
class Counts(td.nn.Module):
    last: Optional[td.Tensor]
    seen: List[int]

    def __init__(self):
        super().__init__()
        self.count, self.scale, self.on, self.name, self.pair, self.last = 0, 1.0, False, "a", (1, 2.0), None
        self.seen = []
        self.table: Dict[str, float] = {"a": 1.0}

    def forward(self, x):
        self.count += 2
        self.scale = self.scale * 1.5
        self.on = not self.on
        self.name = self.name + "b"
        self.pair = (self.count, self.scale)
        for i in range(self.count):
            if i > 2:
                self.seen.append(i)
        self.table[self.name] = self.scale
        last = self.last
        if last is not None:
            x = x + last
        self.last = x
        return x * self.scale

class Outer(td.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Counts(), Counts()

    def forward(self, x):
        x = self.b(self.a(x))
        self.b.count -= 1
        return x, self.a.count, self.b.count, self.a.seen, self.b.seen, self.b.table, self.a.on, self.b.name, self.b.pair
"""


def test_attributes_that_are_written(tmp_path):
    plain_one, *programs = [functions(WRITTEN, tmp_path, m).Outer() for m in (td, td, torch) if m is not None]
    programs = [(td, torch)[k].jit.script(p) for k, p in enumerate(programs)]
    for _ in range(3):
        want = plain(plain_one(td.ones(2)))
        for k, p in enumerate(programs):
            assert plain(p((td, torch)[k].ones(2))) == want
            assert (p.a.count, p.b.count, p.b.scale, p.a.seen) == (plain_one.a.count, plain_one.b.count, plain_one.b.scale, plain_one.a.seen)


# ---- parts of lists of modules

PARTS = """
class Scale(td.nn.Module):
    def __init__(self, k: int):
        super().__init__()
        self.k = k

    def forward(self, x):
        return x * self.k + 1

class Parts(td.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = td.nn.ModuleList([Scale(k) for k in range(2, 6)])
        self.steps = td.nn.Sequential(Scale(7), td.nn.ReLU(), Scale(-3))
        self.heads = td.nn.ModuleDict({"a": Scale(2), "b": Scale(3)})
        self.first, self.name = 1, "b"

    def forward(self, x):
%s
"""

FORMS = {  # False: not in PyTorch's TorchScript
    "for l in self.layers[1:]:\n    x = l(x)\nreturn x": True,
    "for l in self.layers[:-1]:\n    x = l(x)\nreturn x": True,
    "for l in self.layers[::-1]:\n    x = l(x)\nreturn x": True,
    "for l in self.layers[3:0:-2]:\n    x = l(x)\nreturn x": True,
    "for l in self.layers[5:]:\n    x = l(x)\nreturn x": False,
    "for l in self.layers[self.first:len(self.layers) - 1]:\n    x = l(x)\nreturn x": False,
    "for i, l in enumerate(self.layers[1:], 2):\n    x = l(x) * i\nreturn x": True,
    "for l in reversed(self.layers):\n    x = l(x)\nreturn x": False,
    "for i, l in enumerate(reversed(self.steps)):\n    x = l(x) + i\nreturn x": False,
    "for a, b in zip(self.layers, self.steps):\n    x = a(x) + b(x)\nreturn x": True,
    "for a, k in zip(self.layers[1:], [5, 6, 7]):\n    x = a(x) * k\nreturn x": False,
    "for a, k in zip(self.layers, [5, 6]):\n    x = a(x) * k\nfor a, k in zip(self.layers, range(3)):\n    x = a(x) + k\nfor a, k in zip(self.layers, (1, 2)):\n    x = a(x) - k\nreturn x": False,
    "ks = [i for i in range(4)]\nfor a, (i, k) in zip(self.layers, enumerate(ks)):\n    x = a(x) * k + i\nreturn x": False,
    "for a, b in zip(self.layers[2:], reversed(self.steps)):\n    x = a(b(x))\nreturn x": False,
    "for i, (a, b) in enumerate(zip(self.layers, self.steps)):\n    x = a(x) + b(x) * i\nreturn x": True,
    "return self.steps[1:](x)": False,
    "for l in self.layers[-9223372036854775808:]:\n    x = l(x)\nreturn x": False,
    "for i in range(3):\n    for l in [self.layers[0], self.steps]:\n        x = l(x) + i\nfor l in [self.steps, self.layers[1]]:\n    x = l(x)\nreturn x": False,
    "for a in self.layers:\n    for l in [a, self.steps, a]:\n        x = l(x)\nreturn x": False,
    "return self.steps[:1](self.steps[:1](x)) + self.steps[-1](x)": False,
    "return self.layers[-1](x) + self.layers[-4](x) + len(self.layers[1:])": True,
    "rest = self.layers[2:]\nfor l in rest:\n    x = l(x)\nreturn x": True,
    "a, b, c = self.steps\nreturn c(a(x)) + b(x)": False,
    "for l in [self.layers[0], self.steps]:\n    x = l(x)\nreturn x": False,
    "for l in (self.layers[0], self.heads['a']):\n    x = l(x)\nreturn x": True,
    "for l in list(self.layers.children())[1:]:\n    x = l(x)\nreturn x": False,
    "for l in self.steps.children():\n    x = l(x)\nreturn x": True,
    "for n, l in self.heads.named_children():\n    x = l(x) + len(n)\nreturn x": True,
    "n = 0\nfor m in self.modules():\n    n += 1\nreturn x * n": True,
    "k = 2\nreturn self.layers[k](x)": False,
    "y = [l(x) for l in self.layers[1:]]\nreturn y[0] + y[-1]": True,
    "if 'a' in self.heads:\n    x = self.heads['a'](x)\nif 'c' not in self.heads:\n    x = x + 1\nreturn x": True,
    "has = self.name in self.heads\nreturn x * 2 if has else x": False,
    "n = 0\nfor k in ['a', 'c', 'b']:\n    if k in self.heads:\n        n += 1\nreturn x * n": False,
    "for k in self.heads:\n    x = self.heads[k](x)\nreturn x": False,
}


@pytest.mark.parametrize("form", FORMS)
def test_parts_of_lists_of_modules(form, tmp_path):
    source = PARTS % "\n".join("        " + line for line in form.split("\n"))
    of = functions(source, tmp_path, td).Parts()
    want = plain(of(td.ones(2)))
    assert plain(td.jit.script(of)(td.ones(2))) == want
    if torch is not None and FORMS[form]:
        called = re.sub(r"\b(l|a|b)\(x", r"\1.forward(x", source)  # which PyTorch wants of what a slice gives
        assert plain(torch.jit.script(functions(called, tmp_path, torch).Parts())(torch.ones(2))) == want


@pytest.mark.parametrize("form, text", [
    ("return self.layers[int(x[0].item()):][0](x)", "a slice of modules is one of numbers that are written here, in steps of 4 at most"),
    ("a, b = self.steps\nreturn a(b(x))", "2 names for 3 modules"),
    ("for l in reversed(self.children()):\n    x = x + 1\nreturn x", r"this is gone over as it comes; write list\(...\) around it"),
    ("k = -9223372036854775807 - 1\nreturn self.layers[-k](x)", "the index of modules is written here"),
    ("return self.layers[-9223372036854775808](x)", "it has 4 modules, from 0 on"),
    ("return self.layers[4](x)", "it has 4 modules, from 0 on")])
def test_parts_that_are_none(form, text, tmp_path):
    source = PARTS % "\n".join("        " + line for line in form.split("\n"))
    with pytest.raises(td.Error, match=text):
        td.jit.script(functions(source, tmp_path, td).Parts())


def test_less_than_there_are_modules(tmp_path):
    source = PARTS % "        for a, k in zip(self.layers, range(x.shape[0])):\n            x = a(x) + k\n        return x"
    of = functions(source, tmp_path, td).Parts()
    assert plain(td.jit.script(of)(td.ones(4))) == plain(of(td.ones(4)))
    with pytest.raises(td.Error, match="zip.. of 4 modules wants as many items beside them, not 3"):
        td.jit.script(of)(td.ones(3)).tolist()


# ---- what is unpacked

STARS = """
def g(a: int, b: int = 3, c: float = 0.5):
    return a * b + c

def f(x, t: Tuple[int, int], xs: List[int], ys: List[td.Tensor], d: Dict[str, int]):
%s
"""

UNPACKED = {  # False: not in PyTorch's TorchScript
    "return g(*t), g(*t, 2.0), g(*t, c=1.0), g(*t[:1], b=7)": True,
    "s = 0.0\nfor p in [(1, 2), (3, 4)]:\n    s += g(*p)\nreturn s": True,
    "return td.add(*(x, x)), x.sum(*(0,)), x.view(*(1, 2))": True,
    "return (*t, x), (*t, *t), [*t, 5], [*t], (x, *(1, 2.0))": True,
    "return math.pow(*(2.0, 3.0)), max(*t), max(*t, 9), '{} {}'.format(*t)": True,
    "a = *t, 7\nb, c, e = a\nreturn a, e": True,
    "return [*xs], [0, *xs], [*xs, *t, *xs, 1], [*range(3)], [*ys, x][2]": False,
    "zs = [*xs]\nzs.append(5)\nreturn xs, zs": False,
    "return max(*[1, 3], 2), (*[1, 2], x), g(*[1, 2])": False,
    "return x.view(*xs), x.view(*x.shape, 1), x.view(1, *x.shape), x.view(-1, *x.shape[:1], 1), x.expand(3, *xs[1:])": False,
    "return td.zeros(*xs), td.zeros(3, *x.shape, dtype=td.int32), x.new_ones(*xs, *t), x.reshape(*x.shape[:-1], 2)": False,
    "return x.repeat(*xs), x.tile(2, *xs), td.reshape(x, *xs), x.view(1, 2).permute(1, *xs[:0], 0), td.flip(x, *xs[:0]), td.ones(*xs, *xs)": False,
    "return td.einsum('i,i', *ys), td.broadcast_tensors(*ys, x)[2], td.stack([*ys, x])": False,
    "return {**d}, {**d, 'b': 2}, {'a': 0, **d}, {'z': 1, **d, 'y': 2, **{'z': 3}}": False,
    "e = {**d}\ne['q'] = 1\nreturn d, e": False,
    "[a, *b] = xs\n(c, *e) = t\nreturn b, e": False,
}


@pytest.mark.parametrize("form", UNPACKED)
def test_what_is_unpacked(form, tmp_path):
    same_as_python(STARS, form, tmp_path, UNPACKED[form], lambda m: (m.tensor([1.0, 2.0]), (2, 3), [1, 2], [m.tensor([1.0, 2.0]), m.tensor([3.0, 4.0])], {"a": 1}))


KEPT = ["F.max_pool2d(x, *xs)", "F.avg_pool2d(x, *xs)", "F.conv2d(x, x, None, *xs)", "F.unfold(x, *xs)", "x.std(*xs)", "td.var(x, *xs)", "x.sum(*xs)", "x.amax(*xs)", "td.cat(*ys)", "td.stack(*ys)",
        "td.full(*xs, 3.)", "max(*xs)", "min(*xs, 1)", "x.transpose(*xs)", "x.clamp(*xs)", "td.maximum(*ys)", "xs.index(*xs)", "td.view(*xs)", "td.ops.view(x, *xs)", "td.atleast_1d(*ys)", "x.roll(*xs)"]


@pytest.mark.parametrize("call", KEPT)
def test_lists_that_are_no_arguments(call, tmp_path):
    source = "import tensord.nn.functional as F\n" + STARS % f"    return {call}\n"
    with pytest.raises(td.Error, match="a program unpacks a tuple here, whose length is known, not a list; write each argument"):
        td.jit.script(functions(source, tmp_path, td).f)


def takes_rest(function):
    try:
        rest = [p for p in inspect.signature(function).parameters.values() if p.kind is p.VAR_POSITIONAL]
    except (TypeError, ValueError):
        return False
    return bool(rest) and rest[0].name in ("shape", "size", "sizes", "dims", "repeats", "tensors", "operands", "matrices")


def test_lists_go_where_python_has_varargs(tmp_path):
    """The table that the front end has is that of the signatures."""
    names = [f"td.{name}" for name in dir(td) if takes_rest(getattr(td, name))] + [f"x.{name}" for name in dir(td.Tensor) if name[0] != "_" and takes_rest(getattr(td.Tensor, name))]
    wrong = []
    for name in names:
        of_tensors = name[:3] == "td." and inspect.signature(getattr(td, name[3:])).parameters.keys() & {"tensors", "operands", "matrices"}
        before = "x, " if "input" in (inspect.signature(getattr(td, name[3:])).parameters if name[:3] == "td." else ()) else "'i,i', " if name == "td.einsum" else ""
        try:
            td.jit.script(functions(STARS % f"    return {name}({before}*{'ys' if of_tensors else 'xs'})\n", tmp_path, td).f)
        except td.Error as e:
            wrong += [name] * ("unpacks a tuple" in str(e))
    assert len(names) > 20 and {*wrong} == {"td.atleast_1d", "td.atleast_2d", "td.atleast_3d", "td.result_type"}, (names, wrong)


# ---- comparisons of what has parts, and Python's own functions

VALUES = """
def f(x, n: List[List[int]], t: Tuple[int, str], d: Dict[str, List[int]], maybe: Optional[int], none: Optional[int]):
%s
"""

COMPARED = {  # False: not in PyTorch's TorchScript
    "return n == [[1], [2, 3]], n != [[1], [2]], [[1]] == n, n == n[::-1], [n] == [n], [[n]] != [[n]]": False,
    "return t == (1, 'a'), t != (1, 'b'), (t, 2) == (t, 2), (1, 2) == (1, 2, 3), (1, 2.0) == (1.0, 2)": False,
    "return d == {'a': [1]}, d != {'a': [2]}, {'a': 1, 'b': 2} == {'b': 2, 'a': 1}, {'a': 1} == {'b': 1}, {1: {'k': t}} == {1: {'k': t}}": False,
    "return maybe == 3, maybe != 3, none == 3, maybe == none, none == none, maybe == None, none != None, None == none, x == None, 5 != None": False,
    "return [1] in n, [4] in n, t in [(1, 'a')], (1, 'b') not in [t], t in ((1, 'a'), t), [1] in ([1], [2]), maybe in [3]": False,
    "return n < [[1], [2, 4]], n >= n, [2] > [1, 5], (1, 2) < (1, 2, 3), (1, 2) <= (1, 2), (2, 0) > (1, 5), t >= (1, 'b'), [] < [1]": False,
    "return sorted([(2, 'b'), (1, 'b'), (1, 'a')])": True,
    "return sorted([[3], [1, 2], [1]], reverse=True), max(n), min([(2, 'b'), (1, 'c')]), max((1, 2), (1, 3)), [(1, 2)].index((1, 2)), n.count([1])": False,
    "if maybe != None:\n    return maybe + 1\nreturn 0": False,
    "return int('ff', 16), int(' -0x_1F ', 16), int('101', 2), int('0o17', 0), int('12', 0), int('z', base=36), int('-8000000000000000', 16)": False,
    "return pow(2, 10), pow(2.0, 3), pow(x, 2), pow(3, 4, 5), pow(3, 2 ** 40 + 1, 2 ** 61 - 1), pow(7, 5, -13), pow(2, 0, 1)": False,
    "return round(1250, -2), round(1350, -2), round(-5, -1), round(15, -1), round(7, 3), round(5, -20), round(2.567, 2)": False,
    "return divmod(7, 2), divmod(-7, 2), divmod(7.5, 2.0)": True,
    "return sum((1, 2, 3)), (1, 2, 3)[::-1], (1, 2, 3, 4)[3:0:-2], tuple((1, 2))": True,
    "return sum([[1], [2]], [0]), sum([1, 2], 0.5), sum([1.5], 1), any((True, False)), all((1, 0)), (1, 2) * 2, 2 * (1,), (0,) * 0": False,
    "return math.frexp(-0.3), abs(math.erfc(0.5) - 0.4795001221869535) < 1e-15, math.remainder(-7.0, 2.0), math.remainder(5.5, 1.0)": True,
    "return math.perm(4), math.dist([0.0, 1.0], [3.0, 5.0]), math.frexp(0.0)": False,
}


@pytest.mark.parametrize("form", COMPARED)
def test_what_has_parts_is_compared(form, tmp_path):
    same_as_python(VALUES, form, tmp_path, COMPARED[form], lambda m: (m.tensor([1.0, 2.0]), [[1], [2, 3]], (1, "a"), {"a": [1]}, 3, None))


@pytest.mark.parametrize("text, base", [("", 10), ("12", 2), ("0x", 16), ("1__2", 10), ("_1", 10), ("1_", 10), ("09", 0), ("0_0", 0), ("1", 1), ("1", 37), ("--1", 10), ("+7", 8), ("0b1", 16),
                                        ("0B1", 2), ("0b1", 0), ("é", 36), ("1 2", 10)])
def test_ints_of_all_bases(text, base, tmp_path):
    of = functions("def f(text: str, base: int):\n    return int(text, base)\n", tmp_path, td).f
    program = td.jit.script(of)

    def outcome(function, error):
        try:
            return function(text, base)
        except error as e:
            return str(e).splitlines()[0].removeprefix("program(): ValueError: ")

    assert outcome(program, td.Error) == outcome(of, ValueError)


# ---- types of which a value has one

KINDS = """
def g(a: Union[int, str, List[int]]):
    if isinstance(a, int):
        return a + 1
    elif isinstance(a, str):
        return len(a)
    return a[0]

def h(a: "Union[int, str]", b: "Optional[int]" = None) -> "Union[int, str]":
    if td.jit.isinstance(a, int):
        return a + 1
    return a + "!"

def f(x, n: List[int], t: Tuple[int, str], d: Dict[str, int], maybe: Optional[int], none: Optional[List[int]]):
%s
"""

OF_KINDS = {  # False: not in PyTorch's TorchScript
    "return g(1), g('abc'), g([7, 8]), g(n)": True,
    "return h(1), h('a')": False,
    "return td.jit.isinstance(n, List[int]), td.jit.isinstance(n, List[str]), td.jit.isinstance(t, Tuple[int, str]), td.jit.isinstance(d, Dict[str, int])": True,
    "return td.jit.isinstance(n, (List[int], List[str])), td.jit.isinstance(maybe, Optional[int]), td.jit.isinstance(x, td.Tensor)": True,
    "return isinstance(n, list), isinstance(t, (list, tuple)), isinstance(x, (int, td.Tensor)), isinstance(maybe, (int, str))": True,
    "return isinstance(2.5, int | float), isinstance(d, (int, dict)), td.jit.isinstance(n, List[int] | None), td.jit.isinstance(none, Optional[List[int]])": False,
    "if td.jit.isinstance(none, List[int]):\n    return none[0]\nreturn -1": True,
    "if not isinstance(maybe, int):\n    return 0\nreturn maybe + 1": True,
    "y: Union[int, float] = 1\nz: Union[int, None] = 1\nw: 'Optional[int]' = None\nreturn y, z, w": True,
    "a: Any = 1\nreturn isinstance(a, int)": True,
    "return td.jit._unwrap_optional(maybe) + 1": True,
    "a: List[float] = x.tolist()\nb: List[List[int]] = td.tensor([[1, 2], [3, 4]]).tolist()\nc: List[bool] = (x > 1).tolist()\nreturn a, b, c": True,
    "return td.jit.annotate(List[List[List[float]]], x.reshape(1, 2, 1).tolist())": False,
}


@pytest.mark.parametrize("form", OF_KINDS)
def test_types_of_which_a_value_has_one(form, tmp_path):
    same_as_python("from typing import Any, Union\n" + KINDS, form, tmp_path, OF_KINDS[form], lambda m: (m.tensor([1.0, 2.0]), [1, 2], (1, "a"), {"a": 1}, 3, None))


def test_instances_as_python_sees_them():
    kinds = typing.List[int], typing.Dict[str, int], typing.Tuple[int, str], typing.Optional[int], int | str, (int, typing.List[str]), int, td.Tensor, typing.List[typing.List[int]]
    values = [1, "a", None, [1], ["a"], [[1]], {"a": 1}, (1, "a"), (1, 2), td.ones(1), 2.5]
    held = [[td.jit.isinstance(v, kind) for v in values] for kind in kinds]
    assert [sum(row) for row in held] == [1, 1, 1, 2, 2, 2, 1, 1, 1] and held[3][:3] == [True, False, True]
    with pytest.raises(RuntimeError, match="says of what"):
        td.jit.isinstance([1], list)

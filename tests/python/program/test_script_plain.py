"""Plain Python in programs: what texts, lists, dicts and numbers do there is what they do as they stand."""
import copy
import linecache
import math
import random
import unicodedata
from typing import Dict, List, Optional, Tuple

import pytest

import tensord as td

# An expression, or statements, of a and b: the annotations, the source, then one tuple of arguments on each line.
EXPRESSIONS = '''
a: str, b: str | min(a, b), max(a, b), min(a, b, "m"), min([a, b]), max([b, a, "q"])
("b", "a")
("", "Ä")
a: str | a.title(), a.capitalize(), a.swapcase(), a.istitle(), a.islower(), a.isupper(), a.isspace(), a.isascii(), a.upper(), a.lower()
("hello wORLD it's 3rd",)
("Hello World",)
("ABC 1",)
("  ",)
("",)
a: str | a.isdigit(), a.isalpha(), a.isalnum(), a.isdecimal(), a.isnumeric(), a.isidentifier(), a.isprintable(), a.casefold()
("hello",)
("12",)
("a_1",)
("1a",)
("",)
("a b!",)
("\\n",)
a: str | a.center(10), a.ljust(10), a.rjust(10), a.zfill(10), a.center(11, "*"), a.center(7, "-"), a.ljust(10, "-"), a.rjust(3, "x")
("abcd",)
("-12",)
("+",)
("",)
("äöü",)
a: str | a.lstrip(), a.rstrip(), a.strip(), a.strip("xy "), a.lstrip("x "), a.rstrip("y "), a.removeprefix("x"), a.removesuffix("y ")
("  xabcdy ",)
("xy",)
("",)
("\\t\\na\\x1f",)
a: str, b: str | a.rfind(b), a.find(b), a.find(b, 2), a.find(b, 0, 1), a.rfind(b, -3), a.count(b), a.count(b, 1), a.count(b, -2, 9), a.find(b, 7), a.rfind(b, 4, 2)
("abcb", "b")
("aaaa", "aa")
("abc", "")
("", "")
("äöä", "ä")
a: str, b: str | a.partition(b), a.rpartition(b), a.split(b), a.rsplit(b, 1), a.split(b, 1), a.split(b, maxsplit=2), a.rsplit(b, 0), a.replace(b, "+", 1)
("a-b-c", "-")
("abc", "--")
("--a----b--", "--")
a: str | a.split(), a.split(None, 1), a.rsplit(None, 1), a.split(maxsplit=0), a.splitlines(), a.splitlines(True), a.split("\\n")
(" a b  c\\nd\\r\\ne",)
("",)
("\\n\\n",)
("a\\r\\rb\\x85\\u2028",)
a: str | a.expandtabs(), a.expandtabs(3), a.replace("b", "c"), a.replace("", "-"), a.replace("", "-", 2), a.replace("b", "", 1), a.replace("", "x", 0)
("a\\tbb",)
("",)
("ä\\n\\tö\\t",)
a: str | a.startswith("b", 1), a.endswith("a", 0, 1), a.startswith(("x", "a")), a.endswith(("x", "y")), a.startswith("", 5), a.endswith("b", -1)
("ab",)
("",)
a: str | list(a), sorted(a), list(reversed(a)), [c for c in a], {c: ord(c) for c in a}
("hällo",)
("",)
a: List[int] | any(x > 2 for x in a), all(x > 0 for x in a), sum(x * x for x in a), any([x > 2 for x in a]), any(a), all(a), list(reversed(a)), sorted(x % 3 for x in a)
([3, 1, 2],)
([],)
([0, 0],)
a: int, b: int | list(range(a)), list(range(a, b, -2)), range(b)[-1], sum(range(a)), [x for x in reversed(range(b))], sorted(range(b, 0, -1))
(3, 5)
(0, 1)
a: List[int], b: List[str] | list(zip(a, b)), list(enumerate(b)), list(enumerate(b, 3)), dict(zip(b, a)), {k: v for v, k in zip(a, b) if v > 1}
([3, 1, 2], ["a", "b", "c"])
([3, 1], ["x"])
a: List[bool], b: List[float] | a.index(True), a.count(True), a.count(False), b.index(2.0), b.count(0.5), max(b), min(b)
([False, True], [0.5, 2.0])
a: Dict[str, int] | a.setdefault("x", 3), a.setdefault("k", 3), a.pop("k"), a.pop("q", 5), a.popitem(), a, list(a), sorted(a), str(a)
({"k": 1, "m": 2},)
a: Dict[int, float] | {k: v + 1 for k, v in a.items()}, dict(a), 1 if a else 0, not a, dict([(1, 2)]), f"{a}"
({1: 0.5, 3: 2.0},)
({},)
a: Tuple[int, str, float] | a[0:2], a[1:], a[:-1], a[-2:], a[5:], a[2:1], a[:], not a
((3, "q", 1.5),)
a: int, b: int | divmod(a, b), divmod(a + 0.5, b), hex(a), oct(a), bin(a), math.perm(5, 2), math.comb(7, b), math.lcm(a, b), math.isqrt(1000 + a)
(7, 2)
(-7, 3)
(0, 5)
a: float, b: float | round(a, 1), round(a, 2), round(a, -1), round(b, 0), math.log(abs(b) + 2, 2), math.isclose(a, b), math.isclose(a, a + 1e-12), math.trunc(a), math.modf(a), math.ldexp(a, 3), b.is_integer()
(2.675, 3.0)
(-15.0, 0.125)
(1e15, -1e-7)
a: complex | a.conjugate(), a.real, abs(a)
(1 + 2j,)
a: List[int] | math.prod(a), td.jit.annotate(List[int], []), td.jit.annotate(Optional[int], None), td.jit.annotate(Dict[str, int], {})
([2, 3, 4],)
([],)
'''

STATEMENTS = '''
a: List[int], b: List[int]
    a.remove(2)
    return a
([1, 2, 3, 2], [])
a: List[str], b: int
    a.remove("x")
    del a[b]
    del a[-1], a[0]
    return a
(["p", "y", "x", "q", "r"], 1)
a: List[int], b: int
    del a[b:3]
    del a[::2]
    return a
([1, 2, 3, 4, 5, 6, 7], 1)
([1, 2, 3, 4, 5, 6, 7], -2)
([1, 2, 3, 4, 5, 6, 7], 5)
([], 0)
a: Dict[str, int], b: str
    del a[b]
    return a
({"k": 1, "m": 2}, "k")
a: List[int], b: List[int]
    a[1:2] = b
    a[:0] = [7, 8]
    a[5:2] = [9]
    a[-1:] = (4, 5)
    a[::2] = [0 for k in a[::2]]
    a[len(a):] = a
    return a
([1, 2, 3], [])
([1, 2, 3], [4, 5, 6, 7])
([], [1])
a: List[int], b: Tuple[int, float, float]
    x, *y = a
    *p, q = a
    i, *j, k = a + [7]
    u, *v = b
    *w, z = 1, 2, 3
    (m, n), *o = (1, 2), 3, 4
    for g, *h in [a, a]:
        n += len(h)
    return x, y, p, q, i, j, k, u, len(w), z, m, n, o
([1, 2, 3], (1, 1.5, 0.5))
([1], (1, 1.5, 0.5))
a: List[int], b: int
    out, names = [], []
    for x in a:
        out += [x * b]
        names = names + [str(x)]
    while b > 0:
        out = [b] + out
        b -= 1
    return out, names
([1, 2], 3)
a: int, b: int
    d: Dict[int, List[int]] = {}
    e: Dict[str, int] = dict()
    xs: List[List[int]] = list()
    for i in range(a):
        k = i % b
        if k not in d:
            d[k] = []
        d[k].append(i)
        xs.append([])
        e[str(i)] = i
    return d, e, xs
(5, 2)
(0, 1)
a: List[int], b: int
    y = a[0]
    del y
    x = 0
    for k in list(a):
        y = k * b
        x = y + 1
        del y
        a.append(x) if len(a) < 10 else None
    return x
([1, 2], 3)
'''


def cases():
    for text in EXPRESSIONS, STATEMENTS:
        source = ""
        for line in text.strip().split("\n"):
            if line.startswith("("):
                yield pytest.param(source, line, id=f"{source.split('(a', 1)[-1].strip()[:70]} {line}")
            elif line.startswith(" "):
                source += line + "\n"
            else:
                names, _, value = line.partition(" | ")
                source = f"def f({names}):\n" + (f"    return {value}\n" if value else "")


def made(source):
    name = f"<plain {abs(hash(source))}>"
    linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    names = {"td": td, "math": math, "List": List, "Dict": Dict, "Tuple": Tuple, "Optional": Optional}
    exec(compile(source, name, "exec"), names)
    return names["f"]


def exactly(x):
    return [type(x).__name__, *map(exactly, x.items() if isinstance(x, dict) else x)] if isinstance(x, (list, tuple, dict)) else (type(x).__name__, repr(x))


@pytest.mark.parametrize("source, arguments", cases())
def test_the_same(source, arguments):
    f = made(source)
    arguments = eval(arguments)
    assert exactly(td.jit.script(f)(*copy.deepcopy(arguments))) == exactly(f(*copy.deepcopy(arguments)))


def made_tensors(xs: List[float], ys: List[List[int]], zs: List[bool], n: int, ab: Tuple[int, int]):
    empty: List[float] = []
    some = [] if n > 1 else [n, 2]
    return (td.tensor(xs), td.tensor(ys), td.tensor(zs), td.tensor(xs, dtype=td.float64), td.tensor(empty), td.tensor(ab), td.tensor(n), td.as_tensor(ys), some, some + [],
            td.tensor(td.tensor(xs)), td.tensor([complex(1, 2)]))


def test_tensors_of_lists():
    for arguments in ([0.5, 2.0], [[1, 2], [3, 4]], [True, False], 3, (1, 2)), ([], [[5]], [False], 1, (0, 0)):
        got, want = td.jit.script(made_tensors)(*arguments), made_tensors(*arguments)
        assert [repr(x) for x in got] == [repr(x) for x in want]


def test_a_tuple_for_a_list():
    program = td.jit.script(made("def f(x, shape: List[int], more: Optional[List[int]] = None):\n    return x.reshape(shape), shape, more\n"))
    y, shape, more = program(td.ones(6), td.zeros(2, 3).shape, (1, 2))
    assert y.shape == (2, 3) and shape == [2, 3] and more == [1, 2] and program(td.ones(6), [6])[2] is None
    with pytest.raises(td.Error):
        program(td.ones(6), (2, "x"))


def test_rounded():
    program = td.jit.script(made("def f(a: float, n: int):\n    return round(a, n)\n"))
    draw = random.Random(1)
    for _ in range(2000):
        x = draw.choice([draw.uniform(-1, 1), draw.randint(-200, 200) / 8, draw.randint(-999, 999) * 5.0]) * 10.0 ** draw.randint(-5, 5)
        n = draw.randint(-6, 12)
        assert repr(program(x, n)) == repr(round(x, n)), (x, n)
    for x in 0.0, -0.0, math.inf, 5e-324, 1.7e308, 0.5, 1.5, 2.5:
        for n in -309, -308, -1, 0, 1, 323, 324, 400:
            want = round(x, n) if not (x > 1e308 and n == -308) else None
            assert want is None or repr(program(x, n)) == repr(want), (x, n)


@pytest.mark.parametrize("source, arguments, text", [
    ("def f(a: List[int]):\n    a.remove(9)\n    return a\n", ([1],), "the value is not in the list"),
    ("def f(a: List[bool]):\n    return a.index(True)\n", ([False],), "the value is not in the list"),
    ("def f(a: List[int]):\n    del a[3]\n    return a\n", ([1],), "out of range"),
    ("def f(a: List[int]):\n    a[::2] = [1]\n    return a\n", ([1, 2, 3],), "attempt to assign sequence of size 1 to extended slice of size 2"),
    ("def f(a: Dict[str, int]):\n    del a['x']\n    return a\n", ({"k": 1},), "KeyError"),
    ("def f(a: Dict[str, int]):\n    return a.popitem()\n", ({},), "dictionary is empty"),
    ("def f(a: str):\n    return a.index('x')\n", ("abc",), "substring not found"),
    ("def f(a: str):\n    return a.isalpha()\n", ("aé",), "isalpha.. of a program knows ASCII only, and not 'é'"),
    ("def f(a: str):\n    return a.center(5, 'ab')\n", ("a",), "exactly one character"),
    ("def f(a: List[str]):\n    return min(a)\n", ([],), "empty")])
def test_what_fails(source, arguments, text):
    with pytest.raises(td.Error, match=text):
        td.jit.script(made(source))(*arguments)


def test_letters():
    """Each that the Unicode of this Python and ours (14) both have; sigmas by their place."""
    large, small = td.jit.script(made("def f(a: str):\n    return a.upper()\n")), td.jit.script(made("def f(a: str):\n    return a.lower()\n"))
    known = [chr(c) for c in range(1, 0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")] if unicodedata.unidata_version <= "14" else \
        [chr(c) for c in range(1, 0x2c00)]
    for k in range(0, len(known), 2000):
        text = " ".join(known[k:k + 2000])
        assert large(text) == text.upper() and small(text) == text.lower()
    for text in "ΑΣ ΑΣ'Α Σ ΣΑ Α.Σ ΑΣ. ΑΣ\u0301 ςΣΣ", "Straße ŉ İstanbul ǅ ﬃ", "İΣ AΣİ ﬁΣ", "ÄΣß" * 9000, "aΣ" + "\u0301" * 20000, "Σ'" * 15000:
        assert large(text) == text.upper() and small(text) == text.lower()
    title = made("def f(a: str):\n    return a.title(), a.capitalize(), a.swapcase(), a.islower(), a.isupper(), a.istitle()\n")
    for text in "élan VITAL, ñandú 2ème", "ЖУК жук", "Ünï":
        assert td.jit.script(title)(text) == title(text)
    with pytest.raises(td.Error, match="a program does not know how 'ǆ' begins a title"):
        td.jit.script(title)("ǆ")


def test_as_many_tensors_as_an_op_takes():
    joined = td.jit.script(made("def f(x, n: int):\n    parts = [x]\n    for _ in range(n - 1):\n        parts.append(x)\n    return td.cat(parts)\n"))
    assert joined(td.ones(1), 1024).shape == (1024,)
    with pytest.raises(td.InvalidError, match="cat takes at most 1024 tensors"):
        assert joined(td.ones(1), 1025).shape


def test_words_of_long_texts():
    """In steps, which end in the midst of words and between them."""
    split = td.jit.script(made("def f(a: str):\n    return a.split()\n"))
    rng = random.Random(5)
    for text in "é" * 30000, "x" * 60000, " é\u2009" * 9000, "\u3000" * 20000, *("".join(rng.choice("aé \u2003\x85\u1680漢\u00a0") for _ in range(n)) for n in (1, 9, 5000, 20000)):
        assert split(text) == text.split()

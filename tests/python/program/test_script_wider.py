"""What TorchScript takes of names, types and calls from outside: a source as a program of ours, as one of PyTorch's (where that is there), and as
Python runs it. The last are one by one what a program of ours does that PyTorch's does not say."""
import enum

import pytest
import tensord as td
from common import imported
from tensord.program import _scripted

try:
    import torch
except ImportError:
    torch = None
if torch is not None and int(torch.__version__.split(".")[0]) < 2:  # which takes less
    torch = None

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated")
HEAD = """import collections, enum, math, warnings
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union
import {0} as td
from {0} import Tensor, jit, nn
from {0}.nn import functional as F
"""


def functions(source, place, module):
    path = place / f"of_{module.__name__}_{len(list(place.iterdir()))}.py"
    return imported(path, HEAD.format(module.__name__) + source)


def plain(x):
    if td.is_tensor(x) or torch is not None and isinstance(x, torch.Tensor):
        return [list(x.shape), str(x.dtype).split(".")[-1], x.tolist()]
    if isinstance(x, (list, tuple)):
        return [type(x).__name__ if type(x).__name__ != "Size" else "list", [plain(y) for y in x]]
    return {k: plain(v) for k, v in x.items()} if isinstance(x, dict) else x


SOURCES = {  # a source with f; calls of it
    "a tuple of tensors whose type lets one be none": ("class Out(NamedTuple):\n    y: Tensor\n    aux: Optional[Tensor]\n    both: Optional[Tuple[Tensor, Optional[Tensor]]]\n\ndef f(x):\n    return Out(x, x * 2, (x, x * 3))",
                                                       ["td.ones(2)"]),
    "a union": ("def f(x: Union[int, str, Tensor, List[int]]):\n    if isinstance(x, int):\n        return x + 1\n    if isinstance(x, str):\n        return len(x)\n    if isinstance(x, Tensor):\n        return int(x.sum())\n    return x[-1]",
                ["3", "'ab'", "td.ones(4)", "[5, 6]"]),
    "ints and floats of a union": ("def f(x: Union[int, float]):\n    if isinstance(x, int):\n        return 'int'\n    return 'float'", ["1", "1.5"]),
    "none of a union": ("def f(x: Optional[Union[int, List[int]]] = None):\n    if x is None:\n        return -1\n    if isinstance(x, int):\n        return x\n    return len(x)", ["", "None", "4", "[1, 2]"]),
    "bars": ("def f(x: int | str, y: int | None = None):\n    return len(x) if isinstance(x, str) else x + (y if y is not None else 0)", ["1", "'abc'", "1, 2", "x=1, y=2"]),
    "anything": ("def f(x: Any) -> int:\n    if isinstance(x, int):\n        return x\n    if jit.isinstance(x, List[str]):\n        return len(x[0])\n    return -1", ["1", "['abc']", "2.5", "td.ones(2)", "None"]),
    "lists of a union": ("def f(x: List[Union[int, str]], y: Dict[str, Union[int, Tensor]]) -> int:\n    n = 0\n    for z in x:\n        if isinstance(z, int):\n            n += z\n        else:\n            n += 100\n    return n + len(y)",
                         ["[1, 2], {'a': 3}", "['a'], {'b': td.ones(1)}", "[], {}"]),
    "a method": ("class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.k = 2\n\n    def forward(self, x: Union[Tensor, List[Tensor]], n: int = 1) -> Tensor:\n        if isinstance(x, Tensor):\n            xs = [x]\n        else:\n            xs = x\n        return td.cat(xs, 0) * self.k * n\n\nf = M()",
                 ["td.ones(2)", "[td.ones(1), td.zeros(2)]", "td.ones(2), 3"]),
    "a call of one": ("def g(x: Union[Tensor, List[Tensor]]):\n    return td.cat([x] if isinstance(x, Tensor) else x, 0)\n\ndef f(x):\n    return g(x) + g([x[:1], x[1:]])", ["td.arange(4.)"]),
    "names of types": ("Ints = List[int]\nState = Tuple[Ints, Tensor]\ndef g(s: State) -> Ints:\n    return s[0]\n\ndef f(x, n: Ints, m: Optional[Ints] = None) -> State:\n    s: State = (n + [1], x)\n    return g(s) + (m if m is not None else n), x", ["td.ones(1), [2]", "td.ones(1), [2], [3]"]),
    "types in comments": ("def f(x,  # type: Tensor\n      n=2,  # type: int\n      o=None,  # type: Optional[Tensor]\n      ):\n    # type: (...) -> Tensor\n    return x * n + o if o is not None else x * n", ["td.ones(1)", "td.ones(1), 3, td.ones(1)"]),
    "another type by one name": ("def f(x: Dict[str, Tensor]) -> List[Tensor]:\n    names = list(x.keys())\n    x = list(x.values())\n    return x[len(names) - 1:]", ["{'a': td.ones(1), 'b': td.zeros(1)}"]),
    "dicts of tensors": ("def f(x):\n    d = {}\n    d['a'] = x\n    e = dict()\n    e['b'] = x + 1\n    return d, e", ["td.ones(1)"]),
    "ordered dicts": ("from collections import OrderedDict\ndef f(x):\n    d = OrderedDict()\n    d['b'] = x\n    d['a'] = x + 1\n    return list(d.keys()), list(d.values())", ["td.ones(1)"]),
    "devices": ("def f(x, d: td.device):\n    y = td.zeros(2, device='cpu') + td.ones(2, device=d)\n    return x.to('cpu') + y.to(td.device('cpu')), x.device == td.device('cpu'), x.to(d).device == d, d.type", ["td.ones(2), td.device('cpu')"]),
    "what is made": ("def f(x, n: List[int]):\n    a = td.empty(n, dtype=x.dtype, device=x.device).fill_(2)\n    return a, td.full_like(x, 3, dtype=td.int64, device=x.device), x.new_empty(0), x.new_empty([0], dtype=td.int32), td.empty([0], device='cpu')", ["td.ones(2), [2, 1]"]),
    "bounds that are tensors": ("def f(x, lo, hi):\n    return td.clamp(x, lo, hi), td.clamp(x, max=hi), x.clamp(lo), td.clamp(x, min=lo, max=hi), x.clip(max=hi), x.clamp(0.5, 1.5)", ["td.arange(4.), td.tensor(1.), td.arange(4.) / 2", "td.arange(4).double(), td.ones(2, 1), td.tensor(2.)"]),
    "bounds that may be none": ("def f(x, lo: Optional[float], hi: Optional[float]):\n    return td.clamp(x, lo, hi)", ["td.arange(4.), None, 2.", "td.arange(4.), 1., None", "td.arange(4.), 1., 2."]),
    "where is it": ("def f(x):\n    a = td.where(x > 1)\n    return a[0], a[1], td.where(x > 1, x, -x)", ["td.arange(6.).reshape(2, 3)"]),
    "places": ("def f(x, i):\n    return x.nonzero(), td.nonzero(x), F.one_hot(i), F.one_hot(i, num_classes=4), x.scatter_reduce(0, i, x, 'sum'), x.scatter_reduce(0, i, x, reduce='amax', include_self=False)", ["td.arange(3.), td.tensor([0, 2, 1])"]),
    "results in what is there": ("def f(x):\n    y = td.empty(2, 2)\n    td.add(x, x, out=y)\n    z = td.empty(4, 2)\n    td.cat([x, y], out=z)\n    return y, z", ["td.ones(2, 2)"]),
    "draws": ("def f(x):\n    y = td.empty(2, 3)\n    y.normal_(0.0, 0.0)\n    z = td.zeros(2).uniform_(1.0, 1.0)\n    n = td.zeros(64).random_(2, 4)\n    return y, z, n.min() >= 2, n.max() < 4, td.empty(9).exponential_(2.0).min() >= 0, td.ones(3).bernoulli_(0.0), td.zeros(3).bernoulli_(1.0)", ["td.ones(1)"]),
    "divisions": ("def f(x, y):\n    return td.div(x, y, rounding_mode='floor'), td.div(x, y, rounding_mode='trunc'), x.div(y, rounding_mode='trunc'), x.div(y)", ["td.tensor([-7., 7.]), td.tensor([2., -2.])"]),
    "spectra": ("def f(x, w):\n    y = td.stft(x, 4, hop_length=2, window=w, center=True, pad_mode='reflect', return_complex=True)\n    return y.abs().sum() > 0, td.stft(x, 4, window=w, return_complex=True)[1:].abs().sum() >= 0", ["td.arange(8.), td.ones(4)"]),
    "padded sequences": ("def f(x: List[Tensor]):\n    return nn.utils.rnn.pad_sequence(x, batch_first=True, padding_value=0.5), nn.utils.rnn.pad_sequence(x)", ["[td.ones(2, 2), td.zeros(3, 2)]", "[td.ones(1)]"]),
    "attributes": ("def f(x):\n    return x.is_cuda, x.is_sparse, x.is_quantized, x.element_size(), x.itemsize, x.nbytes, x.T, x.H", ["td.ones(2, 3)", "td.ones(2, 2, dtype=td.int16)"]),
    "names of parts": ("def f(x):\n    y = jit.annotate(List[Tensor], [])\n    y.append(x)\n    return F.relu(td.stack(y)), nn.functional.elu(x)", ["td.ones(2)"]),
    "forks": ("def g(x, n: int = 1):\n    return x * n\n\ndef f(x):\n    futures: List[jit.Future[Tensor]] = []\n    for i in range(3):\n        futures.append(jit.fork(g, x, i))\n    one = jit.fork(g, x, n=5)\n    return td.stack([jit.wait(h) for h in futures]) + one.wait()", ["td.ones(2)"]),
    "overloads": ("@jit._overload\ndef g(x: int) -> int: ...\n@jit._overload\ndef g(x: Tensor) -> Tensor: ...\ndef g(x):\n    return x + 1\n\ndef f(x):\n    return g(x), g(3)", ["td.ones(1)"]),
    "checks": ("def f(x):\n    td._assert(x.dim() == 1, f'it has {x.dim()}')\n    return x + 1", ["td.ones(1)"]),
    "unused functions": ("class M(nn.Module):\n    @jit.unused\n    def more(self, x):\n        try:\n            return list(map(lambda z: z, [x]))[0]\n        finally:\n            pass\n\n    def forward(self, x, on: bool):\n        if on:\n            return self.more(x)\n        return x + 1\n\nf = M()", ["td.ones(1), False"]),
    "functions in attributes": ("def g(x):\n    return x * 3\n\nclass M(nn.Module):\n    def __init__(self, act=F.relu):\n        super().__init__()\n        self.g, self.act = g, act\n\n    def forward(self, x):\n        return self.g(x) + self.act(x)\n\nf = M()", ["td.ones(2)"]),
    "classes": ("class Sizes:\n    scale = 2\n\n    def __init__(self, x: Tensor, sizes: List[int], by: float = 1.5) -> None:\n        self.x = x\n        self.sizes = sizes\n        self.by: float = by * 2\n        self.k = -1\n        if by > 2.0:\n            self.k = 4\n\n    def scaled(self, k: int) -> Tensor:\n        return self.x * self.by * k + self.sizes[0]\n\n    def push(self, n: int):\n        self.sizes.append(n + self.k)\n        return self\n\n    def __call__(self, y: Tensor) -> Tensor:\n        return self.scaled(3) + y\n\n    def __len__(self) -> int:\n        return len(self.sizes) + 7\n\ndef make(x: Tensor, n: int):\n    return Sizes(x, [n])\n\ndef total(s: Sizes) -> int:\n    return sum(s.sizes)\n\ndef f(x, n: int):\n    s = make(x, n)\n    s.push(n).push(5)\n    both = [s, Sizes(x, [1], by=2.5)]\n    return s(x), s.sizes, len(s), total(s), both[1].scaled(2), both[1].k, len(both), s.scale if False else 2",
                ["td.ones(2), 3", "td.zeros(1), 4"]),
    "objects in attributes": ("class Coder:\n    def __init__(self, weights: Tuple[float, float], clip: float = 2.0) -> None:\n        self.weights = weights\n        self.clip = clip\n\n    def scaled(self, x: Tensor) -> Tensor:\n        a, b = self.weights\n        return td.clamp(x * a / b, max=self.clip)\n\n    def __call__(self, x: Tensor) -> Tensor:\n        return self.scaled(x) + 1\n\nclass M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.coder = Coder((3.0, 2.0))\n\n    def forward(self, x):\n        return self.coder(x), self.coder.scaled(x), self.coder.clip\n\nf = M()",
                              ["td.arange(3.)"]),
    "lines of a profile": ("def f(x):\n    with td.autograd.profiler.record_function('a'):\n        y = x + 1\n    return y", ["td.ones(1)"]),
    "how it lies": ("def f(x):\n    y = x.contiguous(memory_format=td.channels_last)\n    return [list(s) for s in [y.stride(), x.to(memory_format=td.channels_last).stride(), x.clone(memory_format=td.channels_last).stride(), y.clone().stride(), y.to(td.float64).stride(), y.float().stride(), y.contiguous().stride(), y.clone(memory_format=td.contiguous_format).stride(), y.contiguous(memory_format=td.contiguous_format).stride(), y.clone(memory_format=td.preserve_format).stride(), y.double().stride(), x.double().stride()]], y, y.is_contiguous(memory_format=td.channels_last), x.is_contiguous(memory_format=td.channels_last), y.to(td.int64)",
                    ["td.arange(120.).reshape(2, 3, 4, 5)"]),
}


NO_PYTHON = {"forks", "lines of a profile", "attributes"}  # what the package has not got outside of programs


def called(module, call):
    return eval(f"f({call})", vars(module))


@pytest.mark.parametrize("name", SOURCES)
def test_as_pytorch_and_python(name, tmp_path):
    source, calls = SOURCES[name]
    for call in calls:
        want = None
        for module in (torch, td):
            if module is None:
                continue
            one = functions(source, tmp_path, module)
            as_python = plain(called(one, call)) if name not in NO_PYTHON else None
            one.f = module.jit.script(one.f)
            got = plain(called(one, call))
            want = got if want is None else want
            assert got == want
            assert as_python is None or got == as_python


@pytest.mark.skipif(torch is None, reason="PyTorch 2 is not installed")
@pytest.mark.parametrize("body", ["if x:\n        return 1\n    return 2", "if not x:\n        return 1\n    return 2", "return not x", "return x or y", "return 1 if x else 2",
                                  "assert x\n    return 1", "while x:\n        x = None\n    return 1", "return x and y"])
@pytest.mark.parametrize("kind", ["int", "bool", "str", "List[int]", "Tensor"])
def test_what_may_be_none_is_neither_true_nor_false(body, kind, tmp_path):
    for module in (torch, td):
        one = functions(f"def f(x: Optional[{kind}], y: {kind}):\n    {body}\n", tmp_path, module)
        with pytest.raises((RuntimeError, td.Error), match="Could not cast value of type Optional|this may be None; test 'is not None'"):
            module.jit.script(one.f)


def test_programs_for_several_types(tmp_path, monkeypatch):
    compiled, compile_one = [], _scripted.World.compile
    monkeypatch.setattr(_scripted.World, "compile", lambda world, entry: compiled.append(entry) or compile_one(world, entry))
    one = functions("def f(x: Union[int, List[int], Tensor]):\n    return x * 2\n", tmp_path, td)
    program = td.jit.script(one.f)
    for _ in range(3):  # types that come again have their program
        assert program(2) == 4 and program([1]) == [1, 1] and program(td.ones(1)).tolist() == [2]
    assert program(3) == 6 and len(compiled) == 3
    with pytest.raises(td.DTypeError, match=r"the argument 'x' is int, List\[int\] or Tensor, and a str is given"):
        program("a")
    with pytest.raises(td.DTypeError, match=r"the argument 'x' is int, .* and a list of several types, or of none of these is given"):
        program([1, "a"])
    program(7)
    program.save(str(tmp_path / "ints.td"))  # for the types that it was called with
    assert td.jit.load(str(tmp_path / "ints.td"))(5) == 10
    for k in range(200):
        assert program([k] * (k % 2)) == [k, k] * (k % 2)
    bad = functions("def f(x: Union[int, str]):\n    return x - 1\n", tmp_path, td)
    program = td.jit.script(bad.f)
    assert program(2) == 1
    with pytest.raises(td.Error, match="line|:"):
        program("a")
    assert program(3) == 2


class Pair:
    def __init__(self, a: int, x):
        self.a, self.b = a, a + 1
        self.x = x


class Kept:
    def __init__(self, x, n: int):
        self.x = x
        self.n = n


class Odd(Kept):
    pass


def test_objects_of_classes_outside():
    @td.jit.script
    def f(x):
        return Kept(x + 1, 3), [Kept(x, 1)]

    assert td.jit.script(Kept) is Kept
    one, (other,) = f(td.ones(1))
    assert type(one) is Kept and (one.x.tolist(), one.n, other.x.tolist(), other.n) == ([2], 3, [1], 1)
    with pytest.raises(td.Unsupported, match="the type of '[ab]' of the class Pair is not known: say it in __init__"):
        @td.jit.script
        def g(x):
            return Pair(1, x).a

    with pytest.raises(td.Error, match="attributes of modules"):
        @td.jit.script
        def h(x):
            k = Kept(x, 1)
            k.n = 2
            return k.n


def test_unused_functions_that_are_called(tmp_path):
    source, _ = SOURCES["unused functions"]
    program = td.jit.script(functions(source, tmp_path, td).f)
    with pytest.raises(RuntimeError, match="'more' is unused in programs"):
        program(td.ones(1), True).tolist()


def test_results_of_another_shape_than_there_is(tmp_path):
    program = td.jit.script(functions("def f(x, y):\n    td.add(x, x, out=y)\n    return y\n", tmp_path, td).f)
    with pytest.raises(RuntimeError, match=r"out= of a program is of the shape of the result, \[3\], not \[2\]"):
        program(td.ones(3), td.ones(2)).tolist()


def test_warnings_are_told(tmp_path, capsys):
    source = "def f(x):\n    if x.sum() > 0:\n        warnings.warn(f'it has {x.numel()}')\n        warnings.warn('old', DeprecationWarning)\n    return x\n"
    program = td.jit.script(functions(source, tmp_path, td).f)
    program(td.ones(2)).tolist()
    assert capsys.readouterr().out == "UserWarning: it has 2\nDeprecationWarning: old\n"
    program(-td.ones(2)).tolist()
    assert capsys.readouterr().out == ""


class Sizes(enum.Enum):
    SMALL, LARGE = 2, 3


class Scales:
    most = 4.0

    @staticmethod
    def by(x, k: int):
        return x * k


def test_what_classes_and_modules_have():
    @td.jit.script
    def f(x):
        return Scales.by(x, Sizes.LARGE.value) + Scales.most, Sizes.SMALL.name

    assert f(td.ones(1))[0].tolist() == [7] and f(td.ones(1))[1] == "SMALL"


def test_gradients_of_what_lies_channels_last():
    @td.jit.script
    def f(x):
        return (x.clone() * x.to(td.float32)).double().contiguous(memory_format=td.channels_last)

    x = td.randn(2, 3, 4, 5, dtype=td.float64).contiguous(memory_format=td.channels_last).requires_grad_()
    y = f(x)
    assert y.stride() == (60, 1, 15, 3)
    y.sum().backward()
    assert td.allclose(x.grad, 2 * x.detach(), rtol=1e-5)

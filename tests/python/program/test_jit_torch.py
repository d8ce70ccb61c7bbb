"""Programs as archives of TorchScript: what save() writes as .pt opens in torch.jit.load() (where PyTorch is there) and in the reader of archives here,
from its code alone, and gives the same numbers; what torch.jit.save() makes of it is read again. Each op that has a name in ATen, by its worked examples."""
import math
import pathlib
import sys
import warnings
import zipfile
from typing import Optional

import pytest
import tensord as td
from tensord import nn

from test_torchscript import near

ROOT = next((p for p in pathlib.Path(__file__).parents if (p / "proto" / "ops").is_dir()), None)


@pytest.fixture(autouse=True)
def without_gradients():
    with td.no_grad():
        yield


def torch_or_none():
    try:
        import torch
    except ImportError:
        return None
    return torch


torch = torch_or_none()
wants_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")


def there(x):
    """A tensor of PyTorch's, in trees."""
    if td.is_tensor(x):
        return torch.tensor(x.tolist(), dtype=getattr(torch, x.dtype.name)).reshape(x.shape)
    if isinstance(x, (list, tuple)):
        return type(x)(map(there, x))
    return {k: there(v) for k, v in x.items()} if isinstance(x, dict) else x


def here(x):
    if torch is not None and isinstance(x, torch.Tensor):
        return td.tensor(x.detach().tolist(), dtype=getattr(td, str(x.dtype).removeprefix("torch."))).reshape(tuple(x.shape))
    if isinstance(x, (list, tuple)):
        return type(x)(map(here, x))
    return {k: here(v) for k, v in x.items()} if isinstance(x, dict) else x


def opened(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says that there is something newer
        return torch.jit.load(path)


def saved(program, path):
    """Without a word that something is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.save(path)
    return path


def code_alone(path, to):
    """The archive without our records: what PyTorch sees of it."""
    with zipfile.ZipFile(path) as z, zipfile.ZipFile(to, "w", zipfile.ZIP_STORED) as out:
        for name in z.namelist():
            if "/programs/" not in name:
                out.writestr(name, z.read(name))
    return to


def same(got, want):
    if td.is_tensor(want):
        assert td.is_tensor(got) and got.shape == want.shape and got.dtype == want.dtype, (got, want)
        assert td.allclose(got.to(td.float64), want.to(td.float64), rtol=1e-5, atol=1e-6, equal_nan=True) if not want.is_complex() else got.tolist() == want.tolist()
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for a, b in zip(got, want):
            same(a, b)
    elif isinstance(want, dict):
        assert got.keys() == want.keys()
        for k in want:
            same(got[k], want[k])
    elif isinstance(want, float):
        assert math.isclose(got, want, rel_tol=1e-6) or (math.isnan(got) and math.isnan(want))
    else:
        assert got == want, (got, want)


def everywhere(program, tmp_path, *inputs, method="forward", called=torch is not None):
    """Saved, and called by all who read it. called: by PyTorch, too."""
    call = (lambda p: p) if method == "forward" else lambda p: getattr(p, method)
    path = saved(program, tmp_path / "p.pt")
    readers = {"records": td.jit.load(path), "code": td.jit.load(code_alone(path, tmp_path / "code.pt"))}
    theirs = opened(path) if called else None
    if called:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.save(theirs, str(tmp_path / "again.pt"))
        readers["again"] = td.jit.load(tmp_path / "again.pt")
    for args in inputs:
        fresh = lambda: [a.clone() if td.is_tensor(a) else a for a in args]  # what is called may write to it
        want = call(program)(*fresh())
        for name, reader in readers.items():
            same(call(reader)(*fresh()), want)
        if called:
            with torch.no_grad():
                same(here(call(theirs)(*map(there, fresh()))), want)
    return theirs


# ---- each op


sys.path.insert(0, str(ROOT / "proto" / "gen"))
try:
    import example as examples
    import table as tables

    TABLE = tables.load([ROOT / "proto" / "ops"], ROOT / "proto" / "infer" / "infer.h").ops
finally:
    sys.path.pop(0)
RANDOM = {"rand", "randn", "randint", "randperm", "bernoulli", "dropout", "multinomial", "empty"}


def value(x):
    if isinstance(x, examples.Tensor):
        return td.tensor(list(x.values), dtype=getattr(td, x.dtype)).reshape(x.shape)
    return getattr(td, x) if isinstance(x, str) and x in examples.DTYPES else list(x) if isinstance(x, tuple) else x


def call_of(op, example):
    """(the tensors, the arguments as a source)"""
    tensors, inputs, attrs, words = [], list(example.inputs), list(example.attrs), []

    def one(x):
        if not isinstance(x, examples.Tensor):
            return repr(x)
        tensors.append(value(x))
        return f"x{len(tensors) - 1}"

    for arg in op.sig.args:
        if hasattr(arg, "is_list") and arg in op.params:
            if arg.is_list:
                last = len(op.params) - 1 - op.params.index(arg)
                words.append("[" + ", ".join(one(inputs.pop(0)) for _ in range(len(inputs) - last)) + "]")
            else:
                words.append(one(inputs.pop(0)))
        else:
            x = attrs.pop(0)
            words.append(f"td.{x}" if isinstance(x, str) and arg.kind == "DTYPE" else repr(list(x)) if isinstance(x, tuple) else repr(x).replace("inf", "math.inf").replace("nan", "math.nan"))
    return tensors, words


def scripted(lines, place):
    """The functions of a source, as programs."""
    path = place / "functions.py"
    path.write_text("import math\nimport tensord as td\n" + lines)
    names = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return {name: td.jit.script(f) for name, f in names.items() if callable(f)}


def looked_at(x):
    """What went wrong is said here."""
    for each in x if isinstance(x, (list, tuple)) else [x]:
        each.tolist()


def of_examples(op):
    """For each example what calls it, and its tensors; also in place."""
    for k, text in enumerate(op.examples):
        tensors, words = call_of(op, examples.parse(text, op))
        head = f"(x{', x'.join(map(str, range(len(tensors))))}):\n" if tensors else "():\n"
        places = [w for w, p in zip(words, op.params) if p.kind == "OPTIONAL_LIST"]
        line = "".join(["    at: list[td.Tensor | None] = []\n", *(f"    at.append({x.strip('[] ')})\n" for x in places[0].split(","))] if places else [])
        words = ["at" if w in places else w for w in words]
        few = op.raw["aten"].partition("[first ")[2][:1]  # so many of its results have a form
        got = ", ".join(f"r[{i}]" for i in range(int(few))) if few else "r"
        yield f"f{k}", f"def f{k}{head}{line}    r = td.ops.{op.name}({', '.join(words)})\n    return {got}\n", tensors
        if "inplace" in op.flags and words[0] == "x0" and op.name != "copy" and not tensors[0].is_complex():
            yield f"i{k}", f"def i{k}{head}    x0.{op.name}_({', '.join(words[1:])})\n    return x0\n", tensors


NAMED = [op for op in TABLE if "aten" in op.raw and op.examples]
TAKES_MORE = ("take_along_dim", "reflection_pad", "replication_pad", "circular_pad", "im2col", "col2im", "adaptive_avg_pool3d", "channel_shuffle")  # than PyTorch does, in the examples
# Debian's 1.13 says that the product of a complex vector with itself is 0.
NOT_CALLED = (*TAKES_MORE, *(("logcumsumexp",) if torch and torch.__version__[:2] == "1." else ()),  # not of complex numbers yet
              *(("vdot", "linalg_vecdot") if torch and torch.vdot(*2 * [torch.tensor([1j])]) == 0 else ()))


@pytest.mark.filterwarnings("ignore:.* is in beta")  # says PyTorch
@pytest.mark.parametrize("op", NAMED, ids=lambda op: op.name)
def test_ops_by_their_examples(op, tmp_path):
    for name, source, tensors in of_examples(op):
        try:
            program = scripted(source, tmp_path)[name]
            looked_at(program(*[t.clone() for t in tensors]))
        except td.Error:
            assert name[0] == "i", source  # not all of them can be written in place
            continue
        if op.name in RANDOM:
            saved(program, tmp_path / "p.pt")
            opened(tmp_path / "p.pt")(*there(tensors)) if torch else None
        else:
            everywhere(program, tmp_path, tensors, called=op.name not in NOT_CALLED and torch is not None and all(map(is_there, op.raw["aten"].split("; "))))


def is_there(form):
    """PyTorch 1.13 has not all of them."""
    return hasattr(torch.ops.aten, form.split("] ")[-1].partition("(")[0])


def test_most_ops_have_a_name_in_aten():
    known = [op for op in TABLE if "aten" in op.raw]
    print(f"{len(known)} of {len(TABLE)} ops have a name in ATen")
    assert len(known) >= 440


# ---- programs


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.scale = nn.Linear(4, 4), 0.5
        self.register_buffer("steps", td.zeros(1))

    def forward(self, xs, h, n: int = 2, w: td.Tensor | None = None, flags: list[int] = [1, 2], name: str = "ab"):
        outs, total = [], 0
        for i in range(xs.size(0)):
            if i % 2 == 0:
                h = td.tanh(self.linear(xs[i]) + h)
            elif w is not None:
                h = h * w
            else:
                continue
            if h.sum() > 100:
                break
            outs.append(h)
            total += flags[i % len(flags)]
        self.steps += 1
        while total > n:
            total -= n
        return td.stack(outs), (h, total * self.scale), name + "a\\b \n\u00e9", [total, n] if total > 0 else [0]

    @td.jit.export
    def twice(self, x, times: float = 2.0):
        return self._of(x) * times

    def _of(self, x):
        with td.no_grad():
            y = self.linear(x)
        return y - self.linear(x * 3)


def test_a_module_with_all_kinds_of_arguments(tmp_path):
    td.manual_seed(3)
    cell = Cell()
    program = td.jit.script(cell)
    xs, h, w = td.randn(5, 2, 4), td.zeros(2, 4), td.full((2, 4), 0.5)
    theirs = everywhere(program, tmp_path, (xs, h), (xs, h, 3), (xs, h, 1, w), (xs, h, 2, None, [5, 6, 7], "x"), (xs[:1], h, 50))
    everywhere(program, tmp_path, (xs[0],), (xs[0], 0.25), method="twice")
    if torch:
        assert [n for n, _ in theirs.named_parameters()] == ["linear.weight", "linear.bias"] and [n for n, _ in theirs.named_buffers()] == ["steps"]
        assert all(p.requires_grad for p in theirs.parameters()) and list(theirs.state_dict()) == list(program.state_dict())
        y = theirs.twice(torch.randn(2, 4))
        assert y.requires_grad  # no_grad() ended


def test_functions_and_what_they_call(tmp_path):
    source = '''
def scaled(x, by: float):
    if by < 0:
        raise ValueError("negative")
    return x * by

def half(x):
    return scaled(x, 0.5), {"a": x.shape[0]}["a"]

def f(x, names: list[str], pair: tuple[int, float], on: bool, none: int | None = None):
    y, n = half(x)
    words = {"n": n}
    for name in names:
        words[name] = len(name)
    y[0] *= 2
    y[:, 1:] = 1.0
    y.add_(1).relu_()
    z = y[y > 1]
    k = 0 if none is None else none
    print("seen", n)
    return y.sum(0).max(), z, [words[w] for w in names], "-".join(names).upper() if on else f"{pair[0]} {n}", int(y.sum()) // 3 + pair[0] % 2 + k, float(pair[1]) ** 2, math.inf

def g(x, by: float):
    return scaled(x, by)
'''
    p = scripted(source, tmp_path)
    x = td.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])
    everywhere(p["f"], tmp_path, (x, ["ab", "c"], (3, 1.5), True), (x, ["q"], (-2, 0.1), False, 4))
    everywhere(p["g"], tmp_path, (x, 2.0))
    with pytest.raises(td.Error, match="ValueError: negative"):
        td.jit.load(tmp_path / "code.pt")(x, -1.0).tolist()
    if torch:
        with pytest.raises(Exception, match="negative"):
            opened(tmp_path / "p.pt")(there(x), -1.0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm, self.gru, self.out, self.dropout = nn.Embedding(10, 6), nn.LSTM(6, 5), nn.GRU(5, 4, batch_first=True), nn.Linear(4, 3), nn.Dropout(0.5)

    def forward(self, words):
        x, (h, c) = self.lstm(self.embedding(words))
        x, last = self.gru(x)
        return self.dropout(self.out(x).log_softmax(-1)), h, c, last


def layers():
    yield "convolutions", nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 1, groups=2), nn.GELU(),
                                        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3), nn.Softmax(-1)), (td.randn(2, 1, 12, 12),)
    yield "one dimension", nn.Sequential(nn.Conv1d(2, 4, 3, padding=2, dilation=2), nn.LayerNorm(9), nn.LeakyReLU(), nn.AvgPool1d(3)), (td.randn(2, 2, 9),)
    yield "norms", nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU(), nn.ELU(), nn.Softplus(), nn.Hardtanh(), nn.ConvTranspose2d(4, 2, 2, stride=2)), (td.randn(2, 4, 3, 3),)
    yield "recurrent", Tagger(), (td.tensor([[1, 2, 3], [4, 5, 9]]),)


def test_layers(tmp_path):
    td.manual_seed(0)
    for name, layer, inputs in layers():
        for mode in (layer.eval(), layer.train()):
            program = td.jit.script(mode)
            if mode.training and name == "recurrent":
                out = everywhere_random(program, tmp_path, inputs)
                assert all((y == 0).any() for y in out)  # dropped out
            else:
                everywhere(program, tmp_path, inputs)


def everywhere_random(program, tmp_path, inputs):
    path = saved(program, tmp_path / "p.pt")
    made = [td.jit.load(path)(*inputs)[0], td.jit.load(code_alone(path, tmp_path / "code.pt"))(*inputs)[0]]
    return made + ([here(opened(path)(*there(inputs))[0])] if torch else [])


def test_traces_with_trees(tmp_path):
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh())

    def f(x, pair, rest):
        y = net(x) + pair[0] @ pair[1][0]
        y += rest["b"]
        return {"y": y, "sum": y.sum()}, [y.mean(), rest["a"] * 2], (y[0].clone(),)

    args = (td.randn(2, 3), (td.randn(2, 3), [td.randn(3, 4)]), {"a": td.ones(2), "b": td.randn(4)})
    program = td.jit.trace(f, args)
    path = saved(program, tmp_path / "p.pt")
    same(td.jit.load(path)(*args), program(*args))
    if torch:
        with torch.no_grad():
            same(here(opened(path)(*there(args))), program(*args))
    everywhere(td.jit.trace(lambda x: net(x).relu(), td.randn(2, 3)), tmp_path, (td.randn(5, 3),))


def test_what_has_no_name_in_aten_is_said(tmp_path):
    p = scripted("def f(x):\n    return td.ops.resample_nearest(x, 1, 4)\n", tmp_path)["f"]
    with pytest.warns(UserWarning, match="torch.jit.load.* cannot open 'p.pt'.*the op 'resample_nearest' has no name in ATen"):
        p.save(tmp_path / "p.pt")
    x = td.tensor([[1.0, 2.0]])
    same(td.jit.load(tmp_path / "p.pt")(x), p(x))
    with zipfile.ZipFile(tmp_path / "p.pt") as z:
        assert "p/constants.pkl" not in z.namelist() and b"'resample_nearest' has no name" in z.read("p/programs/no_code.txt")
    saved(p, tmp_path / "p.td")  # of which nobody expects it


def test_a_td_file_is_a_state_dict(tmp_path):
    net = td.jit.script(nn.Linear(2, 3))
    saved(net, tmp_path / "net.td")
    saved(net, tmp_path / "net.pt")
    assert list(td.load(tmp_path / "net.td")) == ["weight", "bias"]
    with pytest.raises(td.Unsupported, match="jit.load"):
        td.load(tmp_path / "net.pt")


@wants_torch
def test_torch_opens_both_forms(tmp_path):
    """The other tests compare with PyTorch where it is; this one is counted where it is not."""
    net = td.jit.script(nn.Linear(2, 3))
    saved(net, tmp_path / "net.td")
    saved(net, tmp_path / "net.pt")
    for state in (torch.load(tmp_path / "net.td"), opened(tmp_path / "net.pt").state_dict()):
        assert state["weight"].tolist() == net.weight.tolist()


def test_shared_and_frozen_parameters_come_back(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.b.weight = self.a.weight
            self.a.bias.requires_grad_(False)

        def forward(self, x):
            return self.b(self.a(x))

    net = td.jit.script(Tied())
    everywhere(net, tmp_path, (td.randn(2, 3),))
    for name in ("p.pt", "p.td"):
        saved(net, tmp_path / name)
        again = td.jit.load(tmp_path / name)
        assert list(again.state_dict()) == list(net.state_dict())
        assert {n: p.requires_grad for n, p in again.named_parameters()} == {n: n != "a.bias" for n, _ in net.named_parameters()}
        assert again.a.weight is again.b.weight


def test_names_that_are_no_words(tmp_path):
    w = td.ones(2)
    p = td.jit.trace(lambda x: x * w, td.ones(2))  # what it captures is called "tensor:0"
    everywhere(p, tmp_path, (td.ones(2),))


def test_generated_programs(tmp_path):
    """Random inputs of many shapes."""
    p = scripted("""
def f(x, n: int):
    y = x
    for i in range(n):
        if y.abs().max() > 2:
            y = y / 2
        else:
            y = y * 1.5 + i
    return y.softmax(-1), y.argmax(-1), y.shape
""", tmp_path)["f"]
    td.manual_seed(1)
    everywhere(p, tmp_path, *[(td.randn(*shape), n) for shape in [(3,), (2, 5), (1, 4, 2)] for n in (0, 1, 7, 70)])


def item_as_int(x):
    return int(x.item())


def item_returned(x) -> int:
    return x.item()


def item_as_bool(x):
    return bool(x.item())


def item_as_float(x):
    return float(x.item())


def one_more(n: int) -> int:
    return n + 1


def item_given(x):
    return one_more(x.item()), one_more(n=(x - 1).item())


def item_as_bound(x):
    return [0, 1, 2, 3][(x % 3).item():]


ITEMS = [2**53 + 1, -2**53 - 1, 2**63 - 2, -2**63 + 3, 0, 7]


@pytest.mark.parametrize("function", [item_as_int, item_returned, item_as_bool, item_as_float, item_given, item_as_bound], ids=lambda f: f.__name__)
def test_items_are_the_numbers_that_are_wanted(function):
    """Beyond 2**53, where a float has no room: as Python has them, and PyTorch's programs."""
    program = td.jit.script(function)
    for n in ITEMS:
        got = program(td.tensor(n))
        assert got == function(td.tensor(n)) and type(got) is type(function(td.tensor(n))), n
        if torch:
            assert got == torch.jit.script(function)(torch.tensor(n)), n
    for x in (2.75, -2.75) if torch else ():  # what is no int is cut, as PyTorch's programs do
        assert program(td.tensor(x)) == torch.jit.script(function)(torch.tensor(x))


def test_items_stay_what_they_were_in_between():
    """The one that is wanted is read where it stands, and others are floats."""
    @td.jit.script
    def between(x, y):
        n = int((x.add_(1)).item()) + int(x.item() + y.item())
        return n, x.item()

    assert between(td.tensor(2**53), td.tensor(2.5)) == (2**53 + 1 + 2**53 + 2, 2.0**53)
    with pytest.raises(td.Error, match="a float, and an int is wanted|Variable"):
        td.jit.script(annotated)


def annotated(x):
    n: int = x.item()
    return n


# ---- how a program is called


def minus(argument_1: int, v1: int):
    return argument_1 - v1


def scaled(x, scale=2.0):
    return x * scale


def with_defaults(x, n: int = True, f: float = True, c: complex = 2, big: float = 1e15, inf: float = math.inf, s: str = "a\nb", o: Optional[int] = None):
    return x * n * f * big


@wants_torch
def test_parameters_keep_apart_and_defaults_have_their_types(tmp_path):
    both = opened(saved(td.jit.script(minus), str(tmp_path / "minus.pt")))
    assert both(5, 3) == 2
    assert "Tensor scale) ->" in str(opened(saved(td.jit.script(scaled), str(tmp_path / "scaled.pt"))).forward.schema)  # no number is one
    program = opened(saved(td.jit.script(with_defaults), str(tmp_path / "defaults.pt")))
    assert program(torch.ones(2)).tolist() == pytest.approx([1e15, 1e15])


def test_many_parameters_take_no_time(tmp_path):
    """It was twice as much for each."""
    source = f"def many({', '.join(f'a{i}: float' for i in range(64))}):\n    return a0 + a63\n"
    names = {"__name__": "many"}
    exec(compile(source, "many.py", "exec"), names)
    (tmp_path / "many.py").write_text(source)
    import linecache
    linecache.cache["many.py"] = (len(source), None, source.splitlines(True), "many.py")
    program = td.jit.script(names["many"])
    saved(program, str(tmp_path / "many.pt"))
    assert td.jit.load(str(tmp_path / "many.pt"))(*range(64)) == 63


def of_trees(d, l):
    return d["a"] + d["b"] * l[0] + l[1]


def trees():
    one = td.ones(2)
    return td.jit.trace(of_trees, ({"a": one, "b": one}, [one, one]))


@wants_torch
def test_traces_want_the_lengths_they_were_traced_with(tmp_path):
    program, one = opened(saved(trees(), str(tmp_path / "trees.pt"))), torch.ones(2)
    assert program({"a": one, "b": one}, [one, one]).tolist() == [3, 3]
    with pytest.raises(Exception, match="traced with a list of 2"):
        program({"a": one, "b": one}, [one, one, one])
    with pytest.raises(Exception, match="traced with a dict of 2"):
        program({"a": one, "b": one, "c": one}, [one, one])


def test_keys_of_two_types_and_names_that_are_taken_are_told(tmp_path):
    one = td.ones(2)
    mixed = td.jit.trace(lambda d: d["a"] + d[1], ({"a": one, 1: one},))
    with pytest.warns(UserWarning, match="keys of two types"):
        mixed.save(str(tmp_path / "mixed.pt"))

    class Trained(nn.Module):
        def forward(self, x):
            return x

        @td.jit.export
        def eval(self, x):
            return x + 1

    with pytest.warns(UserWarning, match="'eval' is something else there"):
        td.jit.script(Trained()).save(str(tmp_path / "trained.pt"))


@pytest.mark.parametrize("takes", [["d", ["d", 0]], ["t", ["d", 0]], ["t", ["l", ["d", ["a"]]]], ["x", 0], []])
def test_a_file_that_says_nonsense_of_its_call_is_refused(tmp_path, takes):
    import json

    trees().save(str(tmp_path / "good.td"))
    with zipfile.ZipFile(tmp_path / "good.td") as good, zipfile.ZipFile(tmp_path / "bad.td", "w") as bad:
        for entry in good.infolist():
            content = good.read(entry)
            if entry.filename.endswith("forward.json"):
                content = json.dumps({**json.loads(content), "takes": takes}).encode()
            bad.writestr(entry.filename, content)
    with pytest.raises(td.InvalidError, match="makes no sense"):
        td.jit.load(str(tmp_path / "bad.td")).save(str(tmp_path / "again.pt"))

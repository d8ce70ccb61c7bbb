"""Programs in files: written and read by Python, torch, C's side of it; what a file says that is not so."""
import collections
import io
import json
import os
import subprocess
import zipfile
from array import array

import pytest

import tensord as td
from common import at_rest, script, settles
from tensord import nn


TOOL = os.path.join(os.path.dirname(os.environ["TENSORD_DAEMON"]), "..", "..", "client", "tensorctl")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 2)])
        self.register_buffer("calls", td.zeros(1))
        self.register_buffer("unused", td.arange(3))

    def forward(self, x, times: int = 1, scale: float = 2.0):
        self.calls += 1
        for _ in range(times):
            x = td.relu(self.layers[0](x))
        return self.layers[1](x) * scale

    @td.jit.export
    def head(self, x, name: str = "sum"):
        return x.sum() if name == "sum" else x


def test_a_module_comes_back_with_its_state_and_methods(tmp_path):
    path = tmp_path / "net.td"
    net = Net()
    p = td.jit.script(net)
    x = td.randn(3, 4)
    want = p(x, 2).tolist(), p(x).tolist()
    p.save(path)
    q = td.jit.load(path)
    assert (q(x, 2).tolist(), q(x).tolist()) == want
    assert q(x, times=2).tolist() == want[0] and q.forward(x, scale=0.0).tolist() == [[0.0, 0.0]] * 3
    assert q.head(x).item() == pytest.approx(x.sum().item()) and q.head(x, "same").tolist() == x.tolist()
    assert q.calls.item() == 2 + 4  # what was saved, and four calls; those of the other copy are apart
    assert net.calls.item() == 2
    assert list(q.state_dict()) == list(net.state_dict()) and q.unused.tolist() == [0, 1, 2]
    assert [n for n, _ in q.named_parameters()] == [n for n, _ in net.named_parameters()]
    assert all(isinstance(w, nn.Parameter) and w.requires_grad for w in q.parameters()) and not q.calls.requires_grad
    assert q.code == p.code and q.graph == p.graph and "forward(x, times, scale)" in repr(q)


def test_what_was_loaded_is_trained_and_saved_again(tmp_path):
    td.manual_seed(3)
    net = td.jit.script(nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1)))
    net.save(tmp_path / "a.td")
    p = td.jit.load(tmp_path / "a.td")
    x, y = td.randn(16, 2), td.randn(16, 1)
    sgd = td.optim.SGD(p.parameters(), lr=0.1)
    losses = []
    for _ in range(20):
        sgd.zero_grad()
        loss = ((p(x) - y) ** 2).mean()
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    p.save(tmp_path / "b.td")
    q = td.jit.load(tmp_path / "b.td")
    assert q(x).tolist() == p(x).tolist() and q(x).tolist() != net(x).tolist()
    q.load_state_dict(net.state_dict())
    assert q(x).tolist() == net(x).tolist()
    p.publish("trained")
    assert td.jit.open("trained")(x).tolist() == p(x).tolist()
    td.jit.open("trained").save(tmp_path / "c.td")
    assert td.jit.load(tmp_path / "c.td")(x).tolist() == p(x).tolist()
    td.drop("trained")


def test_functions_and_what_they_capture(tmp_path):
    w = td.tensor([1.0, 2.0], requires_grad=True)
    both = td.arange(6.0)
    a, b = both[:4], both[2:]  # views of one storage, here and there

    @td.jit.script
    def f(x, n: int = 3, sizes: list[int] = [1, 2], name: str | None = None):  # noqa: B006
        b.add_(1.0)
        return x * w * n, a.sum() + len(sizes), name is None

    f.save(tmp_path / "f.td")
    g = td.jit.load(tmp_path / "f.td")
    y, s, nothing = g(td.ones(2))
    assert (y.tolist(), s.item(), nothing) == ([3.0, 6.0], 0.0 + 1.0 + 3.0 + 4.0 + 2.0, True)
    y.sum().backward()
    assert g.w.grad.tolist() == [3.0, 3.0] and w.grad is None
    assert g.b.tolist() == [3.0, 4.0, 5.0, 6.0] and g.a.tolist() == [0.0, 1.0, 3.0, 4.0]
    assert b.tolist() == [2.0, 3.0, 4.0, 5.0]
    assert g(td.ones(2), 1, [1], "x")[2] is False
    state = td.load(tmp_path / "f.td")
    assert sorted(state) == ["a", "b", "w"] and state["w"].tolist() == [1.0, 2.0]


Point = collections.namedtuple("Point", "x y")


def test_traces_with_trees(tmp_path):
    def f(p, d, scale):
        return {"sum": p.x + p.y, "all": [d["k"] * scale, (p.x,)]}

    example = Point(td.ones(2), td.ones(2)), {"k": td.ones(2)}, td.tensor(2.0)
    p = td.jit.trace(f, example)
    p.save(tmp_path / "f.td")
    q = td.jit.load(tmp_path / "f.td")
    args = Point(td.tensor([1.0, 2.0]), td.tensor([3.0, 4.0])), {"k": td.tensor([5.0, 6.0])}, td.tensor(10.0)
    for made in (q(*args), q(*args[:2], scale=args[2]), q((args[0].x, args[0].y), *args[1:])):
        assert made["sum"].tolist() == [4.0, 6.0] and made["all"][0].tolist() == [50.0, 60.0]
        assert isinstance(made["all"][1], tuple) and made["all"][1][0].tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match="the program was traced with"):
        q(args[0].x, args[1], args[2])
    model = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
    t = td.jit.trace(model, td.ones(1, 3))
    td.jit.save(t, str(tmp_path / "wrapped.pt"))  # as PyTorch's tutorial has it
    r = td.jit.load(str(tmp_path / "wrapped.pt"))
    x = td.randn(5, 3)
    assert r(x).tolist() == model(x).tolist() and list(r.state_dict()) == ["0.weight", "0.bias"]
    t.publish("traced")
    assert td.jit.open("traced")(x).tolist() == model(x).tolist()
    td.drop("traced")

    class Two(nn.Module):
        def one(self, x):
            return x + 1

        def two(self, x, y):
            return x * y, y

    m = td.jit.trace_module(Two(), {"one": td.ones(2), "two": (td.ones(2), td.ones(2))})
    m.save(tmp_path / "two.td")
    n = td.jit.load(tmp_path / "two.td")
    assert n.one(td.ones(2)).tolist() == [2.0, 2.0] and n.two(td.ones(2), y=td.full((2,), 3.0))[0].tolist() == [3.0, 3.0]


def test_objects_with_write_and_read(tmp_path):
    @td.jit.script
    def f(x):
        return x + 1

    file = io.BytesIO()
    f.save(file)
    file.seek(0)
    assert td.jit.load(file)(td.ones(1)).item() == 2.0
    with open(tmp_path / "f.td", "wb") as to:
        f.save(to)
    with open(tmp_path / "f.td", "rb") as source:
        assert td.jit.load(source)(td.ones(1)).item() == 2.0
    assert td.jit.load(str(tmp_path / "f.td"), map_location="cpu")(td.ones(1)).item() == 2.0
    # from another process, which knows nothing of the function
    ran = script(f"import tensord as td; print(td.jit.load({str(tmp_path / 'f.td')!r})(td.ones(2)).tolist())")
    assert ran.stdout == "[2.0, 2.0]\n", ran.stderr


def test_torch_reads_the_tensors(tmp_path):
    torch = pytest.importorskip("torch")
    p = td.jit.script(nn.Linear(3, 2))
    p.save(tmp_path / "m.td")
    state = torch.load(tmp_path / "m.td", weights_only=True)
    theirs = torch.nn.Linear(3, 2)
    theirs.load_state_dict(state)
    x = td.randn(4, 3)
    assert torch.allclose(theirs(torch.tensor(x.tolist())), torch.tensor(p(x).tolist()))


def refused(path, error, match):
    with pytest.raises(error, match=match):
        td.jit.load(path)


def rewritten(path, change):
    """The file with other entries: change(name without its folder, bytes) -> bytes or None."""
    to = path.with_name("changed.td")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(to, "w") as new:
        for name in old.namelist():
            data = change(name.split("/", 1)[1], old.read(name))
            if data is not None:
                new.writestr(name, data)
    return to


def test_files_that_are_not_what_they_say(tmp_path):
    w = td.ones(2)

    @td.jit.script
    def f(x):
        return x + w

    path = tmp_path / "f.td"
    f.save(path)
    whole = path.read_bytes()
    assert td.jit.load(rewritten(path, lambda name, data: data))(td.ones(2)).tolist() == [2.0, 2.0]
    td.save({"w": w}, tmp_path / "w.pt")
    refused(tmp_path / "w.pt", td.Unsupported, "the file holds tensors, and no program")
    td.save({"w": w}, tmp_path / "w.safetensors")
    refused(tmp_path / "w.safetensors", td.Unsupported, "this is no file of a program")
    refused(tmp_path / "none.td", FileNotFoundError, "none.td")
    refused(rewritten(path, lambda name, data: data[:-9] if name.endswith(".pb") else data), td.InvalidError, "its program 'forward'")
    refused(rewritten(path, lambda name, data: b"" if name.endswith(".pb") else data), td.InvalidError, "its program 'forward'|tensors")
    for call in (b"[", b"[" * 100000, b"\xff"):
        refused(rewritten(path, lambda name, data: call if name.endswith(".json") else data), (td.InvalidError, UnicodeDecodeError), "JSON|decode")
    for call in ({"takes": 0, "gives": ["q"]}, {"takes": ["d", 1], "gives": 0}, {"takes": {}, "gives": 0}):
        refused(rewritten(path, lambda name, data: json.dumps(call).encode() if name.endswith(".json") else data), td.InvalidError, "makes no sense")
    for call in (1, {"names": 3}, {"names": [1]}, {"defaults": []}, {"names": ["x", "y"]}):
        q = td.jit.load(rewritten(path, lambda name, data: json.dumps(call).encode() if name.endswith(".json") else data))
        if call != {"names": ["x", "y"]}:
            assert q(td.ones(2)).tolist() == [2.0, 2.0]
        else:
            with pytest.raises(td.InvalidError, match="takes 1 arguments, and 2 are given"):
                q(td.ones(2), td.ones(2))
    other = tmp_path / "other.td"
    v = td.ones(2)

    @td.jit.script
    def g(x):
        return x * v

    g.save(other)
    with zipfile.ZipFile(other) as z:
        program = z.read("other/programs/forward.pb")
    refused(rewritten(path, lambda name, data: program if name.endswith(".pb") else data), td.InvalidError, "captures 'v', and the file has no such tensor")
    for at in range(0, len(whole), 37):
        damaged = bytearray(whole)
        damaged[at] ^= 0x41
        (tmp_path / "damaged.td").write_bytes(damaged)
        try:
            assert td.jit.load(tmp_path / "damaged.td")(td.ones(2)).tolist() == [2.0, 2.0]
        except (td.Error, OSError):
            pass
        (tmp_path / "cut.td").write_bytes(whole[:at])
        with pytest.raises((td.Error, OSError)):
            td.jit.load(tmp_path / "cut.td")
    with pytest.raises(td.Unsupported, match="ends with .td, or .pt"):
        f.save(tmp_path / "f.safetensors")
    with pytest.raises(TypeError, match="save\\(\\) takes a program"):
        td.jit.save(nn.Linear(1, 1), tmp_path / "x.td")
    with pytest.raises(td.Error, match="td_program_save"):
        td._C._save_file(os.open(tmp_path / "x.td", os.O_WRONLY | os.O_CREAT), "x.td", b"d" + bytes(8), [], False)


def fields(data):
    """[(number, bytes)] of a message without others inside."""
    at, out = 0, []

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = varint()
        size = varint() if tag & 7 == 2 else 0
        begin = at
        value = data[begin:begin + size] if tag & 7 == 2 else varint()
        at = begin + size if tag & 7 == 2 else at
        out.append((tag >> 3, value))
    return out


def message(parts):
    def varint(value):
        return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])

    return b"".join(varint(n << 3 | 2) + varint(len(v)) + v if isinstance(v, bytes) else varint(n << 3) + varint(v) for n, v in parts)


def as_of_another_release(path, op, signature, arguments):
    """The file, had it been written when the op that the program calls had this signature: of its arguments now the call gave these."""
    def change(name, data):
        if not name.endswith(".pb"):
            return data
        parts = fields(data)
        numbers = {n: array("I", v) for n, v in parts if n in (10, 11, 12, 14, 15)}
        which = next(k for k, v in enumerate(v for n, v in parts if n == 16) if v.startswith(op.encode() + b"("))
        nodes, at = numbers[11], 0
        for k in range(0, len(nodes), 8):
            if nodes[k] & 0xffffff == which and nodes[k] >> 24 == 1:
                numbers[12][at:at + nodes[k + 1]] = array("I", [numbers[12][at + a] for a in arguments])
                nodes[k + 1] = len(arguments)
            at += nodes[k + 1]
        numbers[15][which] ^= 1
        signatures = iter(range(len(parts)))
        return message([(n, numbers[n].tobytes() if n in numbers else signature.encode() if n == 16 and next(signatures) == which else v) for n, v in parts])

    return rewritten(path, change)


@pytest.mark.parametrize("ending", ["td", "pt"])
def test_files_of_other_releases(tmp_path, ending):
    """Arguments by their names: an argument that came since has its default, one that may be absent is None, another order is no matter."""

    def f(x, w):
        return td.ops.linear(x, w), td.ops.leaky_relu(x, 0.01)

    path, args = tmp_path / f"f.{ending}", (td.tensor([[1.0, -2.0]]), td.tensor([[3.0, 5.0]]))
    td.jit.script(f).save(path)
    want = [y.tolist() for y in f(*args)]

    def of(op, signature, arguments):
        return td.jit.load(as_of_another_release(path, op, signature, arguments))

    for op, signature, arguments in [("linear", "linear(x:T, w:T) -> T", [0, 1]), ("linear", "linear(w:T, b:T?, x:T) -> T", [1, 2, 0]),
                                     ("leaky_relu", "leaky_relu(x:T) -> T", [0]), ("leaky_relu", "leaky_relu(slope:f, x:T) -> T", [1, 0])]:
        assert [y.tolist() for y in of(op, signature, arguments)(*args)] == want, signature
    for op, signature, arguments in [("linear", "linear(x:T, weight:T) -> T", [0, 1]), ("leaky_relu", "leaky_relu(x:T, slope:S) -> T", [0, 1]),
                                     ("leaky_relu", "leaky_relu(x:T, slope:f, old:i) -> T", [0, 1, 1]), ("linear", "linear(w:T) -> T", [1])]:
        with pytest.raises(td.Unsupported) as said:
            of(op, signature, arguments)
        assert f"was made for {signature}, which is {op}(x:T, " in str(said.value) and "make it anew" in str(said.value)


def test_two_tensors_of_one_name(tmp_path):
    def method(w):
        def forward(self, x):
            return x + w
        return forward

    def method2(w):
        def other(self, x):
            return x - w
        return other

    class M(nn.Module):
        forward = method(td.ones(1))
        other = td.jit.export(method2(td.full((1,), 5.0)))

    td.jit.script(M()).save(tmp_path / "m.td")
    m = td.jit.load(tmp_path / "m.td")
    assert m(td.zeros(1)).tolist() == [1.0] and m.other(td.zeros(1)).tolist() == [-5.0] and sorted(m.state_dict()) == ["w", "w:1"]

    class Two(nn.Module):
        def one(self, x):
            return x + td.tensor([1.0, 2.0])

        def two(self, x):
            return x * td.tensor([3.0, 4.0])

    td.jit.trace_module(Two(), {"one": td.ones(2), "two": td.ones(2)}).save(tmp_path / "t.td")
    t = td.jit.load(tmp_path / "t.td")
    assert t.one(td.ones(2)).tolist() == [2.0, 3.0] and t.two(td.ones(2)).tolist() == [3.0, 4.0]
    t.save(tmp_path / "t2.td")
    assert td.jit.load(tmp_path / "t2.td").two(td.ones(2)).tolist() == [3.0, 4.0]


def test_the_state_is_that_of_the_module(tmp_path):
    class Shares(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2)
            self.b = self.a
            self.register_buffer("seen", td.zeros(1), persistent=False)
            self.register_buffer("unseen", td.zeros(1), persistent=False)

        def forward(self, x):
            self.seen.add_(1.0)
            return self.b(self.a(x))

    net = Shares()
    td.jit.script(net).save(tmp_path / "s.td")
    p = td.jit.load(tmp_path / "s.td")
    assert list(p.state_dict()) == list(net.state_dict()) == ["a.weight", "a.bias", "b.weight", "b.bias"]
    p.load_state_dict(net.state_dict())
    assert sorted(td.load(tmp_path / "s.td")) == ["a.bias", "a.weight", "b.bias", "b.weight", "seen"]
    x = td.ones(1, 2)
    assert p(x).tolist() == net(x).tolist() and p.seen.item() == 1.0
    p.save(tmp_path / "s2.td")
    assert list(td.jit.load(tmp_path / "s2.td").state_dict()) == list(net.state_dict())


def test_tensors_that_are_put_in_the_place_of_others(tmp_path):
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval()
    td.jit.script(net).save(tmp_path / "n.td")
    p = td.jit.load(tmp_path / "n.td").double()
    x = td.randn(3, 2, dtype=td.float64)
    assert p(x).dtype == td.float64 and p(x).tolist() == net.double()(x).tolist()
    p.share_memory()
    with td.no_grad():
        for w in p.parameters():
            w.zero_()
    assert p(x).tolist() == [[0.0, 0.0]] * 3
    p.save(tmp_path / "m.td")
    assert td.jit.load(tmp_path / "m.td")(x).tolist() == [[0.0, 0.0]] * 3


def test_defaults_of_all_kinds(tmp_path):
    @td.jit.script
    def f(x, size: tuple[int, int] = (2, 3), fill: float = float("-inf"), n: int = 1, names: list[str] = ["a"]):  # noqa: B006
        return x * size[0] + size[1], fill, n, len(names)

    f.save(tmp_path / "f.td")
    want = f(td.ones(1))
    g = td.jit.load(tmp_path / "f.td")
    assert g(td.ones(1))[0].tolist() == [5.0] and g(td.ones(1))[1:] == want[1:] == (float("-inf"), 1, 1)
    with pytest.raises(TypeError, match="no parameter 'n', or it was given before"):
        g(td.ones(1), (2, 3), 0.5, 1, ["a"], n=2)
    ran = subprocess.run([TOOL, "run", tmp_path / "f.td", "--in", "x=2"], capture_output=True, text=True)
    assert ran.stdout == "int64[] 7\n-inf\n1\n1\n", ran.stderr
    ran = subprocess.run([TOOL, "run", tmp_path / "f.td", "--in", "x=123456789", "--in", "size=(1, 0)", "--in", "n=010"], capture_output=True, text=True)
    assert ran.stdout == "int64[] 123456789\n-inf\n10\n1\n", ran.stderr


class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.count, self.table, self.name = 0, {"a": 1}, "n"

    def forward(self, x):
        self.count += 1
        self.table[self.name] = self.count
        return x * self.count, self.table


def test_attributes_that_are_kept(tmp_path):
    program = td.jit.script(Keeps())
    program(td.ones(1))
    program.save(tmp_path / "f.td")
    ran = subprocess.run([TOOL, "run", tmp_path / "f.td", "--in", "x=2", "--json"], capture_output=True, text=True)
    assert ran.returncode == 0 and "4" in ran.stdout, ran.stderr
    with pytest.warns(UserWarning, match="'forward' keeps a state from call to call"):
        program.save(tmp_path / "f.pt")
    for name in ("f.td", "f.pt"):
        loaded = td.jit.load(tmp_path / name)
        assert [loaded(td.ones(1))[1] for _ in range(2)] == [{"a": 1, "n": 2}, {"a": 1, "n": 3}] and loaded.count == 3 and loaded.table == {"a": 1, "n": 3}


def test_what_saves_what(tmp_path):
    td.save(td.ones(1), tmp_path / "x.td")  # safetensors, as every name that says nothing else
    refused(tmp_path / "x.td", td.Unsupported, "it is no zip archive.*tensord.load\\(\\) reads")
    with pytest.raises(td.DTypeError, match="it has a save\\(\\) of its own"):
        td.save(td.jit.script(nn.Linear(1, 1)), tmp_path / "x.pt")

    @td.jit.script
    def f(x):
        return x

    f.save(tmp_path / "f.td")
    long = {".".join("a" * 200): td.ones(1)}
    td._C._save_file(os.open(tmp_path / "long.td", os.O_WRONLY | os.O_CREAT), "long.td", *note_of(long), False, (("forward", f.graph, None),))
    refused(tmp_path / "long.td", td.InvalidError, "has more than 100 parts")


def note_of(tree):
    from tensord.files import _save

    to = _save._Notes(True)
    _save._note(tree, to, "")
    return bytes(to.out), [x for _, x in to.tensors.values()]


def test_nothing_stays(tmp_path):
    p = td.jit.script(Net())
    p.save(tmp_path / "p.td")
    before = at_rest()
    for _ in range(20):
        q = td.jit.load(tmp_path / "p.td")
        q(td.ones(1, 4))
        q.save(tmp_path / "q.td")
        with pytest.raises(td.Error):
            td.jit.load(os.devnull)
        with pytest.raises(FileNotFoundError):
            q.save(tmp_path / "no" / "such" / "folder.td")
        del q
    settles(before)


def test_no_python(tmp_path):
    """The same file, run by tensorctl."""
    p = td.jit.script(Net())
    p.save(tmp_path / "p.td")
    x = td.randn(3, 4)
    want = p(x, 2).tolist()
    td.save(x, tmp_path / "x.npy")
    ran = subprocess.run([TOOL, "run", tmp_path / "p.td", "--in", f"x={tmp_path / 'x.npy'}", "--in", "times=2", "--in", "scale=2", "--out", tmp_path / "y.npy"],
                         capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert td.load(tmp_path / "y.npy").tolist() == want

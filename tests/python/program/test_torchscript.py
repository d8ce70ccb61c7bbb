"""jit.load() of what torch.jit.save() writes: archives that PyTorch 2.13 wrote (pytorch_files/make_scripted.py), the PyTorch that is here, a network that others
published, and archives that nobody should write."""
import io
import os
import pathlib
import subprocess
import zipfile

import pytest
import tensord as td

from test_pytorch_files import Made, archive, name, pickled, stored, tensor

HERE = pathlib.Path(__file__).parents[1] / "pytorch_files"
TOOL = os.path.join(os.path.dirname(os.environ["TENSORD_DAEMON"]), "..", "..", "client", "tensorctl")
KEPT = ["straight", "traced", "recurrent", "state", "attention"]
SILERO = next((p for p in (folder / "shared/data/torch/silero_vad.jit" for folder in pathlib.Path(__file__).parents) if p.exists()), None)


@pytest.fixture(autouse=True)
def without_gradients():
    with td.no_grad():
        yield


def near(got, want):
    if td.is_tensor(want):
        assert got.shape == want.shape and got.dtype == want.dtype and td.allclose(got, want, rtol=1e-5, atol=1e-6)
    elif isinstance(want, (list, tuple)):
        assert type(got) is type(want) and len(got) == len(want)
        for a, b in zip(got, want):
            near(a, b)
    else:
        assert got == want


# ---- what is kept


@pytest.mark.parametrize("which", KEPT)
def test_kept_archives_give_pytorchs_numbers(which):
    program = td.jit.load(HERE / f"scripted_{which}.pt")
    for method, args, want in td.load(HERE / "scripted.pt")[which]:
        near(getattr(program, method)(*args), want)


def test_parameters_buffers_and_attributes():
    program = td.jit.load(HERE / "scripted_state.pt")
    assert [n for n, _ in program.named_parameters()] == ["scale"] and program.scale.requires_grad and list(program.state_dict()) == ["scale", "calls"]
    net = td.jit.load(HERE / "scripted_straight.pt")
    assert "layers.0.weight" in net.state_dict() and "layers.1.running_mean" in net.state_dict() and net.layers._modules["0"].weight.shape == (4, 1, 3, 3)


def test_parameters_train():
    program = td.jit.load(HERE / "scripted_straight.pt")
    x = td.load(HERE / "scripted.pt")["straight"][0][1][0]
    with td.enable_grad():
        before = program(x)
        (before * before).sum().backward()
    weight = program.layers._modules["0"].weight
    assert float(weight.grad.abs().sum()) > 0
    weight.zero_()
    assert not td.allclose(program(x), before)


def test_state_is_kept_between_calls_and_in_files(tmp_path):
    program, x = td.jit.load(HERE / "scripted_state.pt"), td.tensor([1.0, 2.0])
    program(x)
    program.save(tmp_path / "state.td")
    again = td.jit.load(tmp_path / "state.td")
    for p in (program, again):
        rows, count, calls = p(x)
        assert rows.shape == (2, 2) and count == 5 and calls.item() == 2
        p.reset()
        assert p(x)[0].shape == (1, 2)
    other = td.jit.load(HERE / "scripted_state.pt")
    assert other(x)[1] == 3  # one of its own


def test_without_python(tmp_path):
    """tensorctl gives a module the state that it has in the file."""
    td.save(td.tensor([1.0, 2.0]), tmp_path / "x.npy")
    td.jit.load(HERE / "scripted_state.pt").save(tmp_path / "state.td")
    for path in (HERE / "scripted_state.pt", tmp_path / "state.td"):
        ran = subprocess.run([TOOL, "run", path, "--in", f"x={tmp_path / 'x.npy'}", "--in", "n=0"], capture_output=True, text=True)
        assert ran.returncode == 0 and ran.stdout.startswith("float32[1, 2] 1 5\n3\n"), ran.stdout + ran.stderr
    shown = subprocess.run([TOOL, "program", "check", unread(tmp_path)], capture_output=True, text=True)
    assert shown.returncode == 0 and "count(start : int, by : (int, float), " in shown.stdout and "'unread' is not read: code/__torch__.py" in shown.stderr


def test_errors_of_a_program_say_where_it_was_written():
    program = td.jit.load(HERE / "scripted_state.pt")
    with pytest.raises(td.Error, match=r"state takes 1 dimension, not 2(.|\n)*code/__torch__\.py:\d+"):
        program(td.zeros(2, 2))


def unread(tmp_path):
    """The archive with a method that calls what nobody knows."""
    path = tmp_path / "unread.pt"
    with zipfile.ZipFile(HERE / "scripted_state.pt") as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("code/__torch__.py"):
                lines = data.decode().split("\n")
                at = next(k for k, line in enumerate(lines) if "def unread" in line)
                body = next(k for k in range(at, len(lines)) if "return" in lines[k])
                data = "\n".join([*lines[:body], "    _0 = ops.nobody.knows(x)", *lines[body:]]).encode()
            new.writestr(name, data)
    return path


def test_a_method_that_is_not_read_says_so_when_it_is_called(tmp_path):
    program = td.jit.load(unread(tmp_path))
    with pytest.raises(td.Unsupported, match=r"unread\(\) was not read: code/__torch__\.py:\d+:\d+: "):
        program.unread(td.zeros(2))
    assert "which was not read" in repr(program)
    told = td.jit.load(HERE / "scripted_state.pt").unread(td.ones(2))
    assert {k: v.tolist() for k, v in told.items()} == {"x": [1.0, 1.0]}


def test_tensors_alone_are_no_program():
    with pytest.raises(td.Unsupported, match="torch.jit.save.*jit.load"):
        td.load(HERE / "scripted_state.pt")


def test_from_what_is_read():
    data = (HERE / "scripted_traced.pt").read_bytes()
    want = td.load(HERE / "scripted.pt")["traced"][0]
    near(td.jit.load(io.BytesIO(data))(*want[1]), want[2])


# ---- a network that others published


@pytest.fixture
def silero():
    if SILERO is None:
        pytest.skip("shared/data/torch/silero_vad.jit is not here")
    return td.jit.load(SILERO)


def sound(seconds, rate=16000):
    t = td.arange(seconds * rate, dtype=td.float32) / rate
    return (0.3 * td.sin(t * 1382.0) + 0.2 * td.sin(t * t * 40.0)) * (td.sin(t * 3.0) > 0).to(td.float32)


def test_silero_begins(silero):
    assert abs(float(silero(td.zeros(1, 512), 16000)) - 0.0017) < 5e-5
    with pytest.raises(td.Error, match="Provided number of samples is 600"):
        silero(td.zeros(1, 600), 16000)


@pytest.mark.parametrize("rate, samples", [(16000, 512), (8000, 256)])
def test_silero_over_a_minute_of_sound(silero, rate, samples):
    torch = pytest.importorskip("torch")
    theirs, minute = torch.jit.load(str(SILERO)), sound(60, rate)
    theirs.reset_states()
    silero.reset_states()
    x = torch.from_numpy(minute.numpy())
    with torch.no_grad():
        for k in range(0, 20 * samples, samples):
            want = theirs(x[None, k:k + samples], rate)
            assert abs(float(silero(minute[k:k + samples].unsqueeze(0), rate)) - float(want)) < 1e-5
        want = td.tensor(theirs.audio_forward(x[None], rate).numpy())
    assert td.allclose(silero.audio_forward(minute.unsqueeze(0), rate), want, rtol=1e-4, atol=1e-5)


# ---- the PyTorch that is here


def compared(torch, module, *args):
    file = io.BytesIO()
    torch.jit.save(module, file)
    given = [td.tensor(a.detach().numpy().copy()) if isinstance(a, torch.Tensor) else a for a in args]
    file.seek(0)
    near(td.jit.load(file)(*given), ours(torch, module(*args)))


def ours(torch, x):
    if isinstance(x, torch.Tensor):
        return td.tensor(x.detach().numpy().copy())
    return type(x)(ours(torch, item) for item in x) if isinstance(x, (list, tuple)) else x


LAYERS = """Linear(4, 3); Linear(4, 3, bias=False); BatchNorm1d(4); LayerNorm(4); Softmax(1); LogSoftmax(1); Softmin(1); ReLU(); ReLU(True); ReLU6(); LeakyReLU(0.3); ELU(); SELU(); CELU(); GELU(); SiLU(); Mish();
Sigmoid(); Tanh(); Hardtanh(); Hardsigmoid(); Hardswish(); Softplus(); Softsign(); Tanhshrink(); Softshrink(); Hardshrink(); LogSigmoid(); PReLU(); GLU(); Dropout(); Identity(); Flatten(0); Unflatten(1, (2, 2))"""
IMAGES = """Conv2d(2, 4, 3, stride=2, padding=1); Conv2d(2, 4, 3, groups=2, dilation=2); Conv2d(2, 4, 3, padding="same"); Conv2d(2, 4, 3, padding=1, padding_mode="reflect"); Conv2d(2, 2, 3, padding=1, padding_mode="circular");
ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1); BatchNorm2d(2); GroupNorm(2, 2); InstanceNorm2d(2); MaxPool2d(2); AvgPool2d(2, stride=1); AdaptiveAvgPool2d(2); AdaptiveAvgPool2d((1, 1)); Dropout2d();
Upsample(scale_factor=2); Upsample(scale_factor=2, mode="bilinear", align_corners=True); Upsample(size=(5, 7), mode="bilinear"); ZeroPad2d(1); ReflectionPad2d(1); ReplicationPad2d(1)"""
SERIES = "Conv1d(2, 3, 3, stride=2, padding=1); ConvTranspose1d(2, 3, 3, stride=2); MaxPool1d(2); AvgPool1d(2); AdaptiveAvgPool1d(1); ReflectionPad1d(1); ConstantPad1d(1, 2.0)"
CELLS = "LSTMCell(4, 3); GRUCell(4, 3); RNNCell(4, 3)"
TRACED = "LSTM(4, 3, 2, bidirectional=True); LSTM(4, 3, batch_first=True, bias=False); GRU(4, 3, 2); RNN(4, 3); RNN(4, 3, nonlinearity='relu'); TransformerEncoderLayer(4, 2, 8); TransformerEncoderLayer(4, 2, 8, norm_first=True)"
SHAPES = [(LAYERS, (3, 4)), (IMAGES, (2, 2, 8, 8)), (SERIES, (2, 2, 9)), (CELLS, (2, 4)), (TRACED, (5, 2, 4))]


@pytest.mark.filterwarnings("ignore")  # torch.jit.trace() warns of what layers check
@pytest.mark.parametrize("source, shape", [(s.strip(), shape) for sources, shape in SHAPES for s in sources.split(";")])
def test_layers_agree_with_pytorch(source, shape):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    with torch.no_grad():
        layer, x = eval(source, vars(torch.nn)).eval(), torch.randn(shape)
        compared(torch, torch.jit.trace(layer, x, check_trace=False), x)
        if source not in TRACED or source.startswith("Tr"):
            compared(torch, torch.jit.script(layer), x)


EXPRESSIONS = """x + 1; x - 1; 1 - x; x / 2; 2 / x; x // 1; x % 2; x ** 2; 2 ** x; -x; abs(x); x > 0; x == x; ~(x > 0); (x > 0) & (x < 1); x.exp(); x.abs().log(); x.sqrt(); x.clamp(0, 1); x.clamp(min=0); x.clamp(max=0.5)
x.sum(); x.sum(1); x.sum(dim=0, keepdim=True); x.sum([0, 1]); x.mean(1); x.max(); x.max(1); x.min(0, True); x.argmax(1); x.var(1); x.std(unbiased=False); x.prod(1); x.norm(); x.cumsum(1); x.cumsum(0, dtype=torch.float64); x.prod(1, dtype=torch.float64); x.any(); (x > 0).all(0)
x.softmax(1); F.softmax(x, dim=0); F.softmax(x, dim=0, dtype=torch.float64); F.log_softmax(x, 1); F.gelu(x, approximate="tanh"); F.normalize(x); F.pad(x, (1, 2), value=3.0); F.layer_norm(x, [4]); F.cosine_similarity(x, x * 2)
x.t(); x.T; x.permute(1, 0); x.view(4, 3); x.view(-1); x.reshape(2, 6); x.flatten(); x.unsqueeze(0).squeeze(0); x.expand(2, 3, 4); x.repeat(2, 1); x[0]; x[:, 1]; x[1:, ::2]; x[..., -1]; x[None]; x[:, None]; x.narrow(1, 1, 2)
torch.cat([x, x], 1); torch.stack([x, x]); x.chunk(2, 1); x.split(1); x.split([1, 3], 1); x.unbind(0); x.flip(0); x.roll(1, 0); torch.where(x > 0, x, -x); x.masked_fill(x > 0, 0.0); x.tril(); torch.triu(x, 1); x.diagonal()
x.double(); x.to(torch.float64); x.long(); x.to(x); x.to("cpu"); x.half(); x.type_as(x.double()); x.clone().zero_(); x.clone().add_(x, alpha=2); x.clone().mul_(2); x.to(torch.float32, False, True).add_(1) + x; torch.zeros(2, 3); torch.ones_like(x, dtype=torch.long)
torch.full((2,), 3); torch.arange(5); torch.arange(0, 1, 0.25); torch.eye(3); torch.linspace(0, 1, 5); torch.tensor([[1.0, 2.0], [3.0, 4.0]]); torch.tensor(3); x.new_zeros(2); torch.matmul(x, x.t()); torch.addmm(x[:, :3], x, x.t())
x.topk(2); x.sort(1); x.gather(1, (x > 0).long()); x.index_select(0, torch.tensor([0, 2])); x[torch.tensor([0, 2])]; x[:, torch.tensor([1])]; x[x > 0]; x.nonzero(); torch.isnan(x); torch.floor_divide(x, 2); torch.div(x, 0.3, rounding_mode="floor")
torch.einsum("ij,kj->ik", x, x); torch.einsum("ij->j", x); torch.norm(x, 2, dim=1); x.item() if x.numel() == 1 else 0.5; x.numel(); x.dim(); x.size(0); x.shape[1]; float(x.sum()); bool(x.sum() > 0); x.is_floating_point(); x.dtype == torch.float32; torch.equal(x, x); F.one_hot(x.long().abs()); F.mse_loss(x, x * 2); F.smooth_l1_loss(x, x * 3)
F.cross_entropy(x, torch.tensor([0, 1, 2])); F.binary_cross_entropy_with_logits(x, x.sigmoid()); F.interpolate(x[None, None], size=[6, 8], mode="bilinear", align_corners=False); 7 // 2 + 7 % 3; "a" + "b"; [1, 2, 3][1:]; x.item() if False else 2.5"""


@pytest.mark.parametrize("source", [e.strip() for e in EXPRESSIONS.replace("\n", ";").split(";")])
def test_expressions_agree_with_pytorch(source, tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "case.py"
    path.write_text(f"import torch\nfrom torch.nn import functional as F\ndef f(x):\n    return {source}\n")
    names = {"__name__": "case"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    torch.manual_seed(0)
    with torch.no_grad():
        compared(torch, torch.jit.script(names["f"]), torch.randn(3, 4).abs() if "sqrt" in source else torch.randn(3, 4))


FLOWS = ["y: List[Tensor] = []\nfor i in range(n):\n    y.append(x * i)\nreturn torch.stack(y)", "z = x\nwhile z.sum() < 100:\n    z = z + 10\n    if z.max() > 50:\n        break\nreturn z",
         "d = {'a': x, 'b': x + 1}\ns = x * 0\nfor k, v in d.items():\n    s = s + v\nreturn s, 'a' in d, len(d), list(d.keys())", "x[0] = 1\nx[:, 1] = x[:, 0]\nx[1:, 2:] += 2\nreturn x", "x[x > 0] = 0\nreturn x",
         "return torch.tensor_split(x, 3, 1), torch.tensor_split(x, [1, -1]), torch.tensor_split(x, 2)",
         "h = torch.zeros(x.shape[1])\nfor r in x:\n    h = h + r\nreturn h", "for i in range(10, 0, -3):\n    n += i\nreturn n", "y: Optional[int] = None\nif n > 2:\n    y = n\nif y is not None:\n    return y + 1\nreturn 0",
         "l = [1, n]\nl.append(4)\nl.insert(0, 9)\nl.reverse()\nv = l.pop()\nl[0] = 5\nreturn l, v, 7 in l, l.index(n), l + [1], l * 2, max(l), sum(l)", "a, b = x.chunk(2, 1)\n(c, d) = (a + 1, b - 1)\nreturn c, d, (n, 's')",
         "return n // 2, n % 3, n / 2, float(n), int(2.7), bool(n), min(n, 2), n == 3, f'{n} and {x.size(0)}'", "with torch.no_grad():\n    y = x * 2\nreturn y", "if n > 2:\n    return x\nelse:\n    return x + 1",
         "l = [3, 1, n]\nl.sort(reverse=True)\nreturn l, any([0, 2]), all([1, 0]), n ** 2, n ** -1"]


@pytest.mark.parametrize("body", FLOWS)
def test_control_flow_agrees_with_pytorch(body, tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "case.py"
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    path.write_text(f"import torch\nfrom torch import Tensor\nfrom typing import *\ndef f(x, n: int):\n{lines}")
    names = {"__name__": "case"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    torch.manual_seed(0)
    compared(torch, torch.jit.script(names["f"]), torch.randn(3, 4), 3)


# ---- what is refused


def program(body="return x", members="training : bool\n", state=None, constants=(), code=None, **more):
    """An archive of a class M with forward(self, x)."""
    indented = "".join(f"  {line}\n" for line in members.strip("\n").split("\n")) + "  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    text = f"class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n{indented}" if code is None else code
    return archive(Made(name("__torch__.M"), state={"training": True} if state is None else state), **{"constants.pkl": pickled(constants), "code/__torch__.py": text.encode(), **more})


def test_a_written_archive():
    near(td.jit.load(io.BytesIO(program("return torch.add(x, 2)")))(td.ones(2)), td.tensor([3.0, 3.0]))
    both = program("return torch.add(torch.add(x, self.w), CONSTANTS.c0)", members="w : Tensor\n", state={"w": tensor()}, constants=(2.5,))
    assert td.jit.load(io.BytesIO(both))(td.ones(1, 1)).shape[0] >= 1


def test_values_of_parameters_that_a_call_leaves_out():
    """Numbers below zero, and what they lie in."""
    code = """class M(Module):
  __parameters__ = []
  __buffers__ = []
  def forward(self: __torch__.M,
    x: Tensor,
    i: int=-5,
    f: float=-2.5,
    l: List[int]=[-1, 2],
    p: int=7,
    s: str="s",
    b: bool=True,
    o: Optional[int]=None) -> Tuple[int, float, List[int], int, str, bool, Optional[int]]:
    return (i, f, l, p, s, b, o)
"""
    f = td.jit.load(io.BytesIO(program(code=code)))
    assert f(td.ones(2)) == (-5, -2.5, [-1, 2], 7, "s", True, None)
    assert f(td.ones(2), 3, o=-4) == (3, -2.5, [-1, 2], 7, "s", True, -4)


@pytest.mark.parametrize("body, holds, holds_not", [
    ("return torch.index(x, annotate(List[Optional[Tensor]], [at]))", (1, 2, 3), (0, 2, 3)),
    ("return torch.index(x, annotate(List[Optional[Tensor]], [None, at]))", (2, 1, 3), (2, 0, 3)),
    ("y = torch.index_put_(x, annotate(List[Optional[Tensor]], [at]), torch.tensor(5))\nreturn torch.sum(y)", 30.0, 12.0)])
def test_masks_without_dimensions(body, holds, holds_not):
    """TorchScript of PyTorch 1.13 has an assertion that fails there."""
    f = td.jit.load(io.BytesIO(program("at = torch.lt(torch.sum(x), 9)\n" + body)))
    for x, expected in (td.ones(2, 3), holds), (td.full((2, 3), 2.0), holds_not):
        result = f(x)
        assert (result.shape or result.item()) == expected


def late():
    """A module that only a later one holds."""
    a = Made(name("__torch__.M"), state={5: tensor()})
    return archive(Made(name("__torch__.M"), state={"t": [a], "b": Made(name("__torch__.M"), state={"a": a})}), **{"constants.pkl": pickled(())})


def many(item, times=2000, deep=3):
    for _ in range(deep):
        item = [item] * times
    return item


TWICE = archive(b"\x80\x02c__torch__\nM\n)\x81}(X\x01\x00\x00\x00xK\x01X\x01\x00\x00\x00xK\x05ub.", **{"constants.pkl": pickled(())})
METHODS = "class M(Module):\n" + "".join(f"  def f{k}(self: __torch__.M,\n    x: Tensor) -> Tensor:\n    return x\n" for k in range(65))

REFUSED = [
    (late(), td.InvalidError, "the name of an attribute"),
    (TWICE, td.InvalidError, "two attributes 'x'"),
    (program("return x", state={"l": many(1)}), td.QuotaExceeded, "the lists of the program have more than"),
    (program("self.l = self.l\nreturn x", members="l : List[List[str]]\n", state={"l": many("x" * 1000, 700, 2)}), td.QuotaExceeded, "its state is more than"),
    (program("return x", code=METHODS), td.QuotaExceeded, "more than 64 methods"),
    (program("self.h = (x, x)\nreturn x", members="h : Tuple[Tensor, Tensor]\n", state={"h": (tensor(), tensor())}), td.Error, "h"),
    (program("return torch.frobnicate(x)"), td.Unsupported, r"code/__torch__\.py:7:12: 'torch\.frobnicate' of TorchScript is not known here yet"),
    (program("return ops.mine.thing(x)"), td.Unsupported, r"code/__torch__\.py:7:12: 'ops\.mine\.thing' is an op of somebody's own"),
    (program("return ops.prim.frobnicate(x)"), td.Unsupported, "'ops.prim.frobnicate'"),
    (program("y = fork(x)\nreturn y"), td.Unsupported, "'fork' begins what runs at the same time"),
    (program("y = __torch__.Thing(x)\nreturn y"), td.Unsupported, "classes that are no modules.*__torch__.Thing"),
    (program("y = __torch__.Thing.__new__(__torch__.Thing)\nreturn y"), td.Unsupported, "classes that are no modules"),
    (program("return self.nothing"), td.DTypeError, "'self' has no 'nothing'"),
    (program("return (self).forward(x, )"), td.DTypeError, "cannot call itself"),
    (program("return torch.to(x, 8)"), td.Unsupported, "dtype with the number 8"),
    (program("return torch.to(x, 400)"), td.Unsupported, "dtype with the number 400"),
    (program("return torch.add(x)"), td.DTypeError, "'other' is missing"),
    (program("return torch.to_mkldnn(x)"), td.Unsupported, "optimize_for_inference.. made this, and its files lack the weights"),
    (program("return torch.add(x, 1, beta=2)"), td.DTypeError, "'add' takes no 'beta': it is add"),
    (program("return CONSTANTS.c7"), td.DTypeError, "c7"),
    (program("self.training = 5\nreturn x"), td.DTypeError, "an int, and a bool is wanted"),
    (program("self.w = x\nreturn x", members="v : Tensor\n", state={"w": tensor()}), td.DTypeError, "the attribute 'w' has no type"),
    (program("import os\nreturn x"), td.Unsupported, r"code/__torch__\.py:7"),
    (program("return (lambda: x)()"), td.Unsupported, "lambda"),
    (program("return x", code="class N(Module):\n  pass\n"), td.Unsupported, "no method"),
    (program("return x", code="def f(x):\n  return x\n"), td.Unsupported, "no method"),
    (program("return x", code="class M(Module:\n"), td.InvalidError, "code/__torch__.py:1"),
    (program("return x", code=""), td.Unsupported, "no method"),
    (program("return self.d", state={"d": {1: 2}}), td.Unsupported, "neither plain data, a tensor nor a module"),
    (archive(Made(name("__torch__.M"), 5), **{"constants.pkl": pickled(())}), td.Unsupported, "made with arguments"),
    (archive(Made(name("__torch__.M"), state=[1]), **{"constants.pkl": pickled(())}), td.Unsupported, "sets the state of"),
    (archive(Made(name("__torch__.a.M")), **{"constants.pkl": pickled(())}), td.InvalidError, "no code of the class"),
    (archive([1], **{"constants.pkl": pickled(())}), td.Unsupported, "data.pkl is a list, and no module"),
    (archive(Made(name("__torch__.M"), state={"a.b": 1}), **{"constants.pkl": pickled(())}), td.InvalidError, "the name of an attribute"),
    (archive(Made(name("__torch__.M"), state={5: 1}), **{"constants.pkl": pickled(())}), td.InvalidError, "the name of an attribute"),
    (archive(Made(name("__torch__.M"), state={"a" * 600: tensor()}), **{"constants.pkl": pickled(())}), td.QuotaExceeded, "more than 512 bytes"),
    (archive(Made(name("os.system"), "true"), **{"constants.pkl": pickled(())}), td.Unsupported, "os.system"),
    (program(constants=[1]), td.InvalidError, "constants.pkl is a list, and no tuple"),
    (program(constants=(tensor(stored(key="9")),)), td.InvalidError, "storage '9' are missing"),
    (program("\n".join(["y = x"] * 400000) + "\nreturn y"), td.Error, "."),
    (program("return " + "(" * 300 + "x" + ")" * 300), td.Error, "deep"),
]


@pytest.mark.parametrize("data, kind, text", REFUSED, ids=[f"{i}-{text[-30:]}" for i, (_, _, text) in enumerate(REFUSED)])
def test_refused(data, kind, text):
    with pytest.raises(kind, match=text):
        td.jit.load(io.BytesIO(data))


def test_an_unknown_op_on_a_way_that_is_not_taken():
    net = td.jit.load(io.BytesIO(program("if torch.gt(torch.dim(x), 1):\n  y = torch.frobnicate(x)\nelse:\n  y = x\nreturn y")))
    near(net(td.ones(2)), td.ones(2))
    with pytest.raises(td.Error, match=r"NotImplementedError: 'torch.frobnicate'(.|\n)*code/__torch__\.py:8"):
        net(td.ones(2, 2)).tolist()


def test_modules_that_hold_each_other_are_read_once():
    inner = Made(name("__torch__.M"), state={"training": True})
    net = archive(Made(name("__torch__.M"), state={"a": inner, "b": inner, "training": True}),
                  **{"constants.pkl": pickled(()), "code/__torch__.py": b"class M(Module):\n  training : bool\n  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n    return torch.neg(x)\n"})
    near(td.jit.load(io.BytesIO(net))(td.ones(1)), -td.ones(1))


def test_damaged_archives_never_crash():
    import random

    from common import seed

    r = random.Random(seed())
    data = (HERE / "scripted_state.pt").read_bytes()
    for _ in range(150):
        broken = bytearray(data)
        for _ in range(r.randrange(1, 6)):
            broken[r.randrange(len(broken))] = r.randrange(256)
        try:
            td.jit.load(io.BytesIO(bytes(broken)))
        except td.Error:
            pass


def test_damaged_code_never_crashes():
    import random

    from common import seed

    r = random.Random(seed())
    whole = {n: zipfile.ZipFile(HERE / "scripted_state.pt").read(n) for n in zipfile.ZipFile(HERE / "scripted_state.pt").namelist() if "debug" not in n}
    for _ in range(60):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as z:
            for n, text in whole.items():
                lines = text.split(b"\n")
                if n.endswith(".py"):
                    for _ in range(r.randrange(1, 4)):
                        i, k = r.randrange(len(lines)), r.randrange(len(lines))
                        lines[i], lines[k] = r.choice([(lines[k], lines[i]), (lines[i], b""), (lines[i] + b" ", lines[i]), (lines[i].replace(b"x", b"y"), lines[k])])
                z.writestr(n, b"\n".join(lines))
        try:
            td.jit.load(io.BytesIO(out.getvalue()))
        except td.Error:
            pass

"""Whole objects in files: modules that were saved as they are, here and by PyTorch, and checkpoints with objects of Python in them."""

import argparse
import collections
import io
import os
import sys
import types
import zipfile

import pytest

import tensord as td
from tensord import nn

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU())
        self.head, self.labels = nn.Linear(3, 2), ["a", "b"]
        self.tied = self.head.weight
        self.head.bias.requires_grad_(False)

    def forward(self, x):
        return self.head(self.body(x))


def trip(obj, path, **options):
    td.save(obj, path)
    return td.load(path, weights_only=False, **options)


@pytest.mark.parametrize("name", ["net.pt", "net.bin", "net"])
def test_a_module_comes_back(tmp_path, name):
    net, x = Net().eval(), td.randn(5, 4)
    back = trip(net, tmp_path / name)
    assert type(back) is Net and back.labels == ["a", "b"] and not back.training and back.tied is back.head.weight
    assert back.head.weight.requires_grad and not back.head.bias.requires_grad and isinstance(back.head.bias, nn.Parameter)
    assert td.equal(back(x), net(x)) and back.head.weight.data_ptr() != net.head.weight.data_ptr()
    back.train()(x).sum().backward()
    assert back.body[0].weight.grad is not None and net.body[0].weight.grad is None


def test_it_runs_only_when_told_to(tmp_path):
    td.save(Net(), tmp_path / "net.pt")
    with pytest.raises(td.Unsupported, match="weights_only=False"):
        td.load(tmp_path / "net.pt")
    for ending in (".safetensors", ".npy", ".npz"):
        with pytest.raises(td.Error, match="Net|npy|npz"):
            td.save(Net(), tmp_path / f"net{ending}")
        assert not (tmp_path / f"net{ending}").exists()
    program = td.jit.script(nn.Linear(2, 2))
    with pytest.raises(td.DTypeError, match="a save\\(\\) of its own"):
        td.save(program, tmp_path / "program.pt")


def test_objects_beside_tensors(tmp_path):
    net = Net()
    optimizer = td.optim.Adam(net.parameters())
    net(td.randn(5, 4)).sum().backward()
    optimizer.step()
    shared = td.ones(3, requires_grad=True)
    made = trip({"args": argparse.Namespace(lr=0.1, seed=shared), "array": np.arange(3), "range": range(3), "model": net.state_dict(), "again": shared, (td.float32,): 1},
                tmp_path / "checkpoint")
    assert made["args"].lr == 0.1 and made["array"].tolist() == [0, 1, 2] and made["range"] == range(3) and made[(td.float32,)] == 1
    assert made["again"] is made["args"].seed and made["again"].requires_grad and td.equal(made["model"]["head.weight"], net.head.weight)
    to = io.BytesIO()
    td.save(optimizer, to)
    to.seek(0)
    back = td.load(to, weights_only=False)
    assert type(back) is td.optim.Adam and back.state_dict()["state"][0]["step"] == 1
    assert trip({"plain": {1, 2}}, tmp_path / "sets.bin") == td.load(tmp_path / "sets.bin") == {"plain": {1, 2}}  # what needs no code is read without
    assert trip({"a": 1}, tmp_path / "plain.safetensors") == {"a": 1}


def layers(nn):
    return [nn.Linear(4, 3), nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), nn.BatchNorm2d(2), nn.MaxPool2d(2), nn.Dropout(0.3).eval(), nn.LayerNorm(4), nn.Embedding(5, 3),
            nn.GELU(), nn.GRU(4, 3, num_layers=2), nn.MultiheadAttention(4, 2), nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh()), nn.ConvTranspose2d(2, 1, 2),
            nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), 2, enable_nested_tensor=False), nn.ModuleDict({"a": nn.PReLU()}), nn.CrossEntropyLoss(label_smoothing=0.1)]


def inputs(torch):
    x, image = torch.arange(8.0).reshape(2, 4) / 8, torch.arange(32.0).reshape(1, 2, 4, 4) / 32
    return [x, image, image, image, x, x, torch.tensor([1, 4]), x, x.reshape(1, 2, 4), (x, x, x), x, image, x.reshape(1, 2, 4), None, (x, torch.tensor([1, 2]))]


def first(made):
    return made[0] if isinstance(made, tuple) else made


def test_modules_of_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    theirs = layers(torch.nn)
    torch.save(theirs, tmp_path / "theirs.pt")
    with pytest.raises(td.Unsupported, match="nothing in a file is run"):
        td.load(tmp_path / "theirs.pt")
    ours = td.load(tmp_path / "theirs.pt", weights_only=False)
    for mine, other, x, y in zip(ours, theirs, inputs(td), inputs(torch)):
        assert type(mine).__name__ == type(other).__name__ and isinstance(mine, nn.Module) and mine.training == other.training
        assert list(mine.state_dict()) == list(other.state_dict()) and all(p.is_leaf and p.requires_grad for p in mine.parameters())
        if x is not None:
            got, wanted = (first(m(*v) if isinstance(v, tuple) else m(v)) for m, v in ((mine, x), (other, y)))
            assert np.allclose(got.detach().numpy(), wanted.detach().numpy(), atol=1e-5), type(mine)


def test_checkpoints_of_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    base = torch.arange(6.0)
    torch.save({"args": argparse.Namespace(a=1), "view": base[1:4], "all": base, "half": torch.ones(2, dtype=torch.bfloat16), "none": torch.empty(0, 3), "dtype": torch.float16,
                "size": torch.Size([2]), "device": torch.device("cpu"), "p": torch.nn.Parameter(torch.ones(2), False), "t": torch.ones(2, 3).t(), "bools": torch.tensor([True])},
               tmp_path / "theirs.pt")
    made = td.load(tmp_path / "theirs.pt", weights_only=False)
    assert made["args"].a == 1 and made["dtype"] is td.float16 and made["size"] == td.Size([2]) and made["device"] == td.device("cpu")
    assert made["view"].tolist() == [1, 2, 3] and made["half"].dtype is td.bfloat16 and made["none"].shape == (0, 3) and made["t"].stride() == (1, 3)
    assert isinstance(made["p"], nn.Parameter) and not made["p"].requires_grad and made["bools"].tolist() == [True]
    made["all"][1] = 7
    assert made["view"][0].item() == 7  # of one storage
    torch.save([torch.utils.data.TensorDataset(base), torch.fx.Graph], tmp_path / "more.pt")
    with pytest.raises(td.Unsupported, match="torch.fx.*has no counterpart here"):
        td.load(tmp_path / "more.pt", weights_only=False)
    (tmp_path / "bad.pt").write_bytes((tmp_path / "more.pt").read_bytes()[:300])
    with pytest.raises(td.Error):
        td.load(tmp_path / "bad.pt", weights_only=False)


def test_safe_globals(tmp_path):
    from tensord import serialization

    td.save(Net(), tmp_path / "net.pt")
    layers_of = [Net, nn.Sequential, nn.Linear, nn.BatchNorm1d, nn.ReLU]
    with serialization.safe_globals(layers_of):
        assert type(td.load(tmp_path / "net.pt")) is Net
    with serialization.safe_globals(layers_of[1:]), pytest.raises(td.Unsupported, match="Net, which is not among the safe globals"):
        td.load(tmp_path / "net.pt")
    with pytest.raises(td.Unsupported, match="weights_only=False"):
        td.load(tmp_path / "net.pt")
    torch = pytest.importorskip("torch")
    torch.save({"layer": torch.nn.Linear(2, 2), "dtype": torch.float64}, tmp_path / "theirs.pt")
    with serialization.safe_globals([nn.Linear]):
        assert type(td.load(tmp_path / "theirs.pt")["layer"]) is nn.Linear
    with serialization.safe_globals([nn.ReLU]), pytest.raises(td.Unsupported, match="Linear, which is not among"):
        td.load(tmp_path / "theirs.pt")


# ---- files that mean harm, where some globals are safe


class Held:
    def __call__(self):
        return "called"


def text(s):
    return b"\x8c" + bytes([len(s)]) + s.encode()


def found(module, name):
    return text(module) + text(name) + b"\x93"


def stored(kind, body, how=zipfile.ZIP_STORED):
    """A file of ours or of PyTorch with this pickle."""
    pickled, to = b"\x80\x04" + body + b".", io.BytesIO()
    if kind == "ours":
        td.save({"tensord.object": pickled, "tensord.tensors": [], "requires_grad": []}, to, format="pt")
    else:
        with zipfile.ZipFile(to, "w", how) as archive:
            archive.writestr("a/data.pkl", pickled)
            archive.writestr("a/version", "3")
            archive.writestr("a/data/k", bytes(4))
    to.seek(0)
    return to


STORAGE = b"(" + text("storage") + found("torch", "FloatStorage") + text("k") + text("cpu") + b"K\x01tQ"
HOSTILE = {
    "another function": found("os", "getpid") + b")R",
    "by a module of ours": found("tensord.serialization", "enum.sys.exit") + b")R",
    "a module whose name begins so": found("tensordevil", "float32"),
    "an attribute of a class": found("collections", "Counter") + b"N}" + text("update") + found("builtins", "set") + b"s\x86b",
    "an attribute of a safe class": found(__name__, "Held") + b"N}" + text("__call__") + found("builtins", "set") + b"s\x86b",
    "what is no function of the list": found(__name__, "Held") + b")\x81)R",
    "as many bytes as it likes": found("builtins", "bytearray") + b"\x8a\x05\x00\x00\x00\x00\x7f\x85R",
    "numbers without end": found("builtins", "set") + found("builtins", "range") + b"\x8a\x05\x00\x00\x00\x00\x7f\x85R\x85R",
    "a state of a number": b"K\x01}b",
    "no value": b"00",
    "a tensor that is not there": text("k") + b"Q",
}
THEIRS = {
    "another's function": found("torch.serialization", "enum.sys.exit") + b")R",
    "a module": found("torch", "nn"),
    "a list": found("torch.serialization", "_safe"),
    "defaults of a function": found("torch._utils", "_rebuild_parameter") + b"N}" + text("__defaults__") + b"Ns\x86b",
    "a storage that is not there": STORAGE.replace(text("k"), text("j")),
    "a dtype that is none": STORAGE.replace(found("torch", "FloatStorage"), found("builtins", "set")),
    "a tensor outside of its storage": found("torch._utils", "_rebuild_tensor_v2") + b"(" + STORAGE + b"K\x00K\x02\x85K\x01\x85\x89)tR",
    "a tensor before its storage": found("torch._utils", "_rebuild_tensor_v2") + b"(" + STORAGE + b"J\xff\xff\xff\xffK\x01\x85K\x01\x85\x89)tR",
    "a tensor of no storage": found("torch._utils", "_rebuild_tensor_v2") + b"(NK\x00K\x01\x85K\x01\x85\x89)tR",
}


@pytest.mark.parametrize("kind, what", [("ours", k) for k in HOSTILE] + [("theirs", k) for k in (*HOSTILE, *THEIRS)])
def test_safe_globals_are_all_that_a_file_uses(kind, what):
    from tensord import serialization
    from tensord.files import _objects

    update, call, defaults = collections.Counter.update, Held.__call__, _objects._parameter.__defaults__
    with serialization.safe_globals([Held]), pytest.raises((td.Unsupported, td.InvalidError), match="load\\(\\)"):
        td.load(stored(kind, {**HOSTILE, **THEIRS}[what]))
    assert collections.Counter.update is update and Held.__call__ is call and _objects._parameter.__defaults__ == defaults


@pytest.mark.parametrize("kind", ["ours", "theirs"])
def test_what_safe_globals_make(kind):
    from tensord import serialization

    body = (b"(" + found(__name__, "Held") + b")\x81}" + text("a") + b"K\x01sb" + found("collections", "OrderedDict") + b")R" + found("builtins", "set") + b"(K\x01K\x02l\x85R"
            + found("builtins", "complex") + b"K\x01K\x02\x86R" + found("builtins", "bytearray") + b"C\x02ab\x85R" + found("tensord", "float32") + b"t")
    with serialization.safe_globals([Held]):
        held, *rest = td.load(stored(kind, body))
    assert type(held) is Held and held.a == 1 and rest == [collections.OrderedDict(), {1, 2}, 1 + 2j, bytearray(b"ab"), td.float32]


def test_damaged_objects():
    for kind, body in (("ours", b"00"), ("theirs", b"00"), ("theirs", THEIRS["a storage that is not there"]), ("theirs", THEIRS["a tensor outside of its storage"])):
        with pytest.raises(td.InvalidError, match="damaged"):
            td.load(stored(kind, body), weights_only=False)
    with pytest.raises(td.InvalidError, match="compressed|method"):
        td.load(stored("theirs", found("os", "getpid") + b")R", zipfile.ZIP_DEFLATED), weights_only=False)
    assert td.load(stored("theirs", found("os", "getpid") + b")R"), weights_only=False) == os.getpid()
    for lacks in ("tensord.tensors", "requires_grad"):
        to = io.BytesIO()
        td.save({k: v for k, v in {"tensord.object": b"N.", "tensord.tensors": [], "requires_grad": []}.items() if k != lacks}, to, format="pt")
        to.seek(0)
        with pytest.raises(td.InvalidError, match="damaged"):
            td.load(to, weights_only=False)


def test_other_files_say_what_they_hold():
    for save in (np.save, np.savez):
        for array, why in ((np.array([{}], dtype=object), "array of objects"), (np.zeros(2, "S3"), "dtype")):
            save(to := io.BytesIO(), array, allow_pickle=True) if save is np.save else save(to := io.BytesIO(), x=array)
            for trusted in (False, True):
                to.seek(0)
                with pytest.raises(td.Unsupported, match=why):
                    td.load(to, weights_only=not trusted)
    torch = pytest.importorskip("torch")
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), to := io.BytesIO())
    to.seek(0)
    with pytest.raises(td.Unsupported, match="jit.load"):
        td.load(to, weights_only=False)


def test_safe_globals_under_other_names(tmp_path, monkeypatch):
    """Files of older programs have a class as elsewhere.Once."""
    elsewhere = types.ModuleType("elsewhere")
    exec("class Once:\n    def __init__(self, value):\n        self.value = value", elsewhere.__dict__)
    monkeypatch.setitem(sys.modules, "elsewhere", elsewhere)
    td.save(elsewhere.Once([td.ones(2), 3]), tmp_path / "a.pt")
    monkeypatch.undo()
    for safe in ([], [Moved], [(Moved, "elsewhere.Other")]):
        with td.serialization.safe_globals(safe), pytest.raises(td.Unsupported):
            td.load(tmp_path / "a.pt")
    with td.serialization.safe_globals([(Moved, "elsewhere.Once")]):
        made = td.load(tmp_path / "a.pt")
    assert type(made) is Moved and made.value[0].tolist() == [1.0, 1.0] and made.value[1] == 3
    td.save(Moved(), tmp_path / "b.pt")
    with td.serialization.safe_globals([Moved, (Moved, "elsewhere.Once")]):  # both names are safe
        assert type(td.load(tmp_path / "a.pt")) is type(td.load(tmp_path / "b.pt")) is Moved
    with td.serialization.safe_globals([Moved]):
        monkeypatch.setattr(sys.modules[__name__], "Moved", None)  # what was said to be safe is made, not what has its name now
        assert type(td.load(tmp_path / "b.pt")).__name__ == "Moved"
    monkeypatch.undo()
    with pytest.raises(td.DTypeError, match="a pair"):
        td.serialization.add_safe_globals([(Moved, 3)])


class Moved:
    pass

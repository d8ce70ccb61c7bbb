"""What tutorials do beside layers: functions put together from ops, writes that autograd forbids, .data, names, files of tensors."""
import io
import json
import os
import stat
import struct
import subprocess
import sys

import pytest
import tensord as td

try:
    import numpy as np
    import torch
except ImportError:
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not there (Debian: python3-torch)")

# Over x (3, 4), y (4, 5), v (4), i (5: whole numbers), b (2, 3, 4), c (2, 4, 5).
FUNCTIONS = """lib.einsum('ij,jk->ik', x, y) | lib.einsum('ij->ji', x) | lib.einsum('ij,j', x, v) | lib.einsum('ij->', x) | lib.einsum('bij,bjk->bik', b, c) |
lib.einsum('...ij,...jk->...ik', b, c) | lib.einsum('bij,jk->bik', b, y) | lib.einsum('i,j->ij', v, v) | lib.einsum('ii->i', y[:,:4]) |
lib.einsum('ii',y[:,:4]) | lib.einsum('ij,ij,ij->i', x, x, x) | lib.einsum('bij,bjk,kl->lb', b, c, y.T) | lib.einsum('a...,...->a', b[0], v) |
lib.einsum('ij,jk',x,y) | lib.einsum('...j->...', b) | lib.einsum('ijk,lk->ijl', b, x) | lib.einsum('bij,bij->b', b, x.unsqueeze(0)) |
lib.einsum('bhwc,c->bhwc', b.unsqueeze(1), v) | lib.einsum('iii->i', b[:,:2,:2]) | lib.einsum(' i B ,Bk', x, y) | lib.einsum('iij', b[:,:2]) | lib.einsum('ab,c->ac', i[None], i) | lib.einsum('i,j->', i > 1, i > 0) | lib.einsum('ab,bc->ac', i[None], i[:,None]) | lib.einsum('ij->ji', i[None] > 1) | lib.tensordot(b, c, dims=([2], [1])) | lib.tensordot(x, y, 1) | lib.inner(x, b) | lib.trace(x) |
lib.diag(x) | lib.diag(v) | lib.diag(v, 1) | lib.diag(x, -1) | lib.diag_embed(x) | lib.diag_embed(x, -1) |
lib.cross(b[:,:,:3], c[:,:3,:3], dim=2) | lib.baddbmm(b@c, b, c, beta=0.5, alpha=2) | lib.addmv(x[:,0], x, v) | lib.count_nonzero(x) |
lib.std_mean(x, 1)[0] | lib.cumprod(x, 1) | lib.diff(x) | lib.diff(x, 2, 0) | x.aminmax()[1] | lib.aminmax(x, dim=1)[0] | x.median() |
x.median(1)[0] | x.median(0,True)[1] | x.quantile(0.3) | x.quantile(lib.tensor([0.1, 0.9]), dim=1) |
x.quantile(lib.tensor([0.1,0.5]),dim=0,keepdim=True) | i.unique() | lib.unique(i, return_inverse=True, return_counts=True)[1] |
lib.unique(i,return_counts=True)[1] | lib.bincount(i) | lib.bincount(i, minlength=9) | lib.bincount(i[:4], v) |
lib.repeat_interleave(x, 2, dim=1) | x.repeat_interleave(3) | lib.repeat_interleave(v, i[:4]) |
lib.repeat_interleave(x, lib.tensor([2, 0, 1]), dim=0) | lib.searchsorted(v.sort()[0], x) | lib.bucketize(x, v.sort()[0], right=True) |
lib.isin(i, lib.tensor([1, 4])) | lib.take_along_dim(x, x.argsort(1), dim=1) | x.reshape_as(x.T) | x.ravel() | v.expand_as(x) |
x.tensor_split(2, dim=1)[1] | x.tensor_split((1, 3), 1)[1] | x.tensor_split((3, 1, -1), 1)[1] | x.tensor_split(lib.tensor([1, 9]), 1)[2] |
lib.meshgrid(v, v[:3], indexing='xy')[1] | lib.broadcast_tensors(x, v)[1] | x.fliplr() | x.flipud() | lib.column_stack((x[:,0], x)) | lib.atleast_2d(v) |
lib.concatenate((x, x)) | lib.less(x, 0) | lib.not_equal(i, 1) | lib.arctan2(x, x+2) | x.swapdims(0, 1) | lib.moveaxis(b, 0, 2) | x.fix() |
x.clamp_min(0.1) | x.clamp_max(0.1) | x.new_zeros(2, 3) | x.new_full((2,), 3) | i.new_ones((2,)) | x.new_tensor([1, 2]) | x.type(lib.float64) |
x.clone().clamp_(-0.1, 0.2) | x.clone().div_(2) | x.clone().div_(0.3, rounding_mode='floor') | y.clone().fill_diagonal_(7.0) |
lib.nansum(x.log(), 1) | lib.nanmean(x.log()) | lib.LongTensor([1, 2]) | lib.FloatTensor([[1, 2]]) | x.clone().unsqueeze_(1) | x.clone().t_() |
x.clone()[:1].squeeze_(0) | lib.as_tensor([1.5, 2]) | lib.as_tensor(x) | x.nansum() |
b.roll(1) | b.roll(1, 2) | lib.roll(b, (1, -1), (0, 1)) | x.tile((2,)) | x.tile(2, 1, 3) | lib.tile(v, (2, 2)) | lib.tensor(b.size(dim=1)) |
lib.tensor(b[1].storage_offset()) | lib.tensor(b.mT.stride(1))"""
FUNCTIONS = [f.strip() for f in FUNCTIONS.replace("\n", " ").split(" | ")]


def inputs(lib):
    rng = np.random.default_rng(3)
    shapes = dict(x=(3, 4), y=(4, 5), v=(4,), b=(2, 3, 4), c=(2, 4, 5))
    names = {k: lib.tensor(rng.standard_normal(s).astype("float32")) for k, s in shapes.items()}
    return {**names, "i": lib.tensor([3, 1, 1, 4, 0]), "lib": lib}


@needs_torch
@pytest.mark.parametrize("text", FUNCTIONS)
def test_functions_agree(text):
    ours, theirs = (eval(text, inputs(lib)) for lib in (td, torch))
    assert tuple(ours.shape) == tuple(theirs.shape) and str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
    np.testing.assert_allclose(np.asarray(ours.cpu()), theirs.numpy(), rtol=1e-4, atol=1e-5)


@needs_torch
@pytest.mark.parametrize("text", ["lib.einsum('ij,jk,kl->l', x, y, y.T)", "x.median(1)[0].sum() * x", "lib.cumprod(x, 0)", "x.repeat_interleave(2, 1)",
                                  "lib.einsum('ij,ij->i', x, x) * lib.diag(y)[:3]", "x.quantile(0.4, dim=0)", "lib.cross(x[:, :3], y[:3, :3], dim=1)"])
def test_gradients_pass_through(text):
    grads = []
    for lib in (td, torch):
        names = inputs(lib)
        names["x"].requires_grad_()
        out = eval(text, names)
        (out * out).sum().backward()
        grads.append(np.asarray(names["x"].grad.cpu() if lib is td else names["x"].grad))
    np.testing.assert_allclose(*grads, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("wrong, kind", [
    (lambda: td.einsum("ij,jk", td.ones(2, 2)), ValueError), (lambda: td.einsum("ijk", td.ones(2, 2)), ValueError), (lambda: td.einsum("i->ij", td.ones(2)), ValueError),
    (lambda: td.einsum("ij,jk", td.ones(2, 2), td.ones(3, 2)), ValueError), (lambda: td.einsum("i-j", td.ones(2)), ValueError),
    (lambda: td.einsum("..i", td.ones(2)), ValueError), (lambda: td.einsum("i->i->i", td.ones(2)), ValueError), (lambda: td.einsum(b"i", td.ones(2)), TypeError),
    (lambda: td.einsum("i" * 300, td.ones(2)), ValueError), (lambda: td.einsum("ij->ii", td.ones(2, 2)), ValueError), (lambda: td.einsum("ii", td.ones(2, 1)), ValueError),
    (lambda: td.unique(td.ones(2, 2), dim=2), IndexError), (lambda: td.ones(2).cuda(), td.Unsupported), (lambda: td.cross(td.ones(2), td.ones(2)), ValueError),
    (lambda: td.multinomial(td.ones(2), 3), ValueError), (lambda: td.normal(0.0, 1.0), TypeError), (lambda: td.ones(2).quantile(0.5, interpolation="lowest"), ValueError),
])
def test_refused(wrong, kind):
    with pytest.raises(kind):
        wrong()


def test_random_numbers():
    td.manual_seed(3)
    p = td.tensor([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])
    drawn = p.multinomial(50, replacement=True)
    assert drawn.shape == (2, 50) and set(drawn[0].tolist()) == {1, 2} and set(drawn[1].tolist()) == {0}
    assert sorted(td.multinomial(td.tensor([1.0, 2.0, 3.0]), 3).tolist()) == [0, 1, 2]
    assert 2 <= td.empty(100).uniform_(2, 3).min().item() and abs(td.normal(5.0, 0.1, (100,)).mean().item() - 5) < 0.1
    assert set(td.empty(50).bernoulli_(0.5).tolist()) == {0, 1} and td.zeros(9).random_(3, 5).min().item() >= 3
    assert td.normal(td.zeros(3), 1.0).shape == (3,) and td.tensor([0.0, 1.0]).bernoulli().tolist() == [0, 1]


def test_there_is_no_other_device():
    assert not td.cuda.is_available() and td.cuda.device_count() == 0 and not td.accelerator.is_available() and not td.backends.mps.is_available()
    assert td.ones(2).to("cuda" if td.cuda.is_available() else "cpu").is_cuda is False
    assert issubclass(td.cuda.OutOfMemoryError, MemoryError) and td.OutOfMemoryError is td.cuda.OutOfMemoryError


def test_what_programs_ask_a_tensor():
    x = td.ones(2)
    assert x.is_cpu is (x.device.type == "cpu")
    for name in "is_cuda is_mps is_mtia is_xla is_xpu is_meta is_mkldnn is_nested is_quantized is_sparse is_sparse_csr".split():
        assert getattr(x, name) is False
        with pytest.raises(AttributeError):
            setattr(x, name, True)


def test_what_programs_ask_of_modes():
    assert not td.is_inference_mode_enabled() and not td.is_inference(td.ones(2))
    with td.inference_mode():
        assert td.is_inference_mode_enabled() and td.is_inference(td.ones(2))
        with td.inference_mode(False):
            assert not td.is_inference_mode_enabled() and td.is_grad_enabled()
    assert not td.is_inference_mode_enabled()
    td.set_warn_always(True)
    assert td.is_warn_always_enabled()
    td.set_warn_always(False)
    with pytest.raises(td.DTypeError, match="expects a bool"):
        td.set_warn_always(1)


def test_numbers_that_may_stand_for_sizes():
    for name, *args in (("max", 3, 2), ("max", 3, 2.0), ("min", 2, 3.5), ("int", -2.7), ("float", 3), ("not", 0), ("sum", [1, 2.5]), ("ite", True, 1, 2), ("max", 2, 3.5)):
        ours = getattr(td, "sym_" + name)(*args)
        expected = {"max": lambda a, b: type(a + b)(max(a, b)), "min": lambda a, b: type(a + b)(min(a, b)), "int": int, "float": float, "not": lambda a: not a,
                    "sum": sum, "ite": lambda b, t, f: t if b else f}[name](*args)
        if hasattr(torch, "sym_" + name):
            expected = getattr(torch, "sym_" + name)(*args)
        assert (ours, type(ours)) == (expected, type(expected))


# ---- writes that autograd forbids: at the call, with PyTorch's words


LEAF = "a leaf Variable that requires grad is being used in an in-place operation"
VIEW = "a view of a leaf Variable that requires grad is being used in an in-place operation"
WRITES = [("w.add_(1)", LEAF), ("w += 1", LEAF), ("w.zero_()", LEAF), ("w.fill_(2)", LEAF), ("w.copy_(lib.ones(3))", LEAF), ("w[0] = 1", VIEW),
          ("w[:] = 1", VIEW), ("w[0].add_(1)", VIEW), ("w.view(3).mul_(2)", VIEW), ("w[lib.tensor([0])] = 1", LEAF), ("w.unsqueeze(0).relu_()", VIEW)]
OURS = ("w[:] = 1",)  # where PyTorch has other words


@pytest.mark.parametrize("text, words", WRITES)
def test_a_leaf_is_not_written(text, words):
    for lib in (td,) if torch is None or text in OURS else (td, torch):
        w = lib.ones(3, requires_grad=True)
        with pytest.raises(RuntimeError) as e:
            exec(text, {"w": w, "lib": lib})
        assert str(e.value).startswith(words)
    w = td.ones(3, requires_grad=True)
    with td.no_grad():
        exec(text, {"w": w, "lib": td})
    exec(text, {"w": td.ones(3), "lib": td})
    exec(text, {"w": td.ones(3, requires_grad=True) * 1, "lib": td})
    w = td.ones(3, requires_grad=True).requires_grad_(False)
    exec(text, {"w": w, "lib": td})
    td.sync()


def test_data():
    p = td.ones(3, requires_grad=True)
    (p * p).sum().backward()
    before = p.data_ptr()
    p.data -= 0.5 * p.grad
    assert p.tolist() == [0, 0, 0] and p.requires_grad and p.is_leaf and p.data_ptr() == before
    p.data = td.tensor([1.0, 2.0, 3.0])
    p.data[0] = 7
    assert p.tolist() == [7, 2, 3] and p.data_ptr() == before
    loss = (p * p).sum()
    p.data.mul_(2)  # autograd does not see it, as in PyTorch
    loss.backward()
    for wrong, kind in ((td.ones(2), td.Unsupported), (td.ones(3, dtype=td.float64), td.Unsupported), (3, TypeError)):
        with pytest.raises(kind):
            p.data = wrong
    with pytest.raises((TypeError, AttributeError)):
        del p.data


def test_shape_in_place():
    x = td.arange(6.0).reshape(2, 3)
    same, view = x, x[0]
    assert x.unsqueeze_(0) is same and same.shape == (1, 2, 3) and view.shape == (3,)
    assert x.squeeze_(0).t_().shape == (3, 2) and x.transpose_(0, 1).add_(1)[0, 0].item() == 1 and view[0].item() == 1
    w = td.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        w.unsqueeze_(0)
    y = w * 2
    y.unsqueeze_(0).sum().backward()
    assert w.grad.tolist() == [2, 2] and not y.detach_().requires_grad and w.detach_() is w and not w.requires_grad


def shown(x):
    """As it is where it lies on the CPU."""
    return repr(x).replace(f", device='{x.device}'", "")


def test_names_are_shown():
    x = td.ones(2)
    assert x.name is None and shown(x) == "tensor([1., 1.])"
    z = x.publish("idioms/x")
    y = td.open("idioms/x")
    assert shown(z) == shown(y) == "tensor([1., 1.], name='idioms/x')" and y[0].name is None and shown(x) == "tensor([1., 1.])"
    td.drop("idioms/x")


def test_what_is_published_is_one_tensor_for_all_and_apart_from_what_it_was_made_of():
    """And each says by its repr which it is."""
    w = td.ones(2, requires_grad=True)
    shared, opened = w.publish("idioms/w"), td.open("idioms/w")
    with td.no_grad():
        w.add_(1)
        opened.mul_(5)
    assert shown(w) == "tensor([2., 2.], requires_grad=True)" and shown(shared) == shown(opened) == "tensor([5., 5.], name='idioms/w')"
    assert memoryview(shared).readonly and memoryview(opened).readonly and not memoryview(w.detach()).readonly
    again = opened.publish("idioms/again")  # it lies in service memory: two names of one tensor
    assert again.add_(1).tolist() == shared.tolist() == opened.tolist() == [6, 6]
    assert opened.publish("idioms/again", copy=True, replace=True).zero_().tolist() == [0, 0] and shared.tolist() == [6, 6]
    with pytest.raises(td.Error, match="taken"):
        w.publish("idioms/w")
    for name in "idioms/w", "idioms/again":
        td.drop(name)
    assert shared.tolist() == again.tolist() == [6, 6]


# ---- files


def trip(x, **options):
    f = io.BytesIO()
    td.save(x, f)
    f.seek(0)
    return td.load(f, **options)


def test_files_keep_everything(tmp_path):
    tree = {"epoch": 3, "lr": 0.1, "inf": float("inf"), "name": "ä", "none": None, "ok": True, "shape": (1, (2,)), 7: [td.ones(2), {"x": td.zeros(2, 0)}],
            "c": td.tensor([1 + 2j]), "bf": td.tensor([1.5], dtype=td.bfloat16), "scalar": td.tensor(4), "mask": td.tensor([True, False])}
    back = trip(tree)
    assert list(back) == list(tree) and back["shape"] == (1, (2,)) and back[7][0].tolist() == [1, 1] and back[7][1]["x"].shape == (2, 0)
    assert {k: back[k] for k in ("epoch", "lr", "inf", "name", "none", "ok")} == {k: tree[k] for k in ("epoch", "lr", "inf", "name", "none", "ok")}
    assert back["c"].tolist() == [1 + 2j] and back["bf"].dtype is td.bfloat16 and back["scalar"].item() == 4 and back["mask"].tolist() == [True, False]
    assert trip(td.arange(6).reshape(2, 3).T).tolist() == [[0, 3], [1, 4], [2, 5]] and trip([1, 2.5]) == [1, 2.5]
    path = tmp_path / "a.safetensors"
    td.save({"w": td.ones(2, requires_grad=True)}, path)
    assert os.listdir(tmp_path) == ["a.safetensors"] and not td.load(str(path), "cpu")["w"].requires_grad


def test_a_state_dict_is_a_file_for_others():
    net = td.nn.Sequential(td.nn.Linear(3, 2), td.nn.BatchNorm1d(2))
    f = io.BytesIO()
    td.save(net.state_dict(), f)
    n = struct.unpack("<Q", f.getvalue()[:8])[0]
    header = json.loads(f.getvalue()[8 : 8 + n])
    assert "__metadata__" not in header and header["0.weight"] == {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]} and n % 8 == 0
    other = td.nn.Sequential(td.nn.Linear(3, 2), td.nn.BatchNorm1d(2))
    f.seek(0)
    other.load_state_dict(td.load(f))
    assert td.equal(other[0].weight, net[0].weight)


def file_of(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
DAMAGED = [b"", b"abc", file_of({}, length=1 << 40), file_of({}, length=50), file_of(b"{"), file_of(b"[]"), file_of({"a": 3}), file_of({"a": ENTRY}),
           file_of({"a": ENTRY}, b"1234567"), file_of({"a": {**ENTRY, "dtype": "F33"}}, b"12345678"), file_of({"a": {**ENTRY, "shape": [3]}}, b"12345678"),
           file_of({"a": {**ENTRY, "shape": [-2]}}, b"12345678"), file_of({"a": {**ENTRY, "shape": [1 << 62, 1 << 62]}}, b"12345678"),
           file_of({"a": {**ENTRY, "data_offsets": [8, 16]}}, b"1234567812345678"), file_of({"a": ENTRY, "b": {**ENTRY, "data_offsets": [4, 12]}}, b"1" * 12),
           file_of({"a": {**ENTRY, "shape": [True, 2]}}, b"12345678"), file_of({"__metadata__": {"tensord.tree": "{"}}), file_of(b"[" * 100000),
           file_of({"__metadata__": {"tensord.tree": '{"tensor": "b", "dtype": "float32"}'}}), file_of({"a": {**ENTRY, "shape": "2", "dtype": []}}, b"12345678"),
           file_of({"__metadata__": {"tensord.tree": '{"tuple": [{}]}'}}), file_of({"__metadata__": {"tensord.tree": '{"float": 1%s}' % ("0" * 400)}}),
           file_of({"a": {**ENTRY, "shape": [1 << 62] * 500000}}, b"12345678"),  # whose product would take hours
           file_of({"a": {**ENTRY, "shape": [0] * 9, "data_offsets": [0, 0]}}), file_of({"a": {**ENTRY, "shape": [0, 1 << 70], "data_offsets": [0, 0]}}),
           file_of({"a": {**ENTRY, "shape": [0, 1 << 62, 1 << 62], "data_offsets": [0, 0]}}), file_of({"__metadata__": {"tensord.tree": "{}"}})]


@pytest.mark.parametrize("data", DAMAGED)
def test_damaged_files(data):
    with pytest.raises(td.InvalidError, match="load"):
        td.load(io.BytesIO(data))


@pytest.mark.parametrize("place, kind", [("none/x.td", FileNotFoundError), ("file/x.td", NotADirectoryError), ("", IsADirectoryError)])
def test_save_where_it_cannot_be(tmp_path, place, kind):
    """The error names what was asked for, and nothing is left."""
    (tmp_path / "file").write_text("")
    path = os.path.join(tmp_path, place) if place else str(tmp_path)
    with pytest.raises(kind) as e:
        td.save({"x": td.ones(2)}, path)
    assert e.value.filename == path and e.value.filename2 is None and ".part" not in str(e.value)
    assert os.listdir(tmp_path) == ["file"] and not [n for n in os.listdir(tmp_path.parent) if n.endswith(".part")]


def test_only_regular_files_are_replaced(tmp_path):
    """A link still leads to its file, and a device is one."""
    real, link, lost = tmp_path / "real", tmp_path / "link", tmp_path / "lost"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to("real")
    lost.symlink_to("made")
    td.save(td.ones(2), link)
    td.save(td.ones(3), lost)
    assert link.is_symlink() and lost.is_symlink() and td.load(real).tolist() == [1, 1] and td.load(tmp_path / "made").tolist() == [1, 1, 1]
    assert real.stat().st_mode & 0o777 == 0o640 and sorted(os.listdir(tmp_path)) == ["link", "lost", "made", "real"]


def test_a_device_is_written(tmp_path):
    full = tmp_path / "full"
    try:
        os.mknod(full, 0o600 | stat.S_IFCHR, os.makedev(1, 7))  # who may replace the machine's uses one of its own
        open(full, "rb").close()
    except PermissionError:
        if os.geteuid() == 0:
            pytest.skip("this place takes no devices")
        full = "/dev/full"
    with pytest.raises(OSError, match="No space"):
        td.save(td.ones(2), full)
    assert stat.S_ISCHR(os.lstat(full).st_mode)


def test_a_fifo_is_written(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen([sys.executable, "-c", f"import sys; sys.stdout.buffer.write(open({str(pipe)!r}, 'rb').read())"], stdout=subprocess.PIPE)
    td.save(td.ones(2), pipe)
    got, _ = reader.communicate(timeout=100)
    assert td.load(io.BytesIO(got)).tolist() == [1, 1] and os.listdir(tmp_path) == ["pipe"]


def test_what_is_not_saved(tmp_path):
    for wrong, word in ((td.nn.Linear(2, 2), "state_dict"), ({"a": [print]}, "'a.0'"), ({(1, 2): 3}, "keys")):
        with pytest.raises(TypeError, match=word):
            td.save(wrong, tmp_path / "x.safetensors")
    assert os.listdir(tmp_path) == []
    with pytest.raises(td.Unsupported, match="cuda"):
        trip(1, map_location="cuda")
    with pytest.raises(FileNotFoundError):
        td.load(tmp_path / "none")


def test_tensors_are_shared_memory_already():
    x = td.ones(3, device="cpu")
    assert x.share_memory_() is x and x.pin_memory() is x and x.is_shared() and not x.is_pinned()


def test_types_by_the_names_of_pytorch():
    x = td.tensor([1.5, 2])
    assert x.type() == "tensord.FloatTensor" and x.type(td.LongTensor).tolist() == [1, 2] and x.type("torch.LongTensor").type() == "tensord.LongTensor"
    assert x.type("tensord.DoubleTensor").dtype is td.float64 and x.type(td.FloatTensor).dtype is td.float32 and x.type(td.int8).dtype is td.int8
    dtypes = [d for d in vars(td._C).values() if isinstance(d, td.dtype)]
    assert len(set(td.zeros(1, dtype=d).type() for d in dtypes)) == len(set(dtypes)) >= 12
    with pytest.raises(ValueError, match="LongTenso'"):
        x.type("torch.LongTenso")
    with pytest.raises(TypeError):
        x.type(3)


def test_what_is_absent_says_what_does_its_work():
    """Who changes the import of a script is told why a name of PyTorch's is missing; who asks by hasattr() goes on."""
    from tensord.core import _absent

    assert sum(map(len, _absent._WHY.values())) > 30
    for module, names in _absent._WHY.items():
        __import__(module)
        for name in names:
            assert not hasattr(sys.modules[module], name), f"{module}.{name} is there"
    for words, look in (("computed backwards", lambda: td.autograd.forward_ad),
                        ("the daemon orders", lambda: td.cuda.Stream), ("jit.trace", lambda: td.fx.symbolic_trace), ("load_state_dict", lambda: td.hub.load), ("TorchScript", lambda: td.onnx.export)):
        with pytest.raises(AttributeError, match=words):
            look()
    with pytest.raises(AttributeError, match="module 'tensord.nn' has no attribute 'Linea'$") as e:
        td.nn.Linea
    assert e.value.name == "Linea" and e.value.obj is td.nn, 'so Python says "Did you mean"'
    for statement in ("import tensord.nested as nested", "from tensord import nested", "import tensord.nested.api"):
        with pytest.raises(ModuleNotFoundError, match="packs sequences"):
            exec(statement)
    exec("import tensord.onnx, tensord.hub\nimport tensord.distributed as dist\nfrom tensord.fx import wrap\nassert not dist.is_available() and not dist.is_initialized() and wrap(len) is len and wrap('len') == 'len'")
    with pytest.raises(ModuleNotFoundError, match="No module named 'tensord.nothing'$"):
        import tensord.nothing  # noqa: F401
    td.cuda.manual_seed(1)
    td.cuda.empty_cache()


def test_what_programs_set_of_pytorch_s_way_to_compute(monkeypatch):
    """It is kept, checked, given back, and changes no result."""
    from tensord import _settings

    monkeypatch.setattr(_settings, "_set", dict(_settings._set))
    assert td.get_num_threads() == td.get_num_interop_threads() == next(row["value"] for row in td.status() if row["key"] == "workers") > 0
    td.set_num_threads(3)
    td.set_num_interop_threads(5)
    assert (td.get_num_threads(), td.get_num_interop_threads()) == (3, 5)
    for mode, warn_only, seen in ((True, False, (True, False, 2)), (True, True, (True, True, 1)), (False, False, (False, False, 0))):
        td.use_deterministic_algorithms(mode, warn_only=warn_only)
        assert (td.are_deterministic_algorithms_enabled(), td.is_deterministic_algorithms_warn_only_enabled(), td.get_deterministic_debug_mode()) == seen
    td.set_deterministic_debug_mode("warn")
    assert td.get_deterministic_debug_mode() == 1
    td.set_float32_matmul_precision("high")
    assert td.get_float32_matmul_precision() == "high" and td.set_flush_denormal(True) is False
    net = td.nn.Linear(2, 1)
    assert td.compile(net) is net and td.compile(mode="max-autotune")(net) is net and td.compiler.compile(net, dynamic=True) is net
    try:
        with pytest.warns(UserWarning, match="set_default_dtype"):
            td.set_default_tensor_type("torch.DoubleTensor")
        assert td.ones(1).dtype is td.float64
        with pytest.warns(UserWarning):
            td.set_default_tensor_type(td.FloatTensor)
        assert td.ones(1).dtype is td.float32
    finally:
        td.set_default_dtype(td.float32)
    for wrong, kind in ((lambda: td.set_num_threads(0), ValueError), (lambda: td.set_num_threads(1.5), TypeError), (lambda: td.set_float32_matmul_precision("low"), ValueError),
                        (lambda: td.set_deterministic_debug_mode("loud"), ValueError), (lambda: td.set_deterministic_debug_mode(3), ValueError), (lambda: td.set_num_interop_threads(True), TypeError)):
        with pytest.raises(kind):
            wrong()

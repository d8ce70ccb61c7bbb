"""load() of what torch.save() writes: files that PyTorch 2.13 wrote (pytorch_files/make.py), the PyTorch that is here, and files that nobody should write."""
import collections
import io
import itertools
import os
import pathlib
import pickle
import random
import re
import struct
import sys
import time
import zipfile

import pytest
import tensord as td

from common import Stream, script, seed

HERE = pathlib.Path(__file__).parents[1] / "pytorch_files"
KEPT = ["zip.pt", "legacy.pt"]
BASE = [[6.0 * i + k for k in range(6)] for i in range(4)]


@pytest.fixture(params=KEPT)
def kept(request):
    return td.load(HERE / request.param)


# ---- what is in the files


def test_every_dtype(kept):
    for name, t in kept["dtypes"].items():
        assert t.dtype is getattr(td, name) and t.shape == (2, 3)
        assert t.tolist() == ([[False, True, True], [True, True, True]] if name == "bool" else [[0, 1, 2], [3, 4, 5]])


def test_views_share_their_storage(kept):
    base, turned, rows, one, none = kept["views"]
    assert base.tolist() == BASE and turned.tolist() == [list(c) for c in zip(*BASE)] and turned.stride() == (1, 6)
    assert rows.tolist() == [r[::2] for r in BASE[1:3]] and one.item() == 15 and none.shape == (0,)
    base[2, 3] = -1
    assert one.item() == -1 and turned[3, 2].item() == -1
    a, b, c = kept["tied"]
    assert a is b  # one object there, one here
    a[1] = 5
    assert c.tolist() == [5, 2, 3]


def test_state_dict(kept):
    assert type(kept["state"]) is collections.OrderedDict and list(kept["state"]) == ["weight", "bias"]
    net = td.nn.Linear(6, 4, dtype=td.float64)
    net.load_state_dict(kept["state"])
    assert net.weight.tolist() == BASE and net.bias.tolist() == [1.0] * 4


def test_gradients_and_parameters(kept):
    p, frozen, wants = kept["parameter"], kept["frozen"], kept["wants"]
    assert type(p) is type(frozen) is td.nn.Parameter and p.requires_grad and p.is_leaf and not frozen.requires_grad
    assert wants.requires_grad and type(wants) is td.Tensor
    (p.sum() * 2 + (wants * wants).sum()).backward()
    assert p.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]] and wants.grad.tolist() == [6.0, 6.0]


def test_plain_data(kept):
    assert kept["plain"] == [None, True, False, 0, 255, 65535, 65536, -1, -(1 << 40), (1 << 62) + 1, 1.5, float("inf"), 2 - 3j, "text \u00e4\u20ac", b"by\xff\x00",
                             (), (1,), [], {}, {1: "a", (2, "b"): {3}}]
    assert [type(x) for x in kept["plain"]][:3] == [type(None), bool, bool]
    size, dtype, device, array, counter = kept["kinds"]
    assert size == (2, 3) and dtype is td.float16 and device == td.device("cpu") and array == bytearray(b"xy") and counter == collections.Counter("aab")
    assert kept["scalar"].shape == () and kept["scalar"].item() == 7


def test_conjugates(kept):
    assert kept["conjugate"].tolist() == [1 - 2j, 3 + 4j]


@pytest.mark.parametrize("name", ["unsigned.pt", "unsigned_legacy.pt"])
def test_tensors_of_one_storage_have_their_own_dtypes(name):
    x = td.load(HERE / name)
    for dtype, t in x["dtypes"].items():
        assert t.dtype is getattr(td, dtype) and t.tolist() == [[0, 1, 2], [3, 4, 5]]
    words, shorts, ints = x["words"]
    assert [t.dtype for t in x["words"]] == [td.uint64, td.uint16, td.uint32]
    assert words.tolist() == shorts.tolist() == list(range(6)) and shorts.stride() == (4,) and ints.tolist() == [1, 0, 2, 0, 3, 0]
    shorts[1] = 7
    assert words.tolist() == [0, 7, 2, 3, 4, 5] and ints[0].item() == 7
    raw, pairs, fours = x["odd"]
    assert [t.dtype for t in x["odd"]] == [td.uint8, td.uint16, td.uint32]
    assert raw.tolist() == list(range(1, 8)) and pairs.tolist() == [0x100, 0x302, 0x504, 0x706] and fours.tolist() == [0x3020100, 0x7060504]
    pairs[1] = 0
    assert raw.tolist() == [1, 0, 0, 4, 5, 6, 7] and x["cut"].dtype is td.uint32 and x["cut"].tolist() == [0x3020100, 0x7060504]


# ---- where files may come from


@pytest.mark.parametrize("name", KEPT)
def test_from_anything_that_can_be_read(name, tmp_path):
    data = (HERE / name).read_bytes()
    behind = tmp_path / "x"
    behind.write_bytes(b"12345" + data)
    with open(behind, "rb") as file:
        file.seek(5)
        assert td.load(file)["scalar"].item() == 7
    with open(HERE / name, "rb") as one, open(HERE / name, "rb", buffering=0) as other:
        for source in (io.BytesIO(data), Stream(data), str(HERE / name), HERE / name, one, other):
            assert td.load(source)["scalar"].item() == 7
    td.save({"x": td.ones(3)}, behind)
    assert td.load(Stream(behind.read_bytes()))["x"].tolist() == [1, 1, 1]


# ---- what save() writes for PyTorch


def written(x, path, **options):
    td.save(x, path, **options)
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
        return z.infolist(), {i.filename.split("/", 1)[1]: z.read(i) for i in z.infolist()}


def places(path):
    """Where in the file the bytes of each record begin, and the fields of its local header that torch.save() leaves empty."""
    data = path.read_bytes()
    with zipfile.ZipFile(path) as z:
        for i in z.infolist():
            head = struct.unpack("<4s5H3I2H", data[i.header_offset : i.header_offset + 30])
            yield i.header_offset + 30 + head[9] + head[10], head[2], head[3], head[6:9]


def test_the_archive_is_as_pytorch_writes_it(tmp_path):
    path = tmp_path / "net.v1.pt"
    rows, records = written({"a": td.arange(6.0), "none": td.zeros(0), "b": td.ones(3, dtype=td.uint8)}, path)
    assert [r.filename for r in rows] == [f"net.v1/{n}" for n in ("data.pkl", ".format_version", ".storage_alignment", "byteorder", "data/0", "data/1", "data/2",
                                                                  "version", ".data/serialization_id")]
    assert [records[n] for n in (".format_version", ".storage_alignment", "byteorder", "data/1", "version")] == [b"1", b"64", b"little", b"", b"3\n"]
    assert records["data/0"] == struct.pack("<6f", *range(6)) and records["data/2"] == b"\1\1\1" and re.fullmatch(rb"\d{40}", records[".data/serialization_id"])
    for row, (place, flags, method, empty) in zip(rows, places(path)):
        assert place % 64 == 0 and flags == row.flag_bits == (0x808 if row.file_size else 0x800) and method == 0 and empty == (0, 0, 0)
    kept = list(places(HERE / "zip.pt"))
    assert {k[1:] for k in kept} == {k[1:] for k in places(path) if k[1] == 0x808} and all(k[0] % 64 == 0 for k in kept)
    tail = path.read_bytes()[-98:]
    assert tail[:4] == b"PK\6\6" and tail[56:60] == b"PK\6\7" and tail[76:80] == b"PK\5\6" and struct.unpack("<Q", tail[64:72])[0] == path.stat().st_size - 98
    io_file = io.BytesIO()
    td.save(td.ones(1), io_file, format="pt")
    assert zipfile.ZipFile(io_file).namelist()[0] == "archive/data.pkl"


@pytest.mark.parametrize("name", ["x.pt", "x.pth"])
def test_back_from_a_file_for_pytorch(kept, tmp_path, name):
    """All that a file of PyTorch held is in ours."""
    base = kept["views"][0]
    kept["more"] = [b"", 1 << 62, -(1 << 63), 65537, float("-inf"), "", {None: True, 1.5: (b"k",)}, "\0", td.device("cpu"), collections.OrderedDict(), [[[]]]]
    td.save(kept, tmp_path / name)
    back = td.load(tmp_path / name)
    same_here(back, kept)
    assert vars(back["state"]) == {"_metadata": {"": {"version": 1}}}
    back["views"][0][2, 3] = -1
    assert back["views"][1][3, 2].item() == -1 and back["views"][3].item() == -1 and base[2, 3].item() == 15
    assert back["tied"][0] is back["tied"][1] and back["parameter"].is_leaf


def same_here(a, b):
    if td.is_tensor(b):
        assert type(a) is type(b) and a.dtype is b.dtype and a.requires_grad == b.requires_grad and a.shape == b.shape and a.tolist() == b.tolist()
        assert not a.numel() or a.stride() == b.stride()
    elif isinstance(b, dict):
        assert type(a) is type(b) and list(a) == list(b)
        for k in b:
            same_here(a[k], b[k])
    elif isinstance(b, (list, tuple)):
        assert type(a) is type(b) and len(a) == len(b)
        for x, y in zip(a, b):
            same_here(x, y)
    else:
        assert type(a) is type(b) and a == b


def test_how_much_of_a_storage_is_written(tmp_path):
    x = td.arange(1000.0)
    sizes = lambda tree, **options: [len(v) for k, v in written(tree, tmp_path / "x.pt", **options)[1].items() if k.startswith("data/")]
    assert sizes([x[10:20]]) == [40] and sizes([x[10:20]], whole=True) == [4000] and sizes([x[:500]]) == [4000] and sizes([x[:499]]) == [1996]
    assert sizes([x[10:20], x[15:30:2]]) == [80] and sizes([x[5:5], x[10:11]]) == [4] and sizes([td.ones(2, dtype=td.complex64)]) == [16]
    td.save([x[10:20], x[15:30:2], x[5:5]], tmp_path / "x.pt")
    a, b, none = td.load(tmp_path / "x.pt")
    assert a.tolist() == list(range(10, 20)) and b.tolist() == list(range(15, 30, 2)) and none.shape == (0,)
    a[5] = 0
    assert b[0].item() == 0
    bits = x[:4].view(td.int32)  # one storage of two dtypes: a record for each
    assert sizes([x, bits]) == [4000, 16] and td.load(tmp_path / "x.pt")[1].tolist() == bits.tolist()


def test_what_is_not_written_for_pytorch(tmp_path):
    class Own:
        pass

    for wrong, kind, text in ((Own(), TypeError, "what pickle takes: .*Own"), ({"a": [lambda: 1]}, TypeError, "what pickle takes: .*lambda"), ([{"n": 1 << 2039}], td.Unsupported, "2040 bits, of which a file of this format takes 2039 .at '0.n'"), (nested(30), td.InvalidError, "deeper than")):
        with pytest.raises(kind, match=text):
            td.save(wrong, tmp_path / "x.pt")
    with pytest.raises(td.InvalidError, match="'npy' or 'npz', not 'pickle'"):
        td.save(1, tmp_path / "x.pt", format="pickle")
    assert os.listdir(tmp_path) == []
    td.save({"x": td.ones(2)}, tmp_path / "x.pt", format="safetensors")
    assert (tmp_path / "x.pt").read_bytes()[8:9] == b"{"


def test_many_tensors(tmp_path):
    """More than an item of a queue may hold, and more than a byte counts."""
    td.save([td.tensor(i) for i in range(5000)], tmp_path / "x.pt")
    assert [t.item() for t in td.load(tmp_path / "x.pt")] == list(range(5000))


def test_a_full_disk(tmp_path):
    p = script("""
        import os, resource, sys, tensord as td
        x = td.ones(300_000)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try: td.save(x, sys.argv[1])
        except OSError as e: print(e.errno)
        """, tmp_path / "x.pt")
    assert p.returncode == 0 and p.stdout.strip() == "27" and os.listdir(tmp_path) == [], p.stderr


@pytest.mark.parametrize("mapped", [False, True])
def test_pytorch_reads_what_was_written(kept, tmp_path, mapped):
    torch = pytest.importorskip("torch")
    options = {"mmap": True} if mapped else {}
    if mapped and int(torch.__version__.split(".")[0]) < 2:
        pytest.skip("this PyTorch does not map files")
    del kept["kinds"][2]  # a device of PyTorch's
    kept["kinds"].pop(0), kept["kinds"].pop(0)  # sizes are tuples here
    td.save(kept, tmp_path / "x.pt")
    theirs = torch.load(tmp_path / "x.pt", **options)
    same(torch, kept, theirs)
    assert theirs["state"]._metadata == {"": {"version": 1}} and theirs["tied"][0] is theirs["tied"][1] and type(theirs["parameter"]) is torch.nn.Parameter
    theirs["views"][0][2, 3] = -1
    assert theirs["views"][1][3, 2].item() == -1 and theirs["views"][3].item() == -1
    net = torch.nn.Linear(6, 4).double()
    net.load_state_dict(theirs["state"])
    r = random.Random(seed())
    for _ in range(10):
        torch.save(random_tree(torch, r), tmp_path / "a.pt")
        ours = td.load(tmp_path / "a.pt")
        td.save(ours, tmp_path / "b.pt")
        same(torch, ours, torch.load(tmp_path / "b.pt", **options))


# ---- the PyTorch that is here


def random_tensor(torch, r):
    shape = [r.choice([0, 1, 2, 3, 5, 64]) for _ in range(r.randrange(4))]
    t = torch.randn(shape)
    t = t.to(r.choice([torch.float32, torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool, torch.complex64]))
    if t.dim() and t.numel() and r.random() < 0.4:
        t = t.transpose(0, -1)[..., : max(1, t.shape[0] // 2)]
    return t


def random_tree(torch, r, depth=0):
    kind = r.randrange(7 if depth < 4 else 4)
    if kind < 2:
        return random_tensor(torch, r)
    if kind == 2:
        return r.choice([None, True, r.randrange(-(1 << 62), 1 << 62), r.random(), "x" * r.randrange(300), b"\0\xff" * r.randrange(3), "".join(map(chr, range(r.randrange(500)))).encode("latin1", "ignore")])
    if kind == 3:
        return torch.nn.Parameter(torch.randn(r.randrange(1, 4)), requires_grad=r.random() < 0.5)
    if kind == 6:
        return collections.OrderedDict((f"k{i}", random_tree(torch, r, depth + 1)) for i in range(r.randrange(5)))
    items = [random_tree(torch, r, depth + 1) for _ in range(r.randrange(5))]
    return items if kind == 4 else tuple(items)


def same(torch, ours, theirs):
    if isinstance(theirs, torch.Tensor):
        assert ours.shape == tuple(theirs.shape) and ours.tolist() == theirs.tolist()
        assert [s for s, n in zip(ours.stride(), ours.shape) if n > 1] == [s for s, n in zip(theirs.stride(), theirs.shape) if n > 1] or not ours.numel()
        assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1] and ours.requires_grad == theirs.requires_grad
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for k in theirs:
            same(torch, ours[k], theirs[k])
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            same(torch, a, b)
    else:
        assert ours == theirs and type(ours) is type(theirs)


@pytest.mark.parametrize("zipped", [True, False])
def test_agrees_with_torch(zipped, tmp_path):
    torch = pytest.importorskip("torch")
    r = random.Random(seed())
    for i in range(40):
        path = tmp_path / "x.pt"
        torch.save(random_tree(torch, r), path, _use_new_zipfile_serialization=zipped, pickle_protocol=2 + i % 2)
        same(torch, td.load(path), torch.load(path, weights_only=False))


def test_large_storages_agree_with_torch(tmp_path):
    """Beyond what travels in a message, and beyond one read."""
    torch = pytest.importorskip("torch")
    x = {n: torch.randn(n) for n in (8191, 8192, 8193, 262143, 262144, 262145, 1_000_003)}
    torch.save(x, tmp_path / "x.pt")
    y = td.load(tmp_path / "x.pt")
    for n, t in x.items():
        assert y[n].numpy().tobytes() == t.numpy().tobytes()


# ---- files that nobody should write


class Name:
    """A name in a pickle, which nothing need have."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self):
        raise AssertionError("only written down")


class Made:
    """What calling a name would make."""

    def __init__(self, name, *args, state=None):
        self.reduced = (name, args, state)

    def __reduce_ex__(self, protocol):
        return self.reduced


class Stored:
    def __init__(self, *id):
        self.id = id


class Pickler(pickle._Pickler):
    dispatch = dict(pickle._Pickler.dispatch)

    def save_name(self, x):
        self.write(b"c" + x.module.encode() + b"\n" + x.name.encode() + b"\n")
        self.memoize(x)

    dispatch[Name] = save_name

    def persistent_id(self, x):
        return x.id if isinstance(x, Stored) else None


def pickled(x):
    out = io.BytesIO()
    Pickler(out, 2).dump(x)
    return out.getvalue()


def name(text):
    return Name(*text.rsplit(".", 1))


ORDERED = Made(name("collections.OrderedDict"))
BYTES = {"0": b"\0" * 32}


def stored(key="0", kind="torch.FloatStorage", where="cpu", n=8):
    return Stored("storage", name(kind), key, where, n)


def tensor(storage=None, offset=0, size=(8,), stride=(1,), grad=False, hooks=ORDERED, *more):
    return Made(name("torch._utils._rebuild_tensor_v2"), storage or stored(), offset, size, stride, grad, hooks, *more)


def archive(data, records=BYTES, folder="x", **more):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr(f"{folder}/data.pkl", data if isinstance(data, bytes) else pickled(data))
        for key, value in {"version": b"3\n", **more}.items():
            z.writestr(f"{folder}/{key}", value)
        for key, value in records.items():
            z.writestr(f"{folder}/data/{key}", value)
    return out.getvalue()


def nested(n):
    x = []
    for _ in range(n):
        x = [x]
    return x


def laughs():
    x = [1]
    for _ in range(20):
        x = [x, x, x, x, x, x, x, x, x, x]
    return x


def cut(data, n):
    return data[:-n]


def replaced(data, old, new):
    assert old in data
    return data.replace(old, new)


SELF = b"\x80\x02]q\x00h\x00a."
MANY = b"\x80\x02]q\x00(" + b"h\x00" * 3 + b"e."

# A key of a dict that is 1000 times 1000 times 1000 times 1000 empty tuples; what it is made of stands in a state, which is let go.
LEVELS = b"".join(b"K%c(%stq%c" % (i, b"h%c" % (i - 1) * 1000, i) for i in range(1, 5))
WIDE_KEY = b"\x80\x02ccollections\nOrderedDict\n)R}(K\0)q\0" + LEVELS + b"ubh\x04Ns."
ONE = tensor()
BOMB_OF_NAMES = {"x" * 60000: [ONE] * 20000}
BOMB_OF_CALLS = b"\x80\x02](ccollections\nOrderedDict\nq\0NN\x86q\1](" + b"h\1" * 100000 + b"e\x85q\2" + b"h\0h\2R" * 1000 + b"e."
BOMB_OF_BYTES = b"\x80\x02](c_codecs\nencode\nq\0X" + struct.pack("<I", 100000) + b"x" * 100000 + b"X\6\0\0\0latin1\x86q\1" + b"h\0h\1R" * 1000 + b"e."

HOSTILE = [
    # names that would be imported, and called
    (archive(Made(name("os.system"), "true")), td.Unsupported, "os.system"),
    (archive(Made(name("builtins.eval"), "1")), td.Unsupported, "builtins.eval"),
    (archive(Made(name("torch.nn.modules.linear.Linear"))), td.Unsupported, "torch.nn.modules.linear.Linear.*state_dict"),
    (archive(b"\x80\x02cos\nsystem\n."), td.Unsupported, "os.system"),
    (archive(b"\x80\x02c" + b"x" * 5000), td.InvalidError, "name of more than"),
    (archive(b"\x80\x02c\x1b[31m\n\x07\n."), td.Unsupported, r"\?\[31m"),
    (archive(Made(name("torch.float32"))), td.Unsupported, "calls torch float32"),
    (archive(b"\x80\x02K\x01)R."), td.Unsupported, "calls an int"),
    (archive(Made(ORDERED.reduced[0], 5)), td.InvalidError, "OrderedDict"),
    # opcodes
    (archive(b"\x80\x02i."), td.Unsupported, "opcode 0x69"),
    (archive(b"\x80\x09N."), td.Unsupported, "protocol 9"),
    (archive(b""), td.InvalidError, "ends too early"),
    (archive(b"\x80\x02N"), td.InvalidError, "ends too early"),
    (archive(b"\x80\x02NN."), td.InvalidError, "more than one value"),
    (archive(b"\x80\x02N.N."), td.InvalidError, "goes on behind its end"),
    (archive(b"\x80\x02."), td.InvalidError, "stack that is empty"),
    (archive(b"\x80\x02\x86."), td.InvalidError, "stack that is empty"),
    (archive(b"\x80\x02t."), td.InvalidError, "mark that was not set"),
    (archive(b"\x80\x02(N."), td.InvalidError, "more than one value"),
    (archive(b"\x80\x02Na."), td.InvalidError, "stack that is empty"),
    (archive(b"\x80\x02}Na."), td.InvalidError, "adds to a dict"),
    (archive(b"\x80\x02]NNs."), td.InvalidError, "adds to a list"),
    (archive(b"\x80\x02}(Nu."), td.InvalidError, "key without a value"),
    (archive(b"\x80\x02h\x05."), td.InvalidError, "did not remember"),
    (archive(b"\x80\x02Nr\xff\xff\xff\xff."), td.InvalidError, "remembers a value at place"),
    (archive(b"\x80\x02X\xff\xff\xff\x7fabc."), td.InvalidError, "longer than what is left"),
    (archive(b"\x80\x02X\x02\0\0\0\xc3\x28."), td.InvalidError, "UTF-8"),
    (archive(b"\x80\x02\x8b\x09\0\0\x00123456789."), td.Unsupported, "opcode 0x8b"),
    (archive(b"\x80\x02NK\x01b."), td.Unsupported, "sets the state"),
    # trees
    (archive(SELF), td.InvalidError, "holds itself"),
    (archive(nested(50)), td.InvalidError, "deeper than"),
    (archive(laughs()), td.InvalidError, "too many|deeper"),
    (archive(b"\x80\x02}(]Nu."), td.InvalidError, "key of the dict"),
    (archive(stored()), td.Unsupported, "a storage"),
    (archive(name("torch.FloatStorage")), td.Unsupported, "torch FloatStorage"),
    # files of kilobytes that would take hours, or all memory
    (archive(WIDE_KEY), td.InvalidError, "key of the dict"),
    (archive(BOMB_OF_NAMES), td.InvalidError, "names of its tensors"),
    (archive(BOMB_OF_CALLS), td.InvalidError, "more than|longer than the file"),
    (archive(BOMB_OF_BYTES), td.InvalidError, "longer than the file"),
    # tensors and storages
    (archive(tensor(size=(9,))), td.InvalidError, r"shape \[9\]"),
    (archive(tensor(offset=1)), td.InvalidError, "does not lie within"),
    (archive(tensor(offset=-1)), td.InvalidError, "does not lie within"),
    (archive(tensor(size=(-1,))), td.InvalidError, "does not lie within"),
    (archive(tensor(size=(2,), stride=(-1,))), td.InvalidError, "does not lie within"),
    (archive(tensor(size=(2,), stride=(1 << 62,))), td.InvalidError, "does not lie within"),
    (archive(tensor(size=(1 << 40, 1 << 40), stride=(0, 0))), td.InvalidError, "does not lie within"),
    (archive(tensor(size=(1,) * 9, stride=(1,) * 9)), td.InvalidError, "_rebuild_tensor_v2"),
    (archive(tensor(size=(8,), stride=())), td.InvalidError, "_rebuild_tensor_v2"),
    (archive(tensor(size=("8",))), td.InvalidError, "_rebuild_tensor_v2"),
    (archive(tensor(hooks={1: 2})), td.InvalidError, "_rebuild_tensor_v2"),
    (archive(tensor(None, 0, (8,), (1,), False, ORDERED, {"what": True})), td.InvalidError, "_rebuild_tensor_v2"),
    (archive(tensor(stored(kind="torch.IntStorage"), grad=True)), td.InvalidError, "int32 cannot have a gradient"),
    (archive(tensor(7)), td.InvalidError, "_rebuild_tensor_v2"),
    (archive(Made(name("torch._utils._rebuild_parameter"), 5, True, ORDERED)), td.InvalidError, "_rebuild_parameter"),
    (archive(tensor(stored(kind="torch.float32"))), td.Unsupported, "dtype"),
    (archive(tensor(stored(kind="torch.QInt8Storage"))), td.Unsupported, "torch.QInt8Storage"),
    (archive(tensor(stored(n=1 << 62), size=(1,))), td.InvalidError, "4611686018427387904 elements"),
    (archive(tensor(stored(n=-8))), td.InvalidError, "reference to a storage"),
    (archive(tensor(stored(n="8"))), td.InvalidError, "reference to a storage"),
    (archive(tensor(stored(key=0))), td.InvalidError, "reference to a storage"),
    (archive(tensor(Stored("module", 1))), td.InvalidError, "reference to a storage"),
    (archive([tensor(), tensor(stored(n=4), size=(4,))]), td.InvalidError, "described in two ways"),
    (archive([tensor(), tensor(stored(kind="torch.IntStorage"))]), td.InvalidError, "described in two ways"),
    (archive(tensor(), {}), td.InvalidError, "storage '0' are missing"),
    (archive(tensor(), {"0": b"\0" * 31}), td.InvalidError, "should have 32 bytes, and 31 are there"),
    (archive(tensor(stored(key="../../0"))), td.InvalidError, "missing"),
    (archive(tensor(stored(where="cuda:3"))), td.Unsupported, "cuda:3.*map_location"),
    # zip files
    (cut(archive(tensor()), 1), td.InvalidError, "end record"),
    (archive(tensor())[:200], td.InvalidError, "end record"),
    (archive(tensor(), folder=".."), td.InvalidError, "name that none may have"),
    (archive(tensor(), folder="/x"), td.InvalidError, "name that none may have"),
    (archive(tensor(), byteorder=b"middle"), td.InvalidError, "byteorder"),
    (archive(5, **{"constants.pkl": b""}), td.Unsupported, "torch.jit.save"),
    (replaced(archive(tensor()), b"x/data/0", b"x/version"[:8]), td.InvalidError, "."),
    (replaced(archive({"marker": 1}), b"marker", b"MARKER"), td.InvalidError, "checksum"),
    (replaced(archive(tensor(), {"0": b"A" * 32}), b"A" * 32, b"A" * 31 + b"B"), td.InvalidError, "storage '0' is damaged"),
    (b"PK\x03\x04" + b"0" * 50, td.InvalidError, "end record"),
    # the older form
    (pickle.dumps({"a": 1}, 2), td.Unsupported, "torch.save"),
    (pickle.dumps({"a": 1}), td.Unsupported, "opcode"),
    ((HERE / "legacy.pt").read_bytes()[:-1], td.InvalidError, "ends within storage"),
    ((HERE / "legacy.pt").read_bytes()[:-500], td.InvalidError, "ends"),
]


@pytest.mark.parametrize("data, kind, text", HOSTILE, ids=[f"{i}-{text[:30]}" for i, (_, _, text) in enumerate(HOSTILE)])
def test_hostile_files(data, kind, text):
    with pytest.raises(kind, match=text):
        td.load(io.BytesIO(data))


def test_a_list_that_is_there_often():
    assert td.load(io.BytesIO(archive([1, 2]))) == [1, 2]
    with pytest.raises(td.InvalidError, match="holds itself"):
        td.load(io.BytesIO(archive(MANY)))


def large_numbers():
    r = random.Random(seed())
    edges = [n + k for n in (1 << 63, 1 << 64, 1 << 71, 1 << 72, 10**18, 10**19, 10**27, 10**600) for k in (-1, 0, 1)]
    drawn = [r.getrandbits(r.randrange(60, 2040)) for _ in range(300)]
    return [0, *edges, *drawn, *(-n for n in edges + drawn), (1 << 2039) - 1, -(1 << 2039)]


def test_large_numbers(tmp_path):
    """A seed of 64 bits without a sign, and a generator's state of 128."""
    numbers = large_numbers()
    assert td.load(io.BytesIO(archive(numbers))) == numbers  # as Python's pickle writes them
    td.save({"seed": numbers, 1 << 64: "a key"}, tmp_path / "x.pt")
    assert td.load(tmp_path / "x.pt") == {"seed": numbers, 1 << 64: "a key"}
    with zipfile.ZipFile(tmp_path / "x.pt") as z:
        assert pickle.loads(z.read("x/data.pkl")) == {"seed": numbers, 1 << 64: "a key"}
    with pytest.raises(td.InvalidError, match="ends too early"):
        td.load(io.BytesIO(archive(b"\x80\x02\x8a\xff1.")))
    with pytest.raises(td.Unsupported, match="2040 bits"):
        td.save([1 << 2039], tmp_path / "x.pt")
    td.save([1 << 2039, -(1 << 13_000)], tmp_path / "x.td")
    assert td.load(tmp_path / "x.td") == [1 << 2039, -(1 << 13_000)]
    for way in ("x.td", "x.pt"):
        with pytest.raises(td.Unsupported, match="20001 bits, of which a file of this format takes .*'a.0'"):
            td.save({"a": [1 << 20_000]}, tmp_path / way)


def test_large_numbers_as_torch_has_them(tmp_path):
    torch = pytest.importorskip("torch")
    numbers = large_numbers()
    td.save(numbers, tmp_path / "x.pt")
    assert torch.load(tmp_path / "x.pt") == numbers
    for zipped in (True, False):
        torch.save(numbers, tmp_path / "x.pt", _use_new_zipfile_serialization=zipped)
        assert td.load(tmp_path / "x.pt") == numbers


def test_long_texts_that_are_there_often(tmp_path):
    """Each is once in the file, and once in memory."""
    text, data, number = "x\0\u00e9" * 200_000, os.urandom(100_000), 1 << 2000
    x = {"a": [text] * 1000, text: [data] * 1000, "n": (number,) * 300, "b": [bytes(data), text + "y"]}
    expected = pickle.loads(pickle.dumps(x))
    for k in range(2):
        if k:
            td.save(x, tmp_path / "x.pt")
            assert os.path.getsize(tmp_path / "x.pt") < 3_000_000
            x = td.load(tmp_path / "x.pt")
        else:
            x = td.load(io.BytesIO(archive(expected)))
        assert x == expected and len({id(t) for t in x["a"]}) == len({id(t) for t in x[text]}) == 1 and x["b"][0] == data
    td.save({"a": [text] * 3}, tmp_path / "x.td")
    assert td.load(tmp_path / "x.td") == {"a": [text] * 3}
    torch = sys.modules.get("torch")
    assert torch is None or torch.load(tmp_path / "x.pt") == expected


def test_a_note_recalls_only_what_stands_before_it():
    """Notes come from other processes, too."""
    long, number = b"s" + struct.pack("=q", 300) + b"x" * 300, lambda kind, n: kind + struct.pack("=q", n)
    good = number(b"l", 2) + long + number(b"r", len(long))
    def write(note):
        with open(os.memfd_create("x"), "w+b") as file:
            td._C._save_file(file.fileno(), "x.pt", note, [], False)
            file.seek(0)
            return td.load(io.BytesIO(file.read()))

    assert write(good) == ["x" * 300] * 2
    for wrong in (0, -1, 1, len(long) - 1, len(long) + 1, len(long) + 9, 1 << 40, -(1 << 63), (1 << 63) - 1):
        with pytest.raises(td.InvalidError, match="none that a binding packs"):
            write(number(b"l", 2) + long + number(b"r", wrong))
    with pytest.raises(td.InvalidError, match="none that a binding packs"):
        write(number(b"l", 2) + long + b"r\1\0")
    with pytest.raises(td.InvalidError, match="none that a binding packs"):
        write(number(b"r", 9) + number(b"r", 9))


@pytest.mark.parametrize("wrong, text", [([[1]], "a list"), ([{1: 2}], "a dict"), ([(1, [2])], "a tuple with such as a list"), ([((), (((ORDERED,),),))], "a tuple")], ids=str)
def test_a_set_of_what_sets_do_not_take(wrong, text):
    made = Made(name("builtins.set"), [1, "a", (2, (3,)), None, *wrong])
    with pytest.raises(td.InvalidError, match=f"the set 'b.s' holds {text}"):
        td.load(io.BytesIO(archive({"a": 1, "b": {"s": made}})))
    good = Made(name("builtins.set"), [1, "a", (2, (3,)), None, Made(name("torch.Size"), (2, 3)), name("torch.float32"), 1 << 70])
    assert td.load(io.BytesIO(archive(good))) == {1, "a", (2, (3,)), None, td.Size([2, 3]), td.float32, 1 << 70}


def test_numbers_of_the_other_order():
    """Of a machine whose numbers lie the other way round."""
    x = archive(tensor(), {"0": struct.pack(">8f", *range(8))}, byteorder=b"big")
    assert td.load(io.BytesIO(x)).tolist() == list(range(8))
    x = archive(tensor(stored(kind="torch.ComplexFloatStorage", n=2), size=(2,)), {"0": struct.pack(">4f", 1, 2, 3, 4)}, byteorder=b"big")
    assert td.load(io.BytesIO(x)).tolist() == [1 + 2j, 3 + 4j]
    one, other = untyped("torch.uint16", (4,)), untyped("torch.uint32", (2,))
    records = {"0": struct.pack(">4H", *range(4))}
    assert td.load(io.BytesIO(archive([one, one], records, byteorder=b"big")))[1].tolist() == [0, 1, 2, 3]
    with pytest.raises(td.Unsupported, match="several dtypes"):
        td.load(io.BytesIO(archive([one, other], records, byteorder=b"big")))


def test_entries_that_overlap_or_are_there_twice():
    data = bytearray(archive(tensor()))
    rows = [i for i in range(len(data)) if data[i : i + 4] == b"PK\1\2"]
    moved = bytearray(data)
    moved[rows[-1] + 42 : rows[-1] + 46] = data[rows[0] + 42 : rows[0] + 46]
    with pytest.raises(td.InvalidError, match="overlaps"):
        td.load(io.BytesIO(moved))
    with pytest.warns(UserWarning, match="Duplicate"):
        out = io.BytesIO(archive(tensor()))
        with zipfile.ZipFile(out, "a") as z:
            z.writestr("x/data/0", b"\0" * 32)
    with pytest.raises(td.InvalidError, match="there twice"):
        td.load(io.BytesIO(out.getvalue()))
    encrypted = bytearray(data)
    encrypted[rows[0] + 8] |= 1
    with pytest.raises(td.Unsupported, match="encrypted"):
        td.load(io.BytesIO(encrypted))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("x/data.pkl", pickled([0] * 1000))
    with pytest.raises(td.Unsupported, match="compressed"):
        td.load(io.BytesIO(out.getvalue()))


def test_other_devices_come_to_the_cpu_when_asked():
    x = archive(tensor(stored(where="cuda:0")))
    assert td.load(io.BytesIO(x), map_location="cpu").tolist() == [0] * 8
    assert td.load(io.BytesIO(x), map_location=td.device("cpu")).tolist() == [0] * 8
    with pytest.raises(td.Unsupported, match="no device"):
        td.load(io.BytesIO(x), map_location="cuda")


def test_locations_by_dicts_and_functions():
    x = archive([tensor(stored(where="cuda:0")), tensor(stored(key="1")), tensor(stored(where="cuda:0"), 2, (3,))], {"0": BYTES["0"], "1": BYTES["0"]})
    asked = []

    def where(storage, location):
        asked.append(location)
        return storage if location == "cuda:0" else None

    for places in ({"cuda:0": "cpu"}, {"cuda:0": td.device("cpu"), "cpu": "cpu"}, where, lambda storage, location: "cpu"):
        a, b, part = td.load(io.BytesIO(x), map_location=places)
        a[2] = 1
        assert part[0].item() == 1 and b.sum().item() == 0
    assert asked == ["cuda:0", "cpu"]
    for places in ({}, {"cuda:1": "cpu"}, lambda storage, location: None):
        with pytest.raises(td.Unsupported, match="cuda:0.*map_location"):
            td.load(io.BytesIO(x), map_location=places)
    with pytest.raises(td.Unsupported, match="no device"):
        td.load(io.BytesIO(x), map_location={"cuda:0": "cuda:7"})
    with pytest.raises(td.Unsupported, match="not a int"):
        td.load(io.BytesIO(x), map_location=3)
    with pytest.raises(ZeroDivisionError):
        td.load(io.BytesIO(x), map_location=lambda storage, location: 1 // 0)
    with pytest.raises(TypeError):
        td.load(io.BytesIO(x), map_location=lambda storage, location: 1.5)


def untyped(dtype="torch.float8_e5m2", size=(8,)):
    return Made(name("torch._utils._rebuild_tensor_v3"), stored(kind="torch.storage.UntypedStorage", n=8), 0, size, (1,), False, ORDERED, name(dtype))


def test_dtypes_that_are_left_out():
    """A key goes along; where there is a place, None stands in it."""
    records = {"0": b"\0" * 8, "1": BYTES["0"]}
    tree = {"a": untyped(), "b": [untyped("torch.float8_e4m3fn"), tensor(stored(key="1"))], "c": Made(name("torch._utils._rebuild_parameter"), untyped(), False, ORDERED), "d": 7}
    with pytest.raises(td.Unsupported, match=r"torch.float8_e5m2.*skip=True"):
        td.load(io.BytesIO(archive(tree, records)))
    x = td.load(io.BytesIO(archive(tree, records)), skip=True)
    assert list(x) == ["b", "d"] and x["b"][0] is None and x["b"][1].shape == (8,)
    assert td.load(io.BytesIO(archive(untyped(), records)), skip=True) is None


@pytest.mark.parametrize("size", [(5,), (1 << 61,)])
def test_tensors_of_bytes_lie_within_them(size):
    with pytest.raises(td.InvalidError, match="does not lie within"):
        td.load(io.BytesIO(archive([untyped("torch.uint32", (2,)), untyped("torch.uint16", size)], {"0": b"\0" * 8})))


@pytest.mark.parametrize("wrong", ["torch._utils._rebuild_tensor_v2", "builtins.set", "torch.FloatStorage"])
def test_what_is_no_dtype_is_refused(wrong):
    with pytest.raises(td.Error):
        td.load(io.BytesIO(archive(untyped(wrong), {"0": b"\0" * 8})))


def live():
    """Tensors and their bytes in the daemon, descriptors here."""
    status = {row["key"]: row["value"] for row in td.status()}
    return [status[k] for k in ("tensors", "storages", "bytes_used")] + [len(os.listdir("/proc/self/fd"))]


def stays_at(before):
    return all(now <= was for now, was in zip(live(), before))


def test_nothing_is_left_of_what_failed():
    """Damaged at every place: it loads, or it is an error of ours, and nothing stays."""
    r = random.Random(seed())
    td.load(HERE / "zip.pt")
    before = live()
    outcomes = collections.Counter()
    for kept, _ in itertools.product([*KEPT, "unsigned.pt", "unsigned_legacy.pt"], range(150)):
        data = bytearray((HERE / kept).read_bytes())
        for _ in range(r.choice([1, 1, 1, 3])):
            data[r.randrange(len(data))] ^= 1 << r.randrange(8)
        try:
            td.load(io.BytesIO(data))
            outcomes["loaded"] += 1
        except td.Error as e:
            outcomes[type(e).__name__] += 1
            assert "load()" in str(e)
    until = time.monotonic() + 60
    while not stays_at(before) and time.monotonic() < until:  # what was let go of comes back in turns of the daemon
        time.sleep(0.01)
    assert stays_at(before)
    assert outcomes["loaded"] and outcomes["InvalidError"] > 50

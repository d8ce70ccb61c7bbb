"""save() and load() of safetensors and of NumPy's .npy and .npz, built here byte by byte: what the formats say, and files that nobody should write."""
import collections
import io
import json
import os
import random
import struct
import zipfile
import zlib

import pytest
import tensord as td

from common import Stream, seed

# ---- making such files


@pytest.mark.parametrize("name", ["gzip", "bz2", "lzma"])
@pytest.mark.parametrize("form", ["pt", "safetensors", "npy", "npz"])
def test_compressed_files(name, form, tmp_path):
    """Their descriptor is that of what is compressed."""
    module, x = pytest.importorskip(name), td.tensor([1.0, 2.5, -3.0])
    with module.open(tmp_path / "x", "wb") as f:
        td.save(x if form == "npy" else {"a": x}, f, format=form)
    with module.open(tmp_path / "x", "rb") as f:
        back = td.load(f)
    assert (back if form == "npy" else back["a"]).tolist() == x.tolist()


def test_a_long_name_is_not_cut_inside_a_letter(tmp_path):
    tree = {"a": {"a" + "\u00e9" * 9000: td.tensor([1.0])}}
    td.save(tree, tmp_path / "l.safetensors")
    assert list(td.load(tmp_path / "l.safetensors")["a"]) == list(tree["a"])


def test_an_empty_npz(tmp_path):
    np = pytest.importorskip("numpy")
    td.save({}, tmp_path / "e.npz")
    assert np.load(tmp_path / "e.npz").files == [] and td.load(tmp_path / "e.npz") == {}
    np.savez(tmp_path / "n.npz")
    assert td.load(tmp_path / "n.npz") == {}


def st(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype="F32", shape=(2,), at=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(at)}


def npy(data=b"", descr="'<f4'", columns="False", shape="(2,)", version=(1, 0), text=None):
    text = text or f"{{'descr': {descr}, 'fortran_order': {columns}, 'shape': {shape}, }}"
    text = text.encode() if isinstance(text, str) else text
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H" if version[0] == 1 else "<I", len(text)) + text + data


def npz(packed=False, **arrays):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as z:
        for name, data in arrays.items():
            z.writestr(name.replace("__", "."), data)
    return out.getvalue()


def load(data):
    with open(os.memfd_create("data"), "w+b", buffering=0) as f:
        f.write(data)
        return td.load(f"/proc/self/fd/{f.fileno()}")


FLOATS = struct.pack("<2f", 1.5, -2)

# ---- what the formats say


@pytest.mark.parametrize("code, dtype, data, values", [
    ("F64", td.float64, struct.pack("<2d", 1, 2), [1, 2]), ("F32", td.float32, FLOATS, [1.5, -2]), ("F16", td.float16, struct.pack("<2e", 1, 2), [1, 2]),
    ("BF16", td.bfloat16, b"\x80\x3f\x00\x40", [1, 2]), ("I64", td.int64, struct.pack("<2q", 1 << 40, -1), [1 << 40, -1]), ("I32", td.int32, struct.pack("<2i", 1, -1), [1, -1]),
    ("I16", td.int16, struct.pack("<2h", 1, -1), [1, -1]), ("I8", td.int8, b"\1\xff", [1, -1]), ("U8", td.uint8, b"\1\xff", [1, 255]), ("BOOL", td.bool, b"\1\0", [True, False]),
    ("C64", td.complex64, struct.pack("<4f", 1, 2, 3, 4), [1 + 2j, 3 + 4j])])
def test_every_dtype_of_safetensors(code, dtype, data, values):
    t = load(st({"x": entry(code, (2,), (0, len(data)))}, data))["x"]
    assert t.dtype is dtype and t.tolist() == values


def test_names_stay_in_the_order_of_the_header():
    x = load(st({"b": entry(at=(8, 16)), "__metadata__": {"format": "pt"}, "": entry(at=(0, 8)), "none": entry(shape=(0, 3), at=(16, 16)), "s": entry("I8", (), (16, 17))}, FLOATS + FLOATS + b"\7"))
    assert list(x) == ["b", "", "none", "s"] and x[""].tolist() == [1.5, -2] and x["none"].shape == (0, 3) and x["s"].item() == 7


@pytest.mark.parametrize("length", [256, 640, 896, 1152, 1408, 65536 + 640, 0x8050])
def test_headers_whose_length_looks_like_something_else(length):
    """A pickle begins with 0x80 and its protocol: so do these files."""
    text = json.dumps({"x": entry()}).encode()
    assert load(st(text + b" " * (length - len(text)), FLOATS))["x"].tolist() == [1.5, -2]


def test_texts_and_numbers_of_trees():
    """As they were saved, halves of surrogate pairs and numbers of more than 64 bits too."""
    tree = ['a"\\/\b\f\n\r\t\x01\x7f', "\u00e4\u20ac\U0001f600", "\ud800", "\udc00\ud800x", "", 0, -1, (1 << 63) - 1, -(1 << 63), 1 << 63, -(1 << 200), 0.1, -0.0, 1e-300, 1.7976931348623157e308, 5e-324]
    for ascii in (True, False):
        texts = [t.encode("utf-16", "surrogatepass").decode("utf-16", "ignore") if not ascii and isinstance(t, str) else t for t in tree]
        x = load(st(json.dumps({"__metadata__": {"tensord.tree": json.dumps(texts, ensure_ascii=ascii)}}, ensure_ascii=ascii).encode()))
        assert x == texts and [type(v) for v in x] == [type(v) for v in texts] and str(x[-5]) == "0.1" and str(x[-4]) == "-0.0"
    assert load(st({"__metadata__": {"tensord.tree": " [1E2, 1.5e+3 ,-2e-1]\n"}})) == [100.0, 1500.0, -0.2]


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_arrays_of_numpy(version):
    x = load(npy(FLOATS, version=version))
    assert x.dtype is td.float32 and x.tolist() == [1.5, -2]
    six = struct.pack("<6h", *range(6))
    assert load(npy(six, "'<i2'", shape="(2, 3)", version=version)).tolist() == [[0, 1, 2], [3, 4, 5]]
    columns = load(npy(six, "'<i2'", "True", "(2, 3)", version))
    assert columns.tolist() == [[0, 2, 4], [1, 3, 5]] and columns.stride() == (1, 2)
    assert load(npy(struct.pack(">2d", 1, 2), '">f8"', version=version)).tolist() == [1, 2] and load(npy(struct.pack(">4f", 1, 2, 3, 4), "'>c8'")).tolist() == [1 + 2j, 3 + 4j]
    assert load(npy(b"\7", "'|u1'", shape="()")).item() == 7 and load(npy(b"", shape="(0, 3)")).shape == (0, 3) and load(npy(b"\1", "'|b1'", shape="(1,)")).tolist() == [True]


@pytest.mark.parametrize("packed", [False, True])
def test_several_in_a_zip_file(packed, tmp_path):
    large = struct.pack("<300000f", *range(300000))
    data = npz(packed, z__npy=npy(large, shape="(300000,)"), a__npy=npy(FLOATS, "'>f4'", version=(2, 0)), e__npy=npy(b"", shape="(0,)"))
    (tmp_path / "x.npz").write_bytes(data)
    for x in (load(data), td.load(tmp_path / "x.npz")):
        assert list(x) == ["z", "a", "e"] and x["z"].tolist()[::100000] == [0, 100000, 200000] and x["e"].shape == (0,)
        assert x["a"].tolist() == list(struct.unpack(">2f", FLOATS))


def test_numpy_reads_the_same(tmp_path):
    np = pytest.importorskip("numpy")
    r = random.Random(seed())
    for i in range(60):
        shape = [r.randrange(4) for _ in range(r.randrange(5))]
        a = np.array(np.random.default_rng(r.randrange(1 << 30)).integers(-100, 100, shape)).astype(r.choice(["<f4", ">f4", "<f8", "f2", "i1", ">i2", "i4", "i8", "u1", "?", "c8", ">c16"]))
        a = np.asfortranarray(a) if r.random() < 0.3 else a
        np.save(tmp_path / "x.npy", a)
        (np.savez if i % 2 else np.savez_compressed)(tmp_path / "x.npz", a=a, b=a.T)
        x, z = td.load(tmp_path / "x.npy"), td.load(tmp_path / "x.npz")
        assert x.tolist() == z["a"].tolist() == a.tolist() and z["b"].tolist() == a.T.tolist() and x.dtype.name == a.dtype.name


def test_dtypes_that_are_left_out():
    data = st({"a": entry("F8_E4M3", (4,), (0, 4)), "b": entry(at=(4, 12)), "c": entry("F8_E4M3", (3,), (12, 15)), "__metadata__": {}}, b"1234" + FLOATS + b"123")
    assert {k: v.tolist() for k, v in td.load(io.BytesIO(data), skip=True).items()} == {"b": [1.5, -2]}
    with pytest.raises(BAD, match="'a'.*F4"):
        load(st({"a": entry("F4", (4,), (0, 4))}, b"1234"))
    for wrong in (entry("F8_E4M3", (4,), (0, 5)), entry("F4", at=(0, 4)), entry("F8_E4M3", (4,), (1, 5))):
        with pytest.raises(BAD):
            td.load(io.BytesIO(st({"a": wrong}, b"12345")), skip=True)
    tree = {"tensord.tree": '[{"tensor": "a", "dtype": "float8_e4m3fn"}, {"dict": [["x", {"tensor": "a", "dtype": "float8_e4m3fn"}], ["y", 1]]}]'}
    assert td.load(io.BytesIO(st({"a": entry("F8_E4M3", (4,), (0, 4)), "__metadata__": tree}, b"1234")), skip=True) == [None, {"y": 1}]
    data = npz(a__npy=npy(FLOATS, "'<f16'"), b__npy=npy(FLOATS), c__npy=npy(FLOATS, "'|O'"))
    assert list(td.load(io.BytesIO(data), skip=True)) == ["b"]
    with pytest.raises(td.Unsupported, match="'<f16'"):
        load(data)


# ---- what is written


def written(x, format):
    td.save(x, out := io.BytesIO(), format=format)
    return out.getvalue()


def test_the_bytes_of_safetensors():
    """A dict of tensors is a file for others; everything else has its tree beside the tensors, under their places in it."""
    data = written({"b": td.tensor([1.5, -2]), "\u00e4\"": td.tensor(7, dtype=td.int8), "none": td.zeros(0, 3)}, "safetensors")
    n = int.from_bytes(data[:8], "little")
    assert n % 8 == 0 and json.loads(data[8 : 8 + n]) == {"b": entry(), "\u00e4\"": entry("I8", (), (8, 9)), "none": entry(shape=(0, 3), at=(9, 9))} and data[8 + n :] == FLOATS + b"\7"
    state = collections.OrderedDict(w=td.nn.Parameter(td.ones(2)))
    state._metadata = {"": 1}
    assert b"__metadata__" not in written(state, "safetensors")
    x = td.ones(2)
    data = written({"a": [x, {1: x, None: x, 1.5: x, True: x}], "a.0": x, "c": td.tensor([1 + 2j]), "__metadata__": x}, "safetensors")
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert set(header) == {"__metadata__", "a.0", "a.1.1", "a.1.None", "a.1.1.5", "a.0_", "c", "__metadata___"} and header["c"]["shape"] == [1, 2] and header["c"]["dtype"] == "F32"
    back = load(data)
    assert back["c"].tolist() == [1 + 2j] and back["__metadata__"].tolist() == [1, 1] and list(back["a"][1]) == [1, None, 1.5]
    assert load(written([x.expand(3, 2), td.arange(6.0).reshape(2, 3).T], "safetensors"))[1].tolist() == [[0, 3], [1, 4], [2, 5]]


def test_numbers_and_texts_come_back():
    x = ["a\"\\/\b\n\x01\x7f", "\u00e4\u20ac\U0001f600", "\ud800", "x\udc00", "", 0, (1 << 63) - 1, -(1 << 63), 1 << 63, -(1 << 200), 0.1, 1 / 3, -0.0, 1e22, 5e-324, float("inf"), -float("inf"),
         True, None, (), [], {}, ((1,), [2]), {1: {2: (3,)}, "1": 0, 1.5: 1, None: 2, False: 3, float("inf"): 4, 1 << 70: 5}]
    back = load(written(x, "safetensors"))
    assert back == x and [type(v) for v in back] == [type(v) for v in x] and [type(k) for k in back[-1]] == [type(k) for k in x[-1]] and str(back[12]) == "-0.0"
    assert str(load(written(float("nan"), "safetensors"))) == "nan"
    r = random.Random(seed())
    floats = [struct.unpack("<d", r.randbytes(8))[0] for _ in range(500)]
    assert str(load(written(floats, "safetensors"))) == str(floats)


@pytest.mark.parametrize("name", [d for d in "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split()])
def test_every_dtype_of_numpy(name):
    t = td.arange(6).reshape(2, 3).to(getattr(td, name))
    for x in (t, t.T, t[0], t[1, 2], t[:0]):
        data = written(x, "npy")
        assert (len(data) - x.nbytes) % 64 == 0 and data[: 8] == b"\x93NUMPY\1\0" and (back := load(data)).dtype is x.dtype and back.tolist() == x.tolist() and back.shape == x.shape


def test_numpy_reads_what_was_written(tmp_path):
    np = pytest.importorskip("numpy")
    for x in (td.arange(6.0).reshape(2, 3).T, td.tensor(7), td.zeros(0, 3), td.tensor([True, False]), td.tensor([1 + 2j]), td.ones(2, dtype=td.float16)):
        td.save(x, tmp_path / "x.npy")
        a = np.load(tmp_path / "x.npy")
        assert a.shape == x.shape and a.tolist() == x.tolist() and a.dtype.name == x.dtype.name
    td.save({"a": td.arange(1000), "b/c": td.ones(2), "\u00e4": td.zeros(0)}, tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as z:
        assert z.files == ["a", "b/c", "\u00e4"] and z["a"].sum() == 499500 and z["b/c"].tolist() == [1, 1] and z["\u00e4"].shape == (0,)
    assert [len(x) for x in td.load(tmp_path / "x.npz").values()] == [1000, 2, 0]
    td.save([td.ones(1), td.ones(2)], tmp_path / "x.npz")
    assert list(np.load(tmp_path / "x.npz")) == list(td.load(tmp_path / "x.npz")) == ["arr_0", "arr_1"]


def test_what_is_not_written(tmp_path):
    x = td.ones(1)
    for wrong, format, kind, text in (([lambda: 0], None, TypeError, "what pickle takes.*lambda"), ([(i for i in ())], None, TypeError, "what pickle takes.*generator"),
                                      ([x], "npy", TypeError, "one tensor"), ({"x": 1}, "npz", TypeError, "dict or a list of tensors"), (x, "npz", TypeError, "dict or a list of tensors"),
                                      ({1: x}, "npz", TypeError, "names in .npz"), ({"../x": x}, "npz", td.InvalidError, "no name"), ({"": x}, "npz", td.InvalidError, "no name"),
                                      ({"a\0b": x}, "npz", td.InvalidError, "no name"), ({"n" * 2000: x}, "npz", td.InvalidError, "no name"), (x.to(td.bfloat16), "npy", td.Unsupported, "bfloat16"),
                                      (td.ones((1,) * 8, dtype=td.complex64), None, td.Unsupported, "8 dimensions"), (nested(30), None, td.InvalidError, "deeper than")):
        with pytest.raises(kind, match=text):
            td.save(wrong, tmp_path / "x", format=format)
    assert os.listdir(tmp_path) == []


def nested(n):
    x = []
    for _ in range(n):
        x = [x]
    return x


def test_the_reference_reads_what_was_written(tmp_path):
    reference = pytest.importorskip("safetensors")
    td.save({"a": td.arange(6.0).reshape(2, 3), "b": td.ones(2, dtype=td.int8)}, tmp_path / "x.safetensors")
    with reference.safe_open(tmp_path / "x.safetensors", "np") as f:
        assert sorted(f.keys()) == ["a", "b"] and f.get_tensor("a").tolist() == [[0, 1, 2], [3, 4, 5]]


# ---- from what can only be read on


def test_one_behind_the_other(tmp_path):
    """Of a file or a stream of several only the next is read."""
    with open(tmp_path / "x", "w+b") as f:
        for k in range(3):
            td.save({"x": td.full((k,), k)}, f)
        f.seek(0)
        assert [td.load(f)["x"].tolist() for _ in range(3)] == [[], [1], [2, 2]] and f.read() == b""
    s = Stream(st({"x": entry()}, FLOATS) + b"more", 100)
    assert td.load(s)["x"].tolist() == [1.5, -2] and s.read(10) == b"more"
    with pytest.raises(td.InvalidError, match="goes on behind"):
        td.load(tmp_path / "x")


# ---- files that nobody should write

BAD = td.InvalidError
HOSTILE = [
    (b"", BAD, "too early"), (b"\x93NUM", BAD, "no file of tensors"), (st({"a": entry()}), BAD, "too early"), (st({"a": entry()}, FLOATS + b"1"), BAD, "goes on behind"),
    (st({}, length=100_000_001), BAD, "no file of tensors"), (st({}, length=3), BAD, "does not begin with a header"),
    (st({"a": entry(), "b": entry(at=(4, 12))}, FLOATS + FLOATS), BAD, "'b' are not where"), (st({"a": entry(), "b": entry(at=(16, 24))}, FLOATS * 3), BAD, "'b' are not where"),
    (st({"a": entry(), "b": entry()}, FLOATS), BAD, "'b' are not where"), (st({"a": entry(at=(0, 1 << 62))}, FLOATS), BAD, "too early|as many"),
    (st({"a": entry(at=(8, 0))}, FLOATS), BAD, "not where"), (st({"a": entry(at=(0, 7))}, b"1234567"), BAD, "not where"), (st({"a": entry(shape=(-2,))}, FLOATS), BAD, "entry for 'a'"),
    (st({"a": entry("U128")}, FLOATS), BAD, "U128"), (st({"a": entry(shape=(1,) * 9, at=(0, 4))}, b"1234"), BAD, "entry for 'a'"),
    (st(b'{"a":%s,"a":%s}' % (json.dumps(entry(at=(0, 0), shape=(0,))).encode(), json.dumps(entry()).encode()), FLOATS), BAD, "'a' is there twice"),
    (st({"a\0b": entry()}, FLOATS), BAD, "zero byte"), (st(b'{"__metadata__":{},"__metadata__":{}}'), BAD, "twice"),
    *[(st(text), BAD, "header cannot be read") for text in
      (b'{"a":1,}', b'{"a" 1}', b'{"a":01}', b'{"a":1.}', b'{"a":.5}', b'{"a":1e}', b'{"a":-}', b'{"a":nan}', b'{"a":tru}', b'{"a":"\n"}', b'{"a":"\\x"}', b'{"a":"\\u12g4"}', b'{"a":"\\u12"}',
       b'{"a":"\xff"}', b'{"a":"x}', b'{"a":"\\', b'{"a":[1 2]}', b'{"a":[1}', b"{'a':1}", b"{} {}", b"{,}", b'{1:2}', b'{"a":' + b"[" * 200 + b"]" * 200 + b"}",
       b'{"a":' + b"1" * 5000 + b"}", b'{"a":/**/1}', b"{")],
    *[(st({"x": entry(), "__metadata__": {"tensord.tree": tree}}, FLOATS), BAD, "tree") for tree in
      ('{"what": 1}', '{"tensor": 1, "dtype": "float32"}', '{"tensor": "x"}', '{"tensor": "x", "dtype": "complex128"}', '{"dict": [[1]]}', '{"dict": {}}', '{"float": "1"}', '{"float": 1}',
       '{"tuple": 3}', "[{}]", "[", 7)],
    (st({"x": entry(), "__metadata__": {"tensord.tree": '{"dict": [[[1], 2]]}'}}, FLOATS), BAD, "key of the dict"),
    (st({"__metadata__": {"tensord.tree": "[" * 30 + "]" * 30}}), BAD, "nested deeper"),
    # arrays of NumPy
    (npy(FLOATS, "'|O'"), td.Unsupported, "objects"), (npy(FLOATS, "'<U2'"), td.Unsupported, "<U2"), (npy(FLOATS, "'<f16'"), td.Unsupported, "<f16"), (npy(FLOATS, "[('a', '<f4')]"), td.Unsupported, "records"),
    (npy(FLOATS, "'<f4\\'"), BAD, "descr"), (npy(FLOATS, "f4"), BAD, "descr"), (npy(FLOATS[:-1]), BAD, "as many"), (npy(FLOATS + b"1234"), BAD, "as many"), (npy(FLOATS, shape="(-2,)"), BAD, "shape"),
    (npy(FLOATS, shape="(2)"), BAD, "tuple"), (npy(FLOATS, shape="[2]"), BAD, "tuple"), (npy(FLOATS, shape="(9223372036854775808,)"), BAD, "shape"), (npy(FLOATS, shape=f"({1 << 62}, {1 << 62})"), BAD, "shape"),
    (npy(FLOATS, shape="(0, 4611686018427387904, 4611686018427387904)"), BAD, "shape"), (npy(FLOATS, shape="(" + "1," * 9 + ")"), BAD, "shape"), (npy(FLOATS, columns="1"), BAD, "fortran_order"),
    (npy(FLOATS, version=(4, 0)), BAD, "version"), (npy(FLOATS, version=(1, 1)), BAD, "version"), (npy(FLOATS)[:40], BAD, "cut"), (b"\x93NUMPY\2\0\xff\xff\xff\x7f" + b" " * 100, BAD, "too long"),
    *[(npy(FLOATS, text=text), BAD, "header of 'array'") for text in
      ("{'descr': '<f4', 'shape': (2,)}", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
       "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}; import os", "('descr', '<f4')", "{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}",
       "__import__('os')", "{'descr': '<f4', 'fortran_order': False, 'shape': (1+1,)}")],
    # several in a zip file
    (npz(x__npy=npy(FLOATS), y__txt=b"1"), td.Unsupported, "data.pkl"), (npz(x__npy=b"1234"), BAD, "header of 'x'"), (npz(x__npy=npy(FLOATS + b"1234")), BAD, "as many"),
    (npz(True, x__npy=npy(FLOATS, "'|O'")), td.Unsupported, "'x' is an array of objects"),
]


@pytest.mark.parametrize("data, kind, text", HOSTILE, ids=[f"{i}-{text[:30]}" for i, (_, _, text) in enumerate(HOSTILE)])
def test_hostile_files(data, kind, text):
    with pytest.raises(kind, match=text):
        load(data)


def patched(data, size=None, packed=None, crc=None, method=None):
    """Another row in the directory, which is the last in its file."""
    row = data.rindex(b"PK\1\2")
    out = bytearray(data)
    for at, value, form in ((10, method, "<H"), (16, crc, "<I"), (20, packed, "<I"), (24, size, "<I")):
        if value is not None:
            struct.pack_into(form, out, row + at, value)
    return bytes(out)


@pytest.mark.parametrize("entry", range(3))
def test_an_entry_longer_than_its_gap(entry):
    """Between two entries there is a header, and then as much as the directory may say: by one byte more it overlaps what follows, which is the next
    entry or the directory."""
    good = npz(False, one__npy=npy(b"\0" * 8, shape="(2,)"), two__npy=npy(b"\0" * 8, shape="(2,)"), three__npy=npy(b"\0" * 8, shape="(2,)"))
    with zipfile.ZipFile(io.BytesIO(good)) as z:
        starts = [i.header_offset for i in z.infolist()] + [z.start_dir]
        name = z.infolist()[entry].filename
    gap = starts[entry + 1] - starts[entry] - 30
    rows = [i for i in range(len(good)) if good[i : i + 4] == b"PK\1\2"]
    for packed, text in ((gap + 1, f"'{name}' overlaps what follows it"), (gap, f"'{name}' is not where it should be"),
                         (gap - len(name) + 1, "not where it should be"), (gap - len(name), None)):
        data = bytearray(good)
        struct.pack_into("<II", data, rows[entry] + 20, packed, packed)
        if text is None:
            assert len(load(bytes(data))) == 3
            continue
        with pytest.raises(BAD, match=text):
            load(bytes(data))


def test_entries_that_lie_about_their_sizes():
    whole = npy(struct.pack("<1000f", *range(1000)), shape="(1000,)")
    good = npz(True, x__npy=whole)
    size, packed = len(whole), zipfile.ZipFile(io.BytesIO(good)).infolist()[0].compress_size
    assert load(patched(good, size, packed))["x"].shape == (1000,)
    for wrong, text in (({"size": size - 4}, "longer"), ({"size": size + 4}, "shorter"), ({"packed": packed - 5}, "cut|none"), ({"packed": packed + 500}, "overlaps"), ({"crc": 1}, "checksum"),
                        ({"size": 1 << 31}, "more than a gigabyte"), ({"method": 12}, "not known here"), ({"method": 0}, "compressed")):
        with pytest.raises(td.Error, match=text):
            load(patched(good, **wrong))
    other = npy(b"\0" * 4000, shape="(1001,)")  # a shape that fits the directory, and not what is compressed
    with pytest.raises(BAD, match="shorter|damaged"):
        load(patched(npz(True, x__npy=other), size=len(other) + 4))
    other = npy(b"\0" * 4000, shape="(999,)")
    with pytest.raises(BAD, match="longer|damaged"):
        load(patched(npz(True, x__npy=other), size=len(other) - 4))


def test_a_bomb_takes_no_more_than_it_says():
    """A megabyte that inflates to a gigabyte, and says four bytes."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = npy(shape="(1,)")
    bomb = squeeze.compress(head) + b"".join(squeeze.compress(b"\0" * (1 << 20)) for _ in range(1 << 8)) + squeeze.flush()
    stored = npz(x__npy=bomb)
    with pytest.raises(BAD, match="longer"):
        load(patched(stored, size=len(head) + 4, method=8))


def test_damaged_at_every_place():
    r = random.Random(seed())
    td.save({"a": td.arange(5.0), "b": [1, {"c": td.ones(2, dtype=td.complex64)}]}, kept := io.BytesIO())
    files = [kept.getvalue(), npy(struct.pack("<6h", *range(6)), "'<i2'", "True", "(2, 3)"), npz(x__npy=npy(FLOATS)), npz(True, x__npy=npy(FLOATS), y__npy=npy(FLOATS * 50, shape="(100,)"))]
    outcomes = collections.Counter()
    for good in files:
        for _ in range(200):
            data = bytearray(good)
            for _ in range(r.choice([1, 1, 1, 3])):
                data[r.randrange(len(data))] ^= 1 << r.randrange(8)
            try:
                load(bytes(data[: r.randrange(len(data))] if r.random() < 0.1 else data))
                outcomes["loaded"] += 1
            except td.Error as e:
                outcomes[type(e).__name__] += 1
                assert "load()" in str(e)
    assert outcomes["loaded"] and outcomes["InvalidError"] > 100

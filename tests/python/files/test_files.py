"""save() and load() where others are at the same files: links laid in the way, several writers, files that change while they are read."""
import bz2
import gzip
import io
import json
import lzma
import os
import random
import struct
import threading
import zipfile

import pytest
import tensord as td

from common import Stream, script, seed

N = 300_000  # of several megabytes, so that others get in between


def both(path, one, other, rounds):
    """Both at once, until one has had so many rounds; what the other raised is raised here."""
    over, wrong = threading.Event(), []

    def loop():
        try:
            while not over.is_set():
                other()
        except BaseException as e:  # for the test
            wrong.append(e)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        for _ in range(rounds):
            one()
    finally:
        over.set()
        thread.join()
    if wrong:
        raise wrong[0]


def test_a_link_in_the_way_leads_nowhere(tmp_path):
    """In a directory where others write, too: whatever they lay there under a name that could be guessed."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "shared").mkdir()
    for name in (f"x.{os.getpid()}.part", "x.part", f"x.{os.getpid()}", f".x.{os.getpid()}.part"):
        (tmp_path / "shared" / name).symlink_to(victim)
    td.save(td.ones(2), tmp_path / "shared" / "x")
    assert victim.read_text() == "mine" and td.load(tmp_path / "shared" / "x").tolist() == [1, 1]


def test_threads_save_to_one_path(tmp_path):
    """Whoever is last wins, and every file is whole."""
    path, failed = tmp_path / "x", []

    def work(k):
        try:
            for _ in range(20):
                td.save(td.full((20_000 + k,), k), path)
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        if path.exists():
            got = td.load(path)
            assert got.min().item() == got.max().item() == len(got) - 20_000
    assert not failed and os.listdir(tmp_path) == ["x"]


def test_a_long_name(tmp_path):
    path = tmp_path / ("n" * 255)
    td.save(td.ones(2), path)
    assert td.load(path).tolist() == [1, 1] and os.listdir(tmp_path) == [path.name]
    with pytest.raises(OSError, match="too long") as e:
        td.save(td.ones(2), str(path) + "n")
    assert e.value.filename == str(path) + "n"


def test_renamed_while_it_is_read(tmp_path):
    """Either file, whole."""
    path, parts = tmp_path / "x", [tmp_path / "a", tmp_path / "b"]
    for k, part in enumerate(parts):
        td.save(td.full((N + k,), k), part)
    os.link(parts[0], path)
    turn = [0]

    def swap():
        turn[0] ^= 1
        os.link(parts[turn[0]], tmp_path / "next")
        os.replace(tmp_path / "next", path)

    def read():
        got = td.load(path)
        assert got.min().item() == got.max().item() == len(got) - N

    both(path, read, swap, 60)


def test_cut_and_grown_while_it_is_read(tmp_path):
    """Whole, or an error that says so: never a signal, never a hang. What is read is copied, so nothing is mapped that could be cut."""
    path = tmp_path / "x"
    td.save({"a": td.ones(N), "b": [td.zeros(N)]}, path)
    data, rng, seen = path.read_bytes(), random.Random(seed()), set()

    def change():
        with open(path, "r+b") as f:
            f.truncate(rng.choice([0, 3, 8, 100, len(data) // 2, len(data) - 1, len(data) + 10_000]))
            f.seek(0)
            f.write(data[: rng.choice([len(data), rng.randrange(len(data))])])

    def read():
        try:
            td.load(path)
            seen.add("whole")
        except td.InvalidError as e:
            assert "load(): " in str(e)
            seen.add("damaged")

    both(path, read, change, 150)
    assert "damaged" in seen
    path.write_bytes(data)
    assert td.load(path)["a"].sum().item() == N


def test_a_full_disk_leaves_what_was_there(tmp_path):
    """As of a disk without room: a limit of the process for its files."""
    path = tmp_path / "x"
    td.save(td.ones(2), path)
    p = script("""
        import resource, sys, tensord as td
        x = td.ones(300_000)  # the daemon has none
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try: td.save(x, sys.argv[1])
        except OSError as e: print(e.errno)
        td.save(td.ones(3), sys.argv[2])
        """, path, tmp_path / "y")
    assert p.returncode == 0 and p.stdout.strip() == "27", p.stderr
    assert td.load(path).tolist() == [1, 1] and sorted(os.listdir(tmp_path)) == ["x", "y"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write all")
def test_no_permission(tmp_path):
    path = tmp_path / "x"
    td.save(td.ones(2), path)
    path.chmod(0)
    with pytest.raises(PermissionError):
        td.load(path)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/urandom", "/dev/null", "/proc/self/maps", "/proc/self/cmdline"])
def test_what_is_no_file_of_tensors(path):
    with pytest.raises(td.InvalidError, match="load"):
        td.load(path)


def test_links_in_a_circle(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for work in (lambda: td.load(tmp_path / "a"), lambda: td.save(td.ones(2), tmp_path / "a")):
        with pytest.raises(OSError, match="levels of symbolic links"):
            work()
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_a_stream_that_never_ends():
    """Whoever writes to a pipe as long as a header may be is not read further."""
    p = script("""
        import os, struct, threading, tensord as td
        r, w = os.pipe()
        def write():
            os.write(w, struct.pack("<Q", 1 << 60))
            try:
                while True: os.write(w, bytes(65536))
            except BrokenPipeError: print("stopped")
        threading.Thread(target=write).start()
        try: td.load(os.fdopen(r, "rb"))
        except td.InvalidError as e: print("header" in str(e))
        """)
    assert p.returncode == 0 and p.stdout.split() == ["True", "stopped"], p.stdout + p.stderr


def test_a_fifo(tmp_path, monkeypatch):
    """What comes through one may come in parts; one that nobody writes is not waited for without end."""
    pipe, x = tmp_path / "pipe", {f"{k}" * 200: td.full((2,), k) for k in range(2000)}
    os.mkfifo(pipe)
    monkeypatch.setattr("tensord.files._save.FIFO_SECONDS", 0.05)
    with pytest.raises(td.Timeout, match="pipe' is a FIFO, which no process has opened for writing for 0.05 s"):
        td.load(pipe)
    monkeypatch.setattr("tensord.files._save.FIFO_SECONDS", 1000)
    for form in ("safetensors", "pt", "npz"):
        writer = threading.Thread(target=td.save, args=(x, pipe), kwargs={"format": form})
        writer.start()
        got = td.load(pipe)
        writer.join()
        assert list(got) == list(x) and all(got[k].tolist() == x[k].tolist() for k in x)


# ---- what is no file of tensors says so, and which file it is


STRANGERS = {"Git LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "HTML": b"<!DOCTYPE html><html><body>", "it is empty": b"", "fewer than 4": b"abc",
             "in JSON": b'{"metadata": {"total_size": 1}, "weight_map": {}}', "by gzip": gzip.compress(b"x" * 1000), "by xz": lzma.compress(b"x"), "by bzip2": bz2.compress(b"x"),
             "zero bytes": bytes(1000), "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(50), "ONNX": b"\x08\x08\x12\x07pytorch\x1a\x05", "GGUF": b"GGUF\3" + bytes(50), "XML": b"<?xml version='1.0'?><Error/>",
             "neither what torch.save": b"hello world"}


def exported():
    with zipfile.ZipFile(out := io.BytesIO(), "w") as z:
        for name in ("m/data/weights/weight_0", "m/models/model.json", "m/archive_format"):
            z.writestr(name, b"pt2")
    return out.getvalue()


@pytest.mark.parametrize("what", [*STRANGERS, "torch.export.save"])
def test_what_is_known_is_named(tmp_path, what):
    path, data = tmp_path / "model.pt", STRANGERS[what] if what in STRANGERS else exported()
    path.write_bytes(data)
    for source in (path, str(path), open(path, "rb"), open(path, "rb", buffering=0)):
        with pytest.raises((td.InvalidError, td.Unsupported), match=f"(?s)load\\(\\): '{path}': .*{what}"):
            td.load(source)
        if not isinstance(source, (str, os.PathLike)):
            source.close()
    for source in (io.BytesIO(data), Stream(data)):
        with pytest.raises((td.InvalidError, td.Unsupported), match=f"(?s)load\\(\\): [^']*{what}"):
            td.load(source)
    with pytest.raises((td.InvalidError, td.Unsupported), match=f"load\\(\\): '{path}': "):
        td.jit.load(path)


def test_errors_name_the_file_once(tmp_path):
    path = tmp_path / "x.pt"
    td.save({"a": td.ones(100), "b": {"c": 1}}, path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(td.InvalidError) as e:
        td.load(path)
    assert str(e.value).count(str(path)) == 1 and str(e.value).startswith(f"load(): '{path}': ")
    with pytest.raises(FileNotFoundError) as e:
        td.load(tmp_path / "none")
    assert str(e.value).count("none") == 1
    damaged = data.replace(b"\0\0\x80?" * 4, b"\0\0\x80?" * 3 + b"\1\0\x80?", 1)
    path.write_bytes(damaged)
    with pytest.raises(td.InvalidError, match="is damaged") as e:
        td.load(path, weights_only=False)
    assert str(path) in str(e.value)


# ---- tensors and numbers of others


np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")
NUMBERS = [np.int64(3), np.uint64(2**64 - 1), np.int8(-1), np.float32(1.5), np.float16(0.5), np.float64(0.1), np.bool_(True)]


def arrays():
    base = np.arange(24.0).reshape(4, 6)
    return {"a": base, "turned": base.T[::2], "none": np.zeros((0, 3)), "scalar": np.array(3.5), "one": np.broadcast_to(np.float32(2), (3000, 1000)), "swapped": np.arange(3, dtype=">i4"),
            "back": base[::-1, ::-2], "flags": np.array([True, False]), "read only": np.frombuffer(b"12345678", dtype=np.int32), "half": np.ones(2, dtype=np.float16)}


@pytest.mark.parametrize("form", ["pt", "safetensors", "npz"])
def test_arrays_of_numpy_are_tensors_in_files(tmp_path, form):
    x = arrays()
    td.save(x, tmp_path / f"x.{form}")
    got = td.load(tmp_path / f"x.{form}")
    assert list(got) == list(x)
    for k, a in x.items():
        assert type(got[k]) is td.Tensor and got[k].dtype.name == a.dtype.name and got[k].shape == a.shape and np.array_equal(got[k].numpy(), a)
    if form == "pt":
        assert os.path.getsize(tmp_path / "x.pt") < 20_000  # what lies on top of each other is there once


def test_numbers_of_numpy_are_numbers_in_files(tmp_path):
    for name in ("x.pt", "x.td", "x.safetensors"):
        td.save({"n": NUMBERS, np.int64(7): np.str_("text"), "t": td.ones(1)}, tmp_path / name)
        got = td.load(tmp_path / name)
        assert got["n"] == [x.item() for x in NUMBERS] and [type(x) for x in got["n"]] == [type(x.item()) for x in NUMBERS] and got[7] == "text"
    td.save([np.complex64(1 + 2j), np.bytes_(b"y")], tmp_path / "x.pt")
    assert td.load(tmp_path / "x.pt") == [1 + 2j, b"y"]


@pytest.mark.parametrize("name", ["x.pt", "x.td", "x.npz"])
def test_what_is_no_tensor_is_refused_by_its_name(tmp_path, name):
    for wrong, text in ((np.array(["a", "bc"]), "an array of NumPy of '<U2', which is no dtype here .at 'b.k'"), (np.array([None]), "'.O'"), (np.zeros(2, dtype="f8,i4"), "V12"),
                        (np.ma.array([1], mask=[1]), "a masked array"), (np.datetime64("2024-01-02"), "datetime64"), (np.timedelta64(3, "s"), "timedelta64")):
        with pytest.raises(TypeError, match=text):
            td.save({"a": td.ones(1), "b": {"k": wrong}}, tmp_path / name)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["x.safetensors", "x.td"])
def test_a_name_with_a_zero_byte(tmp_path, name):
    for wrong in ({"a\0b": td.ones(1)}, {"x": {"a\0b": [td.ones(1)]}}, {"a\0": td.ones(1, dtype=td.complex64)}):
        with pytest.raises(td.InvalidError, match="the name of a tensor holds a zero byte, behind '.*a'"):
            td.save(wrong, tmp_path / name)
    assert os.listdir(tmp_path) == []
    td.save({"a\0b": [1, "\0"], "c": td.ones(1)}, tmp_path / name)
    assert td.load(tmp_path / name)["a\0b"] == [1, "\0"]
    td.save({"a\0b": td.ones(1)}, tmp_path / "x.pt")
    assert list(td.load(tmp_path / "x.pt")) == ["a\0b"]


def test_metadata(tmp_path):
    path, words = tmp_path / "x.safetensors", {"format": "pt", "\u00e4\"": "x\0y\n", "": ""}
    for x in ({"w": td.ones(2, device="cpu")}, [1, td.ones(2, device="cpu")], {}):
        td.save(x, path, metadata=words)
        told = {"mine": 1}
        got = td.load(path, metadata=told)
        assert str(got) == str(x) == str(td.load(path)) and told == {"mine": 1, **words}
        header = json.loads(path.read_bytes()[8:][: int.from_bytes(path.read_bytes()[:8], "little")])
        assert {k: v for k, v in header["__metadata__"].items() if k != "tensord.tree"} == words
    with open(path, "rb") as file:
        told = {}
        assert td.load(file, metadata=told) == {} and told == words
    td.save({"w": td.ones(2)}, out := io.BytesIO(), metadata={"k": "v"})
    out.seek(0)
    assert td.load(out, metadata=told)["w"].shape == (2,) and told["k"] == "v"
    td.save({"w": td.ones(2)}, tmp_path / "x.pt")
    assert td.load(tmp_path / "x.pt", metadata=(told := {}))["w"].shape == (2,) and told == {}
    for wrong, kind, text in (({"a": 1}, TypeError, "a dict of texts"), (["a"], TypeError, "a dict of texts"), ({"tensord.tree": "x"}, td.InvalidError, "tree of the file"), ({"a\0": "x"}, td.InvalidError, "zero byte")):
        with pytest.raises(kind, match=text):
            td.save({"w": td.ones(2)}, tmp_path / "y.safetensors", metadata=wrong)
    with pytest.raises(td.Unsupported, match="only files of safetensors hold metadata"):
        td.save({"w": td.ones(2)}, tmp_path / "y.pt", metadata={"a": "b"})
    with pytest.raises(TypeError, match="not a.*lambda|not a function"):
        td.save({"w": lambda: 1}, tmp_path / "y", metadata={"a": "b"})
    with pytest.raises(td.Unsupported, match="sought in"):
        td.load(Stream(path.read_bytes()), metadata={})
    assert sorted(os.listdir(tmp_path)) == ["x.pt", "x.safetensors"]


def e4m3(b):
    sign, exponent, rest = -1.0 if b & 128 else 1.0, b >> 3 & 15, b & 7
    return float("nan") if b & 127 == 127 else sign * (2.0 ** (exponent - 7) * (1 + rest / 8) if exponent else rest * 2.0**-9)


def e5m2(b):
    sign, exponent, rest = -1.0 if b & 128 else 1.0, b >> 2 & 31, b & 3
    return (float("nan") if rest else sign * float("inf")) if exponent == 31 else sign * (2.0 ** (exponent - 15) * (1 + rest / 4) if exponent else rest * 2.0**-16)


@pytest.mark.parametrize("code, dtype, value", [("F8_E4M3", td.float16, e4m3), ("F8_E5M2", td.float16, e5m2), ("F8_E8M0", td.float32, lambda b: 2.0 ** (b - 127) if b < 255 else float("nan"))])
def test_floats_of_a_byte(tmp_path, code, dtype, value):
    entry = {"x": {"dtype": code, "shape": [16, 16], "data_offsets": [0, 256]}, "few": {"dtype": code, "shape": [3], "data_offsets": [256, 259]}, "y": {"dtype": "F32", "shape": [1], "data_offsets": [259, 263]}}
    for many in (1, 400):
        entry["x"].update(shape=[16 * many, 16], data_offsets=[0, 256 * many])
        entry["few"]["data_offsets"], entry["y"]["data_offsets"] = [256 * many, 256 * many + 3], [256 * many + 3, 256 * many + 7]
        text = json.dumps(entry).encode()
        data = struct.pack("<Q", len(text)) + text + bytes(range(256)) * many + b"\0\x38\x80" + struct.pack("<f", 2.5)
        got = td.load(io.BytesIO(data))
        assert got["x"].dtype is dtype and str(got["x"].flatten().tolist()) == str([value(b) for b in range(256)] * many)
        assert str(got["few"].tolist()) == str([value(0), value(0x38), value(0x80)]) and got["y"].item() == 2.5
        assert list(td.load(io.BytesIO(data), skip=True)) == ["y"]
    tree = {"x": {"dtype": code, "shape": [2], "data_offsets": [0, 2]}, "__metadata__": {"tensord.tree": '{"tensor": "x", "dtype": "complex64"}'}}
    with pytest.raises(td.InvalidError, match="tree"):
        text = json.dumps(tree).encode()
        td.load(io.BytesIO(struct.pack("<Q", len(text)) + text + b"12"))


# ---- those of torch


def test_tensors_of_torch_are_tensors_in_files(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not there (Debian: python3-torch)")
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    state = net.state_dict()
    for name in ("x.pt", "x.td", "x.safetensors", "x.npz"):
        td.save(state, tmp_path / name)
        got = td.load(tmp_path / name)
        assert list(got) == list(state) and all(got[k].tolist() == v.tolist() and got[k].dtype.name == str(v.dtype)[6:] for k, v in state.items())
    theirs = torch.load(tmp_path / "x.pt")
    assert type(theirs) is type(state) and theirs._metadata == state._metadata and net.load_state_dict(theirs).missing_keys == []
    base = torch.arange(24.0).reshape(4, 6)
    x = {"views": [base, base.t(), base[1:3, ::2], base[3, 3], base[:0]], "p": torch.nn.Parameter(torch.ones(2)), "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
         "count": torch.nn.Parameter(torch.tensor([1]), requires_grad=False), "wants": torch.ones(3, requires_grad=True), "wide": torch.ones(1).expand(1_000_000),
         "last": torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last), "conj": torch.tensor([1 + 2j]).conj(), "flag": torch.tensor([True, False]), "b": torch.ones(2, dtype=torch.bfloat16),
         "part": torch.arange(1000.0)[::100], "size": torch.Size([2, 3]), "dtype": torch.float16, "device": torch.device("cpu"), "ours": td.ones(2), "array": np.arange(3)}
    td.save(x, tmp_path / "y.pt")
    theirs, ours = torch.load(tmp_path / "y.pt"), td.load(tmp_path / "y.pt")
    for k in ("p", "frozen", "count", "wants", "wide", "last", "conj", "flag", "b", "part"):
        assert type(theirs[k]) is type(x[k]) and theirs[k].requires_grad == x[k].requires_grad and torch.equal(theirs[k].resolve_conj(), x[k].resolve_conj()) and theirs[k].dtype == x[k].dtype
        assert ours[k].tolist() == x[k].tolist() and (isinstance(ours[k], td.nn.Parameter) == isinstance(x[k], torch.nn.Parameter))
        assert k == "part" or theirs[k].stride() == x[k].stride()
    assert theirs["size"] == x["size"] and theirs["dtype"] is torch.float16 and theirs["device"] == x["device"] and ours["size"] == td.Size([2, 3])
    theirs["views"][0][3, 3] = -1
    assert theirs["views"][1][3, 3].item() == theirs["views"][3].item() == -1 and theirs["views"][4].shape == (0, 6) and theirs["views"][2].tolist() == base[1:3, ::2].tolist()
    assert os.path.getsize(tmp_path / "y.pt") < 20_000 and base[3, 3].item() == 21
    for wrong, text in ((torch.nn.Linear(1, 1), "not a .*Linear.*save its state_dict"), ({"a": [torch.nn.Linear(1, 1)]}, "'a.0'.*save its state_dict"), ({"a": torch.ones(2).to_sparse()}, "a sparse_coo tensor of torch .at 'a'"),
                        ({"a": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)}, "quantized"), ({"a": torch.empty(2, device="meta")}, "a meta tensor"), (torch.Generator(), "Generator")):
        for name in ("z.pt", "z", "z.npz"):
            with pytest.raises(TypeError, match=text):
                td.save(wrong, tmp_path / name)
    assert not list(tmp_path.glob("z*"))


class Trainer:
    """What is pickled whole, with tensors of all kinds in it."""


def test_tensors_in_whole_objects_are_tensors_in_files(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not there (Debian: python3-torch)")
    x = Trainer()
    x.net, x.array, x.few, x.t, x.ours = torch.nn.Linear(30, 40), np.arange(10_000.0), np.arange(3), torch.ones(5), td.ones(3)
    x.view, x.again = x.t[1:], x.t
    td.save({"trainer": x}, tmp_path / "x.pt")
    held = torch.load(tmp_path / "x.pt")
    assert sorted(t.numel() for t in held["tensord.tensors"]) == [3, 4, 5, 40, 1200, 10_000] and len(held["tensord.object"]) < 10_000
    y = td.load(tmp_path / "x.pt", weights_only=False)["trainer"]
    assert type(y.net) is torch.nn.Linear and type(y.net.weight) is torch.nn.Parameter and y.net.weight.requires_grad and torch.equal(y.net.weight, x.net.weight)
    assert type(y.array) is np.ndarray and np.array_equal(y.array, x.array) and y.few.tolist() == [0, 1, 2] and type(y.ours) is td.Tensor
    y.t[2] = 9
    assert y.again is y.t and y.view.tolist() == [1, 9, 1, 1]


def test_numbers_of_numpy_by_the_words_that_torch_says(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not there (Debian: python3-torch)")
    scalar = (np._core if hasattr(np, "_core") else np.core).multiarray.scalar
    for value in (np.float64(0.5), np.int64(3), np.bool_(True)):
        torch.save({"best": value, "w": torch.ones(2)}, tmp_path / "x.pt")
        with pytest.raises(td.Unsupported, match="numpy.*add_safe_globals"):
            td.load(tmp_path / "x.pt")
        with td.serialization.safe_globals([scalar, np.dtype, type(value.dtype)]):
            got = td.load(tmp_path / "x.pt")
        assert got["best"] == value and type(got["best"]) is type(value) and got["w"].tolist() == [1, 1]

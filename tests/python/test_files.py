"""save() and load() where others are at the same files: links laid in the way, several writers, files that change while they are read."""
import io
import json
import os
import random
import struct
import threading

import pytest
import tensord as td

from common import script, seed

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
    monkeypatch.setattr("tensord._save.FIFO_SECONDS", 0.05)
    with pytest.raises(td.Timeout, match="pipe' is a FIFO, which no process has opened for writing for 0.05 s"):
        td.load(pipe)
    monkeypatch.setattr("tensord._save.FIFO_SECONDS", 1000)
    for form in ("safetensors", "pt", "npz"):
        writer = threading.Thread(target=td.save, args=(x, pipe), kwargs={"format": form})
        writer.start()
        got = td.load(pipe)
        writer.join()
        assert list(got) == list(x) and all(got[k].tolist() == x[k].tolist() for k in x)


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

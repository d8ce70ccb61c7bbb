"""Items of queues: values of the standard library, exceptions, what is larger than a message; and where in an item an error is."""
import collections
import dataclasses
import datetime
import decimal
import fractions
import os
import pathlib
import random
import uuid
import zoneinfo

import pytest
import tensord as td
from common import at_rest, daemon, held, script, seed, wait_for
from tensord import _C
from tensord.share import _codec

LARGE = 1 << 20  # bytes from which on they go as a tensor; a message has 16 MB


def handed(item):
    with td.Queue("handed", 2) as q:
        q.put(item)
        return q.get()


def raised(f):
    try:
        f()
    except BaseException as e:
        return e
    raise AssertionError("nothing was raised")


@dataclasses.dataclass
class Job:
    b: object


Pair = collections.namedtuple("Pair", "first second")


class Mine(OSError):
    def __init__(self, text, *, state):  # nobody calls it at the other end
        super().__init__(text)
        self.state = state


class Odd(Exception):
    __slots__ = ("extra",)

    def __new__(cls, *args):
        made = super().__new__(cls, *args)
        made.extra = len(args)
        return made


# ---- values


HOUR = datetime.timedelta(hours=1)
VALUES = [datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 23, 59, 58, 999999), datetime.datetime(1, 1, 1, tzinfo=datetime.timezone.utc),
          datetime.time(1, 2, 3, 4), datetime.time(1, tzinfo=datetime.timezone(-HOUR, "there")), datetime.timedelta(-3, 5, 7), datetime.timezone.utc,
          datetime.timezone(HOUR), pathlib.Path("/a/b"), pathlib.PurePosixPath("half \udcff"), pathlib.PureWindowsPath("C:/x"), decimal.Decimal("1.50"),
          decimal.Decimal("-Infinity"), decimal.Decimal("1e-999999"), fractions.Fraction(2**70, 3), uuid.UUID(int=2**127), range(3, -9, -2), slice(1, None, 2),
          bytearray(b"ab"), collections.deque([1, [2]], 3), collections.Counter("abca"), {pathlib.Path("a"): {datetime.date.min}}]


@pytest.mark.parametrize("item", VALUES, ids=repr)
def test_values(item):
    got = handed([item, (item,)])
    assert got == [item, (item,)] and type(got[0]) is type(item) and repr(got[0]) == repr(item)


def test_what_equal_values_do_not_show():
    twice = datetime.datetime(2024, 10, 27, 2, 30, fold=1)
    got = handed([twice, datetime.time(2, fold=1), decimal.Decimal("sNaN12"), collections.deque([1], 3), decimal.Decimal("-0")])
    assert (got[0].fold, got[1].fold, str(got[2]), got[3].maxlen, str(got[4])) == (1, 1, "sNaN12", 3, "-0")
    assert handed(datetime.timezone.utc) is datetime.timezone.utc


def test_time_zones():
    there = zoneinfo.ZoneInfo("UTC")
    got = handed(datetime.datetime(2024, 1, 1, tzinfo=there))
    assert got.tzinfo is there
    with pytest.raises(LookupError, match="the zone 'No/Where', which is not known here"):
        _codec.together(("ZoneInfo", "No/Where"))
    with pytest.raises(LookupError, match="which is not known here"):
        _codec.together(("ZoneInfo", "../../etc/passwd"))


def test_values_of_another_class_are_not_taken_for_them():
    class date(datetime.date):
        pass

    Decimal = type("Decimal", (), {"__str__": lambda self: "1"})
    for item, words in ((date(2024, 1, 1), "not a date"), (Decimal(), "not a Decimal")):
        with pytest.raises(TypeError, match=words):
            handed(item)


# ---- exceptions


EXCEPTIONS = [ValueError("a", 1), KeyError("k"), raised(lambda: open("/not/there")), raised(lambda: b"\xff".decode()), StopIteration(5), SystemExit(3), ImportError("x", name="y", path="z"),
              raised(lambda: compile("1 +", "some file", "exec")), raised(lambda: td.open("nobody/has/it")), raised(lambda: td.ones(2).reshape(3)), Odd(1, 2),
              raised(lambda: (1).no), KeyboardInterrupt(), ExceptionGroup("several", [ValueError(1), ExceptionGroup("more", [OSError(2, "text")])])]
MEMBERS = ("errno", "strerror", "filename", "start", "end", "reason", "value", "code", "name", "path", "lineno", "text", "op", "where", "extra", "message")


@pytest.mark.parametrize("e", EXCEPTIONS, ids=lambda e: type(e).__name__)
def test_exceptions(e):
    got = handed(e)
    assert type(got) is type(e) and str(got) == str(e) and repr(got) == repr(e)
    assert isinstance(e, ExceptionGroup) or got.args == e.args
    assert [getattr(got, name, None) for name in MEMBERS] == [getattr(e, name, None) for name in MEMBERS]
    assert got.__traceback__ is None and got.__cause__ is None


def test_exceptions_bring_attributes_and_where_they_were_raised():
    def fail():
        try:
            {}["inner"]
        except KeyError as e:
            raise Mine("of mine", state=td.ones(2)) from e

    e = raised(fail)
    e.add_note("noted before")
    got = handed({"why": e})["why"]
    assert type(got) is Mine and got.args == ("of mine",) and got.state.tolist() == [1, 1]
    assert got.__notes__[0] == "noted before" and len(got.__notes__) == 2 and e.__notes__ == ["noted before"]
    assert f"in process {os.getpid()}" in got.__notes__[1] and "test_items.py" in got.__notes__[1] and "KeyError: 'inner'" in got.__notes__[1]
    assert not hasattr(handed(ValueError(1)), "__notes__")  # it was raised nowhere


def test_exceptions_whose_class_is_not_there():
    parts = ("exception", "nobody_has_imported", "Error", (), {}, "")
    with pytest.raises(LookupError, match="the exception nobody_has_imported.Error, which this program has not imported"):
        _codec.together(parts)
    with pytest.raises(LookupError):
        _codec.together(("exception", "subprocess", "Popen", ("true",), {}, ""))
    with pytest.raises(TypeError, match="define it at the top of a module"):
        handed(type("Local", (ValueError,), {})())


# ---- what is large


@pytest.mark.parametrize("size", [LARGE - 1, LARGE, 3 * LARGE, 17 * LARGE])
def test_large_bytes_and_texts(size):
    data = random.Random(1).randbytes(size)
    text = "\u20ac" * (size // 3 + 1)
    got = handed({"b": data, "s": [text, data], "t": td.ones(2), "half": "\ud800" * (size // 3 + 1), "array": bytearray(data)})
    assert got["b"] == data and got["s"] == [text, data] and got["t"].tolist() == [1, 1] and got["array"] == data
    assert got["half"] == "\ud800" * (size // 3 + 1)


def test_many_small_things_are_large_together():
    numbers = list(range(2_000_000))  # 18 MB
    assert handed([numbers, td.ones(3)])[0] == numbers
    assert handed({str(k): k for k in range(300_000)}) == {str(k): k for k in range(300_000)}


def test_large_things_beside_as_many_tensors_as_there_may_be():
    one, data = td.ones(1), bytes(LARGE)
    got = handed([[one[:] for _ in range(4096)], data])
    assert len(got[0]) == 4096 and got[1] == data


def test_a_large_item_is_free_when_it_was_taken():
    with td.Queue("large", 4) as q:
        q.put(bytes(8 * LARGE)), q.get()
        before = at_rest()
        for _ in range(50):
            q.put({"a": bytes(8 * LARGE), "b": "text"})
            assert len(q.get()["a"]) == 8 * LARGE
            with pytest.raises(TypeError):
                q.put([bytes(8 * LARGE), No()])
        # what is kept ready for the next may stay
        assert wait_for(lambda: held()[1:] == before[1:] and held()[0] <= before[0] + 16 * LARGE), (held(), before)


# ---- arrays whose elements lie on top of each other


def _laid(np):
    row, windows = np.arange(1000, dtype="i4"), np.lib.stride_tricks.sliding_window_view
    return {"one number": np.broadcast_to(np.float32(3), (1000, 1000)), "a row": np.broadcast_to(row, (1000, 1000)), "a column": np.broadcast_to(row[:, None], (1000, 1000)),
            "windows": windows(np.arange(2000, dtype="i2"), 1001), "backwards": np.broadcast_to(row[::-1], (1000, 1000)), "every second": np.broadcast_to(row[::2], (2000, 500))}


def _reads(x, a):
    return tuple(x.shape) == a.shape and x.tolist() == a.tolist() and str(x.dtype).endswith(a.dtype.name)


@pytest.mark.parametrize("kind", ["one number", "a row", "a column", "windows", "backwards", "every second"])
def test_what_lies_on_top_of_each_other_goes_as_it_lies(kind):
    """A million elements, of which a few thousand are in memory: in the daemon, and where they arrive."""
    np = pytest.importorskip("numpy")
    a = _laid(np)[kind]
    with td.Queue("items/laid") as q:
        before = at_rest()
        q.put({"x": a, "y": [a]})
        assert held()[0] - before[0] < 1 << 16
        got = q.get()
        x = got["x"]
        assert _reads(x, a) and got["y"][0] is x and x.untyped_storage().nbytes() < 1 << 16 and (0 in x.stride() or x.stride() == (1, 1))
        assert np.array_equal(x.numpy(), a) and (x + 1).sum().item() == (a + 1).sum()


def test_what_lies_on_top_of_each_other_in_torch():
    torch = pytest.importorskip("torch", reason="torch is not there (Debian: python3-torch)")
    for t in (torch.ones(1).expand(1000, 1000), torch.arange(1000.0)[::2].expand(2000, 500), torch.arange(2000).unfold(0, 1001, 1), torch.ones(3, dtype=torch.bfloat16).expand(9, 3)):
        with td.Queue("items/laid in torch", out="torch") as q:
            before = at_rest()
            q.put(t)
            assert held()[0] - before[0] < 1 << 16
            assert torch.equal(q.get(), t)


def test_arrays_laid_in_any_way():
    """Steps of all signs, dimensions of one element, and none at all."""
    np, rng = pytest.importorskip("numpy"), random.Random(seed())
    memory = np.arange(4000, dtype="i4")
    with td.Queue("items/any") as q:
        for _ in range(300):
            shape = [rng.choice([0, 1, 1, 2, 3, 5]) if rng.random() < 0.2 else rng.randint(1, 6) for _ in range(rng.randint(0, 4))]
            steps = [rng.choice([0, 0, 1, 2, 7, -1, -3]) for _ in shape]
            a = np.lib.stride_tricks.as_strided(memory[2000:], shape, [4 * s for s in steps])
            q.put(a)
            assert _reads(q.get(), a), (shape, steps)
            t = td.asarray(a)
            assert _reads(t, a) and t.is_contiguous()  # a tensor of one's own is written out


def test_more_elements_than_any_memory_has():
    np = pytest.importorskip("numpy")
    with td.Queue("items/many") as q:
        q.put(np.broadcast_to(np.int8(5), (2**20, 2**20)))
        x = q.get()
        assert x.shape == (2**20, 2**20) and x[-1, -1].item() == 5
        with pytest.raises(ValueError, match="elements|memory"):
            q.put(np.broadcast_to(np.int8(5), (2**31, 2**31)))


def test_large_things_under_a_name():
    data = random.Random(2).randbytes(17 * LARGE)
    td.publish("large/tree", {"data": data, "t": td.ones(2), "numbers": list(range(2_000_000))})
    got = td.open("large/tree")
    assert got["data"] == data and got["t"].tolist() == [1, 1] and got["numbers"][-1] == 1_999_999
    td.drop("large/tree")


def test_what_others_put_as_large_things():
    """Numbers of tensors that are none, tensors that hold no bytes, bytes that are no item."""
    good = td.tensor(list(b"s\3\0\0\0\0\0\0\0abc"), dtype=td.uint8)
    others = (td.ones(3), td.zeros(2, 2, dtype=td.uint8), td.arange(12, dtype=td.uint8)[::2], td.zeros(0, dtype=td.uint8), td.tensor(list(b"L" + bytes(8)), dtype=td.uint8))
    with td.Queue("strange", 2) as q:
        member = _C._RawQueue("strange", 2, 1)

        def got(note, *tensors):
            member.put(tensors, note, None)
            return q.get(timeout=60)

        def number(k):
            return k.to_bytes(8, "little", signed=True)

        assert got(b"L" + number(0), good) == "abc" and got(b"B" + number(0), good) == bytes(good.tolist())
        assert got(b"S" + number(0), td.tensor(list("é".encode()), dtype=td.uint8)) == "é"
        assert got(b"B" + number(0), td.zeros(0, dtype=td.uint8)) == b""
        bad = [b"L" + number(0) + b"N", b"L", b"B", b"S" + bytes(7), b"l" + number(1) + b"L" + number(0)]
        bad += [kind + number(k) for kind in (b"L", b"B", b"S") for k in (-1, 1, 2**62, -(2**63))]
        for note in bad:
            with pytest.raises(td.ProtocolError, match="something else"):
                got(note, good)
        for tensor in others[:3]:
            for kind in (b"L", b"B", b"S"):
                with pytest.raises(td.ProtocolError, match="something else"):
                    got(kind + number(0), tensor)
        for note in (b"L" + number(3), b"L" + number(4)):
            with pytest.raises(td.ProtocolError, match="something else"):
                got(note, *others)
        with pytest.raises(td.ProtocolError, match="something else"):
            got(b"S" + number(0), td.tensor([255], dtype=td.uint8))  # no UTF-8
        member.close()


def test_what_others_put_as_values_and_exceptions():
    """Whatever stands in place of their parts is an error that is told, and no crash."""
    rng = random.Random(seed())
    drawn = [None, True, 1, -1, 2**70, 1.5, "", "ValueError", "builtins", "builtins.Exception", b"x", (), [], {}, ("a",), {"args": 1, "__notes__": 5}, {"__class__": 3}, "2024"]
    kinds = [*_codec._VALUES, "exception", "exception", "exception"]
    made = 0
    for _ in range(4000):
        kind = rng.choice(kinds)
        parts = (kind, *(rng.choice(drawn) for _ in range(rng.randrange(9))))
        if kind == "exception" and rng.random() < 0.8:
            parts = (kind, "builtins", rng.choice(["ValueError", "OSError", "ExceptionGroup", "UnicodeDecodeError", "int", "SyntaxError"]), *parts[3:])
        try:
            repr(_codec.together(parts))
            made += 1
        except Exception:
            pass
    assert made > 100


# ---- where it is


class No:
    pass


DEEP: list = []
for _ in range(20):
    DEEP = [DEEP]

PLACES = [({"a": [1, 2, 3, Job(No())]}, 'item["a"][3].b'), ([Pair(1, {"k": No()})], 'item[0].second["k"]'), ({("t", No()): 1}, "a key of item"),
          ({"s": {1, No()}}, 'an element of item["s"]'), ([collections.OrderedDict(a=[No()])], 'item[0]["a"][0]'), ({1: ValueError(1, No())}, "item[1].args[1]"),
          ([Mine("text", state={"x": No()})], 'item[0].state["x"]'), ((collections.deque([No()]),), "item[0][0]"), ({'say "so"': [No()]}, 'item["say \\"so\\""][0]'),
          ([datetime.datetime(2024, 1, 1, tzinfo=type("Zone", (datetime.tzinfo,), {})())], "item[0].tzinfo"), ([2**20000], "item[0]"),
          ({"n" * 100: No()}, 'item["' + "n" * 56 + "...]"), ({None: {b"x": {1.5: No()}}}, "item[None][b'x'][1.5]"), ([{"a": {"b": [{2: [No()]}]}}], 'item[0]["a"]["b"][0][2][0]')]


@pytest.mark.parametrize("item, where", PLACES, ids=[where for _, where in PLACES])
def test_errors_say_where(item, where):
    with td.Queue("places", 2) as q:
        with pytest.raises((TypeError, ValueError)) as e:
            q.put(item)
        assert str(e.value).endswith(f" (at {where})"), e.value
        with pytest.raises((TypeError, ValueError)) as e:
            td.publish("places", [item])
        assert f"item[0]{where[where.index('item') + 4:]})" in str(e.value)
        q.put(3)
        assert q.get() == 3


def test_errors_of_the_whole_item_have_no_place_and_deep_ones_are_short():
    with td.Queue("places", 2) as q:
        with pytest.raises(TypeError, match="exceptions; not a No$"):
            q.put(No())
        loop: list = []
        loop.append(loop)
        with pytest.raises(ValueError, match=r"contains itself\) \(at item(\[0\]){9}\.\.\.\)$"):
            q.put(loop)
        array = pytest.importorskip("numpy").empty(2, object)
        with pytest.raises(TypeError, match=r'\(at item\["x"\]\)$'):
            q.put({"x": array})


def test_an_item_that_finds_no_memory_says_where(tmp_path):
    with daemon(str(tmp_path), "--memory", "64M") as d:
        r = script("""
            import tensord as td
            with td.Queue("small") as q:
                try:
                    q.put({"a": b"x", "b": [bytes(100 << 20)]})
                except td.OutOfMemory as e:
                    assert 'item["b"][0]' in str(e), e
                else:
                    raise SystemExit("there was room")
                q.put(bytes(2 << 20))
                assert len(q.get()) == 2 << 20
        """, TENSORD_SOCKET=d.path)
    assert r.returncode == 0, r.stderr


# A program in C, in the words of ctypes: three floats (TD_FLOAT32 is 8).
IN_C = """
import ctypes, os, sys
lib = ctypes.CDLL(os.path.join(os.path.dirname(os.environ["TENSORD_DAEMON"]), "../../client/libtensord.so"))
class List(ctypes.Structure):
    _fields_ = [("n", ctypes.c_int), ("at", ctypes.c_void_p)]
handle = ctypes.c_void_p
for name, result, takes in (("connect", handle, [ctypes.c_char_p]), ("lease_new", handle, [handle, ctypes.c_size_t]), ("lease_data", handle, [handle]),
                            ("put", handle, [handle, ctypes.c_size_t, ctypes.c_int, List]), ("queue_open", handle, [handle, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint]),
                            ("queue_put", ctypes.c_int, [handle, List, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]), ("queue_close", None, [handle, ctypes.c_bool])):
    f = getattr(lib, "td_" + name)
    f.restype, f.argtypes = result, takes
client = lib.td_connect(sys.argv[1].encode())
lease = lib.td_lease_new(client, 12)
ctypes.memmove(lib.td_lease_data(lease), (ctypes.c_float * 3)(1, 2, 3), 12)
x = lib.td_put(lease, 0, 8, List(1, ctypes.cast((ctypes.c_int64 * 1)(3), handle)))
q = lib.td_queue_open(client, b"from C", 4, 1)
def put(n, note):
    assert lib.td_queue_put(q, List(n, ctypes.cast((handle * 2)(x, x), handle)), note, len(note or b""), -1) == 0
put(2, None), put(0, None), put(1, b"C's own"), put(1, None)
lib.td_queue_close(q, False)
"""


def test_a_program_in_c_puts_tensors():
    """Without a note they come as a tuple; a note is its own, and the item an error."""
    with td.Queue("from C", 4) as q:
        r = script(IN_C, td.connection()["path"])
        assert r.returncode == 0, r.stderr
        x, y = q.get()
        assert x.dtype == td.float32 and x.tolist() == y.tolist() == [1, 2, 3]
        assert q.get() == ()
        with pytest.raises(td.ProtocolError, match="without a note"):
            q.get()
        (x,) = q.get()
        x[0] = 7
        assert x.tolist() == [7, 2, 3] and q.empty()

"""Indexing and printing for shapes, keys and numbers that nobody thought of, against NumPy and torch (hypothesis)."""
import contextlib
import math

import pytest
import tensord as td

hypothesis = pytest.importorskip("hypothesis", reason="hypothesis is not there (Debian: python3-hypothesis)")
np = pytest.importorskip("numpy", reason="numpy is not there (Debian: python3-numpy)")
try:
    import torch
except ImportError:
    torch = None
st = hypothesis.strategies
SETTINGS = hypothesis.settings(max_examples=100, deadline=None, database=None, derandomize=True,
                               suppress_health_check=list(hypothesis.HealthCheck))

SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


def positive_slices(size):
    ends = st.none() | st.integers(-size - 2, size + 2)
    return st.builds(slice, ends, ends, st.none() | st.integers(1, 3))


@st.composite
def keys(draw, shape, advanced=True):
    """A key for a tensor of this shape: integers, slices, None, an Ellipsis, and at most some index arrays that broadcast, or one mask."""
    parts, room = [], list(shape)
    common = draw(st.sampled_from([(), (1,), (2,), (2, 1), (3, 2)]))
    mask = advanced and shape and draw(st.booleans()) and draw(st.booleans())
    while room:
        size = room.pop(0)
        choice = draw(st.sampled_from(["slice", "slice", "int", "none", "array", "stop"]))
        if choice == "stop":
            break
        if choice == "none":
            parts.append(None)
        if mask and choice in ("array", "int"):
            parts.append(np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=bool))
            mask = False
        elif choice == "int" and size and not advanced:  # NumPy and PyTorch differ on an integer beside index arrays
            parts.append(draw(st.integers(-size, size - 1)))
        elif choice == "array" and advanced and size and mask is not False:
            part = draw(st.sampled_from([common, common[-1:]]))
            n = math.prod(part)
            parts.append(np.array(draw(st.lists(st.integers(-size, size - 1), min_size=n, max_size=n)), dtype=np.int64).reshape(part))
        else:
            parts.append(draw(positive_slices(size)))
    if room and draw(st.booleans()):
        parts.append(...)
        tail = draw(positive_slices(room[-1]))
        parts.append(tail)
    return tuple(parts)


def for_tensord(key):
    return tuple(td.tensor(k) if isinstance(k, np.ndarray) else k for k in key)


@st.composite
def cases(draw, advanced):
    shape = draw(SHAPES)
    return np.arange(math.prod(shape)).reshape(shape), draw(keys(shape, advanced))


@pytest.mark.parametrize("advanced", [False, True])
def test_get(advanced):
    @SETTINGS
    @hypothesis.given(cases(advanced))
    def check(case):
        array, key = case
        got, want = td.tensor(array)[for_tensord(key)], array[key]
        assert got.shape == want.shape and got.tolist() == want.tolist()

    check()


@pytest.mark.parametrize("advanced", [False, True])
def test_set(advanced):
    @SETTINGS
    @hypothesis.given(cases(advanced), st.booleans())
    def check(case, whole):
        array, key = case
        t, array = td.tensor(array), array.copy()
        value = np.arange(1000, 1000 + array[key].size).reshape(array[key].shape) if whole else 77
        array[key] = value if not advanced or not whole else 77  # an element that is named twice has no certain value
        t[for_tensord(key)] = td.tensor(value) if whole and not advanced else 77
        assert t.tolist() == array.tolist()

    check()


@SETTINGS
@hypothesis.given(SHAPES, st.data())
def test_what_is_out_of_range_is_an_index_error(shape, data):
    t = td.zeros(shape)
    size = data.draw(st.sampled_from(shape)) if shape else 0
    with pytest.raises(IndexError):
        t[(slice(None),) * shape.index(size) + (data.draw(st.sampled_from([size, size + 3, -size - 1])),)] if shape else t[0]


@SETTINGS
@hypothesis.given(SHAPES, st.data())
def test_index_errors_leave_the_tensor(shape, data):
    t = td.ones(shape)
    for key in ("a", 1.5, (0,) * 9, {}, (..., ...)):
        with contextlib.suppress(IndexError, TypeError):
            t[key]
        with contextlib.suppress(IndexError, TypeError):
            t[key] = 0
    assert t.shape == shape and t.sum().item() in (math.prod(shape), 0)


FLOATS = st.one_of(st.floats(width=32), st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-5, 1e5, 0.5, 1e8, 1e9]), st.integers(-2000, 2000).map(float))
ELEMENTS = {"float32": FLOATS, "float64": st.floats() | FLOATS, "int64": st.integers(-(2**63), 2**63 - 1), "bool": st.booleans(),
            "uint8": st.integers(0, 255), "complex64": st.builds(complex, FLOATS, FLOATS)}
OPTIONS = st.fixed_dictionaries({}, optional={"precision": st.integers(0, 8), "threshold": st.integers(0, 30), "edgeitems": st.integers(1, 4),
                                              "linewidth": st.integers(20, 120), "sci_mode": st.sampled_from([True, False])})


@pytest.fixture
def default_options():
    yield
    for lib in (td, torch):
        lib.set_printoptions(profile="default")


@pytest.mark.skipif(torch is None, reason="torch is not there (Debian: python3-torch)")
@pytest.mark.parametrize("dtype", ELEMENTS)
def test_shown_like_torch_s(dtype, default_options):
    @SETTINGS
    @hypothesis.given(SHAPES, OPTIONS, st.data())
    def check(shape, options, data):
        n = math.prod(shape)
        array = np.array(data.draw(st.lists(ELEMENTS[dtype], min_size=n, max_size=n)), dtype=dtype).reshape(shape)
        for lib in (td, torch):
            lib.set_printoptions(profile="default")
            lib.set_printoptions(**options)
        got, want = (repr(lib.tensor(array)).replace(",\n       dtype", ", dtype") for lib in (td, torch))  # their dtypes' names are of unlike length
        assert got.replace("tensord.", "torch.") == want

    check()

"""Indexing: every kind of key, against NumPy where it is there, else against lists."""
import itertools
import warnings

import pytest
import tensord as td

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy), which these tests compare with")

X = np.arange(2 * 3 * 4).reshape(2, 3, 4)
ROWS, MASK = np.array([1, 0, 1]), X.sum(2) > 30
KEYS = [0, -1, 1, slice(None), slice(1, None), slice(0, 3, 2), slice(-2, None), None, ..., (0, 1), (0, 1, 2), (slice(None), 1), (..., 1), (0, ..., 1),
        (None, 0), (slice(None), None, 1), (..., None), (0, None, ..., slice(1, 3)), [0, 1], [1, 1, 0], ([0, 1], [1, 2]), ([0, 1], slice(None), [1, 2]),
        (slice(None), [0, 2]), (slice(None), [0, 2], slice(1, 3)), (..., [0, 3]), ([[0], [1]], [0, 2]), ROWS, (ROWS, ROWS), X > 5, MASK,
        (slice(None), np.array([True, False, True])), (MASK, slice(1, 3)), (), slice(5, 9), slice(2, 1)]


def mine(key):
    if isinstance(key, tuple):
        return tuple(map(mine, key))
    return td.asarray(key) if isinstance(key, np.ndarray) else key


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_get(key):
    got = td.tensor(X)[mine(key)]
    assert got.shape == X[key].shape and got.tolist() == X[key].tolist()


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_get_by_numpy_s_own_arrays(key):
    assert td.tensor(X)[key].tolist() == X[key].tolist()


@pytest.mark.parametrize("key", KEYS, ids=repr)
@pytest.mark.parametrize("whole", [False, True])
def test_set(key, whole):
    a, t = X.copy(), td.tensor(X)
    value = -np.arange(X[key].size).reshape(X[key].shape) - 1 if whole else -7
    a[key] = value
    t[mine(key)] = td.tensor(value) if whole else value
    assert t.tolist() == a.tolist() or (whole and _repeats(key))


def _repeats(key):
    """Places named twice: whose value stays is nobody's promise."""
    parts = key if isinstance(key, tuple) else (key,)
    return key == [1, 1, 0] if isinstance(key, list) else any(k is ROWS for k in parts)


def test_set_values():
    t = td.zeros(2, 3)
    t[0] = [1, 2, 3]
    t[1] = np.array([4.0, 5, 6])
    t[:, 0] = td.tensor(9)
    t[:, 1:2] = td.tensor([[7], [8]])
    assert t.tolist() == [[9, 7, 3], [9, 8, 6]]
    t[0] = td.tensor([[1, 1, 1]])  # a leading dimension of 1 is no hindrance
    t[t > 7] = td.tensor([[[0]]])
    assert t.tolist() == [[1, 1, 1], [0, 0, 6]]
    t[td.tensor([True, False])] = td.tensor([[[2, 3, 4]]])
    assert t.tolist() == [[2, 3, 4], [0, 0, 6]]
    with pytest.raises(td.ShapeError):
        t[[0, 1]] = td.tensor([[[2], [2], [2]]])
    t[[0, 1], [0, 1]] = td.tensor([5.0, 5.0])
    t[0, 2] += 1
    assert t.tolist() == [[5, 3, 5], [0, 5, 6]]


def test_a_mask_of_the_whole_tensor():
    x, mask = td.tensor(X * 0.5, requires_grad=True), td.asarray(X % 3 == 1)
    assert x[mask].tolist() == (X * 0.5)[X % 3 == 1].tolist() and x.mT[mask.mT].tolist() == (X * 0.5).swapaxes(1, 2)[(X % 3 == 1).swapaxes(1, 2)].tolist()
    (x[mask] * x[mask]).sum().backward()
    assert x.grad.tolist() == np.where(X % 3 == 1, X * 1.0, 0).tolist()
    for wrong in (mask[:1], mask[:, :, :2]):
        with pytest.raises(IndexError):
            x[wrong]


def test_places_in_nothing():
    for x in (td.zeros(5, 0), td.zeros(0)):
        at = td.zeros(x.shape[:-1] + (2,), dtype=td.int64)
        for call in (lambda x, at: td.scatter(x, -1, at, 1.0), lambda x, at: td.scatter_add(x, -1, at, td.ones(at.shape)), lambda x, at: x.flatten()[at]):
            with pytest.raises((IndexError, td.ShapeError)):
                call(x, at).tolist()
    assert td.zeros(1).tolist() == [0]


def test_views_share():
    t = td.zeros(3, 3)
    row = t[1]
    row[2] = 5
    t[:, 0].fill_(2)
    assert t.tolist() == [[2, 0, 0], [2, 0, 5], [2, 0, 0]] and t[[0]].fill_(9) is not None and t[0, 1].item() == 0


@pytest.mark.parametrize("key, kind", [
    (3, IndexError), (-4, IndexError), ((0, 5), IndexError), ((0, 0, 0), IndexError), ("a", IndexError), (1.5, IndexError), (slice(None, None, -1), ValueError),
    (slice(0, 3, 0), ValueError), ([0.5], IndexError), (td.tensor([0.5]), IndexError), ([True, False], IndexError), ({}, IndexError),
], ids=repr)
def test_refused(key, kind):
    with pytest.raises(kind):
        td.zeros(3, 2)[key]
    with pytest.raises(kind):
        td.zeros(3, 2)[key] = 1


def test_indices_that_only_the_daemon_sees():
    t = td.zeros(3)
    with pytest.raises(IndexError, match="out of bounds"):
        t[td.tensor([0, 3])].tolist()
    with pytest.raises(IndexError):
        t[td.tensor([-4])] = 1
        td.sync()
    with pytest.raises(TypeError):
        del t[0]


def test_bools_and_empty_keys():
    t = td.tensor([1, 2])
    assert t[True].tolist() == [[1, 2]] and t[False].shape == (0, 2) and t[[]].shape == (0,) and t[td.tensor(True)].tolist() == [[1, 2]]
    assert t[td.tensor(1)].item() == 2 and t[td.tensor([1], dtype=td.int8)].tolist() == [2]
    assert td.tensor(5)[...].item() == 5 and td.tensor(5)[None].shape == (1,) and td.tensor(5)[()].item() == 5


def test_combinations():
    parts = [0, slice(1, None), None, [1, 0], ...]
    for key in itertools.permutations(parts, 3):
        advanced_apart = isinstance(key[0], list) and key[1] is not None and 0 in key
        if advanced_apart or (0 in key and [1, 0] in key):
            continue  # an integer beside a list: here it selects first, as in PyTorch
        assert td.tensor(X)[key].tolist() == X[key].tolist(), key


def test_lists_that_stand_for_tuples():
    x = td.arange(9).reshape(3, 3)
    one, two = td.tensor([0, 1]), td.tensor([1, 1])
    with pytest.warns(UserWarning, match=r"use x\[tuple\(seq\)\]"):
        assert x[[one, two]].tolist() == [1, 4]
    for key in ([slice(None), [0, 2]], [[0, 1], [1, 0]], [0, ...], [None, 1], [[0], [1]], [(0, 1), 2], [range(2), td.tensor(1)]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert x[key].tolist() == x[tuple(key)].tolist(), key
    assert x[[0, 2]].tolist() == [[0, 1, 2], [6, 7, 8]] and x[[True, False, True]].shape == (2, 3)
    assert x[[[0, 1]] * 40].shape == (40, 2, 3)  # so long a list is data
    assert x[td.tensor([[0, 1], [1, 0]])].shape == (2, 2, 3)
    with pytest.warns(UserWarning):
        x[[one, two]] = 7
    assert x.tolist() == [[0, 7, 2], [3, 7, 5], [6, 7, 8]]


def test_which_dimension_is_out_of_bounds():
    x = td.ones(2, 3, 5)
    for key, told in (((0, 3), "index 3 is out of bounds for dimension 1 with size 3"), ((None, 0, 0, 5), "index 5 is out of bounds for dimension 2 with size 5"),
                      ((..., -6), "index -6 is out of bounds for dimension 2 with size 5"), ((2,), "index 2 is out of bounds for dimension 0 with size 2")):
        with pytest.raises(IndexError, match=told):
            x[key]
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        td.tensor(3)[0]
    with pytest.raises(IndexError, match="could not be broadcast together"):
        td.ones(3, 3)[[0, 1], [0, 1, 2]].tolist()

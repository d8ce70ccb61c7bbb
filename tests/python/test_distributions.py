"""tensord.testing and tensord.distributions: values and gradients as torch has them, moments of what is drawn, and what errors say."""
import math

import numpy as np
import pytest
import tensord as td

close, make = td.testing.assert_close, td.testing.make_tensor


def message(*args, **kw):
    with pytest.raises(AssertionError) as e:
        close(*args, **kw)
    return str(e.value)


def test_assert_close_says_what_differs():
    said = message(td.tensor([[1.0, 2.0], [3.0, 4.0]]), td.tensor([[1.0, 2.5], [3.0, 8.0]]))
    assert "Mismatched elements: 2 / 4 (50.0%)" in said and "absolute difference: 4.0 at index (1, 1) (up to 1e-05 allowed)" in said
    assert "relative difference: 0.5 at index (1, 1) (up to 1.3e-06 allowed)" in said
    assert "Absolute difference: 0.5" in message(1.0, 1.5) and "1.0 and 1.5 are not close" in message(1.0, 1.5)
    assert "[1]['b']" in message([1, {"b": 2}], [1, {"b": 3}]) and "keys differ: only actual has [\"'a'\"]" in message({"a": 1}, {"b": 1})
    assert "lengths differ: 2 != 1" in message([1, 2], (1,)) and "shapes differ: (2,) != (1,)" in message(td.ones(2), td.ones(1))
    assert "dtypes differ: tensord.float32 != tensord.float64" in message(td.ones(2), td.ones(2, dtype=td.float64))
    assert "strides differ" in message(td.ones(2, 3).t(), td.ones(3, 2), check_stride=True)
    assert message(1, 2, msg="my words") == "my words" and message(1, 2, msg=lambda m: m[:1] + "!") == "1!"
    assert "Mismatched elements: 1 / 2" in message(td.tensor([True, False]), td.tensor([True, True]))
    assert "absolute difference: 1 at index (0,)" in message(td.tensor([(1 << 53) + 1]), td.tensor([1 << 53]))
    assert message(td.tensor(math.nan), td.tensor(math.nan)) and message(None, 1) == "None is not 1" and message("a", "b") == "'a' != 'b'"


def test_assert_close_lets_pass():
    close(td.tensor([1.0, math.inf]), td.tensor([1.000001, math.inf]))
    close(td.ones(2), td.ones(2, dtype=td.float64), check_dtype=False)
    close({"a": [1, td.ones(2)], "b": None}, {"b": None, "a": (1, np.ones(2, np.float32))})
    close(td.tensor(math.nan), math.nan, equal_nan=True)
    close(td.tensor([1.0]), td.tensor([1.5]), rtol=0, atol=0.5)
    close(td.zeros(0), td.zeros(0))
    close(td.tensor([1 + 2j]), td.tensor([1 + 2.000001j]))
    for kind, (rtol, atol) in {td.float16: (1e-3, 1e-5), td.bfloat16: (1.6e-2, 1e-5), td.float32: (1.3e-6, 1e-5), td.float64: (1e-7, 1e-7)}.items():
        assert f"(up to {atol} allowed)" in message(td.ones(1, dtype=kind), td.zeros(1, dtype=kind)) and f"(up to {rtol} allowed)" in message(td.ones(1, dtype=kind), td.zeros(1, dtype=kind))
    with pytest.raises(ValueError, match="both rtol and atol"):
        close(1, 1, rtol=1)
    with pytest.raises(TypeError, match="cannot compare int with list"):
        close(1, [1])


def test_make_tensor():
    td.manual_seed(1)
    for kind in (td.float32, td.float64, td.float16, td.int8, td.uint8, td.int64, td.bool):
        x = make(40, 50, dtype=kind)
        least, most = (0, 1) if kind is td.bool else (0, 9) if kind is td.uint8 else (-9, 9)
        assert x.dtype is kind and x.shape == (40, 50) and least <= x.to(td.float64).min().item() and most - 1 < x.to(td.float64).max().item() + 0.1 <= most + 0.2
    z = make((100,), dtype=td.complex64, low=1, high=2, requires_grad=True)
    assert z.requires_grad and z.real.min().item() >= 1 and z.imag.max().item() <= 2 and not td.equal(z.real, z.imag)
    assert not make(3, 4, dtype=td.float32, noncontiguous=True).is_contiguous() and make((), dtype=td.int64).ndim == 0
    assert sorted(make(200, dtype=td.int64, low=0.5, high=3.5).unique().tolist()) == [1, 2, 3]
    assert sorted(make(200, dtype=td.int64, low=0, high=2, exclude_zero=True).unique().tolist()) == [1]
    with pytest.raises(ValueError, match="low < high"):
        make(2, dtype=td.float32, low=1, high=1)
    with pytest.raises(ValueError, match="floating or complex"):
        make(2, dtype=td.int32, requires_grad=True)

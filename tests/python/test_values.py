"""What numbers, dtypes and arguments mean: as in PyTorch, without needing it. What it says itself is in test_parity.py."""
import contextlib

import pytest
import tensord as td


@contextlib.contextmanager
def default_dtype(dtype):
    before = td.get_default_dtype()
    td.set_default_dtype(dtype)
    try:
        yield
    finally:
        td.set_default_dtype(before)


@pytest.mark.parametrize("kind, dtype", [(float, td.float64), (int, td.int64), (bool, td.bool), (complex, td.complex128)])
@pytest.mark.parametrize("default", [td.float32, td.float64])
def test_python_s_types_as_dtypes(kind, dtype, default):
    x = td.ones(2)
    with default_dtype(default):
        made = [td.tensor([1], dtype=kind), td.zeros(2, dtype=kind), td.full((2,), 1, dtype=kind), td.zeros_like(x, dtype=kind), x.to(kind),
                x.sum(dtype=kind), x.new_zeros(2, dtype=kind), td.asarray([1], dtype=kind), td.empty(2, dtype=kind)]
    assert [m.dtype for m in made] == [dtype] * len(made)


def test_limits_of_python_s_types():
    assert td.finfo(float).bits == 64 and td.finfo(complex).bits == 64 and td.iinfo(int).bits == 64

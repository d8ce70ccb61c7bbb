def f(x, n: int):
    y = td.zeros((n, 3)) + td.ones(n, 3, dtype=x.dtype) * td.full([2], 0.5) + td.tensor(3)
    y[0] = 1
    y[..., 1:] = 0.5
    z = td.arange(n), td.arange(1, n), td.arange(0.0, 1, 0.1, dtype=td.float64)
    return y.clone(), y.to(td.int64), y.double(), z, td.max(x), td.min(x, 1), td.zeros_like(x)

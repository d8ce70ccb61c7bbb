def f(x, i: int, idx, xs: List[int]):
    d: Dict[str, int] = {}
    a = x[i], x[-1, :, None], x[..., 0], x[1:, ::2], x[idx], x[:, idx, 1:i]
    xs[0] = 5
    d["k"] = xs[i:][0] + d["j"]
    x[0] *= 2
    return a, xs, d.get("k", 3), a[1], a[-1]

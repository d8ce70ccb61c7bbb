def step(x, n: int = 3, w: td.Tensor | None = None):
    for i in range(n):
        x = td.relu(x @ w) if w is not None else x * i
    return x, x.sum()

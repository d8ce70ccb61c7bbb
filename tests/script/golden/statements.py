import_free = 1


@td.jit.script
def step(x, n: int = 3, *, w: td.Tensor | None = None) -> tuple[Tensor, int]:
    """A line of words."""
    total, count = x.sum(), 0
    for i in range(n):
        if w is None or i > 2:
            continue
        elif not (x > 0).all():
            break
        else:
            x = td.relu(x @ w) if i % 2 == 0 else -x ** 2
    else:
        count += 1
    while count < 1_000:
        count *= 2
        total[0, ..., 1:-1:2, None] = count
    with td.no_grad(), f(x) as y:
        assert 0 < count <= n != 4, f"{count:>{n}} of {n!r}"
        raise ValueError("no")
    self.buffer: Tensor = x
    name = kept = "it's " 'one\n' r"\d"
    return x, [a * 2 for a, b in zip(x, y) if a if b], {"a": 1, 2: ()}

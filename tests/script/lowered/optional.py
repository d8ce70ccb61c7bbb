def f(x, w: Tensor | None = None, b: Optional[Tensor] = None):
    y = None
    if w is not None and b is not None:
        x = td.nn.functional.linear(x, w, b)
    elif w is None:
        y = x
    for row in x:
        if y is None:
            y = row
        else:
            y = y + row
    assert y is not None, "empty"
    return y

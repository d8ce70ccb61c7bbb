def f(name: str, n: int, x):
    def twice(v):
        return v * 2
    if name.startswith("a") and "b" in name:
        raise KeyError(f"{name}: {{}} of {twice(n)}")
    print(name.upper(), [str(k) for k in range(n)], x)
    return ", ".join([name, "b"]), list({"a": 1.5, name: twice(2.0)}.items())

def old(x, y):
    # type: (Tensor, List[int]) -> Tuple[Tensor, int]
    z = []  # type: List[Tensor]
    w = x  # type: ignore
    def inner(a):  # type: (int) -> int
        return a
    return x, 1

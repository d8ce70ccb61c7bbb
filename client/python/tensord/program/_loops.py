"""What takes as many steps as a size says, or makes as many tensors: as programs; and what this package decides by a size, while a trace is on.

A trace that follows sizes cannot follow Python through such a loop. So while one is on, the functions call these in place of their loops, and they
become functions of its program. One that makes tensors makes as many as it did, or is an error. Nor can it follow a branch: where this package
compares a size (`src/followed.c`), the program compares it as well, and a call for which it comes out otherwise is an error.
"""
import tensord as td


@td.jit.script
def _less(a: float, b: float, was: bool):
    assert (a < b) == was, "sizes decide here what is done, and others than these were traced: trace an example with such sizes, or use jit.script"


@td.jit.script
def _equal(a: float, b: float, was: bool):
    assert (a == b) == was, "sizes decide here what is done, and others than these were traced: trace an example with such sizes, or use jit.script"


def hold(a, b, how, was):
    """From now on the program fails where the comparison `how` (as of Python's C) of the numbers a and b is not `was`."""
    less, turned, otherwise = ((True, False, False), (True, True, True), (False, False, False), (False, False, True), (True, True, False), (True, False, True))[how]
    (_less if less else _equal)(*((b, a) if turned else (a, b)), was is not otherwise)


@td.jit.script
def chunk(x, chunks: int, dim: int):
    return td.chunk(x, chunks, dim)


@td.jit.script
def split(x, size: int, dim: int):
    return td.split(x, size, dim)


@td.jit.script
def evened(a, b, i: int, j: int):
    if b.size(j) == 1 and a.size(i) > 1:
        a = a.sum([i], True, dtype=a.dtype)
    if a.size(i) == 1 and b.size(j) > 1:
        b = b.sum([j], True, dtype=b.dtype)
    return a, b


@td.jit.script
def padded(sequences: list[td.Tensor], batch_first: bool, value: float, left: bool):
    most = 0
    for s in sequences:
        most = max(most, s.size(0))
    even: list[td.Tensor] = []
    for s in sequences:
        pad = [0, 0] * (s.ndim - 1) + ([most - s.size(0), 0] if left else [0, most - s.size(0)])
        even.append(td.ops.constant_pad(s, pad, value))
    return td.stack(even, 0 if batch_first else 1)


@td.jit.script
def lstm_projected(x, h, c, w_ih, w_hh, b_ih: td.Tensor | None, b_hh: td.Tensor | None, w_hr):
    outs = []
    for each in td.unbind(td.nn.functional.linear(x, w_ih, b_ih), 0):
        gates = td.chunk(each + td.nn.functional.linear(h, w_hh, b_hh), 4, -1)
        c = gates[1].sigmoid() * c + gates[0].sigmoid() * gates[2].tanh()
        h = td.nn.functional.linear(gates[3].sigmoid() * c.tanh(), w_hr)
        outs.append(h)
    return td.stack(outs), (h, c)

"""What takes as many steps as a size says, or makes as many tensors: as programs.

A trace that follows sizes cannot follow Python through such a loop. So while one is on, the functions call these in place of their loops, and they
become functions of its program. One that makes tensors makes as many as it did, or is an error.
"""
import tensord as td


@td.jit.script
def chunk(x, chunks: int, dim: int):
    return td.chunk(x, chunks, dim)


@td.jit.script
def split(x, size: int, dim: int):
    return td.split(x, size, dim)


@td.jit.script
def lstm_projected(x, h, c, w_ih, w_hh, b_ih: td.Tensor | None, b_hh: td.Tensor | None, w_hr):
    outs = []
    for each in td.unbind(td.nn.functional.linear(x, w_ih, b_ih), 0):
        gates = td.chunk(each + td.nn.functional.linear(h, w_hh, b_hh), 4, -1)
        c = gates[1].sigmoid() * c + gates[0].sigmoid() * gates[2].tanh()
        h = td.nn.functional.linear(gates[3].sigmoid() * c.tanh(), w_hr)
        outs.append(h)
    return td.stack(outs), (h, c)

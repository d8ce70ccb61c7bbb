"""Points that fill a cube more evenly than chance does: Sobol' sequences, with the names, order and numbers of torch.quasirandom."""

import tensord as td
from tensord import _C
from tensord._sobol import TABLE

__all__ = ["SobolEngine"]


def _directions(inner, m, bits):
    """Direction numbers of one dimension as integers of `bits` bits, by the recurrence of its polynomial (Bratley and Fox, Algorithm 659, ACM TOMS 14, 1988)."""
    m = list(m)
    s = len(m)
    while len(m) < bits:
        k = len(m)
        new = m[k - s] ^ (m[k - s] << s)
        for i in range(1, s):
            if inner >> (s - 1 - i) & 1:
                new ^= m[k - i] << i
        m.append(new)
    return [x << (bits - 1 - k) for k, x in enumerate(m[:bits])]


class SobolEngine:
    """Points of [0, 1)^dimension, one behind the other in the order of Gray codes; the first is 0.

    scramble: direction numbers times random triangular matrices, and a random shift of the digits (Matousek, On the L2-discrepancy for anchored boxes,
    J. Complexity 14, 1998), the same for the same `seed`. Those numbers are chosen by other chance than PyTorch's; without scrambling all are the same.
    Raises InvalidError for a dimension that is not from 1 to MAXDIM.
    """

    MAXBIT = 30
    MAXDIM = 1 + len(TABLE.split())

    def __init__(self, dimension, scramble=False, seed=None):
        if not 1 <= dimension <= self.MAXDIM:
            raise _C.InvalidError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.dimension, self.scramble, self.seed, self.num_generated = dimension, scramble, seed, 0
        self._columns = [[1 << (self.MAXBIT - 1 - k) for k in range(self.MAXBIT)]]
        for words in TABLE.split()[: dimension - 1]:
            inner, _, m = words.partition(":")
            self._columns.append(_directions(int(inner), map(int, m.split(",")), self.MAXBIT))
        self._shift = [0] * dimension
        if scramble:
            self._mix()

    def _mix(self):
        bits, chance = self.MAXBIT, td.Generator()
        chance.seed() if self.seed is None else chance.manual_seed(self.seed)
        self._shift = td.randint(2**bits, (self.dimension,), generator=chance).tolist()
        rows = td.randint(2**bits, (self.dimension, bits), generator=chance).tolist()
        for d, drawn in enumerate(rows):
            # Row p makes bit p, from the highest down, of those that are not below it, itself always.
            matrix = [(row >> (bits - 1 - p) | 1) << (bits - 1 - p) for p, row in enumerate(drawn)]
            self._columns[d] = [sum(((row & v).bit_count() & 1) << (bits - 1 - p) for p, row in enumerate(matrix)) for v in self._columns[d]]

    def draw(self, n=1, out=None, dtype=None):
        """The next n points, (n, dimension), of the default dtype, or another; into `out`, which gets that shape."""
        begin = self._move(n)
        # Point a + b is point a xor point b where a and b have no bits in common: so a table for the low bits, and one for the others.
        low = (n.bit_length() + 1) // 2
        columns = td.tensor(self._columns, dtype=_C.int64).T
        above = self._at(td.arange(begin >> low, ((begin + n) >> low) + 1, dtype=_C.int64) << low, columns) ^ td.tensor(self._shift, dtype=_C.int64)
        places = (above.unsqueeze(1) ^ self._at(td.arange(1 << low, dtype=_C.int64), columns)).flatten(0, 1)[begin & ((1 << low) - 1) :][:n]
        made = places.to(dtype or td.get_default_dtype()) * 2.0**-self.MAXBIT
        return made if out is None else out.resize_(made.shape).copy_(made)

    def _at(self, k, columns):
        """The points of these numbers, as integers."""
        gray, places = (k ^ (k >> 1)).unsqueeze(1), td.zeros(len(k), self.dimension, dtype=_C.int64)
        for bit, column in enumerate(columns):
            places = places ^ ((gray >> bit & 1) * column)
        return places

    def draw_base2(self, m, out=None, dtype=None):
        """The next 2 ** m points. Raises InvalidError when the number of all would not be a power of 2, as only those are balanced."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise _C.InvalidError(f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points have been previously generated, "
                                  f"then: n={self.num_generated}+2**{m}={total}. If you still want to do this, please use 'SobolEngine.draw()' instead.")
        return self.draw(n, out, dtype)

    def _move(self, n):
        begin = self.num_generated
        if not 0 <= n <= 2**self.MAXBIT - begin:
            raise _C.InvalidError(f"SobolEngine has {2**self.MAXBIT - begin} more points, not {n}")
        self.num_generated += n
        return begin

    def fast_forward(self, n):
        """Leaves n points out. Returns the engine."""
        self._move(n)
        return self

    def reset(self):
        """Begins anew. Returns the engine."""
        self.num_generated = 0
        return self

    def __repr__(self):
        return f"SobolEngine(dimension={self.dimension}" + f", scramble={self.scramble}" * bool(self.scramble) + f", seed={self.seed}" * (self.seed is not None) + ")"

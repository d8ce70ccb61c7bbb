"""Forms of PyTorch's functions and methods in programs: each function here gives as a program what it gives as it stands."""
import math
import sys

import pytest

import tensord as td
import tensord.nn.functional as F
from tensord.program import _script

CASES = []


def case(*make):
    def add(function):
        CASES.append(pytest.param(function, make, id=function.__name__))
        return function

    return add


SCALE = td.tensor([[1.0, -2.0, 3.0, 0.5]]).t()


def X():
    return td.arange(24.0).reshape(2, 3, 4)


def values(x):
    if isinstance(x, dict):
        return {k: values(v) for k, v in x.items()}
    return [values(y) for y in x] if isinstance(x, (list, tuple)) else x.tolist() if td.is_tensor(x) else x


@case(X)
def reshaping(x):
    return x.reshape(6, 4), x.reshape((4, -1)), x.reshape([24]), td.reshape(x, (3, 8)), x.transpose(0, 1).reshape(-1)


@case(X)
def viewing(x):
    return x.view(2, -1), x.view((6, 4)), x.permute(2, 0, 1), x.permute((0, 2, 1)), x.flatten(), x.flatten(1), td.flatten(x, start_dim=1)


@case(X)
def sizes(x):
    return x.size(), x.size(0), x.size(-1), x.shape[1], x.numel(), x.dim(), x.ndim, len(x), list(x.shape), x.size(dim=1)


@case(X)
def sizes_unpacked(x):
    b, c, d = x.shape
    b2, c2, d2 = x.size()
    return x.view(b * c, d), b2 + c2 + d2


@case(X)
def writing_parts(x):
    x = x.clone()
    x[0] = td.ones(3, 4)
    x[:, 1] += 2
    x[..., -1] = x[..., 0]
    x[1, 2, 3] = 5
    x[0, :2] *= 3
    return x


@case(X, lambda: td.tensor([0, 1]))
def writing_by_index(x, i):
    x = x.clone()
    x[i] = 2.0
    x[:, i] = td.zeros(2, 2, 4)
    x[0][i] += 1
    return x, x[i], x[:, i]


@case(X, lambda: td.tensor([0, 1]))
def indexing_by_lists(x, i):
    at = [i, i]
    one = td.ops.index(x, at)
    at.clear()
    return one, td.ops.index(x, [i]), td.ops.index(x, [None, i]), td.ops.index(x, [i, i, i]), td.ops.index_put(x, [i, i], td.zeros(2, 4), False), len(at)


@case(X)
def masks(x):
    x = x.clone()
    x[x > 5] = 0.0
    return x, x[x > 3]


@case(X, lambda: td.tensor(2.0), lambda: 0.5)
def masks_without_dimensions(x, y, n: float):
    x, z = x.clone(), y.clone()
    x[y > 3] = n
    x[y == 2] += 1
    z[y > 3] = n
    return x, z, x[y > 3], x[y < 3], y[y > 3], y[y < 3]


def test_masks_of_other_shapes():
    @td.jit.script
    def put(x, y):
        x[y > 0] = 1.0
        return x

    for shape in (3,), (5,), (2, 3):
        with pytest.raises(td.Error, match="the mask has the shape"):
            put(td.zeros(4, 2), td.ones(shape)).tolist()


@case(X)
def parts_of_what_is_captured(x):
    return SCALE.T.float() * x, SCALE.mT.T.abs(), SCALE.T.T.shape


@case(X)
def real_parts(x):
    x = x.clone()
    y = x.real
    y += 1
    return x, x.to(td.complex64).real


@case(X)
def writes_through_parts(x):
    """Parts are views, in programs too: what is written to them is seen in the whole."""
    z = td.complex(x.detach(), x.detach() + 1)
    z.real.mul_(2)
    z.imag[0] += 5
    y = z.transpose(0, 1).imag
    y.copy_(z.transpose(0, 1).real)
    return z, y, td.complex(x, x + 1).imag


@case(X)
def writes_through_parts_of_what_has_a_gradient(x):
    u = x.detach().requires_grad_() * 2
    z = td.complex(u, u + 1)
    z.real.mul_(3)
    td.view_as_real(z)[0, :, 1] = 5.0
    (g,) = td.autograd.grad((z * z).imag.sum(), [u])
    return z, g, td.real(z), td.imag(z)


@case(X)
def one_dimension_as_several(x):
    return x.unflatten(-1, (2, -1)), x.unflatten(1, (-1, 1)), x[:0].unflatten(2, (-1, 2)).shape, td.unflatten(x[:, :0], 2, (2, 2)).shape


@case(X)
def splits(x):
    return td.tensor_split(x, 3, 2), td.tensor_split(x[0, 0], 3), td.tensor_split(x, [1, -1], dim=2), td.tensor_split(x, indices_or_sections=2, dim=-1)


@case(X)
def lists_of_tensors(x):
    ys = [x, x+1]; ys.append(x*2)
    return td.cat(ys), td.stack(ys, dim=1), td.cat((x, x), dim=-1), td.stack((x, x)), td.concat(ys, 1)


@case(X)
def reductions(x):
    return (x.sum(), x.sum(0), x.sum(dim=(0, 1)), x.mean(-1, keepdim=True), x.mean(dim=1), x.max(), x.max(dim=1)[0], x.argmax(1), x.std(),
            x.var(0), x.norm(), x.prod(), x.cumsum(1), x.amax(dim=2))


@case(X)
def activations(x):
    return (x.softmax(-1), F.softmax(x, dim=1), td.softmax(x, 1), F.log_softmax(x, dim=-1), F.relu(x), F.leaky_relu(x, 0.1), F.gelu(x),
            F.dropout(x, 0.5, False), F.dropout(x, p=0.2, training=False))


@case(X)
def dtypes(x):
    return (x.to(td.float64), x.float(), x.int(), x.long(), x.double().dtype == td.float64, x.type_as(x), x.bool(), td.zeros(2,
            dtype=td.int64), td.zeros_like(x), td.ones((2, 2)), td.full((2,), 3.0), td.arange(5), td.tensor([1.0, 2.0]), td.tensor(3))


@case(X)
def shapes(x):
    return (x.unsqueeze(0), x.squeeze(), x.squeeze(0), x.t() if x.dim()==2 else x, x[0].t(), x[0].T, x.T, x.transpose(1, 2), x.expand(2, 3, 4), x[:,
            :, :1].expand(-1, -1, 4), x.repeat(2, 1, 1), x.split(2, 1), x.chunk(2, dim=2), x.unbind(0), x.contiguous())


@case(X)
def parts(x):
    a, b = x.chunk(2, dim=2)
    c, d = x.unbind(0)
    for r in x: c = c + r
    q, r = x
    return a+b, c+d, q, r


@case(X)
def choosing(x):
    return (td.where(x > 3, x, -x), td.where(x > 3, 1.0, 0.0), x.clamp(0, 5), x.clamp(min=2), td.clamp(x, max=3.0), x.masked_fill(x > 3, 0.0),
            td.exp(x), td.max(x, x*2) , td.maximum(x, -x), td.min(x), x.abs(), td.pow(x, 2), x.pow(2), x ** 0.5, -x, 1/(x+1), 2-x, x//2, x%3)


@case(X)
def products(x):
    return td.einsum("bij,bkj->ik", [x, x]), td.einsum("...ii->...", x[:, :, :3]), td.einsum("bij,bkj,l", x, x, x[0, 0]), x.matmul(x.transpose(1, 2)), td.bmm(x, x.transpose(1, 2)), td.mm(x[0], x[1].t()), x[0] @ x[1].T


@case(X, lambda: 3)
def numbers(x, n: int):
    s = 0.0
    for i in range(n): s += float(x[0, 0,i])
    return (math.sqrt(s), math.pi, math.floor(2.5), math.log(s+1), max(n, 2), min(1.5, 2.5), abs(-n), round(2.6), sum([1, 2]), n / 2, n // 2,
            2 ** n, n % 2, float(n), int(2.7), bool(n), str(n), -7 // 2, -7 % 3)


@case(X)
def questions(x):
    return (x.item() if x.numel()==1 else x.sum().item(), int(x.sum()), x.sum().item() > 3, x.eq(1.0), x == 1, (x > 1) & (x < 5), ~(x > 1),
            x.any(), x.all(), td.all(x >= 0), td.isnan(x).any(), x.topk(2)[0], x.sort(descending=True)[1], x.argsort(-1))


@case(X, lambda: td.tensor([[0, 1, 2], [1, 1, 1]]))
def losses(x, i):
    return (F.mse_loss(x, x+1), F.cross_entropy(x[0], td.tensor(2).expand(3) ), F.one_hot(i, 3), F.embedding(i, x[0]), F.l1_loss(x, x*2,
            reduction="sum"), F.nll_loss(x[0], i[0]), F.binary_cross_entropy_with_logits(x, (x > 3).float()), F.smooth_l1_loss(x, x+0.3),
            F.kl_div(x, x), F.normalize(x, dim=-1), F.pad(x, (1, 1)), F.layer_norm(x, (4,)), F.cosine_similarity(x, x+1, dim=1))


@case(X)
def picking(x):
    return (x.gather(1, td.zeros(2, 1, 4, dtype=td.int64)), x.index_select(1, td.tensor([0, 2])),
            x.scatter_add(1, td.zeros(2, 1, 4, dtype=td.int64), x),
            td.tril(x), td.triu(x, 1), x.new_zeros(2, 2), x.new_ones((2,)), x.flip(0), td.roll(x, 1, 0), x.masked_select(x > 3),
            td.nonzero(x > 3), x.detach(), td.outer(x[0, 0], x[0, 0]), td.linspace(0, 1, 5), td.eye(3), td.cumsum(x, 0), td.unsqueeze(x, 1))


@case(X, lambda: td.tensor([2, 0, 2]))
def pieces(x, i):
    return (td.unique(i), td.unique(x - x), td.tensor_split(x, [1], 2)[1], F.adaptive_avg_pool2d(x, (2, None)), F.adaptive_avg_pool1d(x, 3), F.one_hot(i, 4))


@case(X)
def methods(x):
    return (x.add(1), x.mul(2), x.sub(x), x.div(2), td.add(x, x, alpha=2), x.add_(1), x.mul_(2), x.zero_(), x.fill_(3),
            x.copy_(td.ones(2, 3, 4)), td.sum(x, dim=1), td.mean(x), td.sigmoid(x), x.tanh(), x.sqrt(), x.exp().log(), x.neg(), td.abs(x),
            x.square(), x.rsqrt(), td.sign(x), td.floor(x), td.round(x), td.erf(x), td.log1p(x))


@case(X, lambda: "a b a c b a", lambda: 5)
def dicts(x, text: str, n: int):
    counts: dict[str, int] = {}
    for word in text.split():
        counts[word] = counts.get(word, 0) + 1
    parts = {"first": x[0], "second": x[1] * 2}
    parts["sum"] = parts["first"] + parts["second"]
    squares = {0: 0}
    for k in range(n):
        squares[k] = k * k
    total = 0
    for k, v in squares.items():
        total += k * v
    gone = squares.pop(2)
    other = squares.copy()
    other.update({1: 100, 77: 7})
    squares.clear()
    keys = [k for k in other]
    return (list(counts.items()), list(parts.keys()), parts["sum"], len(parts), "sum" in parts, "no" in parts, total, gone, keys,
            list(other.values()), other[-0], len(squares), counts.get("zzz") is None, sorted_keys(counts))


def sorted_keys(d: dict[str, int]):
    keys = list(d.keys())
    keys.sort()
    return keys


@case(X)
def kinds_of_values(x):
    def twice(v, k: int):
        return v * k

    def pick(v, maybe: int | None = None):
        if isinstance(maybe, int):
            return v + maybe
        return v - 1

    assert isinstance(x, td.Tensor) and not isinstance(x, (int, str)), "never"
    return twice(x, 2), pick(x), pick(x, 3), isinstance(1.5, float), td.jit.is_scripting()


@pytest.mark.parametrize("function, make", CASES)
def test_forms(function, make):
    ours, theirs = (f(*(m() for m in make)) for f in (td.jit.script(function), function))
    if function is kinds_of_values:
        assert ours[-1] is True and theirs[-1] is False
        ours, theirs = ours[:-1], theirs[:-1]
    assert repr(values(ours)) == repr(values(theirs))


def test_writes_are_seen_outside():
    def fill(x, y):
        x[0] = y
        x[1, 2] = 7.0
        x[0, 1] += y[0]

    mine, theirs, y = X(), X(), td.ones(3, 4, requires_grad=True)
    program = td.jit.script(fill)
    assert program(mine, y.detach()) is None
    fill(theirs, y.detach())
    assert mine.tolist() == theirs.tolist()

    def through(y):
        x = td.zeros(2, 3, 4)
        x[0] = y * 2
        x[:, 1] = y[0]
        return x

    grads = [td.autograd.grad(f(y).square().sum(), y)[0].tolist() for f in (td.jit.script(through), through)]
    assert grads[0] == grads[1]


def zeroes(t, k):
    t[k].zero_()
    return t


def adds(t, k):
    t[k].add_(10)
    t[k, 1].mul_(2)
    t[:, k].sub_(1)
    t[k:, k].fill_(7)
    return t


def through_a_row(t, k):
    row = t[k]
    row += 1
    row[0] = 100
    seen = t[k].sum()
    t.mul_(2)
    return row, t, seen


def into_a_row(t, k):
    td.add(t[0], 1, out=t[k])
    t[k, 1:].copy_(t[0, 1:])
    return t


def found(t, k):
    for _ in range(2):
        t[0, t[0].argmax()].fill_(-1)
        t[1][t[1].argmin()].mul_(3)
    return t


def in_branches(t, k):
    row = t[k] if t.sum() > 0 else t[0]
    row.neg_()
    while row[k] < 0:
        row.add_(4)
    return t


def reads(t, k):
    places, mask = td.tensor([1, 0]), td.tensor([True, False])
    return (t[k], t[k, k], t[:, k], t[k, :], t[k, places], t[places, k], t[places], t[places, places], t[:, places], t[mask], t[k, None], t[k.view(1)], t[[1, 0]], t[k.view(1, 1), k],
            t[-k], t[k.to(td.int32)], t[k.to(td.int8)], t[td.tensor(True)], t[k > 0])


def by_places(t, k):
    return t.narrow(1, k, 1), t.select(0, k), t[:k], t[k:], t[:, :k + 1], t[::k + 1], t.roll(k, 0), t.repeat(k, 2), t.expand(2, 3).view(k * 2, -1), t.unsqueeze(k)


@pytest.mark.parametrize("function", [zeroes, adds, through_a_row, into_a_row, found, in_branches, reads], ids=lambda f: f.__name__)
def test_a_place_in_a_tensor_is_a_view(function):
    """By a tensor of one whole number, as by that number."""
    program = td.jit.script(function)
    for k in (0, 1):
        for _ in range(4):  # planned, too
            ours, theirs = td.arange(6.0).reshape(2, 3), td.arange(6.0).reshape(2, 3)
            assert values(program(ours, td.tensor(k))) == values(function(theirs, td.tensor(k)))
            assert ours.tolist() == theirs.tolist()


def test_a_row_that_is_returned_is_a_view():
    program = td.jit.script(lambda_row)
    t = td.zeros(2, 3)
    program(t, td.tensor(1)).fill_(5)
    assert t.tolist() == [[0, 0, 0], [5, 5, 5]]
    with pytest.raises(td.Error, match="out of range|out of bounds"):
        program(t, td.tensor(2)).tolist()


def lambda_row(t, k):
    return t[k]


def test_places_are_ints_where_an_op_wants_them():
    program = td.jit.script(by_places)
    assert values(program(td.arange(6.0).reshape(2, 3), td.tensor(1))) == values(by_places(td.arange(6.0).reshape(2, 3), td.tensor(1)))


def test_gradients_of_a_place():
    def f(x, k):
        y = x * 1
        y[k].mul_(3)
        return (y[k] * y[:, k].sum()).sum()

    program = td.jit.script(f)
    for k in (0, 1):
        a, b = (td.arange(4.0).reshape(2, 2).requires_grad_() for _ in range(2))
        program(a, td.tensor(k)).backward()
        f(b, td.tensor(k)).backward()
        assert a.grad.tolist() == b.grad.tolist()


def test_functions_of_other_modules(tmp_path, monkeypatch):
    (tmp_path / "other_functions.py").write_text("import tensord as T\nSHIFT = 2\n\n\ndef inner(x):\n    return T.relu(x) + SHIFT\n\n\n"
                                                 "def outer(x, k: int = 3):\n    return inner(x) * k\n\n\ndef bad(x):\n    return open(x)\n")
    monkeypatch.syspath_prepend(tmp_path)
    import other_functions as other
    from other_functions import bad, outer as renamed

    SHIFT = 5.0

    def f(x):
        return renamed(x - SHIFT) + renamed(x, k=1)

    def g(x):
        return bad(x)

    assert td.jit.script(f)(X()).tolist() == f(X()).tolist()
    with pytest.raises(td.Unsupported, match=r"other_functions.py:14:12: a program cannot call 'open'"):
        td.jit.script(g)
    assert other.SHIFT == 2 and "other_functions" in sys.modules and _script.World().units == []


class Refused(Exception):
    def __init__(self, text, sizes=()):
        super().__init__(text)


def test_errors_by_their_names():
    def checks(x, n: int):
        if n == 0:
            raise td.ShapeError(f"{n} of {x.size(0)}")
        assert n < 3, f"n is {n}"
        if n == 2:
            raise Refused("two", sizes=[x.size(0)])
        return x

    program = td.jit.script(checks)
    assert program(X(), 1).tolist() == X().tolist()
    for n, text in ((0, "ShapeError: 0 of 2"), (2, "Refused: two"), (3, "AssertionError: n is 3")):
        with pytest.raises(td.Error, match=text):
            program(X(), n).tolist()


def test_what_dicts_cannot():
    def missing(k: int):
        d = {1: 2}
        return d[k]

    def grows(n: int):
        d = {0: 0}
        for k in range(n):
            d[k] = k
        return len(d)

    with pytest.raises(td.Error, match=r"KeyError: 7 is no key of the dict"):
        td.jit.script(missing)(7)
    assert td.jit.script(missing)(1) == 2 and td.jit.script(grows)(4096) == 4096
    with pytest.raises(td.Error, match=r"at most 4096 keys"):
        td.jit.script(grows)(4097)


def given_dicts(batch: dict[str, td.Tensor], deep: list[tuple[int, dict[int, list[float]]]], n: int):
    out: dict[str, td.Tensor] = {}
    for key, x in batch.items():
        out[key + "!"] = x * n
    return out, [{"all": {1: n, -3: k, 5: len(d)}} for k, d in deep], [x for x in batch.values()]


def test_dicts_come_and_go():
    program = td.jit.script(given_dicts)
    for args in (({"x": X(), "yé": X() + 1}, [(4, {1: [0.5], 2: []}), (5, {})], 3), ({}, [], 0), ({str(k): td.ones(1) for k in range(500)}, [], 2)):
        mine, plain = program(*args), given_dicts(*args)
        assert values(mine) == values(plain) and list(mine[0]) == list(plain[0])
    w = td.ones(2, requires_grad=True)
    sum(program({"w": w}, [], 3)[0].values()).sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]


def test_what_dicts_at_the_border_cannot():
    program = td.jit.script(given_dicts)
    for batch, text in (({1: X()}, "argument 1 .'batch'. of the program is of another type"), ({"x": 1}, "is of another type"),
                        ([X()], "is Dict.str, Tensor., and a list is given"), ({True: X()}, "ints or texts, not a bool"),
                        ({(1,): X()}, "ints or texts, not a tuple"), ({"x" * 1025: X()}, "texts of at most 1024 bytes, each once")):
        with pytest.raises(td.Error, match=text):
            program(batch, [], 1)
    with pytest.raises(td.Error, match="a dict of a program has at most 4096 keys"):
        program({}, [(0, {k: [] for k in range(4097)})], 1)
    assert program({}, [(0, {k: [] for k in range(4096)})], 1)[1] == [{"all": {1: 1, -3: 0, 5: 4096}}]


def test_dicts_of_a_traced_call():
    program = td.jit.script(given_dicts)
    traced = td.jit.trace(lambda x: program({"a": x, "b": x + 1}, [], 2)[0]["b!"] * 2, (X(),))
    assert traced(X() * 5).tolist() == (((X() * 5) + 1) * 4).tolist()


@case(X)
def casts(x):
    y = x.double()
    return (x.to(dtype=td.int32), x.to(y), x.to(x.device), x.to(x.device, td.float64), x.to(td.float16, non_blocking=True), x.to(y, copy=True), x.to("cpu" if False else x.dtype),
            x.device.type == "cpu", str(x.dtype), f"{y.dtype}")


@case(X)
def makers_with_places(x):
    return (td.zeros(x.size(0), 2, dtype=td.int64, device=x.device), td.ones(size=(2, 3), device=x.device), td.full((2,), fill_value=1.5, requires_grad=False),
            td.zeros_like(x, dtype=td.float64), td.ones_like(x, device=x.device), td.arange(3, device=x.device), td.tensor([1, 2], device=x.device, dtype=td.float32),
            td.tensor(3, device=x.device), x.new_tensor([1, 2]), x.new_tensor([1.5], dtype=td.float64))


@case(X)
def listed_indices(x):
    y = x.clone()
    y[[0]] = 5.0
    return x[[1, 0, 1]], x[[1], [2]], y, x[:, [0, 2]]


@case(X)
def shapes_as_tuples(x):
    shape = x.shape[:-1] + (2, 2)
    return x.shape == (2, 3, 4), x.shape != (2, 3), (2, 3, 4) == x.shape, x.reshape(shape), x.reshape((6,) + x.shape[2:])


@case(X)
def layouts_of_memory(x):
    y = x.transpose(0, 1)
    return x.is_contiguous(), y.is_contiguous(), y.contiguous().is_contiguous(), y.stride() == (4, 12, 1), y.stride(1), x[:0].is_contiguous(), x[:, :1].is_contiguous()


@case(X)
def grids_and_sums(x):
    a, b = td.meshgrid(td.arange(2), td.arange(3), indexing="ij")
    c = td.meshgrid([td.arange(2), td.arange(3)], indexing="xy")
    return a, b, c, sum([t for t in x]), sum(r.sum() for r in x), td.chain_matmul(x[0], x[1].t(), x[1]), td.meshgrid(td.arange(2))


@case(X)
def spreads(x):
    return x.var(), x.var(0), x.var(0, unbiased=False), x.std(1, True, True), td.std(x, dim=[0, 1], correction=0), x.var(False), td.var(x, 1, correction=2), x.std(0, keepdim=True)


def first_above(xs: list[int], n: int) -> int:
    for x in xs:
        if x > n:
            return x
        if x == n:
            break
    if n == 0:
        return -1
    raise ValueError("none")


def test_what_a_loop_returns_before_a_raise():
    program = td.jit.script(first_above)
    for xs in ([], [1], [3, 5], [0, 4]):
        for n in range(5):
            try:
                want = first_above(xs, n)
            except ValueError:
                with pytest.raises(td.Error, match="none"):
                    program(xs, n)
            else:
                assert program(xs, n) == want


def many(x, n: int):
    ys: list[td.Tensor] = []
    for k in range(n):
        ys.append(x + k)
    two = [x, x]
    two.append(x)
    once = [x * 2, x * 3]
    return ys, two, once, [ys], {"ys": ys}


def test_lists_of_tensors_have_room():
    for n in (0, 1, 200):
        assert values(td.jit.script(many)(td.ones(1), n)) == values(many(td.ones(1), n))


def reshaped_rows(x):
    x[:, :2].reshape(x.size(0), 2, 1).add_(10)
    return x


def reshaped_turned(x):
    y = x.t()
    z = y.reshape(y.size(0), 1, -1)
    z += 10
    return x


def reshaped_as(x):
    x[:, 1:].reshape_as(x[:, 1:]).mul_(2)
    return x


def reshaped_packed(x):
    x.t().reshape(-1).add_(10)
    return x


def a_column(x):
    x[:, 0].contiguous().add_(10)
    return x


def a_column_as_row(x):
    x[:, 1:2].contiguous().view(-1).zero_()
    return x


def a_column_raveled(x):
    x[:, 0].ravel().add_(10)
    return x


def rows_raveled(x):
    x[1:].ravel().add_(10)
    x[:1].contiguous().add_(1)
    return x


def of_its_own_type(x):
    x[0].type_as(x).add_(10)
    return x


@pytest.mark.parametrize("function, wrote", [
    (reshaped_rows, [[11, 12, 3], [14, 15, 6]]), (reshaped_turned, [[11, 12, 13], [14, 15, 16]]), (reshaped_as, [[1, 4, 6], [4, 10, 12]]), (reshaped_packed, [[1, 2, 3], [4, 5, 6]]), (a_column, [[1, 2, 3], [4, 5, 6]]),
    (a_column_as_row, [[1, 2, 3], [4, 5, 6]]), (a_column_raveled, [[1, 2, 3], [4, 5, 6]]), (rows_raveled, [[2, 3, 4], [14, 15, 16]]), (of_its_own_type, [[11, 12, 13], [4, 5, 6]])],
    ids=lambda p: getattr(p, "__name__", ""))
def test_what_is_a_view_and_what_a_copy(function, wrote):
    """By how the tensor lies, as outside of programs; a trace, too, whatever its example looked like."""
    def fresh():
        return td.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    assert td.jit.script(function)(fresh()).tolist() == wrote and function(fresh()).tolist() == wrote
    for example in ((2, 3), (1, 3), (2, 2), (1, 2)):
        assert td.jit.trace(function, td.ones(example), check_trace=False)(fresh()).tolist() == wrote, example


def into(x, shape: list[int]):
    return x.reshape(shape)


@pytest.mark.parametrize("has, shape", [((2, 3), [7]), ((2, 3), [-1, 4]), ((2, 3), [-1, -1]), ((2, 3), [3, -2]), ((0, 3), [0, -1])])
def test_shapes_that_do_not_fit(has, shape):
    for lies in (td.ones(has), td.ones(has).t()):
        with pytest.raises(td.ShapeError, match=r"invalid|inferred|ambiguous"):
            td.jit.script(into)(lies, shape).tolist()

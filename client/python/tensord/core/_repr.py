"""How tensors are shown: PyTorch's words and columns.

Of a large tensor only the corners are fetched. A tensor whose value cannot be had (the op that makes it failed, the connection is gone) is
shown by what is known of it, with the reason, since a debugger that prints it must not raise.
"""

import math

from tensord import _C

_DEFAULT = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
_options = dict(_DEFAULT)
_PROFILES = {"default": {}, "short": {"precision": 2, "edgeitems": 2}, "full": {"threshold": math.inf}}


def set_options(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    if profile is not None:
        if profile not in _PROFILES:
            raise _C.InvalidError(f"profile must be one of {', '.join(_PROFILES)}, not {profile!r}")
        _options.update(_DEFAULT, **_PROFILES[profile])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _options.update({k: v for k, v in given.items() if v is not None}, sci_mode=sci_mode)


class _Format:
    """Numbers of one width, chosen for all that are shown."""

    def __init__(self, values, is_float):
        self.is_float, self.whole, self.sci, self.width = is_float, True, False, 1
        if not is_float:
            self.width = max((len(str(v)) for v in values), default=1)
            return
        nonzero = [abs(v) for v in values if math.isfinite(v) and v != 0]
        if nonzero:
            self._choose(nonzero)
        self.width = 0
        self.width = max((len(self(v)) for v in values if math.isfinite(v) and v != 0), default=1)
        if nonzero and _options["sci_mode"] is not None:  # PyTorch's columns are as wide as if nobody had asked
            self.sci = _options["sci_mode"]

    def _choose(self, sizes):
        low, high = min(sizes), max(sizes)
        self.whole = all(v == math.ceil(v) for v in sizes)
        self.sci = high / low > 1000.0 or high > 1e8 or (low < 1e-4 and not self.whole)

    def __call__(self, v):
        if not self.is_float:
            text = str(v)
        elif not math.isfinite(v):
            text = str(v)
        elif self.sci:
            text = f"{v:.{_options['precision']}e}"
        elif self.whole:
            text = f"{v:.0f}."
        else:
            text = f"{v:.{_options['precision']}f}"
        return text.rjust(self.width)


class _Complex:
    def __init__(self, values):
        self.re = _Format([v.real for v in values], True)
        self.im = _Format([v.imag for v in values], True)
        self.width = self.re.width + self.im.width + 1

    def __call__(self, v):
        im = self.im(v.imag).strip()
        return self.re(v.real) + ("" if im.startswith("-") else "+") + im + "j"


def _leaves(x, out):
    if isinstance(x, list):
        for each in x:
            _leaves(each, out)
    elif x is not ...:
        out.append(x)
    return out


def _marked(x, cut, edge):
    """The same lists, with ... where something was left out."""
    if not cut:
        return x
    x = [_marked(each, cut[1:], edge) for each in x]
    return [*x[:edge], ..., *x[edge:]] if cut[0] else x


def _corners(t, edge):
    """Nested lists of what is shown: put together by the daemon, so that it is waited for once."""
    cut = [n > 2 * edge for n in t.shape]
    for dim, n in enumerate(t.shape):
        if cut[dim]:
            before = (slice(None),) * dim
            t = _C.cat([t[(*before, slice(edge))], t[(*before, slice(n - edge, n))]], dim)
    return _marked(t.tolist(), cut, edge)


def _vector(x, show, indent):
    """One line after the other, as many numbers as fit."""
    texts = [" ..." if v is ... else show(v) for v in x]
    each = max(1, (_options["linewidth"] - indent) // (getattr(show, "width", 4) + 2))
    lines = [texts[i : i + each] for i in range(0, len(texts), each)]
    return "[" + (",\n" + " " * (indent + 1)).join(", ".join(line) for line in lines) + "]"


def _nested(x, ndim, show, indent):
    if ndim == 0:
        return show(x)
    if ndim == 1:
        return _vector(x, show, indent)
    parts = ["..." if v is ... else _nested(v, ndim - 1, show, indent + 1) for v in x]
    return "[" + ("," + "\n" * (ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _numbers(t):
    with_all = t.numel() <= _options["threshold"]
    x = t.tolist() if with_all else _corners(t, _options["edgeitems"])
    values = _leaves(x, [])
    show = _Complex(values) if t.dtype.is_complex else _Format(values, t.dtype.is_floating_point)
    return _nested(x, t.ndim, show, len("tensor("))


def _notes(t, body):
    """dtype, grad_fn, ...: what cannot be seen from the numbers."""
    default = (_C.get_default_dtype(), _C.get_default_dtype().to_complex(), _C.int64, _C.bool)
    if t.device.type != "cpu":
        yield f"device='{t.device}'"
    if t.numel() == 0 and t.ndim != 1:
        yield f"size={t.shape}"
    if t.dtype not in default or (t.numel() == 0 and t.dtype is not default[0]):
        yield f"dtype={t.dtype}"
    node = t.grad_fn
    if node is not None:
        yield f"grad_fn=<{type(node).__name__}>"
    elif t.requires_grad:
        yield "requires_grad=True"
    if t.name is not None:
        yield f"name={t.name!r}"


def without(kind, what, why):
    """What stands for something whose values cannot be had: what it is, and the first line of the error that says why."""
    return f"<{kind} without {what}: {str(why).splitlines()[0]}>"


def text(t):
    kind = "tensor" if type(t) is _C.Tensor else type(t).__name__
    try:
        before = _C.is_grad_enabled()
        try:  # Ctrl-C may come at once
            _C._set_grad(False)
            body = "[]" if t.numel() == 0 else _numbers(t)
        finally:
            _C._set_grad(before)
        notes = list(_notes(t, body))
    except (_C.Error, KeyboardInterrupt) as e:
        if isinstance(e, KeyboardInterrupt):
            raise
        return without(kind, "a value", e)
    out = f"{kind}({body}"
    column = len(out.rsplit("\n", 1)[-1]) + 2
    for note in notes:
        if column + len(note) + 2 > _options["linewidth"]:
            out, column = out + ",\n" + " " * 7 + note, 7 + len(note)
        else:
            out, column = out + ", " + note, column + len(note) + 2
    return out + ")"

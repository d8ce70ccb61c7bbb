"""Worked examples, doc and test at once: "add([1., 2.], [3., 4.]) == [4., 6.]".

Arguments stand in the order of the signature or as name=value. A tensor is a nested list (whole numbers give int64, a decimal
point float32, true and false bool), or has its dtype in front: int8[1, 2], float64(3) for 0-d. A text stands in 'quotes'. Numbers may be inf, nan and
complex (1+2j). Several results stand in parentheses; `_` accepts any value of a result.
"""

import re
from dataclasses import dataclass

from signature import DTYPES

SHORT = {bool: "bool", int: "int64", float: "float32", complex: "complex64"}


class ExampleError(ValueError):
    """An example that cannot be read."""


@dataclass(frozen=True)
class Tensor:
    dtype: str
    shape: tuple
    values: tuple  # row-major


@dataclass(frozen=True)
class Example:
    text: str
    inputs: tuple  # flattened as in a call: Tensor, a number, or None for an absent one
    attrs: tuple  # in the order of the signature: None, bool, number, dtype name or text, tuple of ints
    expected: tuple  # Tensor, or None where any value will do


@dataclass(frozen=True)
class Word:
    """A bare name."""

    text: str


@dataclass(frozen=True)
class Text:
    """A text."""

    text: str


@dataclass(frozen=True)
class Typed:
    """A literal with its dtype in front."""

    dtype: str
    value: object


_REAL = r"(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)"
_TOKEN = re.compile(rf"\s*(?:([-+]?{_REAL}[-+]{_REAL}j|[-+]?{_REAL}j)|([-+]?(?:{_REAL}|inf\b|nan\b))|([A-Za-z_]\w*)|'([^']*)'|(==|[\[\](),=]))")


def _tokens(text):
    at, out = 0, []
    while text[at:].strip():
        m = _TOKEN.match(text, at)
        if not m:
            raise ExampleError(f"cannot read from '{text[at:].strip()[:12]}'")
        cx, number, word, quoted, sign = m.groups()
        if cx:
            out.append(complex(cx))
        elif number:
            out.append(int(number) if re.fullmatch(r"[-+]?\d+", number) else float(number))
        elif quoted is not None:
            out.append(Text(quoted))
        elif word in ("true", "false"):
            out.append(word == "true")
        else:
            out.append(Word(word) if word else sign)
        at = m.end()
    return out


class _Reader:
    def __init__(self, text):
        self.tokens, self.at = _tokens(text), 0

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, want=None):
        t = self.peek()
        if t is None or (want is not None and t != want):
            raise ExampleError(f"expected {want or 'a value'}, found {'the end' if t is None else t}")
        self.at += 1
        return t

    def is_sign(self, sign):
        return isinstance(self.peek(), str) and self.peek() == sign

    def items(self, close):
        out = []
        while not self.is_sign(close):
            out.append(self.value())
            if not self.is_sign(close):
                self.take(",")
        self.take(close)
        return out

    def value(self):
        t = self.take()
        if isinstance(t, str):
            if t == "[":
                return self.items("]")
            raise ExampleError(f"unexpected '{t}'")
        if isinstance(t, Word) and t.text in DTYPES and (self.is_sign("[") or self.is_sign("(")):
            inner = self.items("]" if self.take() == "[" else ")")
            scalar = self.tokens[self.at - 1] == ")"
            if scalar and len(inner) != 1:
                raise ExampleError(f"{t.text}(...) takes one number")
            return Typed(t.text, inner[0] if scalar else inner)
        return t

    def arguments(self):
        """[(name or None, value)] up to the closing parenthesis."""
        out = []
        while not self.is_sign(")"):
            name = None
            if isinstance(self.peek(), Word) and self.tokens[self.at + 1:self.at + 2] == ["="]:
                name = self.take().text
                self.take("=")
            out.append((name, self.value()))
            if not self.is_sign(")"):
                self.take(",")
        self.take(")")
        return out


def _flatten(value, depth, shape, flat):
    if not isinstance(value, list):
        if len(shape) != depth or isinstance(value, (Word, Typed)):
            raise ExampleError("a tensor's rows differ in depth or hold no number")
        flat.append(value)
        return
    if len(shape) == depth:
        if flat:
            raise ExampleError("a tensor's rows differ in depth")
        shape.append(len(value))
    elif shape[depth] != len(value):
        raise ExampleError("a tensor's rows differ in length")
    for v in value:
        _flatten(v, depth + 1, shape, flat)


def _tensor(value):
    dtype = None
    if isinstance(value, Typed):
        dtype, value = value.dtype, value.value
    shape, flat = [], []
    _flatten(value, 0, shape, flat)
    if dtype is None:
        dtype = next((SHORT[k] for k in (complex, float, int, bool) if any(type(v) is k for v in flat)), "float32")
    return Tensor(dtype, tuple(shape), tuple(flat))


def _is_none(value):
    return isinstance(value, Word) and value.text == "none"


def _inputs(param, value):
    """The flattened operands of one tensor argument."""
    if param.is_list:
        if not isinstance(value, list):
            raise ExampleError(f"'{param.name}' is a list of tensors")
        return [None if _is_none(v) else _tensor(v) for v in value]
    if _is_none(value):
        return [None]
    if param.kind == "NUMBER" and isinstance(value, (bool, int, float, complex)):
        return [value]
    return [_tensor(value)]


def _attr(attr, value):
    if _is_none(value):
        if not attr.optional:
            raise ExampleError(f"'{attr.name}' may not be none")
        return None
    ok = {"INT": (int,), "FLOAT": (int, float), "BOOL": (bool,), "SCALAR": (bool, int, float, complex)}.get(attr.kind)
    if attr.kind == "DTYPE" and isinstance(value, Word) and value.text in DTYPES:
        return value.text
    if attr.kind == "TEXT" and isinstance(value, Text):
        return value.text
    if attr.kind == "INTS" and isinstance(value, list) and all(type(v) is int for v in value):
        return tuple(value)
    if ok is None or type(value) not in ok:
        raise ExampleError(f"'{attr.name}' takes {attr.type}")
    return float(value) if attr.kind == "FLOAT" else value


def _bind(op, arguments):
    """Values by argument name."""
    names, bound = [a.name for a in op.sig.args], {}
    for i, (name, value) in enumerate(arguments):
        if name is None:
            if i >= len(names):
                raise ExampleError("too many arguments")
            name = names[i]
        if name not in names or name in bound:
            raise ExampleError(f"'{name}' is no argument, or stands twice")
        bound[name] = value
    return bound


def _expected(reader, op):
    if reader.is_sign("("):
        reader.take()
        values = reader.items(")")
    else:
        value = reader.value()
        values = value if op.outs and op.outs[0].is_list else [value]
    if reader.peek() is not None:
        raise ExampleError("something stands after the expected value")
    if not (op.outs and op.outs[0].is_list) and len(values) != len(op.outs):
        raise ExampleError(f"{len(values)} expected values for {len(op.outs)} results")
    return tuple(None if isinstance(v, Word) and v.text == "_" else _tensor(v) for v in values)


def parse(text, op):
    """The Example of a text, or an ExampleError. `op` has its signature parsed."""
    r = _Reader(text)
    if r.take() != Word(op.name):
        raise ExampleError(f"must begin with {op.name}(")
    r.take("(")
    bound, inputs, attrs = _bind(op, r.arguments()), [], []
    for arg in op.sig.args:
        if arg.name not in bound:
            if arg in op.attrs and arg.has_default:
                attrs.append(arg.default)
            elif arg in op.params and arg.kind == "OPTIONAL":
                inputs.append(None)
            else:
                raise ExampleError(f"'{arg.name}' is missing")
        elif arg in op.params:
            inputs.extend(_inputs(arg, bound[arg.name]))
        else:
            attrs.append(_attr(arg, bound[arg.name]))
    r.take("==")
    return Example(text, tuple(inputs), tuple(attrs), _expected(r, op))

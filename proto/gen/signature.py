"""The signature language of the op table: "(x:T, dim:I[]?=none, keepdim:b=false) -> (values:T, indices:T)".

Tensor types: T, T? (optional), TS (a tensor or a number), T[] and T?[] (lists; one a signature). Attribute types: i, f, b,
S (a number of any kind), D (a dtype), I[] (integers), s (a text), each with ? when it may be none. name! marks a tensor that the op
writes, name!attr one that it writes where this attribute, a b, is true. A default makes an attribute optional to name, not to have: only `?` types may be none.
"""

import re
from dataclasses import dataclass

# In the order of the enum.
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
          "complex128", "uint16", "uint32", "uint64")

MAX_PARAMS = 12
MAX_ATTRS = 12

TENSOR_KINDS = {"T": "TENSOR", "T?": "OPTIONAL", "TS": "NUMBER", "T[]": "LIST", "T?[]": "OPTIONAL_LIST"}
ATTR_KINDS = {"i": "INT", "f": "FLOAT", "b": "BOOL", "S": "SCALAR", "D": "DTYPE", "I[]": "INTS", "s": "TEXT"}


class SignatureError(ValueError):
    """A signature that does not follow the language; the message says where."""


@dataclass(frozen=True)
class Param:
    """A tensor argument. `index` counts tensor arguments only."""

    name: str
    kind: str  # a value of TENSOR_KINDS
    type: str  # as written
    mutated: bool
    index: int
    mutated_if: str = None  # the attribute that says whether it is

    @property
    def is_list(self):
        return self.kind in ("LIST", "OPTIONAL_LIST")


@dataclass(frozen=True)
class Attr:
    """An argument that is no tensor. `index` counts attributes only. `default` is None, bool, int, float or a tuple of ints,
    and means something only with has_default."""

    name: str
    kind: str  # a value of ATTR_KINDS
    type: str  # as written
    optional: bool
    has_default: bool
    default: object
    index: int


@dataclass(frozen=True)
class Output:
    name: str
    is_list: bool
    index: int


@dataclass(frozen=True)
class Signature:
    text: str
    args: tuple  # Param and Attr in the order of the text
    params: tuple
    attrs: tuple
    outs: tuple


def _default(text, kind, optional):
    """The value of a default's text for an attribute kind."""
    if text == "none":
        if not optional:
            raise SignatureError(f"default none for a type without '?'")
        return None
    if kind == "BOOL" and text in ("true", "false"):
        return text == "true"
    if kind == "INT" and re.fullmatch(r"-?\d+", text):
        return int(text)
    if kind in ("FLOAT", "SCALAR") and re.fullmatch(r"-?\d+(\.\d*)?([eE][-+]?\d+)?", text):
        return float(text) if kind == "FLOAT" or not re.fullmatch(r"-?\d+", text) else int(text)
    if kind == "INTS" and re.fullmatch(r"\[(-?\d+(,-?\d+)*)?\]", text.replace(" ", "")):
        return tuple(int(v) for v in text[1:-1].split(",") if v.strip())
    raise SignatureError(f"'{text}' is no default for {kind.lower()}")


def _split(text):
    """Split at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "[(") - (c in "])")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [p.strip() for p in parts] if text.strip() else []


_ARG = re.compile(r"([a-z_][a-z0-9_]*)(!(?:[a-z_][a-z0-9_]*)?)?:([A-Za-z]+(?:\?\[\]|\[\]\??|\?)?)(?:=(.+))?")


def _arg(text, params, attrs):
    m = _ARG.fullmatch(text)
    if not m:
        raise SignatureError(f"'{text}' is not name:type or name:type=default")
    name, mutated, type_, default = m.groups()
    if type_ in TENSOR_KINDS:
        if default is not None:
            raise SignatureError(f"'{name}': a tensor has no default")
        params.append(Param(name, TENSOR_KINDS[type_], type_, bool(mutated), len(params), (mutated or "")[1:] or None))
        return params[-1]
    optional = type_.endswith("?")
    kind = ATTR_KINDS.get(type_[:-1] if optional else type_)
    if not kind:
        known = " ".join([*TENSOR_KINDS, *ATTR_KINDS])
        raise SignatureError(f"'{name}': unknown type '{type_}' (known: {known}; ? after an attribute's)")
    if mutated:
        raise SignatureError(f"'{name}': only a tensor can be written (!)")
    try:
        value = None if default is None else _default(default.strip(), kind, optional)
    except SignatureError as e:
        raise SignatureError(f"'{name}': {e}") from None
    attrs.append(Attr(name, kind, type_, optional, default is not None, value, len(attrs)))
    return attrs[-1]


def _output(text, index):
    name, colon, type_ = text.rpartition(":")
    if not colon:
        name = "out"
    if type_ not in ("T", "T[]") or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise SignatureError(f"output '{text}' is not T, T[], name:T or name:T[]")
    return Output(name, type_ == "T[]", index)


def _outputs(text):
    if text.startswith("(") and text.endswith(")"):
        texts = _split(text[1:-1])
        if any(":" not in t for t in texts):
            raise SignatureError("each of several outputs needs a name: (a:T, b:T)")
    else:
        texts = [text]
    outs = tuple(_output(t, i) for i, t in enumerate(texts))
    if sum(o.is_list for o in outs) > 0 and len(outs) > 1:
        raise SignatureError("a list of outputs stands alone")
    return outs


def parse(text):
    """The Signature of a text, or a SignatureError."""
    m = re.fullmatch(r"\((.*)\)\s*->\s*(.+)", text.strip())
    if not m:
        raise SignatureError("malformed: expected (name:type, ...) -> type")
    params, attrs = [], []
    args = tuple(_arg(a, params, attrs) for a in _split(m.group(1)))
    outs = _outputs(m.group(2).strip())
    if sum(p.is_list for p in params) > 1:
        raise SignatureError("at most one list of tensors")
    if len(params) > MAX_PARAMS or len(attrs) > MAX_ATTRS:
        raise SignatureError(f"at most {MAX_PARAMS} tensors and {MAX_ATTRS} attributes")
    for p in params:
        if p.mutated_if and not any(a.name == p.mutated_if and a.kind == "BOOL" for a in attrs):
            raise SignatureError(f"'{p.name}' is written if '{p.mutated_if}', which is no b")
    required_after = [a.name for i, a in enumerate(attrs) if not a.has_default and any(b.has_default for b in attrs[:i])]
    if required_after:
        raise SignatureError(f"'{required_after[0]}' without a default stands after an attribute with one")
    for kind, names in ("argument", [a.name for a in args]), ("output", [o.name for o in outs]):
        for name in names:
            if names.count(name) > 1:
                raise SignatureError(f"two {kind}s are named '{name}'")
    return Signature(text, args, tuple(params), tuple(attrs), outs)

"""Read and check the op table: the one model that all emitters work on.

load() merges the blocks of several files, or of a folder of them (a column may stand in one of them only; the text "TODO" counts as absent), reads
each block into an Op and collects every mistake as "FILE:LINE: message". Invariant: a Table that load() returned without errors
has unique, locked ids, known rules and flags, parsed signatures and a doc for every op.
"""

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import signature
from signature import DTYPES

FLAGS = ("view", "pointwise", "random", "data_shape", "inplace", "out_strided", "multi_view", "nondiff", "cast_any",
         "creation", "alias_ok", "exact_number", "weighs", "source", "uncomputed", "format")
DTYPE_SETS = {"ints": DTYPES[1:6] + DTYPES[12:], "floats": DTYPES[6:10], "complex": DTYPES[10:12], "all": DTYPES}
PROMOTE = ("same", "float", "bool", "first", "abs", "sum", "index")
COLUMNS = {"id": int, "sig": str, "doc": str, "infer": str, "kernel": str, "expr": (str, dict), "promote": str, "flags": list,
           "dtypes": str, "grad": dict, "decompose": str, "composer": str, "nondiff_outputs": list, "checked": list, "linear": list, "alike": list,
           "shape_of": dict, "array_api": str, "aten": str, "onnx": str, "cost": dict, "example": (str, list), "outputs": dict}
MAX_ID = 4096


class TableError(Exception):
    """All mistakes of a table; str() is one line each."""

    def __init__(self, errors):
        super().__init__("\n".join(errors))
        self.errors = errors


@dataclass
class Op:
    """One block. `raw` has every column as read; `lines` where each stands: column -> (file, line)."""

    name: str
    raw: dict = field(default_factory=dict)
    lines: dict = field(default_factory=dict)
    sig: signature.Signature = None
    saves: list = None  # what each tensor argument's gradient keeps (formula.saves), or None

    @property
    def id(self):
        return self.raw["id"]

    @property
    def doc(self):
        return self.raw["doc"]

    @property
    def infer(self):
        """Name of the rule; what is made of other ops looks as they make it."""
        return "composed" if self.composed else self.raw["infer"]

    @property
    def composed(self):
        """It is made of other ops: there is no kernel, and nothing of it goes to the daemon."""
        return "decompose" in self.raw or "composer" in self.raw

    @property
    def recipe(self):
        """What it is made of, as people read it."""
        return self.raw["decompose"].strip() if "decompose" in self.raw else f"what {self.raw['composer']} puts together"

    @property
    def kernel(self):
        """Name of the kernel, or None (a view, an expression, or nothing to compute)."""
        k = self.raw.get("kernel")
        return None if k == "none" else k

    @property
    def expr(self):
        return self.raw.get("expr")

    @property
    def promote(self):
        return self.raw.get("promote", "same")

    @property
    def flags(self):
        """As written, `pointwise` for what is made from an expression, `format` for most of that, `uncomputed` for what no kernel makes."""
        flags = list(self.raw.get("flags", [])) + ["uncomputed"] * (self.raw.get("kernel") == "none")
        if "expr" in self.raw and "pointwise" not in flags:
            flags.append("pointwise")
        if "pointwise" in flags and self.name != "copy":  # which is how rows are made
            flags.append("format")
        return flags

    @property
    def params(self):
        return self.sig.params

    @property
    def attrs(self):
        return self.sig.attrs

    @property
    def outs(self):
        return self.sig.outs

    @property
    def grad(self):
        """Gradient formulas: {"x": text, "x,w,b": text}."""
        return self.raw.get("grad", {})

    @property
    def nondiff_outputs(self):
        if "nondiff" in self.flags:
            return [o.name for o in self.outs]
        return self.raw.get("nondiff_outputs", [])

    @property
    def dtypes(self):
        """Names of the dtypes that input 0 (of a creation op: the result) may have, in the order of the enum."""
        return expand_dtypes(self.raw.get("dtypes", "all"))

    @property
    def examples(self):
        e = self.raw.get("example", [])
        return [e] if isinstance(e, str) else list(e)

    def where(self, column=None):
        """"file:line" of a column, or of the block."""
        file, line = self.lines.get(column) or self.lines.get(None) or ("?", 0)
        return f"{file}:{line}"


@dataclass
class Table:
    """All ops, by rising id."""

    ops: list
    rules: dict  # name: what results look like, in words
    parts: dict = field(default_factory=dict)  # that formulas share: name: (names of arguments, text)

    def results(self, op):
        """[(name, what it looks like)] for the results of an op: `NAME: words` of the rule's comment, else what it says of all."""
        if op.composed:
            return [(o.name, op.raw.get("outputs", {}).get(o.name, "")) for o in op.outs]
        parts = [p.strip() for p in self.rules[op.infer].split(";")]
        named = dict(p.split(": ", 1) for p in parts if re.match(r"\w+: ", p))
        for_all = "; ".join(p for p in parts if p.split(":")[0] not in named)
        return [(o.name, named.get(o.name, for_all)) for o in op.outs]

    def op(self, name):
        return next((o for o in self.ops if o.name == name), None)


def expand_dtypes(text):
    names = set()
    for word in text.split():
        if word not in DTYPE_SETS and word not in DTYPES:
            raise ValueError(f"unknown dtype or set '{word}' (sets: {' '.join(DTYPE_SETS)})")
        names.update(DTYPE_SETS[word] if word in DTYPE_SETS else [word])
    return [d for d in DTYPES if d in names]


def scan_lines(path, text):
    """{op: {column or None: (file, line)}}, from the text itself: tomllib keeps no positions."""
    found, here, prefix = {}, {}, ""
    text = re.sub(r'"""(?:[^"]|"(?!""))*"""', lambda m: '""' + "\n" * m.group().count("\n"), text)  # no columns stand in there
    for n, line in enumerate(text.split("\n"), 1):  # only this ends a line in TOML
        head = re.match(r"""\s*\[\s*op\s*\.\s*["']?([\w-]+)["']?\s*(?:\.\s*(\w+)\s*)?\]""", line)
        key = re.match(r"\s*([\w-]+(?:\.(?:[\w-]+|\"[^\"]*\"))?)\s*=", line)
        if head:
            here = found.setdefault(head.group(1), {})
            here.setdefault(None, (path.name, n))
            prefix = head.group(2) + "." if head.group(2) else ""
        elif key:
            column = prefix + key.group(1).replace('"', "")
            here.setdefault(column, (path.name, n))
            here.setdefault(column.split(".")[0], (path.name, n))
    return found


def files_of(paths):
    """The files of the table: a folder stands for all in it, one for each family of ops."""
    return [f for p in map(Path, paths) for f in (sorted(p.glob("*.toml")) if p.is_dir() else [p])]


def read_part(path, name, block, parts, errors):
    """A part: args names them, is says what it is."""
    args, text = (block.get("args"), block.get("is")) if isinstance(block, dict) else (None, None)
    if not isinstance(args, str) or not isinstance(text, str) or len(block) != 2 or name in parts:
        errors.append(f"{path.name}:1: part {name}: there once, with args and is, two texts")
        return
    parts[name] = ([a.strip() for a in args.split(",") if a.strip()], text)


def read_file(path, errors, parts=None):
    """The blocks of one file and where their columns stand; its parts go into `parts`."""
    text = path.read_text()
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        m = re.search(r"at line (\d+)", str(e))
        errors.append(f"{path.name}:{m.group(1) if m else 1}: {e}")
        return {}, {}
    for key in data:
        if key not in ("op", "part"):
            errors.append(f"{path.name}:1: unknown table [{key}]; blocks are [op.NAME] and [part.NAME]")
    for name, block in data.get("part", {}).items():
        read_part(path, name, block, {} if parts is None else parts, errors)
    return data.get("op", {}), scan_lines(path, text)


def merge(op, columns, lines, errors):
    """Put the columns of one file's block into the op. A text "TODO" gives way to another file's value; two files may say the
    same, but not different things."""
    op.lines.setdefault(None, lines.get(None))
    for column, value in columns.items():
        at, old = lines.get(column), op.raw.get(column, "TODO")
        if column in op.raw and value in ("TODO", old):
            continue
        if isinstance(old, dict) and isinstance(value, dict) and not old.keys() & value.keys():
            value = {**old, **value}
        elif old != "TODO":
            errors.append("%s:%d: op %s: column '%s' stands in %s already" % (*(at or ("?", 0)), op.name, column,
                                                                            op.where(column)))
            continue
        op.raw[column] = value
        op.lines[column] = at
        op.lines.update({c: l for c, l in lines.items() if c and c.startswith(column + ".")})


def infer_rules(header):
    """The closed set of inference rules: the functions that the header declares, each with the comment behind it."""
    found = re.findall(r"^TD_RULE\((\w+)\);(?:\s*/\*(.*?)\*/)?", Path(header).read_text(), re.M | re.S)
    return {name: re.sub(r"[\s*]+", " ", text).strip() for name, text in found}


def load(paths, rules_header, lock_path=None, strict=False):
    """The Table of the merged files, or a TableError with everything that is wrong."""
    import check
    import formula

    errors, ops, parts = [], {}, {}
    for path in files_of(paths):
        blocks, lines = read_file(path, errors, parts)
        for name, columns in blocks.items():
            if not isinstance(columns, dict):
                errors.append(f"{path.name}:1: 'op.{name}' is no block")
                continue
            merge(ops.setdefault(name, Op(name)), columns, lines.get(name, {None: (path.name, 1)}), errors)
    table = Table(list(ops.values()), infer_rules(rules_header), parts)
    check.check(table, errors, lock_path, strict)
    if not errors:
        formula.check(table, errors)
    if errors:
        raise TableError(errors)
    table.ops.sort(key=lambda o: o.id)
    return table

"""Read and check proto/program/prim.toml: what programs can do beside tensor ops. Used by emit_primid and emit_prims.

Invariant: what load() returned has unique ids, all of them locked, and signatures of known types only.

    prims.py --lock        record new ids in prim.lock
"""

import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import check
import table as model

FILE = Path(__file__).resolve().parent.parent / "program" / "prim.toml"
LOCK = FILE.with_name("prim.lock")
RULES = ("signature", "constant", "if", "loop", "list", "unlist", "tuple", "untuple", "dict", "cast", "make", "format", "any")
FLAGS = ("raises", "mutates", "effect", "reaches")
COLUMNS = {"id", "sig", "doc", "over", "rule", "flags"}
MAX_ID = 1024
# Types as codes that the verifier walks (verify_types.c): one letter each, what a type is made of behind it.
CODES = {"int": "i", "float": "f", "bool": "b", "complex": "c", "str": "s", "Device": "v", "dtype": "d", "Tensor": "T", "number": "#", "any": "*", "t": "t", "u": "u"}


class BadType(ValueError):
    pass


@dataclass
class Prim:
    id: int
    name: str  # with the overload: add.int
    sig: str
    doc: str
    rule: str
    flags: tuple
    codes: str = ""

    @property
    def symbol(self):
        return "TD_PRIM_" + self.name.upper().replace(".", "_")


def code(text):
    """The codes of a type: int -> i, int[] -> [i, int? -> ?i, Dict(t, u) -> {tu, (t, u) -> (tu)."""
    text = text.strip()
    if text.endswith("?"):
        return "?" + code(text[:-1])
    if text.endswith("[]"):
        return "[" + code(text[:-2])
    if m := re.fullmatch(r"(Dict)?\((.*)\)", text):
        parts = "".join(map(code, parts_of(m.group(2))))
        return "{" + parts if m.group(1) else f"({parts})"
    if text not in CODES:
        raise BadType(f"unknown type '{text}'")
    return CODES[text]


def parts_of(text):
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p for p in parts if p.strip()]


def codes(sig):
    """Of a whole signature: those of its arguments, '>', those of its results."""
    m = re.fullmatch(r"\((.*)\) -> (.+)", sig)
    if not m:
        raise BadType("malformed: expected (name: type, ...) -> type")
    args = [a.partition(":")[2] for a in parts_of(m.group(1))]
    outs = [] if m.group(2) == "()" else [m.group(2)]
    return "".join(map(code, args)) + ">" + "".join(map(code, outs))


def forms(name, block, errors):
    """The Prims of one block."""
    rule, flags = block.get("rule", "signature"), tuple(block.get("flags", ()))
    for wrong in sorted(block.keys() - COLUMNS):
        errors.append(f"prim.toml: prim {name}: unknown column '{wrong}'")
    if not block.get("doc"):
        errors.append(f"prim.toml: prim {name}: no doc")
    if rule not in RULES or set(flags) - set(FLAGS):
        errors.append(f"prim.toml: prim {name}: unknown rule or flag in {rule!r} {flags}")
    rows = block.get("over") or [[block.get("id"), "", block.get("sig")]]
    for number, overload, sig in rows:
        prim = Prim(number, f"{name}.{overload}" if overload else name, sig, block.get("doc", ""), rule, flags)
        if not isinstance(number, int) or not 0 < number < MAX_ID or not isinstance(sig, str):
            errors.append(f"prim.toml: prim {prim.name}: it needs an id in 1..{MAX_ID - 1} and a signature")
            continue
        try:
            prim.codes = codes(sig) if rule == "signature" else ""
        except BadType as e:
            errors.append(f"prim.toml: prim {prim.name}: {e}")
        yield prim


def read(errors):
    blocks = tomllib.loads(FILE.read_text())["prim"]
    prims = [p for name, block in blocks.items() for p in forms(name, block, errors)]
    for p in prims:
        if any(q.id == p.id for q in prims if q is not p):
            errors.append(f"prim.toml: prim {p.name}: id {p.id} is there twice")
    return sorted(prims, key=lambda p: p.id)


def check_lock(prims, errors):
    locked = check.read_lock(LOCK)
    owner = {number: name for name, number in locked.items()}
    for p in prims:
        if locked.get(p.name, p.id) != p.id or owner.get(p.id, p.name) != p.name:
            errors.append(f"prim.toml: prim {p.name}: ids never change and are never reused (see prim.lock)")
        elif p.name not in locked:
            errors.append(f"prim.toml: prim {p.name}: id {p.id} is not in prim.lock: add it with gen/prims.py --lock")


def load():
    errors = []
    prims = read(errors)
    check_lock(prims, errors)
    if errors:
        raise model.TableError(errors)
    return prims


if __name__ == "__main__":
    if sys.argv[1:] != ["--lock"]:
        sys.exit(__doc__)
    found = []
    check.write_lock(LOCK, read(found))
    sys.exit("\n".join(found) or 0)

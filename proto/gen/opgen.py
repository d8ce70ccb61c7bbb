#!/usr/bin/env python3
"""Write C tables, wrappers and docs from the op table.

    opgen.py --table ops [--table more.toml ...] --emit KIND --out FILE [--emit KIND --out FILE ...]

An emitter is a module emit_KIND.py beside this file (or in a directory given with --path) with one function
emit(table, out): `table` is table.Table, `out` an open text file. Nothing is written when the table breaks a rule; each breach is
one line "FILE:LINE: op NAME: message". --lock records new ids in ops.lock (beside the first table) and writes nothing else.
"""

import argparse
import contextlib
import importlib
import io
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import check  # noqa: E402
import table as model  # noqa: E402


def arguments(argv):
    p = argparse.ArgumentParser(prog="opgen.py", description=__doc__.splitlines()[0])
    p.add_argument("--table", action="append", required=True, metavar="PATH", help="a file of the table, or the folder of them; may be repeated")
    p.add_argument("--emit", action="append", default=[], metavar="KIND", help="what to write: opid, table, docs, check, ...")
    p.add_argument("--out", action="append", default=[], metavar="FILE", help="where; one for each --emit")
    p.add_argument("--depfile", metavar="FILE", help="write down, for ninja, what an emitter of one --out read beside the table and the generator")
    p.add_argument("--path", action="append", default=[], metavar="DIR", help="where else emitters are looked for")
    p.add_argument("--rules", default=HERE.parent / "infer" / "infer.h", metavar="FILE", help="header that declares the inference rules")
    p.add_argument("--lock-file", metavar="FILE", help="the ids given so far (ops.lock in the folder, or beside the file)")
    p.add_argument("--lock", action="store_true", help="record new ids in the lock file")
    p.add_argument("--strict", action="store_true", help="refuse a differentiable op without a gradient")
    args = p.parse_args(argv)
    if len(args.emit) != len(args.out):
        p.error("each --emit needs one --out")
    if args.depfile and len(args.out) != 1:
        p.error("--depfile goes with one --out")
    if not args.lock_file:
        first = Path(args.table[0])
        args.lock_file = (first if first.is_dir() else first.parent) / "ops.lock"
    return args


def write(path, text):
    """All or nothing: a reader never sees half a file. What is there already stays, so that nothing is built anew for it."""
    with contextlib.suppress(OSError):
        if Path(path).read_text() == text:
            return
    part = Path(f"{path}.part")
    part.write_text(text)
    os.replace(part, path)


def run_emitter(kind, table):
    """The text, and the paths of what the emitter read beside the table, where it says so."""
    try:
        emitter = importlib.import_module(f"emit_{kind}")
    except ModuleNotFoundError as e:
        if e.name != f"emit_{kind}":
            raise
        raise model.TableError([f"opgen.py: no emitter emit_{kind}.py"]) from None
    out = io.StringIO()
    read = emitter.emit(table, out)
    return out.getvalue(), read or ()


def lock(args):
    """Record the new ids; changed and reused ones are refused as ever."""
    table = model.load(args.table, args.rules, None, args.strict)
    errors = []
    check.check_lock(table.ops, args.lock_file, errors)
    errors = [e for e in errors if not e.endswith(check.ADD_HINT)]
    if errors:
        raise model.TableError(errors)
    check.write_lock(args.lock_file, table.ops)


def main(argv):
    args = arguments(argv)
    sys.path[1:1] = [str(Path(d).resolve()) for d in args.path]
    try:
        if args.lock:
            lock(args)
            return 0
        table = model.load(args.table, args.rules, args.lock_file, args.strict)
        texts = [run_emitter(kind, table) for kind in args.emit]
    except model.TableError as e:
        print(e, file=sys.stderr)
        return 1
    for path, (text, read) in zip(args.out, texts):
        write(path, text)
        if args.depfile:
            names = sorted(str(each).replace(" ", "\\ ") for each in read)
            write(args.depfile, f"{path}: {' '.join(names)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

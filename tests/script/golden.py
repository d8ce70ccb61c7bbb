#!/usr/bin/env python3
"""What the front end of programs makes of sources, against what is kept: golden.py SHOW_SCRIPT [update]

golden/NAME.py becomes the tree in golden/NAME.ast, lowered/NAME.py the IR in lowered/NAME.ir. refused.txt (by the parser) and
refused_types.txt (by what comes behind it) hold sources and the whole message that each gets:

    === what is tested
    def f(x):
        del x
    ---
    test.py:2:5: a program has no 'del': ...

`update` rewrites what is kept; read the diff."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def shown(program, sources, *args):
    data = b"".join(s.encode() + b"\0" for s in sources)
    out = subprocess.run([program, *args], input=data, stdout=subprocess.PIPE, timeout=60, check=True).stdout
    return out.decode().split("\0")[:-1]


def read(path):
    with open(os.path.join(HERE, path), encoding="utf-8") as f:
        return f.read()


def write(path, text):
    with open(os.path.join(HERE, path), "w", encoding="utf-8") as f:
        f.write(text)


def differ(what, got, want):
    """Print the first line that differs; 1 if any does."""
    if got == want:
        return 0
    pairs = zip(got.splitlines() + ["(the end)"], want.splitlines() + ["(the end)"])
    line, (a, b) = next(((i, p) for i, p in enumerate(pairs, 1) if p[0] != p[1]), (0, ("", "")))
    print(f"FAILED {what}, line {line}:\n  it is  {a}\n  it was {b}")
    return 1


def goldens(program, update, folder, what, end):
    names = sorted(n[:-3] for n in os.listdir(os.path.join(HERE, folder)) if n.endswith(".py"))
    for name, got in zip(names, shown(program, [read(f"{folder}/{n}.py") for n in names], what)):
        path = f"{folder}/{name}.{end}"
        if update:
            write(path, got)
        yield differ(path, got, read(path))


def refusals(program, update, path, what):
    cases = [c.partition("\n") for c in read(path).split("=== ")[1:]]
    parts = [(title, source + "\n", want) for title, _, body in cases for source, _, want in [body.partition("\n---\n")]]
    kept = ""
    for (title, source, want), got in zip(parts, shown(program, [p[1] for p in parts], what)):
        got = got.partition("\n")[2] if got.startswith("TD_E_") else "it was taken\n"
        kept += f"=== {title}\n{source}---\n{got}"
        yield 0 if update else differ(f"refused: {title}", got, want)
    if update:
        write(path, kept)


def main():
    program, update = sys.argv[1], "update" in sys.argv[2:]
    results = [*goldens(program, update, "golden", "tree", "ast"), *goldens(program, update, "lowered", "ir", "ir"),
               *refusals(program, update, "refused.txt", "tree"), *refusals(program, update, "refused_types.txt", "ir")]
    print(f"suite script_golden: {len(results) - sum(results)} passed, {sum(results)} failed, 0 skipped")
    return 1 if sum(results) else 0


if __name__ == "__main__":
    sys.exit(main())

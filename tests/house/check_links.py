#!/usr/bin/env python3
"""What a document names is there: a link to a file or a folder of the tree, and a path in backticks, from the root or from the document's folder
(`proto/ops`, `client/*.c`); so is a name of the code (`td_await`). So is a file that a comment of a C
file names ("see stream/held.c"), in the tree or made by the build.

Each fault is printed as FILE:LINE: what is wrong. What the build makes (build/...) and links to the network are not looked at."""
import glob
import os
import re
import sys

from tree import tracked

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PATH = re.compile(r"`((?:daemon|client|proto|shm|tests|\.ci)/[\w./*-]+)`")
CODE = re.compile(r"^\s*```")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
# A name in a comment: of a file in C, of a table, or of a module of the package that is private; `x.c` is a field of a struct.
FILE = re.compile(r"(?<![\w.>/-])((?:\w+/)*(?:\w{2,}\.[ch]|\w+\.toml|_[a-z]\w*\.py))\b(?!\()")
MADE = re.compile(r"'(?:[\w@-]+/)*([\w.-]+\.[ch])'")
NAME = re.compile(r"\btd_[a-z0-9_]*[a-z0-9]\b(?!_)")
MADE_NAMES = "td_at_"  # functions that the build makes of ops
ELSEWHERE = {"e_log.c", "complex.h"}  # of fdlibm, of the C library


def named(text):
    """(line, path, whether it is a link) of all that a document names outside its blocks of code."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        if CODE.match(line):
            code = not code
        if code:
            continue
        yield from ((number, m.group(1), True) for m in LINK.finditer(line) if "://" not in m.group(1) and not m.group(1).startswith("mailto:"))
        yield from ((number, m.group(1), False) for m in PATH.finditer(line))


def check(root, document):
    """Faults of one document, and how many names were looked at."""
    with open(os.path.join(root, document), encoding="utf-8") as f:
        found = list(named(f.read()))
    faults = []
    for number, path, link in found:
        beside = os.path.normpath(os.path.join(os.path.dirname(document), path))
        if not any(glob.glob(os.path.join(root, at)) for at in ([beside] if link else [path, beside])):
            faults.append(f"{document}:{number}: {path} is not there")
    return faults, len(found)


def in_comments(text):
    """(line, path) of the files that the comments of a C file name."""
    for comment in COMMENT.finditer(text):
        for m in FILE.finditer(comment.group()):
            yield text.count("\n", 0, comment.start() + m.start()) + 1, m.group(1)


def check_comments(root, files):
    """As check(), of all files in C."""
    ends, made = {name[k:] for name in files for k in range(len(name)) if k == 0 or name[k - 1] == "/"}, set(ELSEWHERE)
    for name in files:
        if name.endswith("meson.build"):
            with open(os.path.join(root, name), encoding="utf-8") as f:
                made.update(MADE.findall(f.read()))
    faults, seen = [], 0
    for name in files:
        path = os.path.join(root, name)
        if not name.endswith((".c", ".h")) or not os.path.exists(path):
            continue
        with open(path, encoding="utf-8", errors="replace") as f:
            found = list(in_comments(f.read()))
        seen += len(found)
        faults += [f"{name}:{line}: there is no {file}" for line, file in found if file not in ends and os.path.basename(file) not in made]
    return faults, seen


def check_names(root, files):
    """Names of the code that documents name: each stands in a source, outside of comments of C."""
    known, faults, seen = set(), [], 0
    for name in files:
        if name.endswith((".c", ".h", ".py", ".in", ".toml", ".proto")) and os.path.exists(os.path.join(root, name)):
            with open(os.path.join(root, name), encoding="utf-8", errors="replace") as f:
                known.update(NAME.findall(COMMENT.sub("", f.read())))
    for name in (n for n in files if n.endswith(".md")):
        with open(os.path.join(root, name), encoding="utf-8") as f:
            found = [(number, m) for number, line in enumerate(f, 1) for m in NAME.findall(line) if not m.startswith(MADE_NAMES)]
        seen += len(found)
        faults += [f"{name}:{number}: there is no {m} in the code" for number, m in found if m not in known]
    return faults, seen


def main():
    assert [file for _, file in in_comments("int a; // b.c\n/* ab.c, x->ab.h, r.c; share/_ab.py, train.py */")] == ["ab.c", "share/_ab.py"]
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    files = tracked(root)
    results = [check(root, name) for name in files if name.endswith(".md")] + [check_comments(root, files), check_names(root, files)]
    faults = [fault for found, _ in results for fault in found]
    seen = sum(n for _, n in results)
    print("\n".join(faults))
    print(f"suite house_links: {seen - len(faults)} passed, {len(faults)} failed, 0 skipped")
    return 1 if faults or not seen else 0


if __name__ == "__main__":
    sys.exit(main())

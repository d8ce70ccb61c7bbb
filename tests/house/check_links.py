#!/usr/bin/env python3
"""What a document names is there: a link to a file or a folder of the tree, and a path in backticks, from the root or from the document's folder
(`proto/ops`, `client/*.c`).

Each fault is printed as FILE:LINE: what is wrong. What the build makes (build/...) and links to the network are not looked at."""
import glob
import os
import re
import subprocess
import sys

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PATH = re.compile(r"`((?:daemon|client|proto|shm|tests|\.ci)/[\w./*-]+)`")
CODE = re.compile(r"^\s*```")


def documents(root):
    """The tree's own documents; where git cannot tell, all that lie outside of hidden folders and build directories."""
    git = subprocess.run(["git", "-C", root, "ls-files", "-z", "*.md"], capture_output=True, text=True)
    if git.returncode == 0 and git.stdout:
        return [name for name in git.stdout.split("\0") if name]
    found = glob.glob("**/*.md", root_dir=root, recursive=True)
    return sorted(name for name in found if not name.startswith(("build", ".")))


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


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    results = [check(root, document) for document in documents(root)]
    faults = [fault for found, _ in results for fault in found]
    seen = sum(n for _, n in results)
    print("\n".join(faults))
    print(f"suite house_links: {seen - len(faults)} passed, {len(faults)} failed, 0 skipped")
    return 1 if faults or not seen else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What each pass makes of programs, against what is kept: passes.py SHOW_PASSES [update]

golden/PASS/NAME.in becomes golden/PASS/NAME.out; the folder "all" is for all passes, as the daemon runs them. Both stand the verifier.
In front of a text there may be comments that say what is shown. `update` rewrites what is kept; read the diff."""
import subprocess
import sys
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


def passed(program, texts, *passes):
    data = b"".join(t.encode() + b"\0" for t in texts)
    return subprocess.run([program, *passes], input=data, stdout=subprocess.PIPE, timeout=60, check=True).stdout.decode().split("\0")[:-1]


def differ(what, got, want):
    """Print the first line that differs; 1 if any does."""
    if got == want:
        return 0
    pairs = zip(got.splitlines() + ["(the end)"], want.splitlines() + ["(the end)"])
    line, (a, b) = next(((i, p) for i, p in enumerate(pairs, 1) if p[0] != p[1]), (0, ("", "")))
    print(f"FAILED {what}, line {line}:\n  it is  {a}\n  it was {b}")
    return 1


def main():
    program, update = sys.argv[1], "update" in sys.argv[2:]
    results = []
    for folder in sorted(f for f in GOLDEN.iterdir() if f.is_dir()):
        names = sorted(folder.glob("*.in"))
        for name, got in zip(names, passed(program, [n.read_text() for n in names], folder.name)):
            kept = name.with_suffix(".out")
            if update:
                kept.write_text(got)
            results.append(differ(f"{folder.name}/{name.stem}", got, kept.read_text()))
    print(f"suite passes_golden: {len(results) - sum(results)} passed, {sum(results)} failed, 0 skipped")
    return 1 if sum(results) else 0


if __name__ == "__main__":
    sys.exit(main())

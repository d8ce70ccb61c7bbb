#!/usr/bin/env python3
"""Programs as we print them, read by TorchScript's own parser: the texts of golden/torch.ir, which the suite proto_ir_text
shows to be what is printed.

Torch numbers values anew and forgets sources; what must be the same is each node with its op, how many values it takes and makes,
their types, and what constants say."""
import re
import sys
from pathlib import Path

TEXTS = (Path(__file__).parent / "golden" / "torch.ir").read_text().split("----\n")


def lines(text):
    """A text without the names of values, without sources, and without the sign that torch writes also behind no results."""
    return [re.sub(r"^ += ", "", re.sub(r"%[\w.]+", "%", re.sub(r" +#.*", "", line))).strip() for line in text.splitlines() if line.strip()]


def joined(text):
    """Torch breaks the list of a graph's inputs into lines."""
    return re.sub(r",\n +%", ", %", text)


def main():
    try:
        import torch
    except ImportError:
        print("SKIP parse_ir: there is no torch here")
        print(f"suite graph_parse_ir: 0 passed, 0 failed, {len(TEXTS)} skipped")
        return 77
    failed = 0
    for text in TEXTS:
        ours, theirs = lines(text), lines(joined(str(torch._C.parse_ir(text))))
        differ = [(a, b) for a, b in zip(ours, theirs) if a != b]
        if differ or len(ours) != len(theirs):
            failed += 1
            print(f"ours:\n{text}torch's:\n{torch._C.parse_ir(text)}first: {differ[:1]}")
    print(f"suite graph_parse_ir: {len(TEXTS) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

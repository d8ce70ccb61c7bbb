#!/usr/bin/env python3
"""The diffs that proto/README.md shows are those of the files: each run of lines with a + stands in the file that its +++ names, as it is."""
import re
import sys
from pathlib import Path


def runs(page):
    """(file, text) of each run of added lines in the page's diffs."""
    for body in re.findall(r"^```diff\n(.*?)^```", page, re.M | re.S):
        file, lines = None, []
        for line in [*body.splitlines(), "+++ end"]:
            if line.startswith("+++ "):
                if lines:
                    yield file, "\n".join(lines)
                file, lines = line[4:], []
            else:
                lines.append(line[1:])


def stands(root, file, text):
    """Paragraph by paragraph: between two of C there may be more."""
    have = (root / file).read_text()
    return all(f"\n{part}\n" in f"\n{have}\n" for part in text.split("\n\n"))


def main(root):
    found = list(runs((root / "proto/README.md").read_text()))
    wrong = [(file, text) for file, text in found if not stands(root, file, text)]
    for file, text in wrong:
        print(f"proto/README.md: not in {file}:\n{text}")
    blocks = sum(file.startswith("proto/ops/") and file.endswith(".toml") for file, _ in found)
    if blocks != 3:
        print(f"proto/README.md: {blocks} blocks of the table, there should be 3")
    print(f"suite page: {len(found) - len(wrong)} passed, {len(wrong) + (blocks != 3)} failed, 0 skipped")
    return bool(wrong) or blocks != 3


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

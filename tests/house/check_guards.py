#!/usr/bin/env python3
"""The include guard of a header is named after the header's path: daemon/graph/run.h has TENSORD_DAEMON_GRAPH_RUN_H.

Paths are unique, so two headers never shut each other out. A header that moves takes a new name with it: --write renames all guards.

    check_guards.py SOURCE [--write]
"""
import os
import re
import sys

from tree import tracked

GUARD = re.compile(r"^#ifndef (\w+_H)\n#define (\w+)\n", re.M)
NAMES = {"client/tensord.h": "TENSORD_H"}  # installed for programs, which may ask for it
SEVERAL_TIMES = {  # templates in C: each is included once for each type
    "daemon/kernels/cpu/fft/fft_lanes.h",
    "daemon/kernels/cpu/fft/fft_move.h",
    "daemon/kernels/cpu/fft/fft_passes.h",
    "daemon/kernels/cpu/vec/product_tile.h",
}
MADE = ("client/examples/", "tests/generator/golden/")  # written by generators, for other paths


def wanted(path):
    """The guard of the header at a path, or None for a header that is included several times."""
    return None if path in SEVERAL_TIMES else NAMES.get(path, "TENSORD_" + re.sub(r"\W", "_", path).upper())


def fault(path, text):
    """What is wrong with the guard of a header, or None."""
    found, name = GUARD.search(text), wanted(path)
    if not found:
        return f"has no include guard: {name}" if name else None
    if not name:
        return f"is included several times and has the guard {found.group(1)}"
    return None if found.groups() == (name, name) else f"has the include guard {found.group(1)}: it is {name}"


def main(source, write):
    assert not fault("a/b.h", "/* b */\n#ifndef TENSORD_A_B_H\n#define TENSORD_A_B_H\n\n#endif\n")
    assert fault("a/c.h", "#ifndef TENSORD_A_B_H\n#define TENSORD_A_B_H\n") and fault("a/b.h", "#ifndef TENSORD_A_B_H\n#define A_B_H\n")
    assert fault("a/b.h", "#pragma once\n") and fault(min(SEVERAL_TIMES), "#ifndef A_H\n#define A_H\n") and not fault(min(SEVERAL_TIMES), "")
    headers = [path for path in tracked(source) if path.endswith(".h") and not path.startswith(MADE) and os.path.exists(os.path.join(source, path))]
    faults = []
    for path in headers:
        with open(os.path.join(source, path), encoding="utf-8") as f:
            text = f.read()
        name = wanted(path)
        if write and name and GUARD.search(text):
            text, before = GUARD.sub(f"#ifndef {name}\n#define {name}\n", text, count=1), text
            if text != before:
                with open(os.path.join(source, path), "w", encoding="utf-8") as f:
                    f.write(text)
        if wrong := fault(path, text):
            faults.append(f"{path} {wrong}")
    faults += [f"{path} is named in check_guards.py, and is not there" for path in sorted(SEVERAL_TIMES | NAMES.keys()) if path not in headers]
    print("\n".join(faults))
    print(f"suite house_guards: {len(headers) - len(faults)} passed, {len(faults)} failed, 0 skipped")
    return 1 if faults or not headers else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--write" in sys.argv))

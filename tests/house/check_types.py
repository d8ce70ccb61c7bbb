#!/usr/bin/env python3
"""One name, one thing: a type whose name begins with td_ is defined in one place.

A name that a header leaves open (`typedef struct td_queue td_queue;`) and another file fills in is one type. Two that are filled in, or two
that are left open where neither room knows the other, would be two things that a reader takes for one.

    check_types.py SOURCE
"""
import collections
import os
import re
import sys

from tree import tracked

ROOMS = ("client", "daemon", "proto", "shm")
# `} td_name;` at the end of a struct, union or enum; `struct td_name {`; `typedef int td_name;`, `typedef int (*td_name)(int);`
FILLED = re.compile(r"^\} *(td_\w+);|^(?:struct|union|enum) (td_\w+) \{|^typedef (?!(?:struct|union|enum) \w+ td_\w+;)[^;{]*?\b(td_\w+)\)?(?:\([^;{]*\)|\[\w+\])*;", re.M)
OPEN = re.compile(r"^typedef (?:struct|union) \w+ (td_\w+);", re.M)


def types(text):
    """(names that are filled in, names that are left open) of a file."""
    return {next(filter(None, found.groups())) for found in FILLED.finditer(text)}, set(OPEN.findall(text))


def clashes(texts):
    """Lines about names that stand for two things; and how many names there are. `texts`: of each file, by its path."""
    filled, left_open = collections.defaultdict(set), collections.defaultdict(set)
    for path, text in texts.items():
        here = types(text)
        for name in here[0]:
            filled[name].add(path)
        for name in here[1] - here[0]:
            left_open[name].add(os.path.dirname(path))
    faults = [f"{name} is defined in {' and in '.join(sorted(paths))}: two things want two names" for name, paths in filled.items() if len(paths) > 1]
    for name, rooms in left_open.items():
        sides = {room.split("/")[0] for room in rooms | {os.path.dirname(path) for path in filled[name]}} - {"proto", "shm"}
        if len(sides) > 1:
            faults.append(f"{name} is a type of {' and of '.join(sorted(sides))}: two things want two names")
    return sorted(faults), len(filled.keys() | left_open.keys())


def main(source):
    twice = {"daemon/a.h": "typedef struct td_a {\n    int x;\n} td_a;\n", "proto/a.h": "struct td_a {\n    int y;\n};\n"}
    apart = {"daemon/b.h": "typedef struct td_b td_b;\n", "client/b.h": "typedef struct td_b td_b;\n"}
    whole = {"daemon/c.h": "typedef struct td_c td_c;\n", "daemon/c/c.c": "struct td_c {\n    int z;\n};\n"}
    assert [len(clashes(each)[0]) for each in (twice, apart, whole)] == [1, 1, 0]
    texts = {}
    for path in (f for f in tracked(source) if f.split("/")[0] in ROOMS and f.endswith((".c", ".h"))):
        if os.path.exists(os.path.join(source, path)):
            with open(os.path.join(source, path)) as f:
                texts[path] = f.read()
    faults, seen = clashes(texts)
    print("\n".join(faults))
    print(f"suite house_types: {seen - len(faults)} passed, {len(faults)} failed, 0 skipped")
    return 1 if faults or not seen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

#!/usr/bin/env python3
"""The messages of proto/wire/wire.proto: none contains itself, directly or not (protobuf-c's unpacking knows no limit of depth),
numbers and names of fields are there once, and each kind of frame has its message.

    check_wire.py SOURCE
"""

import re
import sys
from pathlib import Path


def messages(text):
    """{message: [(type, field, number)]}; a oneof's fields are its message's."""
    text = re.sub(r"//.*", "", text)
    found = {}
    for m in re.finditer(r"message (\w+) \{((?:[^{}]|\{[^{}]*\})*)\}", text):
        found[m.group(1)] = [(t, f, int(n)) for t, f, n in re.findall(r"([\w.]+) (\w+) = (\d+);", m.group(2))]
    return found


def circle(all_messages):
    """A path that comes back to where it began, or None."""
    done = set()
    for start in all_messages:
        path, pending = [], [(start, 0)]
        while pending:
            name, depth = pending.pop()
            del path[depth:]
            if name in path:
                return [*path[path.index(name):], name]
            path.append(name)
            if name not in done:
                pending += [(t, depth + 1) for t, _, _ in all_messages[name] if t in all_messages]
        done.add(start)
    return None


def problems(text):
    all_messages = messages(text)
    declared = len(re.findall(r"^message \w+", text, re.M))
    if not declared or len(all_messages) != declared:
        yield f"{len(all_messages)} messages of {declared} could be read"
    for name, fields in all_messages.items():
        for what, column in (("name", 1), ("number", 2)):
            seen = [f[column] for f in fields]
            yield from (f"{name}: field {what} {x} is there twice" for x in sorted({x for x in seen if seen.count(x) > 1}))
    if found := circle(all_messages):
        yield "a message contains itself: " + " > ".join(found)


def check_itself():
    """What must be found, is."""
    plenty = "message M1 { uint32 a = 1; }\n"
    for bad, said in (("message A { B b = 1; }\nmessage B { repeated A a = 1; }", "contains itself"),
                      ("message A { A a = 1; }", "contains itself"),
                      ("message A { uint32 a = 1; uint32 b = 1; }", "number 1 is there twice"),
                      ("message A { oneof v { uint32 a = 1; A b = 2; } }", "contains itself")):
        assert any(said in p for p in problems(plenty + bad)), bad
    assert not list(problems(plenty + "message A { M1 a = 1; M1 b = 2; }"))


def main():
    check_itself()
    text = (Path(sys.argv[1]) / "proto" / "wire" / "wire.proto").read_text()
    found = list(problems(text))
    print("\n".join(f"proto/wire/wire.proto: {p}" for p in found) or f"{len(messages(text))} messages, none contains itself")
    sys.exit(bool(found))


main()

#!/usr/bin/env python3
"""Compare what libtensord.so exports, and the types and prototypes of its headers, with what is recorded:

    check_abi.py LIBRARY SYMBOLS INTERFACE HEADER... [--update]

Programs that were built before break when a symbol is gone or a type or prototype is another: that wants another soname
(`soversion` in client/meson.build). What is new must be recorded. --update writes both lists anew."""
import re
import subprocess
import sys

library, symbols_path, interface_path, *headers = [a for a in sys.argv[1:] if a != "--update"]


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def declarations(text):
    """Each declaration as one line, bodies of functions and what is for C++ or the preprocessor alone left out."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#(else|endif)", "", text, flags=re.S | re.M)
    text = re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)
    found, depth, at = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "{") - (c == "}")
        if depth == 0 and (c == ";" or (c == "}" and re.match(r"\s*static inline", text[at:]))):
            found.append(" ".join(text[at:i].split()))
            at = i + 1
    return [d for d in found if d and not d.startswith("static inline")]


def recorded(path):
    with open(path) as f:
        return f.read().splitlines()


exported = sorted(line.split()[-1].split("@")[0] for line in output("nm", "-D", "--defined-only", library).splitlines())
soname = re.search(r"SONAME.*\[(.*)\]", output("readelf", "-d", library)).group(1)
interface = [soname] + [d for h in headers for d in declarations(open(h).read())]
if "--update" in sys.argv:
    for path, lines in (symbols_path, exported), (interface_path, interface):
        with open(path, "w") as f:
            f.writelines(line + "\n" for line in lines)
    print(f"{len(exported)} symbols, {len(interface) - 1} declarations recorded")
    sys.exit(0)
before, said = recorded(symbols_path), recorded(interface_path)
gone, new = sorted(set(before) - set(exported)), sorted(set(exported) - set(before))
other, added = [d for d in said[1:] if d not in interface], [d for d in interface if d not in said]
alien = [s for s in exported if not s.startswith("td_")]
same = soname == said[0]
for s in gone + other:
    print(f"{s}\n    is no longer there: " + (f"programs that use it break; raise soversion in client/meson.build above {soname}" if same else "record that"))
for s in new + added:
    print(f"{s}\n    is new; record it: {sys.argv[0]} {library} {symbols_path} {interface_path} {' '.join(headers)} --update")
for s in alien:
    print(f"{s} must not be exported")
failed = len(gone) + len(new) + len(alien) + len(other) + len(added)
print(f"suite client_abi: {len(exported) - len(new) - len(alien) + len(interface) - len(added)} passed, {failed} failed, 0 skipped")
sys.exit(1 if failed else 0)

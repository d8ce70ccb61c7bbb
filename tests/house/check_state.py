#!/usr/bin/env python3
"""Where a daemon keeps its state: in its one struct (td_server), so that one process can run several of them, each on a thread of its own.

Invariant that it keeps: what the loop's rooms have in a file or in a function is constant, or is thread-local and says so by a name
that begins with `loop_` (td_loop_): one for each loop thread, as lists of dead objects for use again are. Read off the object files.

    check_state.py BUILD
"""
import glob
import os
import re
import subprocess
import sys

ROOMS = ["server", "session", "service", "sched", "graph", "autograd", "ops", "tensor"]
# What is neither, and why that is right.
ALLOWED = {("server", "log_level"): "what the process writes on stderr: said by its command line, before any loop begins"}
LOCAL = re.compile(r"(td_)?loop_")


def symbols(path):
    """(name, section) of each variable of an object file."""
    listed = subprocess.run(["nm", "-f", "sysv", path], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 7 and cells[3] in ("OBJECT", "TLS") and cells[6] and not cells[0].startswith("__odr_asan"):
            yield cells[0].split(".")[0], cells[6]


def fault(room, name, section):
    """What is wrong about a variable, or None."""
    if section.startswith((".tdata", ".tbss")):
        return None if LOCAL.match(name) else "is thread-local and does not say so: call it loop_" + name
    if not section.startswith((".data", ".bss", "*COM*")) or section.startswith(".data.rel.ro"):
        return None
    return None if (room, name) in ALLOWED else f"can change ({section}): make it constant, or a part of the daemon's struct"


def main(build):
    seen, faults, used = 0, [], set()
    for room in ROOMS:
        objects = glob.glob(os.path.join(build, "daemon", room, "*.p", "*.o"))
        if not objects:
            faults.append(f"daemon/{room}: there are no object files")
        for path in objects:
            for name, section in symbols(path):
                seen += 1
                used.add((room, name))
                if wrong := fault(room, name, section):
                    faults.append(f"daemon/{room}: {name} of {os.path.basename(path)} {wrong}")
    faults += [f"daemon/{room}: {name} is allowed, and is not there" for room, name in ALLOWED if (room, name) not in used]
    assert fault("tensor", "count", ".bss") and fault("tensor", "dead", ".tbss") and not fault("tensor", "loop_dead", ".tbss")
    print("\n".join(faults))
    print(f"suite house_state: {seen - len(faults)} passed, {len(faults)} failed, 0 skipped")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

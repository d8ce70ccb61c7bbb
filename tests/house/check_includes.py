#!/usr/bin/env python3
"""The house's own rules, as a test: who includes whom, and nothing else at the top.

Invariant that it keeps: a file includes its own room and the rooms to its right, never to its left, where
    server > session > service > graph > cuda > sched > autograd > ops > kernels > tensor > shm > proto,    client > shm > proto;
shm/board and shm/cuda stand on proto/base alone; inside proto: rows > passes > program > wire > ops and infer > base; inside daemon/session: calls > objects > stream;
inside daemon/kernels: cuda > cpu.
A room's internal.h is included by that room alone. A device is written against public headers alone (BACKEND_MAY): the fake
device of the tests shows that these are enough.
Inside client a room uses itself, the rooms that CLIENT names for it, and the public headers. The part of a td_client that is called
after a room is that room's, and of those above it.
Each fault is printed as FILE:LINE: what is wrong."""
import os
import re
import sys

from tree import tracked

RIGHT = ["daemon/server", "daemon/session", "daemon/service", "daemon/graph", "daemon/cuda", "daemon/sched", "daemon/autograd",
         "daemon/ops", "daemon/kernels", "daemon/tensor", "shm", "proto"]
MAY = {room: set(RIGHT[i:]) for i, room in enumerate(RIGHT)}
MAY["client"] = {"client", "shm", "proto"}
# Rooms inside a room, from left to right; what lies in the room itself is for all of them, and may include them all. ops and infer of proto are
# one (a row names its rule, a rule looks at the row).
INNER = {"daemon/session": [{"calls"}, {"objects"}, {"stream"}], "daemon/kernels": [{"cuda"}, {"cpu"}], "proto": [{"rows"}, {"passes"}, {"program"}, {"wire"}, {"ops", "infer"}, {"base"}]}
# Rooms that stand on less than theirs does: all that their files include.
NARROW = {"shm/board": ("shm/board/", "proto/base/", "proto/types.h"), "shm/cuda": ("shm/cuda/", "proto/base/", "proto/types.h"),
          "daemon/cuda/helper": ("daemon/cuda/helper/", "daemon/cuda/wire.h", "daemon/kernels/cuda/images.h", "daemon/kernels/cuda/fault.h", "daemon/kernels/cuda/product.h", "shm/cuda/", "proto/base/", "proto/types.h")}
# Doors that few may go through: the driver of a GPU is never opened by the daemon itself.
FEW = {"shm/cuda/": ("shm/cuda/", "daemon/cuda/helper/", "client/")}
# Files that are a device, and what such a file includes of the daemon's rooms.
BACKENDS = ("tests/support/fake_device.", "daemon/cuda/")
BACKEND_MAY = {"daemon/sched/executor.h", "daemon/sched/sched.h", "daemon/ops/ops.h", "daemon/kernels/kernel.h", "daemon/kernels/cuda/launch.h", "daemon/kernels/cuda/fault.h", "daemon/kernels/cuda/product.h", "daemon/tensor/device.h",
               "daemon/tensor/tensor.h", "shm/heap.h", "shm/segment.h", "shm/need.h"}
# Inside client: which other rooms each one uses.
CLIENT = {"wire": set(), "tensor": {"wire"}, "share": {"tensor", "wire"}, "grad": {"tensor", "wire"}, "script": set(),
          "group": {"share", "tensor", "wire"}, "files": {"tensor", "script"}, "program": {"share", "files", "script", "tensor", "wire"},
          "onnx": {"program", "files", "script", "tensor", "wire"}, "model": {"onnx", "program", "share", "files", "tensor", "wire"},
          "tensorctl": {"files", "program", "wire"}, "http": {"files"}, "python": set(), "examples": set()}
# Public headers, and those that the build makes for script.
PUBLIC = {"client/tensord.h", "client/tensord_bind.h", "client/tensord_script.h", "client/tensord_ops.h", "client/script_varargs.h", "client/script_aten.h", "client/script_onnx.h", "client/http_page.h", "client/script_prelude.h"}
TOP = {"daemon", "client", "proto", "shm", "tests", "meson.build", "README.md", "LICENSE", "meson.options", "meson_options.txt"}
NO_MEMORY = re.compile(r'\btd_fail\([^;"]*TD_E_(MEMORY|SYSTEM),\s*"no memory (?!to work)|\btd_raise\([^;"]*TD_E_MEMORY[^;]*"no memory')
CODES = re.compile(r"\bint (err|code|ret|status|result) = td_(?!last_error)\w+\(")
PART = re.compile(r"(?:\bc|\bclient|\bof)->(tensor|grad|share|program|model)\.")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def room_of(path):
    """The room that a file lies in; None outside of all (tests may include anything)."""
    for room in MAY:
        if path.startswith(room + "/"):
            return room
    return None


def inner_of(path, room):
    """The room inside a room that a file lies in; None when it lies in the room itself."""
    first, _, rest = path[len(room) + 1:].partition("/")
    return first if rest and room in INNER else None


def place_of(inner, room):
    """Where it stands in the order of its room, from the left; a folder that the order does not know is left of all."""
    return next((i for i, rooms in enumerate(INNER[room]) if inner in rooms), -1)


def goes_back(path, target, room):
    """Does a file include what is to its left inside their room?"""
    here, there = inner_of(path, room), inner_of(target, room)
    return bool(here and there) and place_of(there, room) < place_of(here, room)


def is_too_much(path, target):
    """Does a file of a narrow room include more than the room stands on?"""
    return any(path.startswith(room + "/") and not target.startswith(may) for room, may in NARROW.items())


def is_for_others(path, target):
    """Does a file go through a door that is for few others?"""
    return any(target.startswith(door) and not path.startswith(may) for door, may in FEW.items())


def is_private(path, target):
    """Does a file include what another room keeps to itself? For a device that is all that is not in BACKEND_MAY."""
    if path.startswith(BACKENDS) and not path.startswith(tuple(NARROW)):
        return target.startswith(("daemon/", "shm/")) and target not in BACKEND_MAY and not target.startswith(BACKENDS)
    return target.endswith("/internal.h") and os.path.dirname(path) != os.path.dirname(target) and room_of(path) is not None


def check_backend(root):
    """A device outside of all rooms: its includes alone are looked at."""
    found, seen = [], 0
    for path in sources(root, "tests/support"):
        if not path.startswith(BACKENDS):
            continue
        with open(os.path.join(root, path)) as f:
            for number, line in enumerate(f, 1):
                m = INCLUDE.match(line)
                seen += bool(m)
                if m and is_private(path, m.group(2)):
                    found.append(f"{path}:{number}: a device includes {m.group(2)}, which its room keeps to itself")
    return found if seen else ["tests/support:1: the fake device is not there"], max(seen, 1)


def within_client(path, target):
    """What is wrong with an include inside client, or None."""
    if not path.startswith("client/") or not target.startswith("client/") or target in PUBLIC:
        return None
    if target.count("/") < 2:
        return f"includes {target}, which is no public header and in no room"
    here, there = path.split("/")[1], target.split("/")[1]
    if here == there:
        return None
    if target.endswith("/internal.h"):
        return f"includes {target}, which is for client/{there} alone"
    if path.count("/") < 2 or there not in CLIENT.get(here, set()):
        return f"includes {target}: client/{there} is not below client/{here}"
    return None


def parts_faults(path, line):
    """The parts of a client that a line looks into, and that are not of a room at or below its own."""
    here = path.split("/")[1] if path.startswith("client/") else None
    for m in PART.finditer(line) if here in CLIENT else ():
        if m.group(1) != here and m.group(1) not in CLIENT[here]:
            yield f"looks into a client's part of {m.group(1)}, which is not below client/{here}"


def idiom_faults(root, path):
    """One idiom for failing: a code is in `rc` (an errno in `err`), and td_no_memory says that a record has no memory, or its code would differ by room."""
    with open(os.path.join(root, path), errors="replace") as f:
        text = f.read()
    for m in CODES.finditer(text):
        yield f"{path}:{text.count(chr(10), 0, m.start()) + 1}: a td_code that a call gave is called rc, not {m.group(1)}"
    for m in NO_MEMORY.finditer(text):
        yield f"{path}:{text.count(chr(10), 0, m.start()) + 1}: no memory of a process's own is TD_E_SYSTEM: td_no_memory says it"


def sources(root, sub):
    for folder, _, names in os.walk(os.path.join(root, sub)):
        for name in sorted(names):
            if name.endswith((".c", ".h", ".in", ".def", ".cu", ".cuh")):
                yield os.path.relpath(os.path.join(folder, name), root)


def check_file(root, path):
    """Faults of one file, and how many includes were looked at."""
    room, faults, seen = room_of(path), [], 0
    with open(os.path.join(root, path), errors="replace") as f:
        for number, line in enumerate(f, 1):
            faults += [f"{path}:{number}: {fault}" for fault in parts_faults(path, line)]
            m = INCLUDE.match(line)
            if not m or m.group(1) == "<":
                continue
            seen += 1
            target = m.group(2)
            if target == "tensord.h" or path.startswith("client/examples/"):
                # Examples are built as a user builds them: against the installed headers alone.
                if target.startswith(("daemon/", "shm/", "proto/")):
                    faults.append(f"{path}:{number}: an example includes {target}, which is not installed")
                continue
            to = room_of(target)
            if to is None:
                # Generated headers and a file's own neighbours: by their path from the root, or they cannot be read off.
                if not target.startswith("build/") and "/" not in target and not generated(target):
                    faults.append(f'{path}:{number}: "{target}" is not written from the root ("room/{target}")')
                elif "/" in target and not target.startswith("tests/"):
                    faults.append(f"{path}:{number}: {target} is in no room")
                elif target.startswith("tests/"):
                    faults.append(f"{path}:{number}: {room} includes a test's header, {target}")
            elif to not in MAY[room]:
                faults.append(f"{path}:{number}: {room} includes {target}: {to} is to its left")
            elif is_too_much(path, target):
                faults.append(f"{path}:{number}: {os.path.dirname(path)} includes {target}, which it does not stand on")
            elif is_for_others(path, target):
                faults.append(f"{path}:{number}: {target} is not for {os.path.dirname(path)}")
            elif is_private(path, target):
                faults.append(f"{path}:{number}: {target} is private to its room")
            elif wrong := within_client(path, target):
                faults.append(f"{path}:{number}: {wrong}")
            elif to == room and goes_back(path, target, room):
                faults.append(f"{path}:{number}: {inner_of(path, room)} includes {target}: {inner_of(target, room)} is to its left")
    return faults, seen


def generated(name):
    return name.endswith((".pb-c.h", ".gen.h", ".inc"))


def check_top(root):
    """What a user keeps there for himself (a program, a virtual environment) is no fault: where git can tell, it is asked."""
    names = [n for n in sorted({path.split("/")[0] for path in tracked(root)}) if not n.startswith((".", "build"))]
    return [f"{n}:1: does not belong at the top of the tree" for n in names if n not in TOP], len(names)


# (file, what it includes, whether that is refused)
KNOWN = [("client/wire/stream.c", "client/tensor/array.h", True), ("client/tensor/run.c", "client/program/trace.h", True),
         ("client/share/queue.c", "client/grad/hook.h", True), ("client/program/call.c", "client/model/card.h", True), ("client/model/model.c", "client/grad/hook.h", True), ("client/program/call.c", "client/tensor/internal.h", True),
         ("client/tensor/run.c", "client/client.h", True), ("client/program/call.c", "client/tensor/array.h", False),
         ("client/wire/ring.c", "client/wire/internal.h", False), ("client/wire/ring.c", "client/tensord.h", False),
         ("client/python/src/tensor.c", "client/tensor/array.h", True), ("client/python/src/tensor.c", "client/tensord_bind.h", False),
         ("client/wire/loop.c", "client/http/door.h", True), ("client/http/infer.c", "client/wire/client.h", True),
         ("client/http/plain.h", "client/files/json.h", False), ("client/tensorctl/prometheus.c", "client/http/plain.h", True),
         ("client/python/src/files.c", "client/files/save.h", True), ("client/python/src/program.c", "client/script/script.h", True)]


def check_itself():
    """The rule for client's rooms refuses what it has to, and nothing else."""
    wrong = [(path, target) for path, target, refused in KNOWN if bool(within_client(path, target)) != refused]
    return [f"{path}:1: the rule for an include of {target} is not what it was" for path, target in wrong], len(KNOWN)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "..")
    fake = "tests/support/fake_device.c"
    assert is_private(fake, "daemon/sched/internal.h") and is_private("daemon/graph/run.c", "daemon/sched/internal.h")
    assert goes_back("proto/ops/op.c", "proto/passes/facts.h", "proto") and goes_back("proto/ops/op.c", "proto/new/x.h", "proto")
    assert not goes_back("proto/passes/fold.c", "proto/ops/op.h", "proto") and not goes_back("proto/ops/op.c", "proto/types.h", "proto")
    assert list(parts_faults("client/wire/fork.c", "c->grad.telling = 0;")) and list(parts_faults("client/program/call.c", "p->client->grad.hooks"))
    assert not list(parts_faults("client/grad/grad.c", "c->tensor.storages")) and not list(parts_faults("client/wire/fork.c", "c->above.forked(c)"))
    assert is_too_much("shm/board/board.c", "shm/heap.h") and is_too_much("shm/board/board.c", "proto/wire/ring.h")
    assert is_too_much("shm/cuda/driver.c", "shm/segment.h") and is_too_much("daemon/cuda/helper/main.c", "daemon/cuda/channel.h")
    assert is_for_others("daemon/cuda/channel.c", "shm/cuda/driver.h") and not is_for_others("daemon/cuda/helper/main.c", "shm/cuda/driver.h")
    assert is_private("daemon/cuda/channel.c", "daemon/session/session.h") and not is_private("daemon/cuda/channel.c", "daemon/sched/executor.h")
    assert not is_too_much("shm/board/board.c", "proto/base/clock.h") and not is_too_much("shm/heap.c", "shm/segment.h")
    assert not is_private(fake, "daemon/sched/executor.h") and not is_private("daemon/sched/pool.c", "daemon/sched/internal.h")
    results = [check_top(root), check_backend(root), check_itself()]
    results += [check_file(root, path) for sub in ("daemon", "client", "shm", "proto") for path in sources(root, sub)]
    results += [(list(idiom_faults(root, path)), 1) for sub in ("daemon", "client", "shm", "proto") for path in sources(root, sub)]
    faults = [fault for found, _ in results for fault in found]
    seen = sum(n for _, n in results)
    for fault in faults:
        print(fault)
    print(f"suite house: {seen - len(faults)} passed, {len(faults)} failed, 0 skipped")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""Compare the ops and their gradients with torch: send random calls and what torch makes of them to the C driver, which does the same.

    oracle.py DRIVER THRESHOLDS [SEED [ROUNDS [WIDE [OP ...]]]]

ROUNDS small cases of each op and dtype, and WIDE ones of sizes around the kernels' thresholds, which the program THRESHOLDS prints
(cases.Wide; TENSORD_SEED=random or another number: other cases). Exit status 77
when this Python has no torch. The format is in oracle.c.
"""

import importlib
import os
import struct
import subprocess
import sys
import time
import warnings
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "proto" / "gen"))
try:
    import torch
except ImportError:
    print("SKIP oracle: this Python has no torch\nsuite oracle: 0 passed, 0 failed, 1 skipped")
    sys.exit(77)
import cases  # noqa: E402
import table as model  # noqa: E402
from cases import total  # noqa: E402

for family in sorted(Path(__file__).parent.glob("cases_*.py")):  # they add to the tables of cases.py
    importlib.import_module(family.stem)

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
          torch.float32, torch.float64, torch.complex64, torch.complex128]
NUMBER = {t: k for k, t in enumerate(DTYPES)}
KINDS = {"INT": 1, "FLOAT": 2, "BOOL": 3, "SCALAR": 4, "DTYPE": 5, "INTS": 6, "TEXT": 7}
# rtol, atol by dtype of the inputs.
TOLERANCE = {torch.float16: (4e-3, 4e-3), torch.bfloat16: (3e-2, 3e-2), torch.float32: (3e-5, 2e-5), torch.float64: (1e-9, 1e-10),
             torch.complex64: (5e-5, 5e-5), torch.complex128: (1e-9, 1e-10)}


def raw(t):
    """The bytes of a contiguous tensor."""
    t = t.detach().resolve_conj().contiguous().reshape(-1)
    if t.dtype == torch.bfloat16:
        t = t.view(torch.int16)
    return t.numpy().tobytes() if t.numel() else b""


def inexact(t):
    return t.dtype.is_floating_point or t.dtype.is_complex


def text(s):
    return struct.pack("<H", len(s)) + s.encode()


def ints(v):
    return struct.pack(f"<{len(v)}q", *v)


def scalar(v):
    kind = 0 if isinstance(v, bool) else 1 if isinstance(v, int) else 2 if isinstance(v, float) else 3
    z = complex(v)
    return struct.pack("<Bqdd", kind, int(v) if kind < 2 else 0, z.real, z.imag)


def dense(t):
    """dtype, shape and bytes."""
    return struct.pack("<BB", NUMBER[t.dtype], t.dim()) + ints(t.shape) + raw(t)


def lay_out(t, r, repeat):
    """The same values somewhere in a larger storage: transposed, with gaps, channels last, or as they are; or, with `repeat`, those
    of one place of a dimension, seen again and again without a copy. Gives (view, whole storage)."""
    how = r.pick(0, 1, 2, 3, 4, 4, *([5] if repeat else []), *([6, 6] if t.dim() in (4, 5) else []))
    if t.dim() == 0 or t.numel() == 0 or how == 0:
        t = t.contiguous()
        return t, t.reshape(-1)
    if how == 4:  # runs with room between them
        room = [n + (r.int(1, 3) if r.int(0, 1) else 0) for n in t.shape[1:]]
        storage = torch.ones(total(room) * t.shape[0] + 3).to(t.dtype)
        view = storage[3:].view([t.shape[0]] + room)
        for d in range(1, t.dim()):
            view = view.narrow(d, r.int(0, room[d - 1] - t.shape[d]), t.shape[d])
        view.copy_(t)
        return view, storage
    if how == 5:
        d = r.int(0, t.dim() - 1)
        one = t.narrow(d, 0, 1).contiguous()
        return one.expand(t.shape), one.reshape(-1)
    perm = [0, *range(2, t.dim()), 1] if how == 6 else torch.randperm(t.dim(), generator=r.g).tolist() if how != 1 else list(range(t.dim()))
    gap = 2 if how == 3 else 1
    shape = [t.shape[p] for p in perm]
    shape[-1] *= gap
    n = r.int(0, 3)
    storage = torch.ones(total(shape) + n).to(t.dtype)
    view = storage[n:].view(shape)[..., ::gap].permute([perm.index(k) for k in range(t.dim())])
    view.copy_(t)
    return view, storage


def tensor_input(view, storage, wants):
    head = struct.pack("<BBBB", 1, NUMBER[view.dtype], view.dim(), wants)
    return (head + ints(view.shape) + ints(view.stride()) + struct.pack("<qq", view.storage_offset(), storage.numel()) + raw(storage))


def attribute(a, v):
    kind = KINDS[a.kind]
    if v is None:
        return struct.pack("<B", 0)
    head = struct.pack("<B", kind)
    if a.kind == "INTS":
        v = [v] if isinstance(v, int) else list(v)
        return head + struct.pack("<H", len(v)) + ints(v)
    if a.kind == "TEXT":
        return head + text(v)
    if a.kind == "SCALAR":
        return head + scalar(v)
    if a.kind == "DTYPE":
        return head + struct.pack("<q", NUMBER[v])
    return head + (struct.pack("<d", v) if a.kind == "FLOAT" else struct.pack("<q", int(v)))


def attributes(op, values):
    out = struct.pack("<B", len(op.attrs))
    for a in op.attrs:
        v = values[a.index] if a.index < len(values) else a.default
        out += attribute(a, v)
    return out


DOUBLE = {torch.float32: torch.float64, torch.complex64: torch.complex128, torch.float16: torch.float64, torch.bfloat16: torch.float64}
SINGLE = {torch.float16: torch.float32, torch.bfloat16: torch.float32}


def reference(f, inputs, wants, wider):
    """torch's outputs, weights for them, and gradients, computed in `wider` types of those that it has."""
    half = next((t.dtype for t in inputs if torch.is_tensor(t) and t.dtype in wider), None)
    given = []
    for t, w in zip(inputs, wants):
        if torch.is_tensor(t):
            t = t.detach().to(wider.get(t.dtype, t.dtype)).clone(memory_format=torch.contiguous_format)
            if w:
                t.requires_grad_()
        given.append(t)
    out = f(*[t for t in given if t is not None])
    outs = [out] if torch.is_tensor(out) else list(out)
    back = {wider[half]: half} if half else {}
    if half and half.is_complex:  # what is real of a complex
        back[torch.float64] = torch.float32
    if half is torch.float32:  # what is complex of a real
        back[torch.complex128] = torch.complex64

    def narrow(t):
        return t if t is None else t.to(back.get(t.dtype, t.dtype))
    roots = [o for o in outs if inexact(o) and o.requires_grad]
    seeds = [narrow((torch.rand(o.shape, dtype=torch.float64) + 0.25).to(o.dtype)) for o in roots]
    leaves = [t for t, w in zip(given, wants) if w]
    grads = [None] * len(leaves)
    if roots and leaves:
        grads = torch.autograd.grad(roots, leaves, [s.to(o.dtype) for s, o in zip(seeds, roots)], allow_unused=True)
    by_root = {id(o): s for o, s in zip(roots, seeds)}
    return [narrow(o) for o in outs], [by_root.get(id(o)) for o in outs], [narrow(g) for g in grads]


def case(op, make, r):
    """The bytes of one random case."""
    dtype = r.dtype
    inputs, attrs, f = make(r)
    formula = {p.index for p in op.params if op.composed or (op.saves and op.saves[p.index][0])}
    laid, wants = [], []
    for k, t in enumerate(inputs):
        view, storage = (t, None) if not torch.is_tensor(t) else (t, t.reshape(-1)) if op.name in cases.CONTIGUOUS else lay_out(t, r, op.name not in cases.UNREPEATED)
        param = op.params[min(k, len(op.params) - 1)] if not any(p.is_list for p in op.params) else (
            op.params[0] if op.params[0].is_list else op.params[k] if k == 0 else
            op.params[-1] if k == len(inputs) - 1 and not op.params[-1].is_list else op.params[1])
        wanted = torch.is_tensor(t) and inexact(t) and param.index in formula and not (
            k > cases.DIFFERENTIABLE.get(op.name, k))
        laid.append((view, storage))
        wants.append(bool(wanted))
    outs, seeds, grads = reference(f, [v for v, _ in laid], wants, DOUBLE if r.wide and op.name not in cases.EXACT else SINGLE)
    rtol, atol = TOLERANCE.get(dtype, (0, 0)) if inexact(torch.empty(0, dtype=dtype)) else (1e-5, 1e-6)
    if op.name.startswith("fft"):  # each sum is as exact as the largest of them
        atol = max([atol] + [3e-7 * float(o.abs().max()) for o in outs if o.numel() and o.dtype in (torch.float32, torch.complex64)])
    b = text(op.name) + struct.pack("<ddBB", rtol, atol, r.wide, len(inputs))
    for (view, storage), w in zip(laid, wants):
        if view is None:
            b += struct.pack("<B", 0)
        elif torch.is_tensor(view):
            b += tensor_input(view, storage, w)
        else:
            b += struct.pack("<B", 2) + scalar(view)
    b += attributes(op, attrs) + struct.pack("<B", len(outs))
    for o, s in zip(outs, seeds):
        b += dense(o) + (struct.pack("<B", 0) if s is None else struct.pack("<B", 1) + dense(s))
    have = any(s is not None for s in seeds)
    b += struct.pack("<B", have)
    grads = iter(grads)
    for w in wants:
        g = next(grads) if w else None
        b += struct.pack("<B", 0) if g is None or not have else struct.pack("<B", 1) + dense(g)
    return b


def thresholds(program, ops):
    """op -> list of (number, what it counts)."""
    lines = [line.split("\t") for line in subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()]
    found = {}
    for name, op in ops.items():
        own = {name, "*"} | ({"pointwise"} if op.expr else set())
        found[name] = [(int(value), unit) for _name, value, unit, kernels, *_ in lines if own & set(kernels.split())]
    return found


def each_case(ops, seed, rounds, wide, only, near, refused):
    """The bytes of all of them, one by one."""
    integral = lambda name: name.startswith("bitwise")  # noqa: E731
    drawn = [(name, make, ([] if integral(name) else [torch.float32, torch.float64]) + cases.DTYPES[name]) for name, make in cases.OPS.items()]
    for name, make, dtypes in drawn + cases.MORE:
        if only and name not in only:
            continue
        # Each op draws from a seed of its own: a new op leaves the cases of the others as they were.
        own = zlib.crc32(f"{seed} {name}".encode())
        generator = torch.Generator().manual_seed(own)
        torch.manual_seed(own)
        larger = wide * cases.Wide.WAYS.get(name, 1)
        for large, dtype in [(0, t) for t in dtypes for _ in range(rounds)] + [(1, t) for t in dtypes for _ in range(larger)]:
            r = cases.Wide(generator, dtype, near[name]) if large else cases.Rand(generator, dtype)
            try:
                yield case(ops[name], make, r)
            except cases.Skip:
                pass
            except (RuntimeError, IndexError, TypeError) as e:  # what this torch does not take
                refused.setdefault((name, str(dtype)), str(e).splitlines()[0])


def send(driver, blobs):
    """To the driver as they are made: together they would be gigabytes. Gives how many, and its exit status."""
    sent, p = 0, subprocess.Popen([driver], stdin=subprocess.PIPE)
    try:
        p.stdin.write(b"TDO2")
        for blob in blobs:
            p.stdin.write(struct.pack("<Q", len(blob)) + blob)
            sent += 1
        p.stdin.write(struct.pack("<Q", 0))
        p.stdin.close()
    except BrokenPipeError:
        pass
    return sent, p.wait()


def main(argv):
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    seed = argv[3] if len(argv) > 3 else os.environ.get("TENSORD_SEED", "1")
    seed = int(time.time()) if seed == "random" else int(seed)
    rounds, wide = int(argv[4]) if len(argv) > 4 else 6, int(argv[5]) if len(argv) > 5 else 2
    proto = ROOT / "proto"
    ops = {op.name: op for op in model.load([proto / "ops"], proto / "infer" / "infer.h", proto / "ops" / "ops.lock").ops}
    refused = {}
    sent, status = send(argv[1], each_case(ops, seed, rounds, wide, argv[6:], thresholds(argv[2], ops), refused))
    for (name, dtype), why in sorted(refused.items()):
        print(f"torch refuses {name} of {dtype}: {why}")
    missing = sorted(set(ops) - set(cases.OPS) - set(cases.NO_COUNTERPART))
    print(f"{sent} cases (seed {seed}) of {len(cases.OPS)} of {len(ops)} ops; {len(cases.NO_COUNTERPART)} have no counterpart; "
          f"not covered: {' '.join(missing) or 'none'}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv))

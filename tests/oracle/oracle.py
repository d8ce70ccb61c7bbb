"""Compare the ops and their gradients with torch: write random calls and what torch makes of them, and let the C driver do the same.

    oracle.py DRIVER [SEED [ROUNDS [OP ...]]]

Exit status 77 when this Python has no torch. The format is in oracle.c.
"""

import struct
import subprocess
import sys
import tempfile
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

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
          torch.float32, torch.float64, torch.complex64, torch.complex128]
NUMBER = {t: k for k, t in enumerate(DTYPES)}
KINDS = {"INT": 1, "FLOAT": 2, "BOOL": 3, "SCALAR": 4, "DTYPE": 5, "INTS": 6}
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
    """The same values somewhere in a larger storage: transposed, with gaps, or as they are; or, with `repeat`, those of one place
    of a dimension, seen again and again without a copy. Gives (view, whole storage)."""
    how = r.int(0, 4 if repeat else 3)
    if t.dim() == 0 or t.numel() == 0 or how == 0:
        t = t.contiguous()
        return t, t.reshape(-1)
    if how == 4:
        d = r.int(0, t.dim() - 1)
        one = t.narrow(d, 0, 1).contiguous()
        return one.expand(t.shape), one.reshape(-1)
    perm = torch.randperm(t.dim(), generator=r.g).tolist() if how != 1 else list(range(t.dim()))
    gap = 2 if how == 3 else 1
    shape = [t.shape[p] for p in perm]
    shape[-1] *= gap
    n = r.int(0, 3)
    count = 1
    for s in shape:
        count *= s
    storage = torch.ones(count + n).to(t.dtype)
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


def widen(t):
    return t.float() if t is not None and not isinstance(t, (int, float)) and t.dtype in cases.HALF else t


def reference(f, inputs, wants):
    """torch's outputs, weights for them, and gradients; half types are computed in float32."""
    half = next((t.dtype for t in inputs if torch.is_tensor(t) and t.dtype in cases.HALF), None)
    given = []
    for t, w in zip(inputs, wants):
        if torch.is_tensor(t):
            t = widen(t).detach().clone()
            if w:
                t.requires_grad_()
        given.append(t)
    out = f(*[t for t in given if t is not None])
    outs = [out] if torch.is_tensor(out) else list(out)
    roots = [o for o in outs if inexact(o) and o.requires_grad]
    seeds = [(torch.rand(o.shape, dtype=torch.float64) + 0.25).to(half or o.dtype) for o in roots]
    leaves = [t for t, w in zip(given, wants) if w]
    grads = [None] * len(leaves)
    if roots and leaves:
        grads = torch.autograd.grad(roots, leaves, [s.to(o.dtype) for s, o in zip(seeds, roots)], allow_unused=True)
    by_root = {id(o): s for o, s in zip(roots, seeds)}
    narrow = lambda t: t.to(half) if half and t is not None and t.dtype == torch.float32 else t  # noqa: E731
    return [narrow(o) for o in outs], [by_root.get(id(o)) for o in outs], [narrow(g) for g in grads]


def case(op, make, dtype, generator):
    """The bytes of one random case."""
    r = cases.Rand(generator, dtype)
    inputs, attrs, f = make(r)
    formula = {p.index for p in op.params if op.saves and op.saves[p.index][0]}
    laid, wants = [], []
    for k, t in enumerate(inputs):
        view, storage = (t, None) if not torch.is_tensor(t) else (t, t.reshape(-1)) if op.name in cases.CONTIGUOUS else lay_out(t, r, op.name not in cases.UNREPEATED)
        param = op.params[min(k, len(op.params) - 1)] if not any(p.is_list for p in op.params) else (
            op.params[0] if op.params[0].is_list else op.params[k] if k == 0 else
            op.params[-1] if k == len(inputs) - 1 and not op.params[-1].is_list else op.params[1])
        wanted = torch.is_tensor(t) and inexact(t) and param.index in formula and not (
            op.name in ("batch_norm", "nll_loss") and k > 2 - (op.name == "nll_loss"))
        laid.append((view, storage))
        wants.append(bool(wanted))
    outs, seeds, grads = reference(f, [v for v, _ in laid], wants)
    rtol, atol = TOLERANCE.get(dtype, (0, 0)) if inexact(torch.empty(0, dtype=dtype)) else (1e-5, 1e-6)
    b = text(op.name) + struct.pack("<ddB", rtol, atol, len(inputs))
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


def write(path, seed, rounds, only):
    proto = ROOT / "proto"
    tables = [proto / "ops.toml"]
    ops = {op.name: op for op in model.load(tables, proto / "infer.h", proto / "ops.lock").ops}
    written, refused, blobs = 0, {}, []
    for name, make in cases.OPS.items():
        if only and name not in only:
            continue
        # Each op draws from a seed of its own: a new op leaves the cases of the others as they were.
        own = zlib.crc32(f"{seed} {name}".encode())
        generator = torch.Generator().manual_seed(own)
        torch.manual_seed(own)
        integral = name.startswith("bitwise")
        for dtype in ([] if integral else [torch.float32, torch.float64]) + cases.DTYPES[name]:
            for _ in range(rounds):
                try:
                    blobs.append(case(ops[name], make, dtype, generator))
                    written += 1
                except (RuntimeError, IndexError, TypeError) as e:  # what this torch does not take
                    refused.setdefault((name, str(dtype)), str(e).splitlines()[0])
    path.write_bytes(b"TDO1" + struct.pack("<I", written) + b"".join(blobs))
    known = set(cases.OPS) | set(cases.NO_COUNTERPART)
    for (name, dtype), why in sorted(refused.items()):
        print(f"torch refuses {name} of {dtype}: {why}")
    missing = sorted(set(ops) - known)
    print(f"{written} cases of {len(cases.OPS)} of {len(ops)} ops; {len(cases.NO_COUNTERPART)} have no counterpart; "
          f"not covered: {' '.join(missing) or 'none'}", flush=True)
    return missing


def main(argv):
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    seed, rounds = int(argv[2]) if len(argv) > 2 else 1, int(argv[3]) if len(argv) > 3 else 6
    with tempfile.TemporaryDirectory() as d:
        path = Path(d) / "cases"
        write(path, seed, rounds, argv[4:])
        return subprocess.call([argv[1], str(path)])


if __name__ == "__main__":
    sys.exit(main(sys.argv))

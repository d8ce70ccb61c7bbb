"""Tensors of torch and arrays of NumPy where ours are wanted, and ours where torch's are."""

import sys
from typing import Any

from tensord import _C


_PACKAGES = {"numpy": "NumPy", "torch": "PyTorch"}


def missing(error, name, wants, instead=""):
    """What to raise in an import of numpy or torch that failed so: where that is not installed, how to get it for this Python."""
    if error.name != name:
        return error
    return ModuleNotFoundError(f"{wants} {_PACKAGES[name]}, which is not there for {sys.executable}: install python3-{name} (Debian), "
                               f"or pip install {name}{instead}", name=name)


def foreign(x):
    """What DLPack is to take in place of an array of another library, and the dtype that its bytes then are, or None."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(x, torch.Tensor):
        return x, None
    if x.layout != torch.strided or x.is_quantized:
        what = "quantized" if x.is_quantized else str(x.layout).removeprefix("torch.")
        raise _C.DTypeError(f"a {what} tensor of torch cannot become one of tensord; {'dequantize' if x.is_quantized else 'to_dense'}() first")
    x = x.detach().cpu().resolve_conj().resolve_neg()
    return (x.view(torch.uint8), _C.bool) if x.dtype is torch.bool else (x, None)  # torch 1 has no bool in DLPack


def to_torch(t):
    """The same memory as a tensor of torch; of memory that may only be read a private mapping."""
    import torch

    if t.requires_grad:
        raise BufferError("a function of torch was given a tensor of tensord that requires grad, and its graph would end there; call detach() on it first")
    return torch.from_dlpack(_C.ops.view_dtype(t, _C.uint8)).view(torch.bool) if t.dtype is _C.bool else torch.from_dlpack(t)


def check_out(out):
    """Whose tensors are to come out: "tensord" or "torch", which must be there before anything is taken."""
    if out == "tensord":
        return
    if out != "torch":
        raise _C.InvalidError(f"out is 'tensord' or 'torch', whose tensors are to come out, not {out!r}")
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as e:
        raise missing(e, "torch", "out='torch' asks for tensors of") from None


def as_torch(t):
    """What comes out with out="torch": the values over the same memory, as torch's come in; a graph stays in the daemon."""
    import torch

    if t.dtype is not _C.bool and not hasattr(torch, t.dtype.name):
        raise _C.DTypeError(f"PyTorch {torch.__version__} has no {t.dtype.name}, which a tensor that came has; who sends it converts it, or out='tensord'")
    return to_torch(t.detach() if t.requires_grad else t)


def _with_torch(x):
    if isinstance(x, _C.Tensor):
        return to_torch(x)
    if type(x) in (list, tuple):
        return type(x)(_with_torch(each) for each in x)
    if type(x) is dict:
        return {k: _with_torch(v) for k, v in x.items()}
    return x


def torch_function(kind, call):
    """torch computes, on the same bytes; what comes out is torch's."""
    func, args, kwargs = call[0], call[2] if len(call) > 2 else (), call[3] if len(call) > 3 else None
    return func(*_with_torch(args), **_with_torch(kwargs or {}))


# ---- in files


def family(x):
    """ "torch" for its tensors, "numpy" for its arrays, else None."""
    torch, np = sys.modules.get("torch"), sys.modules.get("numpy")
    return "torch" if torch and isinstance(x, torch.Tensor) else "numpy" if np and isinstance(x, np.ndarray) else None


def why_not(x):
    """Why this tensor or array is none of ours, in words; None: it can be."""
    dtype = str(x.dtype).removeprefix("torch.") if family(x) == "torch" else x.dtype.name
    known = isinstance(getattr(_C, dtype, None), _C.dtype)
    if family(x) == "torch":
        laid = "quantized" if x.is_quantized else "meta" if x.device.type == "meta" else None if x.layout == sys.modules["torch"].strided else str(x.layout).removeprefix("torch.")
        if laid or not known:
            return f"a {laid} tensor of torch" if laid else f"a tensor of torch of {dtype}; convert it first, as with to(torch.float16)"
        return None
    if hasattr(x, "mask"):
        return "a masked array of NumPy; save its data and its mask"
    return None if known else f"an array of NumPy of {x.dtype.str!r}, which is no dtype here"


def plain(x):
    """A number of NumPy as one of Python; anything else as it is."""
    np: Any = sys.modules.get("numpy")
    if np is None or not isinstance(x, np.generic):
        return x
    return x.item() if isinstance(getattr(_C, x.dtype.name, None), _C.dtype) else x


def _from_numpy(x):
    return _C._spanned(x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("=")))


def _copied(x, dtype):
    t = _C.asarray(x, device="cpu")
    return t if dtype is None else t.view(dtype)


def untyped(tensor):
    """The storage of a tensor of torch, by whatever name this version of torch has it."""
    get = getattr(tensor, "untyped_storage", None)
    return get() if get else tensor.storage()._storage


def _from_torch(xs):
    """Those of one storage look at one here, too, of what they reach of it."""
    torch, groups = sys.modules["torch"], {}
    held = [foreign(x) for x in xs]
    for k, (x, _) in enumerate(held):
        groups.setdefault((untyped(x).data_ptr(), x.dtype) if x.numel() else k, []).append(k)
    made: list[Any] = [None] * len(xs)
    for ks in groups.values():
        begins = [held[k][0].storage_offset() for k in ks]
        ends = [b + 1 + sum(s * (n - 1) for s, n in zip(held[k][0].stride(), held[k][0].shape)) for b, k in zip(begins, ks)]
        low, high = min(begins), max(ends)
        if len(ks) == 1 and held[ks[0]][0].numel() * 2 < high - low or high <= low:  # little of it, or nothing
            made[ks[0]] = _copied(held[ks[0]][0].contiguous(), held[ks[0]][1])
            continue
        whole = _copied(torch.as_strided(held[ks[0]][0], (high - low,), (1,), low), held[ks[0]][1])
        for k, begin in zip(ks, begins):
            made[k] = whole.as_strided(tuple(held[k][0].shape), held[k][0].stride(), begin - low)
    for k, x in enumerate(xs):
        if x.requires_grad:
            made[k].requires_grad_()
    return made


def ours(xs):
    """Tensors, torch's tensors and NumPy's arrays, as tensors: what is not ours is copied."""
    theirs = iter(_from_torch([x for x in xs if family(x) == "torch"]) if any(family(x) == "torch" for x in xs) else ())
    return [x if _C.is_tensor(x) else next(theirs) if family(x) == "torch" else _from_numpy(x) for x in xs]

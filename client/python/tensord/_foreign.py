"""Tensors of torch where ours are wanted, and ours where torch's are."""

import sys

from tensord import _C


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
        if e.name != "torch":
            raise
        raise ModuleNotFoundError(f"out='torch' asks for tensors of PyTorch, which is not there for {sys.executable}: install python3-torch (Debian), "
                                  "or pip install torch", name="torch") from None


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

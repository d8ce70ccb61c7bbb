"""Switches of PyTorch's compilers, for tensord.jit.

A switch is taken, so that a program that sets it goes on, and changes nothing: the daemon fuses ops by itself, to the same bits (program.plan() shows
it). A switch that would have to give an answer is left out (core/_absent.py says why).
"""
import contextlib

from tensord import _C

_FUSERS = ("fuser0", "fuser1", "fuser2", "fuser3")
_fusion = {"strategy": [("STATIC", 2), ("DYNAMIC", 10)], "onednn": False}


@contextlib.contextmanager
def optimized_execution(should_optimize):
    """Taken, and nothing is done: what runs of a program is the same to the bit either way."""
    yield


@contextlib.contextmanager
def fuser(name):
    """Taken, and nothing is done: there is one way of fusing here."""
    if name not in _FUSERS:
        raise _C.InvalidError(f"unrecognized fuser option (name: {name})")
    yield


class strict_fusion:
    """Taken, and nothing is done: program.plan() shows what runs as one call."""

    def __enter__(self):
        return None

    def __exit__(self, *exc):
        return None


def set_fusion_strategy(strategy: "list[tuple[str, int]]"):
    """Kept and given back at the next call, as in PyTorch; what is fused depends on each call's shapes here."""
    strategy = [(kind, depth) for kind, depth in strategy]
    if not all(kind in ("STATIC", "DYNAMIC") and isinstance(depth, int) for kind, depth in strategy):
        raise _C.InvalidError("set_fusion_strategy(): a list of ('STATIC', depth) and ('DYNAMIC', depth) is wanted")
    before, _fusion["strategy"] = _fusion["strategy"], strategy
    return before


def enable_onednn_fusion(enabled: bool):
    """Kept; convolutions and products take oneDNN where it is there and faster, always."""
    _fusion["onednn"] = bool(enabled)


def onednn_fusion_enabled():
    return _fusion["onednn"]

#!/usr/bin/env python3
"""Writes the files beside this one, with PyTorch (those that are kept came from 2.13): make.py DIRECTORY

What is in them is repeated in ../test_pytorch_files.py, without PyTorch."""
import collections
import sys

import torch

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")


def tree():
    base = torch.arange(24.0).reshape(4, 6)
    tied = torch.arange(4.0)
    state = collections.OrderedDict(weight=base.clone(), bias=torch.ones(4, dtype=torch.float64))
    state._metadata = {"": {"version": 1}}
    return {
        "dtypes": {d: torch.arange(6).reshape(2, 3).to(getattr(torch, d)) for d in DTYPES},
        "views": [base, base.t(), base[1:3, ::2], base[2, 3], base.flatten()[5:5]],
        "tied": (tied, tied, tied[1:]),
        "state": state,
        "parameter": torch.nn.Parameter(torch.ones(2, 2)),
        "frozen": torch.nn.Parameter(torch.zeros(3), requires_grad=False),
        "wants": torch.full((2,), 3.0, requires_grad=True),
        "conjugate": torch.tensor([1 + 2j, 3 - 4j]).conj(),
        "scalar": torch.tensor(7),
        "plain": [None, True, False, 0, 255, 65535, 65536, -1, -(1 << 40), (1 << 62) + 1, 1.5, float("inf"), 2 - 3j, "text \u00e4\u20ac", b"by\xff\x00", (), (1,), [], {}, {1: "a", (2, "b"): {3}}],
        "kinds": [torch.Size([2, 3]), torch.float16, torch.device("cpu"), bytearray(b"xy"), collections.Counter("aab")],
    }


def unsigned():
    """Tensors of dtypes without a storage class of their own: of one storage there may be several dtypes."""
    words = torch.arange(6, dtype=torch.int64)
    odd = torch.arange(9, dtype=torch.uint8)
    return {
        "dtypes": {d: torch.arange(6).reshape(2, 3).to(getattr(torch, d)) for d in ("uint16", "uint32", "uint64")},
        "words": [words.view(torch.uint64), words.view(torch.uint16).reshape(6, 4)[:, 0], words.view(torch.uint32)[2:8]],
        "odd": [odd[1:8].view(torch.uint8), odd[:8].view(torch.uint16), odd[:8].view(torch.uint32)],
        "cut": odd.clone()[:8].view(torch.uint32),
    }


if __name__ == "__main__":
    where = sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__)
    torch.save(tree(), where + "/zip.pt")
    torch.save(tree(), where + "/legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(unsigned(), where + "/unsigned.pt")
    torch.save(unsigned(), where + "/unsigned_legacy.pt", _use_new_zipfile_serialization=False)

"""Small scripts (scripts.txt): each as a program gives what Python gives, call after call, or is refused where that is known; and what PyTorch takes of
them is taken here, with the same results but where Python's are others."""
import math
import pathlib

import pytest
import tensord as td
from common import imported

try:
    import torch
except ImportError:
    torch = None

pytestmark = [pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated"), pytest.mark.filterwarnings("ignore::SyntaxWarning")]
HEAD = """import math, enum, collections
from typing import *
import {0} as td
from {0} import nn, Tensor
import {0}.nn.functional as F
from {0}.jit import Final
"""
BLOCKS = [block.split("\n", 1) for block in pathlib.Path(__file__).with_name("scripts.txt").read_text().split("### ")[1:]]
SCRIPTS = {name: rest.split("\nargs:", 1) for name, rest in BLOCKS}

# What no program can do, or does otherwise than Python, and why.
REFUSED = {"global_stmt", "yield_", "varargs", "kwargs", "lambda_", "try_", "walrus", "set_comp", "set_literal", "bytes_", "recursion", "two_for_comp", "refine_missing",
           "if_types_differ_used", "union_used", "union_none", "union_ternary", "int_float_branch", "change_type_loop", "wrong_return", "list_mixed", "is_not_bool",
           "var_defined_one_branch", "var_in_loop_only", "break_else_flag", "class_mut", "list_of_str", "super_forward"}
OTHERWISE = {
    "a program is not Python": {"is_scripting", "ignore_"},
    "numbers are of the type that is said": {"list_int_float", "no_annotation_int", "int_call_float", "int_to_float_arg", "float_call_int", "call_wrong"},
    "an item is a float": {"item_int"},
    "a shape is a list": {"ellipsis", "slice_tensor_multi", "fmt_tensor"},
    "powers of ints are ints": {"floor_mod"},
}
APART = set().union(*OTHERWISE.values())
# Where PyTorch's result is not Python's, or its refusal is not ours.
THEIRS = {"min_max", "floor_mod", "zero_div_f", "int_conv", "float_str", "and_or_values", "list_int_float", "format_", "item_int", "aug_simple", "fmt_more"}


def made(module, name, place):
    path = place / f"{name}_of_{module.__name__}.py"
    return imported(path, HEAD.format(module.__name__) + SCRIPTS[name][0] + "\n")


def plain(x):
    if td.is_tensor(x) or torch is not None and isinstance(x, torch.Tensor):
        return str(x.dtype).rpartition(".")[2], x.tolist()
    if isinstance(x, (list, tuple)):
        return "tuple" if isinstance(x, tuple) else "list", [plain(y) for y in x]
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    return "nan" if isinstance(x, float) and math.isnan(x) else repr(x)


def outcomes(module, name, place, script):
    """What each call gives, or "failed"; None: it was refused."""
    source = made(module, name, place)
    try:
        f = module.jit.script(source.f) if script else source.f
    except Exception:
        return None
    results = []
    for args in SCRIPTS[name][1].strip().split("; "):
        try:
            results.append(plain(f(*eval(args.strip(), vars(source)))))
        except Exception:
            results.append("failed")
    return results


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name, tmp_path):
    ours = outcomes(td, name, tmp_path, True)
    assert (ours is None) == (name in REFUSED)
    if ours is not None and name not in APART:
        assert ours == outcomes(td, name, tmp_path, False)


@pytest.mark.skipif(torch is None or int(torch.__version__.split(".")[0]) < 2, reason="no PyTorch 2 is installed")
@pytest.mark.parametrize("name", SCRIPTS)
def test_pytorchs_program(name, tmp_path):
    theirs = outcomes(torch, name, tmp_path, True)
    if theirs is not None and name not in THEIRS and name not in REFUSED:
        assert outcomes(td, name, tmp_path, True) == theirs

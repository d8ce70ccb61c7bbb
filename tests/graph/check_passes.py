#!/usr/bin/env python3
"""Passes beside those of torch that do the same: programs whose ops have ATen names go through both, and as many nodes of each op are left.
(Of what a loop carries and nobody needs torch keeps the ops, and we do not.)

check_passes.py SHOW_PASSES."""
import re
import subprocess
import sys
from collections import Counter

LOOP = """graph(%x : int):
  %yes : bool = prim::Constant[value=1]()
  %n : int = prim::Constant[value={trips}]()
  %y : int = prim::Loop(%n, %yes, %x)
    block0(%i : int, %z : int):
{body}      -> (%yes, %z{last})
  return (%y)
"""


def loop(trips, nodes):
    """Of so many trips and nodes; nobody looks at the trip's number, which the two count in different ways."""
    names = [""] + [f"{k}" for k in range(1, nodes + 1)]
    body = "".join(f"      %z{b} : int = prim::mul.int(%z{a}, %z{a})\n" for a, b in zip(names, names[1:]))
    return LOOP.format(trips=trips, body=body, last=names[-1])


CASES = {
    "a loop of 3 trips": (["loops"], "loop_unrolling", loop(3, 2)),
    "of 63": (["loops"], "loop_unrolling", loop(63, 1)),
    "dead values": (["dead"], "dce", """graph(%x : Tensor, %c : bool, %n : int):
  %yes : bool = prim::Constant[value=1]()
  %a : Tensor = td::relu(%x)
  %b : Tensor = td::exp(%a)
  %d : Tensor, %e : Tensor = prim::If(%c)
    block0():
      %f : Tensor = td::exp(%x)
      %g : Tensor = td::relu(%x)
      -> (%f, %g)
    block1():
      -> (%a, %x)
  %i : Tensor = prim::Loop(%n, %yes, %x)
    block0(%k : int, %m : Tensor):
      %o : Tensor = td::exp(%m)
      %p : Tensor = td::relu(%m)
      -> (%yes, %p)
  return (%e, %i)
"""),
    "numbers twice": (["common"], "cse", """graph(%n : int, %m : int, %c : bool):
  %a : int = prim::mul.int(%n, %m)
  %b : int = prim::mul.int(%n, %m)
  %d : int = prim::If(%c)
    block0():
      %e : int = prim::mul.int(%n, %m)
      -> (%e)
    block1():
      %f : int = prim::mul.int(%a, %m)
      %g : int = prim::mul.int(%b, %m)
      %h : int = prim::mul.int(%f, %g)
      -> (%h)
  %i : int = prim::mul.int(%b, %d)
  return (%i)
"""),
    "tensors twice, without gradients": (["common"], "cse", """graph(%x : Tensor):
  %a : Tensor = td::relu[mode=1](%x)
  %b : Tensor = td::relu[mode=1](%x)
  %c : Tensor = td::mul[mode=1](%a, %b)
  return (%c)
"""),
    "t of t": (["peephole", "dead"], "peephole", """graph(%x : Tensor):
  %a : Tensor = td::t(%x)
  %b : Tensor = td::t(%a)
  return (%b)
"""),
    "a known branch": (["branches"], "constant_propagation", """graph(%x : Tensor):
  %yes : bool = prim::Constant[value=1]()
  %y : Tensor = prim::If(%yes)
    block0():
      %a : Tensor = td::relu(%x)
      -> (%a)
    block1():
      -> (%x)
  return (%y)
"""),
}


def ops(text):
    """How many nodes of each op, constants aside: they are made and pooled in other places."""
    found = Counter(re.findall(r"(?:= |^ *)((?:prim|aten|td)::\w+)(?:\.\w+)?[\[(]", text, re.M))
    return Counter({k.replace("td::", "aten::").replace("prim::mul", "aten::mul"): n for k, n in found.items() if k != "prim::Constant"})


def ours(program, passes, text):
    out = subprocess.run([program, *passes, "dead"], input=text.encode() + b"\0", stdout=subprocess.PIPE, timeout=60, check=True).stdout
    return ops(out.decode())


def theirs(torch, name, text):
    text = re.sub(r"prim::mul\.int|td::", lambda m: "aten::mul" if m[0].startswith("prim") else "aten::", text)
    graph = torch._C.parse_ir(re.sub(r"\[mode=\d+\]", "", text))
    getattr(torch._C, f"_jit_pass_{name}")(graph)
    torch._C._jit_pass_dce(graph)
    return ops(str(graph))


def main():
    try:
        import torch
    except ImportError:
        print("SKIP passes: there is no torch here")
        print(f"suite graph_check_passes: 0 passed, 0 failed, {len(CASES)} skipped")
        return 77
    failed = 0
    for what, (passes, name, text) in CASES.items():
        a, b = ours(sys.argv[1], passes, text), theirs(torch, name, text)
        if a != b:
            failed += 1
            print(f"{what}: we leave {dict(a)}, torch {dict(b)}")
    print(f"suite graph_check_passes: {len(CASES) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

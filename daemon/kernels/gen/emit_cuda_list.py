"""cuda_pointwise.h: the list of the pointwise kernels for CUDA, with the shard that each is in, and which of them an op of a row and body has."""

from cdata import HEAD
from emit_cuda import REAL, rows_of, shards


def emit(table, out):
    rows = rows_of(table)
    shard = {(r.name, b): k for k, part in enumerate(shards(rows)) for r, b in part}
    number = {}
    out.write(HEAD + "#pragma once\n\n#define TD_CUDA_POINTWISE(X) \\\n")
    for r in rows:
        for b in REAL:
            if (r.name, b) in shard:
                number[r.name, b] = len(number)
                out.write(f"    X({shard[r.name, b]}, {r.name}_{b}) \\\n")
    out.write(f"\n\n#define TD_CUDA_SHARDS {max(shard.values()) + 1}\n"
              "/* By row (td_pw_row_of, from 1) and body: 1 + the place of its two kernels among the pairs, or 0. */\n#define TD_CUDA_POINTWISE_ROWS \\\n")
    for r in rows:
        cells = ", ".join(f"[TD_BODY_{b.upper()}] = {number[r.name, b] + 1}" for b in REAL if (r.name, b) in number)
        out.write(f"    {{{cells}}}, /* {r.name} */ \\\n")
    out.write("\n")

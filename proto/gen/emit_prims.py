"""prims.c: the rows that proto/program/prim.h declares."""

import prims
from cdata import flags, fnv, string
from emit_primid import HEAD


def emit(table, out):
    out.write(HEAD + '#include "proto/program/prim.h"\n\nconst td_prim td_prims[TD_PRIM_COUNT] = {\n')
    rows = prims.load()
    for p in rows:
        agreed = "|".join([p.name, p.sig, p.rule, " ".join(sorted(p.flags))])
        out.write(f"    [{p.symbol}] = {{{p.id}, TD_PR_{p.rule.upper()}, {flags('TD_PRF_', p.flags)}, {fnv(agreed, 32):#x}u, "
                  f"{string(p.name)}, {string(p.sig)}, {string(p.codes)}, {string(p.doc)}}},\n")
    out.write("};\n")
    named = ", ".join(p.symbol for p in sorted(rows, key=lambda p: p.name.encode()))
    out.write(f"const uint16_t td_prims_by_name[] = {{{named}}};\nconst unsigned td_prims_named = {len(rows)};\n")

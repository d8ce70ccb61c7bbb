"""primid.h: the ids of prim:: ops as an enum."""

import prims

HEAD = "/* Written by proto/gen/opgen.py from proto/program/prim.toml: edit that instead. */\n"


def emit(table, out):
    rows = prims.load()
    out.write(HEAD + "#ifndef TENSORD_PROTO_PROGRAM_PRIMID_H\n#define TENSORD_PROTO_PROGRAM_PRIMID_H\n\nenum td_prim_id {\n")
    for p in rows:
        out.write(f"    {p.symbol} = {p.id},\n")
    out.write(f"    TD_PRIM_COUNT = {rows[-1].id + 1}\n}};\n\n#endif\n")

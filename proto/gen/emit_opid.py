"""opid.h: the ids as an enum, for switch and for readers."""

from cdata import HEAD


def emit(table, out):
    out.write(HEAD + "#ifndef TENSORD_PROTO_OPS_OPID_H\n#define TENSORD_PROTO_OPS_OPID_H\n\nenum td_op_id {\n")
    for op in table.ops:
        out.write(f"    TD_OP_{op.name.upper()} = {op.id},\n")
    last = table.ops[-1].id if table.ops else 0
    out.write(f"    TD_OP_COUNT = {last + 1}\n}};\n\n#endif\n")

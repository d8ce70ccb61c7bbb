"""_ops.py of tensord.array_api: the standard's functions of each element that are just an op, by the column array_api."""


def emit(table, out):
    out.write('"""Written by proto/gen/opgen.py from the op table: names of the standard, and of the ops that they are."""\n\n')
    for name, n in ("UNARY", 1), ("BINARY", 2):
        found = {op.raw["array_api"]: op.name for op in table.ops
                 if "array_api" in op.raw and "pointwise" in op.flags and len(op.params) == n}
        out.write(f"{name} = {{\n" + "".join(f'    "{standard}": "{op}",\n' for standard, op in sorted(found.items())) + "}\n")

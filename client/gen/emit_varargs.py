"""script_varargs.h: from which place on arguments of a function may stand one by one, x.view(2, 3); places count the tensor of a method."""

import tomllib

import python_forms

HEAD = "/* Written by proto/gen/opgen.py from client/python/surface.toml: edit that instead. */\n"


def places(table):
    found = dict(tomllib.loads(python_forms.SURFACE.read_text())["varargs"])
    for f in python_forms.load(table)[0]:
        if f.varargs:
            found[f.name] = [f.python_name(a) for a in f.args].index(f.varargs)
        elif (f.params or "").startswith("*") and "[_int]" in f.params.split(",")[0]:
            found[f.name] = len(f.args)
    return found


def emit(table, out):
    out.write(HEAD + "static const struct {\n    const char *name;\n    uint32_t place;\n} td_script_varargs[] = {\n")
    for name, place in sorted(places(table).items()):
        out.write(f'    {{"{name}", {place}}},\n')
    out.write("};\n")

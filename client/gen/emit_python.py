"""python_functions.c: the functions and methods of the Python module as rows (client/python/src/py.h), and a few lines of C for each."""

from cdata import HEAD, double, integer, string
from python_forms import c_identifier, has_default, is_tensor, load, plain

KINDS = {"TENSOR": "TENSOR", "OPTIONAL": "OPTIONAL", "NUMBER": "NUMBER", "LIST": "LIST", "OPTIONAL_LIST": "OPTIONAL_LIST", "INT": "INT",
         "FLOAT": "FLOAT", "BOOL": "BOOL", "SCALAR": "SCALAR", "DTYPE": "DTYPE", "INTS": "INTS", "TEXT": "TEXT"}
# How a C expression sees an argument: type and value.
VALUES = {"TENSOR": ("td_array *", "v[{}].arg.array"), "OPTIONAL": ("td_array *", "v[{}].arg.array"), "NUMBER": ("td_arg ", "v[{}].arg"),
          "LIST": ("td_list ", "v[{}].list"), "INT": ("int64_t ", "v[{}].arg.i"), "FLOAT": ("double ", "v[{}].arg.re"),
          "BOOL": ("bool ", "v[{}].arg.i"), "SCALAR": ("td_arg ", "v[{}].arg"), "DTYPE": ("td_dtype ", "v[{}].dtype"),
          "INTS": ("td_ints ", "v[{}].ints"), "TEXT": ("const char *", "v[{}].text")}


def default(a):
    """(td_arg, td_ints) initialisers of a default."""
    none, no_ints = "{TD_ARG_NONE, {.i = 0}, 0}", "{0, NULL}"
    v = getattr(a, "default", None)
    if v is None or a.kind == "DTYPE":
        return none, no_ints
    if a.kind == "INTS":
        return none, f"{{{len(v)}, (const int64_t[]){{{', '.join(map(integer, v)) or '0'}}}}}"
    if isinstance(v, bool):
        return f"{{TD_ARG_BOOL, {{.i = {int(v)}}}, 0}}", no_ints
    if isinstance(v, int) and a.kind != "FLOAT":
        return f"{{TD_ARG_INT, {{.i = {integer(v)}}}, 0}}", no_ints
    return f"{{TD_ARG_FLOAT, {{.re = {double(v)}}}, 0}}", no_ints


def params(f, out):
    if not f.args:
        return "NULL"
    out.write(f"static const tdpy_param params_{f.symbol}[] = {{\n")
    for a in f.args:
        value, ints = default(a)
        alias = f.aliases.get(a.name)
        optional = a.kind == "OPTIONAL" or getattr(a, "optional", False)
        words = f"(const char *const[]){{{', '.join(map(string, f.choices[a.name]))}, NULL}}" if a.name in f.choices else "NULL"
        out.write(f'    {{"{f.python_name(a)}", {string(alias) if alias else "NULL"}, TDPY_{KINDS[a.kind]}, {str(optional).lower()}, '
                  f"{str(has_default(a)).lower()}, {value}, {ints}, {words}}},\n")
    out.write("};\n")
    return f"params_{f.symbol}"


def composite(f, out):
    """The C function of a `call` or `code`."""
    text = f.call or f.code
    out.write(f"static bool run_{f.symbol}(const char *where, const tdpy_value *v, td_array **out)\n{{\n")
    for k, a in enumerate(f.args):
        type_, value = VALUES[a.kind]
        out.write(f"    {type_}{c_identifier(f.python_name(a))} = {value.format(k)};\n")
    if not f.args:
        out.write("    (void)v;\n")
    if "client" in text:
        out.write("    td_client *client = tdpy_client();\n    if (!client) return false;\n")
    if f.call:
        out.write(f"    return (out[0] = {f.call}) != NULL;\n}}\n")
    else:
        out.write(f"    (void)out;\n    return {f.code} == TD_OK;\n}}\n")
    return f"run_{f.symbol}"


def out_flags(f):
    return [f"TDPY_OUT_{word.upper()}" for word in f.out_is]


def flags(f):
    found = ["TDPY_CREATION"] * f.creation + ["TDPY_OUT"] * f.takes_out + ["TDPY_WRITES"] * bool(f.code)
    found += ["TDPY_PLACED"] * f.placed + ["TDPY_SAVES"] * (f.placed and bool(f.op.saves and f.op.saves[0][1] & 1))
    found += ["TDPY_RENAMED"] * bool(f.op and f.op.name != f.name)
    found += ["TDPY_FIRST"] * f.first + ["TDPY_LAID"] * f.laid + ["TDPY_AVERAGES"] * f.averages
    found += ["TDPY_WAITS"] * f.waits
    found += ["TDPY_LIST_RESULT"] * bool(f.outs and f.outs[0].is_list)
    found += [f"TDPY_CASTS_{f.casts.upper()}"] * bool(f.casts) + out_flags(f)
    return " | ".join(found) or "0"


def out_names(f, known, out):
    """Equal lists of names are written once."""
    names = tuple(o.name for o in f.outs)
    if len(names) < 2:
        return "NULL"
    if names not in known:
        known[names] = f"outs_{len(known)}"
        out.write(f"static tdpy_results {known[names]} = {{.names = (const char *const[]){{{', '.join(map(string, names))}}}}};\n")
    return f"&{known[names]}"


def row(f, known, out):
    run = composite(f, out) if f.call or f.code else "NULL"
    table, names = params(f, out), out_names(f, known, out)
    out.write(f"static PyObject *keys_{f.symbol}[{2 * len(f.args) + 1}];\n")
    where = next((k for k, a in enumerate(f.args) if f.python_name(a) == f.varargs), -1)
    out.write(f"tdpy_function tdpy_{f.symbol} = {{{string(f.name)}, {f.op.id if f.op else 0}, {run}, {len(f.args)}, {len(f.args) if f.positional is None else f.positional}, {len(f.outs)}, {where}, "
              f"{flags(f)}, {table}, keys_{f.symbol}, {names}}};\n")


def stub(name, call, out):
    out.write(f"static PyObject *{name}(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw)\n{{\n    {call}\n}}\n")


def entry(f, name, function, first):
    doc = f.text(first).replace(f.name + "(", name + "(", 1) + "\n--\n\n" + plain(f.doc) + ("\n\n" + f.shows.strip() if f.shows else "")
    return f"    {{{string(name)}, (PyCFunction)(void (*)(void)){function}, METH_FASTCALL | METH_KEYWORDS, {string(doc)}}},\n"


def called(f, self_, ops):
    """The statements that call it. What is just an op's call needs no Python."""
    if not f.py:
        return f"return tdpy_call(&tdpy_{f.symbol}, false, {self_}, args, n, kw);"
    way = "tdpy_create(" if f.creation else "tdpy_forward(" if f.py == f.name else f'tdpy_forward_as("{f.name}", '
    forward = f'return {way}"{f.py}", {self_}, args, n, kw);'
    if not f.plain:
        return forward
    op = ops[f.plain]
    needed = sum(not has_default(a) for a in op.args) - (self_ != "NULL")
    fits = f"n == {needed}" if f.places is None else f"n >= {needed} && n <= {f.places - (self_ != 'NULL')}"
    return f"if ({fits} && !kw) return tdpy_call(&tdpy_{op.symbol}, false, {self_}, args, n, kw);\n    " + forward


def into(f, name):
    """The statements that look for out= first."""
    if not f.copies_out:
        return "(void)self;\n    "
    wants = " | ".join(["TDPY_CREATION"] * f.creation + out_flags(f)) or "0"
    return f'(void)self;\n    if (kw && tdpy_has_out(kw)) return tdpy_into({name}, "{f.name}", {wants}, args, n, kw);\n    '


def stubs(f, ops, out):
    """Rows of the three lists: functions, methods, tensord.ops."""
    functions, methods, raw = "", "", ""
    s = f.symbol
    if f.plain:
        out.write(f"extern tdpy_function tdpy_{ops[f.plain].symbol};\n")
    if f.function or f.raw:
        stub(f"f_{s}", into(f, f"f_{s}") + called(f, "NULL", ops), out)
        row_ = entry(f, f.name, f"f_{s}", "$module")
        functions, raw = (row_, "") if not f.raw else ("", row_)
    if f.method:
        stub(f"m_{s}", called(f, "self", ops), out)
        methods += entry(f, f.name, f"m_{s}", "$self")
    if f.method and f.in_place:
        stub(f"i_{s}", f"return tdpy_call(&tdpy_{s}, true, self, args, n, kw);", out)
        methods += entry(f, f.name + "_", f"i_{s}", "$self")
    return functions, methods, raw


def emit(table, out):
    public, raw, layers = load(table)
    out.write(HEAD + '#include "client/python/src/py.h"\n\n#include <math.h>\n\n')
    known, seen, lists = {}, set(), ["", "", ""]
    ops = {f.name: f for f in raw if f.op}
    for f in public + raw:
        if f.symbol in seen:
            continue
        seen.add(f.symbol)
        out.write(f"/* {f.where} */\n")
        if not f.py:
            row(f, known, out)
        if f.symbol.startswith("op_"):
            f.function = f.method = False
            f.raw = True
        for k, text in enumerate(stubs(f, ops, out)):
            lists[k] += text
    layer_rows = ""
    for f in layers:
        out.write(f"/* {f.where} */\n")
        row(f, known, out)
        stub(f"f_{f.symbol}", into(f, f"f_{f.symbol}") + called(f, "NULL", ops), out)
        layer_rows += entry(f, f.name, f"f_{f.symbol}", "$module")
    # tensord.ops has every op of the table, also those that are shown.
    for f in raw:
        if f.symbol.startswith("fn_") and f.op:
            lists[2] += entry(f, f.name, f"f_{f.symbol}", "$module")
    out.write("tdpy_function *const tdpy_all_functions[] = {\n")
    for symbol in dict.fromkeys(f.symbol for f in public + raw + layers if not f.py):
        out.write(f"    &tdpy_{symbol},\n")
    out.write("    NULL};\n")
    for name, text in zip(("functions", "methods"), lists):
        out.write(f"PyMethodDef tdpy_op_{name}[] = {{\n{text}    {{NULL, NULL, 0, NULL}}}};\n")
    out.write(f"PyMethodDef tdpy_layer_functions[] = {{\n{layer_rows}    {{NULL, NULL, 0, NULL}}}};\n")
    out.write(f"PyMethodDef tdpy_raw_functions[] = {{\n{lists[2]}    {{NULL, NULL, 0, NULL}}}};\n")

"""tensord_ops.h: the ops as C functions and macros, with their docs."""

from cdata import HEAD
from client_forms import forms


def passed(a):
    return f"TD_ARG({a.name})" if a.convert else a.name


def helper(form, given, name):
    """A macro that takes the first `given` arguments and fills in the rest."""
    arguments = form.arguments
    values = [passed(a) for a in arguments[:given]]
    values += [f"TD_ARG({a.default})" if a.convert else a.default for a in arguments[given:]]
    names = ", ".join(a.name for a in arguments[:given])
    return f"#define {name}({names}) {form.function}({', '.join(['TD_HERE', *values])})\n"


def macros(form):
    """One macro when all arguments must be given; else one for each number of arguments, and one that picks."""
    most, least = len(form.arguments), max(form.required, 1)
    if least >= most:
        return helper(form, most, form.macro)
    text = "".join(helper(form, n, f"{form.helper}_{n}") for n in range(least, most + 1))
    names = [f"{form.helper}_{n}" if n >= least else f"{form.helper}_needs_{least}_arguments" for n in range(most, 0, -1)]
    return text + f"#define {form.macro}(...) TD_PICK_{most}_(__VA_ARGS__, {', '.join(names)}, )(__VA_ARGS__)\n"


def comment(op):
    doc = op.doc.replace("*/", "* /")
    return f"/* {doc}\n *     {op.name}{op.sig.text} */\n"


def emit(table, out):
    out.write(HEAD)
    out.write("""/*
 * Every op is a function that makes an array, td_NAME(...), where it makes sense also one that writes into its first argument, td_NAME_(...), and
 * one that writes into the array given first, td_NAME_out(out, ...). The latter two return a td_code.
 *
 * Under each op stands its signature: T an array, T? one or NULL, TS an array or a number, T[] a td_list; i, f, b an integer, a float, a
 * bool; S a number, D a dtype, I[] a td_ints; ? may be none (td_none(), td_no_dims()). What has a default may be left out from the end. Of several
 * results the first is returned, the others go through pointers, which may be NULL. A list of results goes into an array with `room` places,
 * and the function returns how many there are, or -1. Ops without tensor arguments take the client first. */
#ifndef TENSORD_OPS_H
#define TENSORD_OPS_H

#ifndef TENSORD_H
#error "include tensord.h, which includes this"
#endif

#ifdef __cplusplus
extern "C" {
#endif

""")
    for op in table.ops:
        out.write(comment(op))
        for form in forms(op):
            out.write(f"TD_API {form.prototype};\n")
            out.write(macros(form))
        out.write("\n")
    out.write("#ifdef __cplusplus\n}\n#endif\n\n#endif\n")

"""client_ops.c: the bodies of the functions that tensord_ops.h declares. Each gathers its arguments and calls td_run()."""

from cdata import CALLS, HEAD
from client_forms import GIVE, forms


def give(a):
    """The statement that appends one attribute; the function fails when it does."""
    kind = "number" if a.convert else GIVE[a.arg.kind]
    return f"td_give_{kind}(&attrs, op, {a.name})"


def inputs(form):
    """Lines that fill `in`, and the C text of how many there are."""
    params = [a for a in form.arguments if a.arg is not None and hasattr(a.arg, "is_list")]
    if not params:
        return [], "0", "NULL"
    value = {a.name: a.name if a.convert else f"td_arg_array({a.name})" for a in params}
    if not any(a.arg.is_list for a in params):
        return [f"    const td_arg in[] = {{{', '.join(value[a.name] for a in params)}}};\n"], str(len(params)), "in"
    lines = ["    td_arg in[TD_MAX_INPUTS];\n", "    int n = 0;\n"]
    for a in params:
        if a.arg.is_list:
            lines.append(f"    if (!td_give_list(in, &n, op, {a.name})) return FAILED;\n")
        else:
            lines.append(f"    in[n++] = {value[a.name]};\n")
    return lines, "n", "in"


def attributes(form):
    given = [give(a) for a in form.arguments if a.arg is not None and not hasattr(a.arg, "is_list")]
    lines = ["    td_attrs attrs;\n", "    td_attrs_init(&attrs);\n"]
    if given:
        lines.append(f"    if (!({' && '.join(given)})) return FAILED;\n")
    return lines


def joins(op):
    """Are its only tensors one list without gaps? Such a list may be longer than a record."""
    return [p.kind for p in op.params] == ["LIST"] and not op.composed


def run_list(form):
    """The same as run() for an op that joins."""
    xs = next(a.name for a in form.arguments if a.arg is not None and hasattr(a.arg, "is_list"))
    if form.writes == "out":
        return [f"    return td_run_list(where, op, TD_RF_OUT, {xs}, &attrs, &out);\n"]
    return ["    td_array *made;\n", f"    return td_run_list(where, op, 0, {xs}, &attrs, &made) ? NULL : made;\n"]


def run(form, count, array):
    """The call of td_run and what is made of its result."""
    op = form.op
    client = "client" if not op.params else "NULL"
    if form.writes:
        target = "out" if form.writes == "out" else form.arguments[0].name
        if not op.params:
            client = "td_client_of(out)"
        return [f"    td_array *written[1] = {{{target}}};\n",
                f"    return td_run({client}, where, op, TD_RF_OUT, {count}, {array}, &attrs, 1, written, NULL);\n"]
    if not op.outs:
        return [f"    return td_run({client}, where, op, 0, {count}, {array}, &attrs, 0, NULL, NULL);\n"]
    if op.outs[0].is_list:
        return ["    int made;\n",
                f"    return td_run({client}, where, op, 0, {count}, {array}, &attrs, room, out, &made) ? -1 : made;\n"]
    lines = [f"    td_array *made[{len(op.outs)}];\n"]
    others = [a.name for a in form.arguments if a.type == "td_array **"]
    lines += [f"    if ({o}) *{o} = NULL;\n" for o in others]
    lines.append(f"    if (td_run({client}, where, op, 0, {count}, {array}, &attrs, {len(op.outs)}, made, NULL)) return NULL;\n")
    for i, o in enumerate(others, 1):
        lines += [f"    td_hand_over(made[{i}], {o});\n"]
    return lines + ["    return made[0];\n"]


def body(form):
    failed = "NULL" if form.makes_one else "-1" if form.op.outs and form.op.outs[0].is_list else "td_last_error()->code"
    head = [f"    const td_op *op = &td_ops[{form.op.id}];\n"]
    if joins(form.op):
        lines = [*head, *attributes(form), *run_list(form)]
    else:
        lines, count, array = inputs(form)
        lines = [*head, *lines, *attributes(form), *run(form, count, array)]
    return f"/* {form.op.where()} */\nTD_API {form.prototype}\n{{\n" + "".join(lines).replace("FAILED", failed) + "}\n\n"


def emit(table, out):
    out.write(HEAD)
    out.write('#include "client/tensor/run.h"\n\n' + CALLS)
    for op in table.ops:
        for form in forms(op):
            out.write(body(form))

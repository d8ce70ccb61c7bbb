"""What the op table must obey. Each rule is one function that appends "FILE:LINE: op NAME: message" for each breach."""

import re
from pathlib import Path

import example
import shapes
import signature
import table as model

ADD_HINT = "add it with opgen.py --lock"


def say(errors, op, column, message):
    errors.append(f"{op.where(column)}: op {op.name}: {message}")


def check_columns(op, errors):
    """Known columns of the right type; afterwards the required ones may be relied on."""
    ok = True
    for column, value in op.raw.items():
        want = model.COLUMNS.get(column)
        if want is None:
            say(errors, op, column, f"unknown column '{column}'")
        elif not isinstance(value, want) or isinstance(value, bool):
            say(errors, op, column, f"column '{column}' has the wrong type")
            ok = False
    for column in ("id", "sig") if op.composed else ("id", "sig", "infer"):
        if column not in op.raw:
            say(errors, op, None, f"no {column}")
            ok = False
    return ok


# What says how an op is computed, or differentiated, stands with the ops that another is made of.
NOT_COMPOSED = ("infer", "kernel", "expr", "promote", "grad", "linear", "cost", "checked", "alike", "shape_of")


def check_composed(op, errors):
    """An op made of others has nothing of its own but its arguments, words and names."""
    for column in NOT_COMPOSED if op.composed else ():
        if column in op.raw:
            say(errors, op, column, f"made of other ops, which say its '{column}'")
    for flag in set(op.raw.get("flags", [])) - {"view"} if op.composed else ():
        say(errors, op, "flags", f"made of other ops, which have no use for the flag '{flag}'")
    if not op.composed and "outputs" in op.raw:
        say(errors, op, "outputs", "what its results look like stands behind its rule")


def check_signature(op, errors):
    try:
        op.sig = signature.parse(op.raw["sig"])
    except signature.SignatureError as e:
        say(errors, op, "sig", str(e))
        return False
    return True


def check_name_and_doc(op, errors):
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", op.name):
        say(errors, op, None, "a name is at most 31 of a-z, 0-9 and _")
    doc = op.raw.get("doc", "")
    if not doc.strip():
        say(errors, op, "doc", "no doc")
    elif "\n" in doc:
        say(errors, op, "doc", "the doc is more than one line")


def check_words(op, table, errors):
    if not op.composed and op.infer not in table.rules:
        say(errors, op, "infer", f"unknown inference rule '{op.infer}' (proto/infer/infer.h declares the set)")
    for flag in op.raw.get("flags", []):
        if flag not in model.FLAGS:
            say(errors, op, "flags", f"unknown flag '{flag}'")
    if op.promote not in model.PROMOTE:
        say(errors, op, "promote", f"unknown promotion '{op.promote}'")
    try:
        op.dtypes
    except ValueError as e:
        say(errors, op, "dtypes", str(e))


def check_results(op, table, errors):
    """The reference says of each result what it looks like; the words stand behind the rule."""
    if op.composed and not all(text for _, text in table.results(op)):
        say(errors, op, "outputs", "outputs.NAME does not say of each result what it looks like")
    elif op.infer in table.rules and not all(text for _, text in table.results(op)):
        say(errors, op, "infer", f"the comment behind TD_RULE({op.infer}) in proto/infer/infer.h does not say what the results look like")


def check_references(op, errors):
    """Columns that name arguments or outputs name some that exist."""
    params, outs = {p.name for p in op.params}, {o.name for o in op.outs}
    for column, known, what in (("checked", params, "tensor argument"), ("linear", params, "tensor argument"),
                                ("alike", params, "tensor argument"), ("shape_of", params, "tensor argument"),
                                ("nondiff_outputs", outs, "output"), ("outputs", outs, "output")):
        for name in op.raw.get(column, []):
            if name not in known:
                say(errors, op, column, f"'{name}' in {column} is no {what}")
    for names in op.grad:
        for name in names.split(","):
            if name.strip() not in params:
                say(errors, op, f"grad.{names}", f"gradient for '{name.strip()}', which is no tensor argument")


def check_shapes(op, errors):
    """What shape an argument has is said in words that C knows."""
    if "shape_of" in op.raw and any(p.is_list for p in op.params):
        say(errors, op, "shape_of", "shapes of arguments beside a list of tensors are its rule's to check")
    for name, text in op.raw.get("shape_of", {}).items():
        try:
            shapes.parse(text, op)
        except ValueError as e:
            say(errors, op, "shape_of", f"shape of '{name}': {e}")


def check_shapes_of_rules(ops, errors):
    """A rule that leaves shapes to the table leaves them to each op that has it."""
    left = {op.raw.get("infer"): op.name for op in ops if "shape_of" in op.raw}
    for op in ops:
        if op.raw.get("infer") in left and "shape_of" not in op.raw:
            say(errors, op, "infer", f"no shape_of, but {left[op.infer]}, which has the same rule, leaves shapes to it")


def check_body(op, errors):
    """Exactly one way to compute it."""
    ways = [w for w, has in (("kernel", "kernel" in op.raw), ("expr", "expr" in op.raw), ("view", "view" in op.flags and not op.composed),
                             ("decompose", "decompose" in op.raw), ("composer", "composer" in op.raw)) if has]
    if len(ways) != 1:
        say(errors, op, None, f"needs exactly one of kernel, expr, decompose, composer and the view flag, has {ways or 'none'}")


def check_gradient(op, errors):
    """An op whose result can require grad says how it is differentiated."""
    if "nondiff" in op.flags or not op.params or not op.outs or op.grad or op.composed:
        return
    say(errors, op, None, "no gradient: give grad.NAME, decompose, or the nondiff flag")


def check_examples(op, errors):
    for text in op.examples:
        try:
            example.parse(text, op)
        except example.ExampleError as e:
            say(errors, op, "example", f"example '{text}': {e}")


ATEN_FORM = re.compile(r"(?:\[(?:first(?: \d)?|new|\w+=-?[\d.]+)\] )*(\w+)(\(.*\))?")


def check_aten(op, errors):
    """Each form is a name or a call, and what it asks for or marks is an argument."""
    args = {a.name for a in op.sig.args}
    for form in op.raw.get("aten", "").split("; ") if "aten" in op.raw else []:
        if not ATEN_FORM.fullmatch(form):
            say(errors, op, "aten", f"'{form}' is no name in ATen, and no call of one")
        for name in re.findall(r"\[(\w+)=", form) + re.findall(r"\b(\w+)(?:[?!]|\[0\])", form) + re.findall(r"[(,] ?([a-z_]\w*)(?=[,)])", form):
            if name not in args:
                say(errors, op, "aten", f"'{name}' in '{form}' is no argument")


def check_ids(ops, errors):
    seen = {}
    for op in ops:
        if not 0 < op.id < model.MAX_ID:
            say(errors, op, "id", f"id {op.id} is outside 1..{model.MAX_ID - 1}")
        elif op.id in seen:
            say(errors, op, "id", f"id {op.id} is taken by {seen[op.id].name}")
        seen.setdefault(op.id, op)


def read_lock(path):
    """{name: id} of every op that ever was."""
    locked = {}
    if path and Path(path).exists():
        for line in Path(path).read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                number, name = line.split()
                locked[name] = int(number)
    return locked


def write_lock(path, ops):
    """Add the ops that are not there yet; what is there stays for ever."""
    locked = read_lock(path)
    locked.update({op.name: op.id for op in ops if op.name not in locked})
    rows = "".join(f"{number} {name}\n" for name, number in sorted(locked.items(), key=lambda row: row[1]))
    Path(path).write_text("# Every op id that was ever given, written by opgen.py --lock. Lines are never changed or removed.\n"
                          + rows)


def check_lock(ops, path, errors):
    locked = read_lock(path)
    owner = {number: name for name, number in locked.items()}
    for op in ops:
        if op.name in locked and locked[op.name] != op.id:
            say(errors, op, "id", f"id changed from {locked[op.name]} to {op.id}; ids never change")
        elif owner.get(op.id, op.name) != op.name:
            say(errors, op, "id", f"id {op.id} belongs to {owner[op.id]}; ids are never reused")
        elif op.name not in locked:
            say(errors, op, "id", f"id {op.id} is not in {Path(path).name}: {ADD_HINT}")


def check(table, errors, lock_path, strict):
    """All rules over all ops. `lock_path` None: the ids are not compared (they are about to be locked)."""
    whole = [op for op in table.ops if check_columns(op, errors)]
    for op in whole:
        check_name_and_doc(op, errors)
        check_words(op, table, errors)
        check_body(op, errors)
        check_composed(op, errors)
        if check_signature(op, errors):
            check_results(op, table, errors)
            check_references(op, errors)
            check_shapes(op, errors)
            check_examples(op, errors)
            check_aten(op, errors)
            if strict:
                check_gradient(op, errors)
    check_shapes_of_rules(whole, errors)
    check_ids(whole, errors)
    if lock_path is not None:
        check_lock(whole, lock_path, errors)

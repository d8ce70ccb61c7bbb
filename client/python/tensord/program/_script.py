"""What the sources of a program are and what their names mean, for the front end in C (client/script/script.h).

A *world* is units (functions as text, with the dict of their names) and objects (modules, with the dict of their attributes). A name means
a constant as it is, or a tuple: ("tensor", key), ("function", unit, name, object or -1), ("object", number), ("tensord",), ("math",),
("op", name of a function of tensord), ("tuple", [...]), ("list", [...]), ("dict", [key, value, ...]), ("state", number), ("refused", why), ("named", unit, name) of a class of named tuples, ("tuple", [...], unit, name) of such a one.
"""

import ast
import builtins
import enum
import inspect
import math
import os
import types
import warnings
from itertools import chain

from tensord import _C
from tensord.core import _layouts
from tensord.program import _classes, _namedtuples
from tensord.program._published import Named
from tensord.program._state import States
from tensord.program._escapes import written_by

_PACKAGE = "tensord"
_LAYERS = {"Dropout", "RReLU", "Unflatten", "UpsamplingNearest2d", "UpsamplingBilinear2d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d",
           "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "MultiheadAttention", "LSTMCell", "GRUCell", "RNNCell", "LSTM", "GRU", "RNN"}  # of client/script/prelude.py
_SCHEDULE = "a schedule is stepped outside of programs: call it behind the program, which sees the new rate"
_LISTINGS = {"parameters": "named_parameters", "named_parameters": "named_parameters", "zero_grad": "named_parameters", "buffers": "named_buffers",
             "named_buffers": "named_buffers", **{name: "named_" + name.removeprefix("named_") for name in ("children", "named_children", "modules", "named_modules")}}
_INTERFACE = "an interface is the type of a module's attribute; a program calls the module that is there, as self.part(x), and gives it to no variable"
_PROPERTY = "a property takes no arguments: it is called where its name stands"
_UNKNOWN = object()
_TRIPLETS = """def forward(self, anchor, positive, negative):
    far = distance(anchor, negative)
    if self.swap:
        far = minimum(far, distance(positive, negative))
    loss = clamp(distance(anchor, positive) - far + self.margin, 0)
    if self.reduction == "none":
        return loss
    return loss.mean() if self.reduction == "mean" else loss.sum()
"""


# Modules whose functions have a meaning of their own: F.batch_norm takes its arguments in another order than td.batch_norm.
_FOLDERS = {"tensord." + name: name for name in ("nn.functional", "linalg", "fft", "special", "jit", "nn", "nn.utils.rnn")}
_FOLDERS["tensord.program._jit_api"] = "jit"
_AT_TOP = {"tensord.nn._toplevel"}  # layers with the arguments that they have as functions of tensord itself


def _module(value):
    return ("tensord", _FOLDERS[value.__name__]) if value.__name__ in _FOLDERS else ("tensord",)


def _is_ours(name):
    return name == _PACKAGE or (name or "").startswith(_PACKAGE + ".")


def _value_of(function, name):
    """What a name means in a function: (True, the value), or (False, None)."""
    code = function.__code__
    if name in code.co_freevars:
        try:
            return True, function.__closure__[code.co_freevars.index(name)].cell_contents
        except ValueError:
            return False, None
    if isinstance(warning := getattr(builtins, name, None), type) and issubclass(warning, Warning):
        return True, name
    return name in function.__globals__, function.__globals__.get(name)


def _value_at(function, path):
    """The same of "module.name" and "Class.name", which are from outside: what is of tensord has its meaning there."""
    first, *names = path.split(".")
    known, value = _value_of(function, first)
    for name in names:
        plain_one = isinstance(value, types.ModuleType) and not _is_ours(value.__name__) and value is not math or isinstance(value, type) and not _is_ours(value.__module__)
        if not known or not (plain_one or isinstance(value, enum.Enum) and name in ("name", "value")):
            return False, None
        known, value = hasattr(value, name), inspect.getattr_static(value, name, None) if isinstance(value, type) else getattr(value, name, None)
        value = value.__func__ if isinstance(value, staticmethod) else value
    return known, value


def _chains(lines):
    """All "a.b" and "a.b.c" of names and attributes."""
    found = {}
    for node in ast.walk(ast.parse("if 1:\n" + "\n".join([" " + line for line in lines]) + "\n")):
        path, at = [], node
        while isinstance(at, ast.Attribute):
            path, at = [at.attr, *path], at.value
        if path and isinstance(at, ast.Name):
            found[".".join([at.id, *path])] = None
    return found


def _annotations(nodes):
    """Those that are written as texts, as trees."""
    for node in nodes:
        at = getattr(node, "annotation", None) or getattr(node, "returns", None)
        for text in ast.walk(at) if at else ():
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield from ast.walk(ast.parse(text.value))


def _names_in(lines, function):
    """Names that stand by themselves, not those of attributes; those of attributes; and what is done with these."""
    nodes = list(ast.walk(ast.parse("if 1:\n" + "\n".join([" " + line for line in lines]) + "\n")))
    nodes += _annotations(list(nodes))
    texts = (n.args[1].value for n in nodes if isinstance(n, ast.Call) and len(n.args) == 2 and isinstance(n.args[1], ast.Constant))
    return (dict.fromkeys(n.id for n in nodes if isinstance(n, ast.Name)),
            dict.fromkeys([*(n.attr for n in nodes if isinstance(n, ast.Attribute)), *(t for t in texts if isinstance(t, str))]), written_by(nodes, lambda name: _value_of(function, name)[1]))


def _lines_of(function):
    """(its lines without decorators, the number of the first)."""
    if function.__code__.co_name == "<lambda>":
        raise TypeError("a program is written with def, not lambda")
    try:
        lines, line = inspect.getsourcelines(function)
    except OSError as e:
        raise OSError(f"the source of {function.__qualname__} is not to be had, so it cannot be a program") from e
    start = next((i for i, text in enumerate(lines) if text.lstrip().startswith(("def ", "async "))), 0)
    return [""] * start + [text.rstrip("\n") for text in lines[start:]], line


def _unquoted(lines):
    """Types that are written as texts, without their quotes: at the same places."""
    lines = list(lines)
    for node in ast.walk(ast.parse("if 1:\n" + "\n".join([" " + line for line in lines]) + "\n")):
        kinds = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        for text in (n for kind in kinds if kind for n in ast.walk(kind)):
            if not isinstance(text, ast.Constant) or not isinstance(text.value, str) or text.lineno != text.end_lineno:
                continue
            line, at, end = lines[text.lineno - 2].encode(), text.col_offset - 1, text.end_col_offset - 1
            if line[at + 1:end - 1] == text.value.encode():
                lines[text.lineno - 2] = (line[:at] + b" " + line[at + 1:end - 1] + b" " + line[end:]).decode()
    return lines


def _gathered(lines):
    """The types of parameters that stand behind each of them, in the comment that has none: # type: (...) -> Tensor"""
    at = next(k for k, text in enumerate(lines) if "# type: (...)" in text)
    found = [text.split("# type:", 1)[1].split(" #")[0].strip() for text in lines[:at] if "# type:" in text]
    return [*lines[:at], lines[at].replace("(...)", f"({', '.join(found)})", 1), *lines[at + 1:]]


def _emptied(lines):
    """A function whose body is an error, at the same lines."""
    tree = next(n for n in ast.walk(ast.parse("if 1:\n" + "\n".join([" " + line for line in lines]) + "\n")) if isinstance(n, ast.FunctionDef))
    tree.body, tree.decorator_list = ast.parse(f"raise RuntimeError(\"'{tree.name}' is unused in programs\")").body, []
    tree.returns = tree.returns or ast.Name("Tensor")
    return [""] * (tree.lineno - 2) + ast.unparse(tree).splitlines()


def plain(function):
    """The function that a program, or what a decorator of td.jit marked, is made of."""
    return getattr(function, "_function", function)


def _is_plain_object(value):
    """One of a class that is written in Python, of which programs can know what it holds and does."""
    kind = type(value)
    return hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType, types.FunctionType, types.MethodType)) and not _is_ours(kind.__module__) \
        and type(kind) is type and kind.__base__ is object and any(isinstance(f, types.FunctionType) for f in vars(kind).values())


class World:
    """All that one program may reach, from a function or a module on."""

    def __init__(self):
        self.units, self.objects = [], []
        self.tensors = {}  # key -> tensor
        self.seen = []  # (dict or module, name, what was found there): what the program was made for
        self.checks = []  # (function, what it gave), of the same
        self.rates = []  # of optimizers
        self.named = {}  # class of named tuples -> unit
        self.states = States(self)  # what it writes
        self._keys, self._unit_of, self._object_of, self._used, self._written, self._modules = {}, {}, {}, {}, {}, []

    def compile(self, entry):
        """(text of the IR, tensors that it captures, their names) of a name that means a function."""
        self.complete()
        for number, module in self._modules:
            self.listings(module, *self.objects[number][2:])
        self.states.find(self._modules, self._written)
        text, captured, gives = _C._script(self.units, self.objects, self.states.described, entry)
        self.shape, give = _namedtuples.giver(gives, self)
        self.give = self.states.giver(give)
        return text, tuple(self.tensors[key] for key in captured), captured

    def complete(self):
        """Methods of modules that were described before a function called them by these names."""
        done = None
        while done != (len(self.units), len(self._modules)):
            done = len(self.units), len(self._modules)
            wanted = {name for used in self._used.values() for name in used}
            for number, module in list(self._modules):
                for name in sorted(wanted - self.objects[number][3].keys()):
                    self.method_named(module, number, name)

    def method_named(self, module, number, name):
        names = self.objects[number][3]
        try:
            self.methods(module, number, (name,), names)
        except (OSError, TypeError) as e:  # it may be another one that is called by this name
            names[name] = "refused", str(e)
        return names.get(name, _UNKNOWN)

    def changed(self):
        """Is something else now where this was made of?"""
        return _C._changed(self.seen) or any(look() != was for look, was in self.checks)

    def tell(self):
        """Before a call: tensors that stand for numbers of Python's get these."""
        for rate in self.rates:
            rate.tell()

    # ---- functions

    def function(self, function, at=-1):
        """The name of a function, bound to an object."""
        if function not in self._unit_of:
            lines, line = _lines_of(function)
            lines = _unquoted(lines) if any("\"" in text or "'" in text for text in lines) else lines
            lines = _gathered(lines) if any("# type: (...)" in text for text in lines) else lines
            lines = _emptied(lines) if hasattr(function, "_tensord_unused") else lines
            names = {}
            self._unit_of[function] = len(self.units)
            generic = _is_ours(function.__module__) or (function.__module__, function.__qualname__) in _namedtuples.OVERLOADED
            self.units.append(("\n".join(lines) + "\n", os.path.basename(function.__code__.co_filename), line, names, generic))
            used, self._used[function], self._written[self._unit_of[function]] = _names_in(lines, function)
            classes = _namedtuples.annotated(function)
            for name in chain(used, _chains(lines)):
                known, value = (True, classes[name]) if name in classes else _value_at(function, name)
                meaning = self.value(value, name) if known and value is not function else _UNKNOWN
                if meaning is not _UNKNOWN:
                    names[name] = meaning
            paths = {name: names.pop(name) for name in sorted(names, key=len, reverse=True) if "." in name}
            names.update({**paths, **{name: names.pop(name) for name in list(names)}})  # what is said of C.A goes before what is said of C
        return "function", self._unit_of[function], function.__name__, at

    def text(self, text, names, at, name="forward", *alone):
        """The name of a function that is written here; `alone`: why it takes no arguments."""
        self.units.append((text, "layers.py", 1, names, True))
        return "function", len(self.units) - 1, name, at, *alone

    def listed(self, items, title):
        """The name of a list of objects, or of tensors; `items` by their numbers."""
        self.objects.append((1, len(items), title, items))
        return "object", len(self.objects) - 1

    # ---- what a name means

    def value(self, value, name):
        if isinstance(value, enum.Enum) and not isinstance(value, (int, str)):
            return _namedtuples.member(self, value)
        if value is None or isinstance(value, (bool, int, float, complex, str, _C.dtype, _C.device)):
            return value
        if type(value) is _layouts.memory_format:
            return _layouts.NUMBERS[value]
        if value is warnings.warn:
            return "op", "warn"
        if isinstance(value, type) and issubclass(value, Warning):
            return value.__name__
        if isinstance(value, enum.EnumMeta) and issubclass(value, (int, str)):  # its members are numbers or texts
            return _namedtuples.alias(self, int if issubclass(value, int) else str, name)
        if _namedtuples.is_alias(value):
            return _namedtuples.alias(self, value, name)
        if _C.is_tensor(value):
            return "tensor", self.tensor(value, name)
        if _namedtuples.is_class(value) or _namedtuples.is_enum(value):
            return _namedtuples.described(self, value)
        if getattr(value, "_tensord_interface", False):
            return "refused", _INTERFACE
        if _classes.is_class(value) and not _is_ours(value.__module__):
            return self.own_class(value)
        if isinstance(value, (tuple, list)):
            items = [self.value(item, name) for item in value]
            kind = ("list", items) if isinstance(value, list) else ("tuple", items)
            if _namedtuples.is_class(type(value)):
                kind += _namedtuples.described(self, type(value))[1:]
            return _UNKNOWN if any(item is _UNKNOWN for item in items) else kind
        if type(value) is dict and all(type(key) in (int, str) for key in value):
            items = [self.value(item, name) for pair in value.items() for item in pair]
            return _UNKNOWN if any(item is _UNKNOWN for item in items) else ("dict", items)
        if isinstance(value, types.ModuleType):
            return _module(value) if _is_ours(value.__name__) else ("math",) if value is math else _UNKNOWN
        if hasattr(value, "_tensord_refused"):
            return "refused", value._tensord_refused
        return self.called(value, name)

    def own_class(self, value):
        try:
            return _classes.described(self, value)
        except (OSError, TypeError) as e:
            return "refused", str(e)

    def meaning(self, value, name):
        """What it means, or why it means nothing."""
        meaning = self.value(value, name)
        return ("refused", f"a program knows no {type(value).__name__} as '{name}'") if meaning is _UNKNOWN else meaning

    def called(self, value, name):
        value = plain(value)
        if isinstance(value, types.BuiltinFunctionType) and _is_ours(value.__module__ or _PACKAGE):
            return "op", value.__name__
        if isinstance(value, types.FunctionType):
            if not _is_ours(value.__module__):
                return self.function(value)
            below = _FOLDERS.get(value.__module__) or ("nn.functional" if value.__module__.startswith("tensord.nn.") and value.__module__ not in _AT_TOP else "")
            return "op", below + "." * bool(below) + value.__name__
        if hasattr(value, "_modules") and hasattr(value, "_buffers"):
            return "object", self.object(value, name)
        if isinstance(value, Named) and hasattr(value, "_takes"):
            return self.function_of_trace(value, name)
        module, method = getattr(value, "_bound", (getattr(value, "__self__", None), getattr(value, "__name__", "")))
        if hasattr(module, "_modules"):
            return self.bound(module, method, name)
        return self.trains(value, name)

    def function_of_trace(self, program, name):
        from tensord.program import _traced

        if program not in self._unit_of:
            self._unit_of[program] = _traced.function(self, program, name)
        return self._unit_of[program]

    def bound(self, module, method, name):
        """A method that stands alone."""
        number = self.object(module, name)
        return _UNKNOWN if self.objects[number] is None else self.method_named(getattr(module, "_original", module), number, method)

    def trains(self, value, name):
        """Optimizers, and schedules, which stay in Python."""
        if hasattr(value, "optimizer") and _is_ours(type(value).__module__):
            self.objects.append((0, 0, name, {"step": ("refused", _SCHEDULE)}))
            return "object", len(self.objects) - 1
        from tensord.program import _optimizers

        if not _optimizers.is_optimizer(value):
            return ("object", self.plain_object(value, name)) if _is_plain_object(value) else _UNKNOWN
        if id(value) not in self._object_of:
            self._object_of[id(value)] = _optimizers.described(self, value, name)
        return "object", self._object_of[id(value)]

    def plain_object(self, value, name):
        """The number of an object of a class of one's own: its attributes as they are, its methods, and what a call of it calls."""
        if id(value) in self._object_of:
            return self._object_of[id(value)]
        number, names = len(self.objects), {}
        self._object_of[id(value)] = number
        self.objects.append((0, 0, name, names))
        known = {}
        for klass in reversed(type(value).__mro__[:-1]):
            known.update(vars(klass))
        for key, of in {**known, **vars(value)}.items():
            of = of.__func__ if isinstance(of, staticmethod) else of
            if isinstance(of, types.FunctionType) and (key == "__call__" or not key.startswith("__")):
                try:
                    at = -1 if isinstance(known.get(key), staticmethod) or key in vars(value) else number
                    names["forward" if key == "__call__" else key] = self.function(plain(of), at)
                except (OSError, TypeError) as e:
                    names[key] = "refused", str(e)
            elif not key.startswith("__") and (meaning := self.value(of, f"{name}.{key}")) is not _UNKNOWN:
                names[key] = meaning
                self.seen.append((vars(value) if key in vars(value) else {key: of}, key, of))
        return number

    def tensor(self, tensor, name):
        key = self._keys.get(id(tensor))
        if key is None:
            key, k = name, 1
            while key in self.tensors:
                key, k = f"{name}.{k}", k + 1
            self._keys[id(tensor)] = key
            self.tensors[key] = tensor
        return key

    # ---- modules

    def traced(self, module, title):
        from tensord.program import _traced

        self._object_of[id(module)] = _traced.module(self, module, title)
        return self._object_of[id(module)]

    def object(self, module, title, methods=()):
        """The number of a module; `methods`: those that may be called beside forward()."""
        module = getattr(module, "_original", module)
        if id(module) in self._object_of:
            return self._object_of[id(module)]
        if isinstance(module, Named) and hasattr(module, "_takes"):
            return self.traced(module, title)
        if module._before or module._after or any(module._around):
            raise TypeError(f"a program cannot run the hooks of the module '{title or type(module).__name__}'; remove them, or call it outside")
        if hasattr(module, "has_uninitialized_params") and module.has_uninitialized_params():
            raise TypeError(f"the module '{title or type(module).__name__}' has uninitialized parameters: call it with an input first")
        if "parametrizations" in module._modules:
            raise TypeError(f"a program cannot work out the parametrized tensors of the module '{title or type(module).__name__}': trace it, or remove_parametrizations()")
        number, names, kind = len(self.objects), {}, 0
        if hasattr(module, "__iter__"):
            kind = 2 if hasattr(module, "keys") else 1
        self._object_of[id(module)] = number
        self.objects.append(None)
        called = self.methods(module, number, methods, names)
        self.attributes(module, title, called, names)
        if hasattr(module, "_weights") and _is_ours(type(module)._weights.__module__):
            names["cells"] = self.cells(module, title)
        items = len(module._modules or module._parameters) if kind else 0
        self.objects[number] = kind, items, title, names
        self._modules.append((number, module))
        return number

    def listings(self, module, title, names):
        """parameters(), zero_grad() and their like, where a function says such a name."""
        for name in _LISTINGS:
            if any(name in used for used in self._used.values()) and _is_ours(getattr(getattr(type(module), name), "__module__", "")):
                names[name] = self.listing(module, title, name)

    def listing(self, module, title, name):
        found = {k: self.value(x, f"{title}.{k}" if title else k) for k, x in getattr(module, _LISTINGS[name])()}
        self.objects.append((4 if name.startswith("named_") else 3, len(found), title, found))
        if name != "zero_grad":
            return "listing", len(self.objects) - 1
        from tensord.program._optimizers import ZERO

        self.objects.append((0, 0, title, {"params": self.listed(found, title)}))
        return self.text(ZERO, {}, len(self.objects) - 1, name)

    def attributes(self, module, title, called, names):
        inside = title + "." if title else ""
        found = {}
        for home in (module._modules, module._parameters, module._buffers):
            for name, value in home.items():
                self.seen.append((home, name, value))
                found[name] = ("object", self.object(value, inside + name, called)) if home is module._modules and value is not None else \
                    value if value is None else ("tensor", self.tensor(value, inside + name))
        self.seen.append((module, "training", module.training))
        constants = {}
        for klass in reversed(type(module).__mro__[:-2]):  # not of Module and object
            constants.update(vars(klass))
        constants.update((k, v) for k, v in vars(module).items() if k not in ("_before", "_after", "_around", "_parameters", "_buffers", "_modules", "_transient", "_hooks_of_state"))
        methods = dict(names)
        names.clear()
        names.update(found)  # the items of a container come first
        names.update(methods)
        for name, value in constants.items():
            if isinstance(value, staticmethod) and name in called and name not in names:
                names[name] = self.meaning(value.__func__, name)
            value = value.__func__ if isinstance(value, staticmethod) else value
            of_class = isinstance(value, (types.FunctionType, classmethod)) and not _is_ours(value.__module__) and vars(module).get(name) is not value
            if name in names or name.startswith("__") or of_class or name not in called and isinstance(value, types.FunctionType):
                continue
            if isinstance(value, property) or hasattr(value, "_tensord_export"):
                continue
            if name not in called and hasattr(value, "param_groups"):
                continue  # its state need not be made
            meaning = self.value(value, inside + name)
            if meaning is _UNKNOWN and name in called and not callable(value):  # it is there, as hasattr() says
                meaning = "refused", f"a program knows no {type(value).__name__} as an attribute, which '{inside}{name}' is; give it as an argument"
            if meaning is not _UNKNOWN:
                names[name] = meaning

    def cells(self, module, title):
        """A recurrent layer's weights: a list of layers, each a list of directions."""
        def named(name, value):
            return None if value is None else ("tensor", self.tensor(value, title + "." * bool(title) + name))

        layers = {}
        for k in range(module.num_layers):
            ways = {}
            for way in range(module._ways):
                weights = {name: named(f"{name}{k}{way}", value) for name, value in zip(("w_ih", "w_hh", "b_ih", "b_hh"), module._weights(k, way))}
                self.objects.append((0, 0, title, {**weights, "backwards": bool(way)}))
                ways[str(way)] = "object", len(self.objects) - 1
            self.objects.append((1, len(ways), title, ways))
            layers[str(k)] = "object", len(self.objects) - 1
        self.objects.append((1, len(layers), title, layers))
        return "object", len(self.objects) - 1

    def methods(self, module, number, wanted, names):
        """The functions of its class that are called, into names; all names of attributes that they use."""
        known = {}
        for klass in reversed(type(module).__mro__):
            known.update({k: v for k, v in vars(klass).items() if isinstance(plain(v), types.FunctionType)})
            known.update({k: v.fget for k, v in vars(klass).items() if isinstance(v, property) and v.fget})
        todo, used = ["forward", *wanted], {}
        while todo:
            name = todo.pop()
            own = name == "forward" or name in getattr(module, "_programs", ())
            if name in names or name not in known or (not own and _is_ours(plain(known[name]).__module__)):
                continue
            if hasattr(known[name], "_tensord_refused"):
                names[name] = "refused", known[name]._tensord_refused
                continue
            names[name] = self.method(module, number, plain(known[name]), name)
            if isinstance(getattr(type(module), name, None), property):
                names[name] += _PROPERTY,
            more = self._used.get(plain(known[name]), {})
            used.update(more)
            todo += [*more]
        return tuple(dict.fromkeys([*wanted, *used]))

    def method(self, module, number, function, name):
        if name == "forward" and _is_ours(function.__module__):
            layer = next((k.__name__ for k in type(module).__mro__ if _is_ours(k.__module__)), "")
            if layer in _LAYERS:
                return "function", -1, "layer_" + layer, number
            if layer == "TripletMarginWithDistanceLoss":
                return self.triplets(module, number)
            if layer.startswith("MaxUnpool"):
                call = "call(input, indices, self.kernel_size, self.stride, self.padding, output_size)"
                return self.layer("input, indices, output_size: list[int] | None = None", call, module._function, number)
            edges = getattr(getattr(module, "_function", None), "edges", None)
            if edges is not None:
                return self.padded(module, edges, number)
            if "defaults" in function.__code__.co_freevars:
                return self.plain_layer(function, number)
            if isinstance(getattr(module, "_names", None), list) and hasattr(module, "reduction"):
                return self.loss(module, function, number)
            if getattr(module, "_turned", False):
                call = "call(input, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation)"
                return self.layer("input, output_size: list[int] | None = None", call, module._function, number,
                                  "assert output_size is None, 'a transposed convolution of a program has no output_size'")
        return self.function(function, number)

    def layer(self, takes, call, function, number, before="pass"):
        """A forward() of one call."""
        return self.text(f"def forward(self, {takes}):\n    {before}\n    return {call}\n", {"call": ("op", "nn.functional." + function.__name__)}, number)

    def padded(self, module, edges, number):
        """A convolution of what has other edges than zeros."""
        around = module._function
        call = f"call(pad(input, {list(edges)}, {around.mode!r}), self.weight, self.bias, self.stride, 0, self.dilation, self.groups)"
        names = {"call": ("op", "nn.functional." + around.function.__name__), "pad": ("op", "nn.functional.pad")}
        return self.text(f"def forward(self, input):\n    return {call}\n", names, number)

    def triplets(self, module, number):
        """A loss by a distance of one's own."""
        own = module.distance_function
        distance = ("op", "pairwise_distance") if own is None else self.meaning(own, "distance_function")
        names = {"distance": distance, "minimum": ("op", "minimum"), "clamp": ("op", "clamp")}
        return self.text(_TRIPLETS, names, number)

    def loss(self, module, forward, number):
        """nn/losses.py: tensors as they come, then its attributes by name."""
        tensors = ", ".join(forward.__code__.co_varnames[1 : forward.__code__.co_argcount])
        named = "".join(f", {name}=self.{name}" for name in (*module._names, "reduction"))
        return self.layer(tensors, f"call({tensors}{named})", type(module)._function, number)

    def plain_layer(self, forward, number):
        """A layer whose attributes are a function's arguments (nn/_plain_layers.py)."""
        defaults, layer = _value_of(forward, "defaults")[1], _value_of(forward, "function")[1]
        inner = _value_of(layer, "function")[1] if "function" in layer.__code__.co_freevars else None
        if inner is None:
            return "refused", "a program has no such layer; write what it does"
        names = [*defaults, "training"] if "training" in layer.__code__.co_names else defaults  # of a dropout
        arguments = "".join(f", {name}=self.{name}" for name in names)
        return self.layer("input", f"call(input{arguments})", inner, number)

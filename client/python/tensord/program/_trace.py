"""Programs of what a function does with examples: tensord.jit.trace and trace_module."""
import copy
import difflib
import functools
import inspect
import re
import sys
import warnings
from typing import Any, Iterable, Mapping

from tensord import _C
from tensord.core import _overloads
from tensord.program._published import Named
from tensord.program._module_base import ScriptModule
from tensord.program._jit_api import tracing
from tensord.program._parts import Part, state_of, transient_of
from tensord.program._scripted import ScriptFunction
from tensord.program._trees import LEAF, flatten, rebuild, to_json, with_trees
from tensord.nn.module import Module


_LEAF = LEAF  # as pickles of before know it


class TracerWarning(Warning):
    """What a trace does not follow: a number that is taken from a traced tensor is a constant of the program, as is a size that is used as a plain number,
    and what is decided by either."""


class TracingCheckError(Exception):
    """A second trace is another program than the first: what the function does is not decided by its ops alone."""

    def __init__(self, lines, extra_msg=None):
        self.message = "Tracing failed sanity checks!\n"
        if extra_msg is not None:
            self.message += extra_msg + "\n"
        if lines:
            self.message += "ERROR: Graphs differed across invocations!\n\tGraph diff:\n" + "".join(f"\t\t{line}\n" for line in lines)
        super().__init__(self.message)


def _own(x):
    """A leaf with the values of an example that lies as it does, so that what is written to it stays here, and what is copied only for its layout is
    copied in the trace, too."""
    own = x.detach()
    span = 1 + sum((n - 1) * step for n, step in zip(own.shape, own.stride()))
    if own.is_contiguous() or not own.numel() or span > 16 * own.numel() + 1024:  # what lies far apart is packed
        return own.clone().requires_grad_(x.requires_grad)
    packed = own.as_strided((span,), (1,), own.storage_offset()).clone()
    return packed.as_strided(own.shape, own.stride(), 0).detach().requires_grad_(x.requires_grad)


# ---- what comes out

class TracedFunction(Named):
    """What a function did, as a program; made by trace(). Call it as the function, with tensors where the examples had such."""

    graph: str
    _captured: "tuple[_C.Tensor, ...]" = ()
    _called: "tuple[str, ...]" = ()  # the names of those
    _argument_names: "list[str]" = []
    _program = None
    _takes: Any
    _gives: Any
    _signature: "inspect.Signature | None" = None

    def _asks(self, args, kwargs):
        if kwargs:
            if self._signature is None:
                raise TypeError("this program takes its arguments by place")
            args = self._signature.bind(*args, **kwargs).args
        return self._daemons(), *with_trees(args, self._takes, self._gives)

    def _daemons(self):
        return self._made(self.graph, self._captured)

    def publish(self, name, replace=False, copy=False):
        """Publish the program, as ScriptFunction.publish does. Whoever opens it gives and is given its tensors one by one, without the
        lists and dicts that they stand in here."""
        super().publish(name, replace, copy)

    def __getstate__(self):
        """Without what the daemon has of it, which is given to it again, and without the function that was traced."""
        return {name: value for name, value in vars(self).items() if name not in ("_program", "__wrapped__")}

    def _methods_by_name(self):
        return {"forward": self}

    def _parts(self):
        parts = []
        for name, program in self._methods_by_name().items():
            call = {"takes": to_json(program._takes), "gives": to_json(program._gives), "names": program._argument_names}
            parts.append(Part(name, program.graph, dict(zip(program._called, program._captured)), call))
        return parts

    def __repr__(self):
        return f"<tensord.jit.TracedFunction {getattr(self, '__qualname__', '')}>"


class TracedModule(TracedFunction, ScriptModule):
    """What a module did, as a program; made by trace(). Its parameters and buffers are the module's own."""

    def __init__(self, module):
        Module.__init__(self)
        for home in ("_parameters", "_buffers", "_modules", "_transient", "training"):
            self.__dict__[home] = module.__dict__[home]
        self.__dict__["_original_name"] = type(module).__name__

    def forward(self, *args, **kwargs):
        return TracedFunction.__call__(self, *args, **kwargs)

    def _methods_by_name(self):
        methods = {name: p for name, p in vars(self).items() if isinstance(p, TracedModule)}
        return {"forward": self, **methods} if "graph" in self.__dict__ else methods

    def _state(self):
        return state_of(self), transient_of(self)

    def __deepcopy__(self, memo):
        memo[id(self)] = made = type(self).__new__(type(self))
        made.__dict__.update(copy.deepcopy(self.__getstate__(), memo))
        return made

    def train(self, mode=True):
        """What the module does was recorded: training() or eval() before the trace decide it."""
        return self

    __call__: Any = Module.__call__

    def __repr__(self):
        return f"<tensord.jit.TracedModule of {self.original_name}>"


# ---- the trace

def _names_of(function, n):
    """What the parameters are called, by place."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None, [f"x{k}" for k in range(n)]
    names = [p.name for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return signature, names[:n] + [f"x{k}" for k in range(len(names), n)]


def _whole(file):
    """A call site keeps the end of a long path; the file of a loaded module that ends so has the line to show."""
    if not file.startswith("..."):
        return file
    files = (getattr(m, "__file__", None) for m in list(sys.modules.values()))
    return next((f for f in files if isinstance(f, str) and f.endswith(file[3:])), file)


def _tell(text):
    where, _, words = text.partition(": ")
    how, _, place = where.partition(", ")
    file, _, line = place.rpartition(":")
    warnings.warn_explicit(f"{how}: {words}", TracerWarning, _whole(file) or "<trace>", int(line) if line.isdigit() else 0)


def _record(call, examples, names, known, into):
    """Runs call(*examples) and makes `into` its program."""
    leaves: "list[_C.Tensor]" = []
    paths: "list[str]" = []
    takes = tuple, [flatten(value, leaves, "inputs", name, paths) for value, name in zip(examples, names)]
    own = [_own(x) for x in leaves]
    trace = _C._Trace(tuple(own), tuple(paths), known)
    tracing.now = True
    try:
        result = call(*rebuild(takes, iter(own)))
        outputs: "list[_C.Tensor]" = []
        gives = flatten(result, outputs, "results", "y")
        for text in trace.warnings():
            _tell(text)
        into.graph, captured, called = trace.end(tuple(outputs))
    finally:
        tracing.now = False
        del trace
    into._captured = tuple(known.get(name, tensor) for name, tensor in zip(called, captured))
    into._takes, into._gives, into._called = takes, gives, called


def _alike(a, b, tolerance):
    a, b = a.detach(), b.detach()
    inexact = a.dtype.is_floating_point or a.dtype.is_complex
    return _overloads.allclose(a, b, tolerance, tolerance, equal_nan=True) if inexact else _overloads.equal(a, b)


def _differs(ours, theirs, tolerance):
    """The number of the first result that is another one, and how; None: all are alike."""
    for k, (a, b) in enumerate(zip(ours, theirs)):
        if tuple(a.shape) != tuple(b.shape) or a.dtype != b.dtype:
            return k, f"it is {b.dtype} {tuple(b.shape)}, and that of the program {a.dtype} {tuple(a.shape)}"
        if not _alike(a, b, tolerance):
            return k, f"they differ by more than {tolerance}"
    return None


def _results_of(call, examples, state):
    """Both draw the same random numbers, if the program's seed is known."""
    leaves: "list[_C.Tensor]" = []
    shape = flatten(tuple(examples), leaves, "inputs", "x")
    results: "list[_C.Tensor]" = []
    if state is not None:
        _C._set_random_state(*state)
    flatten(call(*rebuild(shape, iter([_own(x) for x in leaves]))), results, "results", "y")
    return results


def _plain_lines(graph):
    """Its nodes, without their places."""
    return [re.sub(r" # \S+:\d+:\d+$", "", line) for line in graph.splitlines()]


def _check_again(program, call, examples, names, known, why=None):
    """Where a second trace is another program it is this that is wrong, and what is to be told."""
    again = TracedFunction()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TracerWarning)  # they were told
        _record(call, examples, names, known, again)
    first, second = map(_plain_lines, (program.graph, again.graph))
    if first != second:
        raise TracingCheckError([line.rstrip() for line in difflib.ndiff(first, second) if line[:1] != "?"], why)


def _check(program, call, inputs: "Iterable[Any]", tolerance, names, known):
    """Runs both on inputs, and tells where they differ."""
    asked = functools.partial(TracedFunction.__call__, program)
    for examples in inputs:
        state = _C._random_state()
        theirs = _results_of(call, examples, state)
        _C.sync()
        try:
            bad = _differs(_results_of(asked, examples, state), theirs, tolerance)
        except _C.Error as e:
            _check_again(program, call, examples, names, known, f"the traced program fails where the function does not: {e}")
            warnings.warn(f"the traced program fails where the function does not: {e}", TracerWarning, stacklevel=4)
            continue
        if bad is None:
            continue
        _check_again(program, call, examples, names, known)
        other = _differs(_results_of(call, examples, state), theirs, tolerance)
        why = "; the function itself gives something else each time: did you forget .eval() of a model?" if other else ""
        warnings.warn(f"result {bad[0]} of the traced program is not that of the function: {bad[1]}{why}", TracerWarning, stacklevel=4)


def _as_examples(given):
    return (given,) if isinstance(given, (_C.Tensor, dict)) else tuple(given)


def _traced(call, function, examples, known, into, checks, tolerance):
    examples = _as_examples(examples)
    into._signature, names = _names_of(function, len(examples))
    into._argument_names = names
    _record(call, examples, names, known, into)
    if checks is not None:
        _check(into, call, [_as_examples(c) for c in checks] or [examples], tolerance, names, known)
    return into


TopLevelTracedModule = TracedModule  # PyTorch's name


def _in_order(func, given):
    """Examples by name, by place."""
    call = func.forward if isinstance(func, Module) else func
    bound = inspect.signature(call).bind(**given)
    if bound.kwargs:
        raise TypeError(f"trace(): '{next(iter(bound.kwargs))}' of example_kwarg_inputs stands behind one that is not given; give that one too")
    return bound.args


def trace(func, example_inputs=None, check_trace=True, *, check=True, check_inputs=None, check_tolerance=1e-5, strict=True, example_kwarg_inputs=None):
    """A program of what a function or a module does with example inputs (a Tensor, or a tuple of arguments).

    It is run once, with copies of the examples, and every op that it asks for is recorded: also those in place, views, what is done under
    no_grad(), and random ones. Tensors that are no inputs stay what they are: a module's parameters are shared with the program, which sees
    what training writes to them. What Python decides meanwhile is decided for ever: of each value that is taken out of a traced tensor
    (`if x.sum() > 0`, `x.item()`) a TracerWarning tells, with its line; script() follows such. Sizes are those of the call, as is what is
    worked out of them: `x.view(x.size(0), -1)`, `x[:, :x.size(1) // 2]`, `td.zeros(x.shape[0])`. Where one is used as a plain number of
    Python (`if x.size(0) > 2`, `range(x.size(0))`, `int()`, `len(x)`), it is decided, and a TracerWarning tells.

    Arguments and results are tensors, and lists, tuples and dicts of tensors. With `check` (or `check_trace`) the program is run on the examples,
    or on each of `check_inputs`, and compared with the function; where they differ by more than `check_tolerance` a TracerWarning tells;
    where a second trace is another program, as one that went another way, it is a TracingCheckError. `example_kwarg_inputs`: the examples by their names.
    `strict` is taken for PyTorch's sake. A backward, and requires_grad_() of a result, cannot be part of a trace: script() takes them."""
    if isinstance(func, (ScriptFunction, TracedFunction)) or hasattr(func, "_original"):
        return func  # a program already
    if example_kwarg_inputs is not None:
        if example_inputs is not None:
            raise TypeError("trace() takes example_inputs or example_kwarg_inputs, not both")
        example_inputs = _in_order(func, example_kwarg_inputs)
    elif example_inputs is None:
        raise TypeError("trace() takes example_inputs, or example_kwarg_inputs")
    checks = list(check_inputs or ()) if check and check_trace else None
    if isinstance(func, Module):
        return _of_module(func, func, "forward", example_inputs, checks, check_tolerance)
    if not callable(func):
        raise TypeError(f"trace() takes a function or a module, not {type(func).__name__}")
    into = TracedFunction()
    functools.update_wrapper(into, func, updated=())
    home = getattr(func, "__self__", None)
    return _traced(func, func, example_inputs, _known(home) if isinstance(home, Module) else {}, into, checks, check_tolerance)


def _known(module):
    return {**dict(module.named_buffers()), **dict(module.named_parameters())}


def _of_module(module, call, method, examples, checks, tolerance):
    return _traced(call, getattr(module, method), examples, _known(module), TracedModule(module), checks, tolerance)


def trace_module(mod: Module, inputs: "Mapping[str, Any]", check_trace=True, *, check=True, check_inputs=None, check_tolerance=1e-5, strict=True):
    """The same of several methods of a module: `inputs` has the example inputs of each by its name. What comes back has programs of these names;
    calling it calls that of 'forward'. `check_inputs`: a list of such dicts."""
    if not isinstance(mod, Module) or not inputs:
        raise TypeError("trace_module() takes a module, and a dict: the names of its methods, and example inputs for each")
    made = {}
    for method, examples in inputs.items():
        checks = [c[method] for c in check_inputs or ()] if check and check_trace else None
        made[method] = _of_module(mod, mod if method == "forward" else getattr(mod, method), method, examples, checks, check_tolerance)
    whole = made.get("forward") or TracedModule(mod)
    for method, program in made.items():
        if method != "forward":
            whole.__dict__[method] = program
    return whole

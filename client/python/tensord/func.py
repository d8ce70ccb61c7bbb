"""Functions of functions, with the names of torch.func: derivatives of pure functions of tensors, or of trees of them, and modules called as functions.

Derivatives are computed backwards: those forwards (jvp, jacfwd, linearize, hessian's outer one) by a second backward through the first. vmap() calls the
function once for each place of the batch and stacks what comes out.

Inside of each other these differentiate through all. What the outermost gives is a constant, unless an argument of it requires grad: then it is recorded as
anything else is, so that backward() goes on from there. A tensor that the function reaches otherwise than by its arguments is a constant in any case;
functional_call() makes a module's parameters arguments.
"""

import threading
import typing as _typing
from typing import Any

import tensord as td
from tensord import _C
from tensord.core import _absent

__all__ = ["functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "replace_all_batch_norm_modules_", "stack_module_state",
           "vjp", "vmap"]


class _Depth(threading.local):
    of_each_other = 0


_depth = _Depth()


class _Inside:
    """Within a derivative: `connected` says whether what comes out shall be differentiated in its turn."""

    def __init__(self, trees):
        self.connected = _depth.of_each_other > 0 or td.is_grad_enabled() and any(x.requires_grad for x in _tensors(trees))

    def __enter__(self):
        _depth.of_each_other += 1
        self._mode = td.enable_grad()
        self._mode.__enter__()
        return self

    def __exit__(self, *exc):
        _depth.of_each_other -= 1
        self._mode.__exit__(*exc)

    def out(self, tree):
        """What the caller may have of it."""
        return tree if self.connected else _mapped(lambda x: x.detach() if _C.is_tensor(x) else x, tree)


# ---- trees: tensors in dicts, lists, tuples and named tuples


def _leaves(tree):
    if isinstance(tree, dict):
        return [x for v in tree.values() for x in _leaves(v)]
    return [x for v in tree for x in _leaves(v)] if isinstance(tree, (list, tuple)) else [tree]


def _tensors(tree):
    return [x for x in _leaves(tree) if _C.is_tensor(x)]


def _filled(tree, leaves):
    """The same tree with other leaves, an iterator of them."""
    if isinstance(tree, dict):
        return type(tree)((k, _filled(v, leaves)) for k, v in tree.items())
    if isinstance(tree, (list, tuple)):
        parts = [_filled(v, leaves) for v in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return next(leaves)


def _mapped(function, tree):
    return _filled(tree, iter([function(x) for x in _leaves(tree)]))


def _all_tensors(tree, what):
    leaves = _leaves(tree)
    for x in leaves:
        if not _C.is_tensor(x):
            raise _C.DTypeError(f"{what} must be tensors, or dicts, lists and tuples of them, but there is {_C._a_type(x)}")
    return leaves


# ---- derivatives


def _fresh(x, what):
    """To be differentiated by: a view, where an outer derivative, or backward(), goes on from; else a leaf."""
    if not (x.is_floating_point() or x.is_complex()):
        raise _C.DTypeError(f"{what}: derivatives are by tensors of floats, not {x.dtype}")
    return x.view(x.shape) if x.requires_grad else x.detach().requires_grad_()


def _by(args, argnums, what):
    """(the arguments with fresh tensors at argnums, the trees there)"""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not numbers or len(set(n % max(len(args), 1) for n in numbers)) < len(numbers):
        raise _C.InvalidError(f"{what}: argnums must be different numbers, and not none: {argnums}")
    args = list(args)
    for n in numbers:
        if not -len(args) <= n < len(args):
            raise _C.InvalidError(f"{what}: argnums has {n}, but there are {len(args)} positional arguments")
        _all_tensors(args[n], f"{what}: arguments that are differentiated by")
        args[n] = _mapped(lambda x: _fresh(x, what), args[n])
    return args, args[argnums] if isinstance(argnums, int) else tuple(args[n] for n in numbers)


def _grads(outputs, inputs, directions, connected):
    """Directions times the derivatives; zeros where an input takes no part."""
    used = [(o, v) for o, v in zip(outputs, directions) if o.requires_grad]
    if not used:
        return [td.zeros_like(x) for x in inputs]
    found = td.autograd.grad([o for o, _ in used], inputs, [v for _, v in used], retain_graph=True, create_graph=connected, allow_unused=True)
    return [td.zeros_like(x) if g is None else g for g, x in zip(found, inputs)]


def _called(func, args, kwargs, has_aux, what):
    """(output, aux)"""
    if not has_aux:
        return func(*args, **kwargs), None
    both = func(*args, **kwargs)
    if not isinstance(both, tuple) or len(both) != 2:
        raise _C.Error(f"{what}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return both


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that gives (the gradient of func by an argument, what func gives); func gives one number, as a tensor.

    argnums: which argument, or a tuple of several; each may be a tree of tensors. has_aux: func gives (number, aux), and what is made
    (gradient, (number, aux)). Raises Error where func gives no number, DTypeError for arguments that are no floats.
    """

    def differentiated(*args, **kwargs):
        what = "grad_and_value(f)(*args)"
        with _Inside((args, kwargs)) as inside:
            args, by = _by(args, argnums, what)
            value, aux = _called(func, args, kwargs, has_aux, what)
            if not _C.is_tensor(value):
                raise _C.Error(f"{what}: Expected f(*args) to return a tensor, got {_C._a_type(value)}")
            if value.ndim:
                raise _C.Error(f"{what}: Expected f(*args) to return a scalar tensor, got tensor with {value.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?")
            made = _filled(by, iter(_grads([value], _leaves(by), [td.ones_like(value)], inside.connected)))
            return inside.out(made), (inside.out(value), inside.out(aux)) if has_aux else inside.out(value)

    return differentiated


def grad(func, argnums=0, has_aux=False):
    """A function that gives the gradient of func by an argument; see grad_and_value(). has_aux: it gives (gradient, aux)."""
    both = grad_and_value(func, argnums, has_aux)

    def gradient(*args, **kwargs):
        made, value = both(*args, **kwargs)
        return (made, value[1]) if has_aux else made

    return gradient


def vjp(func, *primals, has_aux=False):
    """(func(*primals), a function that gives a tuple: its argument, like the output, times the derivative by each of the primals), and aux if there is one."""
    with _Inside(primals) as inside:
        for p in primals:
            _all_tensors(p, "vjp(f, *primals): primals")
        xs = _mapped(lambda x: _fresh(x, "vjp(f, *primals)"), primals)
        output, aux = _called(func, xs, {}, has_aux, "vjp(f, *primals)")
        ends = _all_tensors(output, "vjp(f, *primals): outputs of f")

    def back(cotangents):
        with _Inside((primals, cotangents)) as now:
            given = _all_tensors(cotangents, "vjp: cotangents")
            if [v.shape for v in given] != [o.shape for o in ends]:
                raise _C.ShapeError(f"vjp: cotangents have the shapes {[v.shape for v in given]}, the outputs {[o.shape for o in ends]}")
            return now.out(_filled(primals, iter(_grads(ends, _leaves(xs), given, now.connected))))

    return (inside.out(output), back, inside.out(aux)) if has_aux else (inside.out(output), back)


def _forwards(func, primals, has_aux, what, inside):
    """(xs, output, aux, forth): forth(tangents) gives the derivative along them, for each of the outputs' tensors."""
    xs = _mapped(lambda x: _fresh(x, what), primals)
    output, aux = _called(func, xs, {}, has_aux, what)
    ends = _all_tensors(output, f"{what}: outputs of f")
    zeros = [td.zeros_like(o).requires_grad_() for o in ends]
    back = _grads(ends, _leaves(xs), zeros, True)  # linear in zeros, so its derivative by them is the one forwards

    def forth(tangents, connected):
        return _grads(back, zeros, tangents, connected)

    return xs, output, aux, forth


def _tangents(primals, tangents, what):
    given, have = _all_tensors(tangents, f"{what}: tangents"), _all_tensors(primals, f"{what}: primals")
    if [v.shape for v in given] != [x.shape for x in have]:
        raise _C.ShapeError(f"{what}: Expected primals and tangents to have the same structure and shapes, which are {[x.shape for x in have]} and {[v.shape for v in given]}")
    return given


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """(func(*primals), its derivative along the tangents), and aux if there is one; primals and tangents are tuples, alike.

    strict: raises Error when an output depends on no primal.
    """
    what = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise _C.Error(f"{what}: Expected primals and tangents to be tuples. E.g. it should be valid to call f(*primals).")
    with _Inside((primals, tangents)) as inside:
        given = _tangents(primals, tangents, what)
        _, output, aux, forth = _forwards(func, primals, has_aux, what, inside)
        if strict and not all(o.requires_grad for o in _leaves(output)):
            raise _C.Error(f"{what}: the output of f is independent of the inputs. This is not allowed with strict=True.")
        made = _filled(output, iter(forth(given, inside.connected)))
        return (inside.out(output), inside.out(made), inside.out(aux)) if has_aux else (inside.out(output), inside.out(made))


def linearize(func, *primals):
    """(func(*primals), a function of tangents that gives the derivative along them), of which the second calls func no more."""
    what = "linearize(f, *primals)"
    with _Inside(primals) as inside:
        _all_tensors(primals, f"{what}: primals")
        _, output, _, forth = _forwards(func, primals, False, what, inside)

    def along(*tangents):
        with _Inside((primals, tangents)) as now:
            return now.out(_filled(output, iter(forth(_tangents(primals, tangents, what), now.connected))))

    return inside.out(output), along


def _units(x):
    """Tensors like x with a 1 at one place."""
    eye = td.eye(x.numel(), dtype=x.dtype, device=x.device)
    return [row.reshape(x.shape) for row in eye.unbind(0)]


def _stacked(rows, size, like):
    """Rows as one tensor of size + like's shape."""
    return td.stack(rows).reshape(size + like.shape) if rows else td.zeros(size + like.shape, dtype=like.dtype, device=like.device)


def _chunks(chunk_size):
    if chunk_size is not None and (not isinstance(chunk_size, int) or chunk_size <= 0):
        raise _C.InvalidError(f"chunk_size should be greater than 0, got {chunk_size}")


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None):
    """A function that gives the derivative of each output by each argument of argnums, row by row: tensors of output.shape + input.shape.

    They stand in the tree of the output, and there in that of the argument. chunk_size changes no number.
    """
    _chunks(chunk_size)

    def jacobian(*args, **kwargs):
        what = "jacrev(f)(*args)"
        with _Inside((args, kwargs)) as inside:
            args, by = _by(args, argnums, what)
            output, aux = _called(func, args, kwargs, has_aux, what)
            xs, made = _leaves(by), []
            for o in _all_tensors(output, f"{what}: outputs of f"):
                rows = [_grads([o], xs, [unit], inside.connected) for unit in _units(o)]
                made.append(_filled(by, iter([_stacked([r[k] for r in rows], o.shape, x) for k, x in enumerate(xs)])))
            result = inside.out(_filled(output, iter(made)))
            return (result, inside.out(aux)) if has_aux else result

    return jacobian


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """jacrev(), column by column: sooner ready where there are more outputs than inputs."""
    _random(randomness)

    def jacobian(*args, **kwargs):
        what = "jacfwd(f)(*args)"
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        with _Inside((args, kwargs)) as inside:
            _by(args, argnums, what)
            args = list(args)

            def at(*some):
                for n, x in zip(numbers, some):
                    args[n] = x
                return func(*args, **kwargs)

            by = tuple(args[n] for n in numbers)
            xs, output, aux, forth = _forwards(at, by, has_aux, what, inside)
            leaves, ends = _leaves(xs), _leaves(output)
            columns: list[list[Any]] = [[] for _ in ends]  # of each output, by each input
            for k, x in enumerate(leaves):
                zeros = [td.zeros_like(y) for y in leaves]
                found = [forth([*zeros[:k], unit, *zeros[k + 1 :]], inside.connected) for unit in _units(x)]
                for e, o in enumerate(ends):
                    whole = _stacked([column[e] for column in found], x.shape, o)
                    columns[e].append(whole.permute(*range(x.ndim, x.ndim + o.ndim), *range(x.ndim)))
            tree = xs[0] if isinstance(argnums, int) else xs
            result = inside.out(_filled(output, iter([_filled(tree, iter(c)) for c in columns])))
            return (result, inside.out(aux)) if has_aux else result

    return jacobian


def hessian(func, argnums=0):
    """A function that gives the second derivatives of func by an argument: tensors of output.shape + input.shape + input.shape."""
    return jacfwd(jacrev(func, argnums), argnums)


# ---- batches


def _random(randomness):
    if randomness not in ("error", "different", "same"):
        raise _C.Error(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")


def _dims(dims, tree, what):
    """For each leaf of the tree the dimension that is mapped, or None."""
    if dims is None or isinstance(dims, int) and not isinstance(dims, bool):
        return [dims] * len(_leaves(tree))
    if isinstance(dims, dict) and isinstance(tree, dict) and dims.keys() == tree.keys():
        return [d for k in tree for d in _dims(dims[k], tree[k], what)]
    if isinstance(dims, (list, tuple)) and isinstance(tree, (list, tuple)) and len(dims) == len(tree):
        return [d for a, b in zip(dims, tree) for d in _dims(a, b, what)]
    raise _C.InvalidError(f"vmap: {what} is not compatible with the structure it is for: {dims}")


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """A function over a batch: func for each place of a dimension of its arguments, and what it gives stacked. One call a place, in their order.

    in_dims: which dimension of each argument (None: it is the same for all), or a tree of such; out_dims: where it goes (None: it is the same for all, and is given once). Arguments by their
    names are the same for all. randomness: "error" refuses a function that draws random numbers, "different" draws for each place, "same" the same for all.
    Raises InvalidError for dimensions that do not fit, sizes that differ, and none at all. chunk_size changes no number.
    """
    _random(randomness)
    _chunks(chunk_size)

    def mapped(*args, **kwargs):
        dims = _dims(in_dims if isinstance(in_dims, int) else tuple(in_dims), args, "in_dims") 
        leaves = _leaves(args)
        sizes: "dict[int, None]" = {}
        for x, d in zip(leaves, dims):
            if d is not None and not _C.is_tensor(x):
                raise _C.InvalidError(f"vmap: Got in_dim={d} for an input but the input is of type {type(x).__name__}. We cannot vmap over non-Tensor arguments, "
                                      "please use None as the respective in_dim")
            if d is not None and not -x.ndim <= d < x.ndim:
                raise _C.InvalidError(f"vmap: Got in_dim={d} for some input, but that input is a Tensor of dimensionality {x.ndim} so expected in_dim to satisfy "
                                      f"{-x.ndim} <= in_dim < {x.ndim}.")
            if d is not None:
                sizes[x.shape[d]] = None
        if len(sizes) != 1:
            raise _C.InvalidError("vmap: at least one input must be mapped over" if not sizes else
                                  f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {list(sizes)} for the mapped dimension")
        (n,) = sizes
        empty = not n
        if empty:  # what the function gives for zeros tells shapes, and is left out
            leaves, n = [x if d is None else td.zeros(*x.shape[:d % x.ndim], 1, *x.shape[d % x.ndim + 1:], dtype=x.dtype, device=x.device) for x, d in zip(leaves, dims)], 1
        rows = [[x] * n if d is None else x.unbind(d) for x, d in zip(leaves, dims)]
        outs, start = [], _state() if randomness != "different" else None
        for k in range(n):
            if randomness == "same" and k:
                _C._set_random_state(*start)
            outs.append(func(*_filled(args, iter([row[k] for row in rows])), **kwargs))
        if randomness == "error" and _state() != start:
            raise _C.Error("vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness flags on vmap or "
                           "perform the randomness operation out of vmap")
        columns = [_all_tensors(o, "vmap(f): outputs of f") for o in outs]
        places = _dims(out_dims, outs[0], "out_dims")
        stacked = [_one_for_all(c) if d is None else td.stack(list(c), d) for c, d in zip(zip(*columns), places)]
        if empty:
            stacked = [x if d is None else x.narrow(d, 0, 0) for x, d in zip(stacked, places)]
        return _filled(outs[0], iter(stacked))

    return mapped


def _one_for_all(column):
    """What out_dims=None takes: a result on which no place has an influence."""
    if not all(x is column[0] or td.equal(x, column[0]) for x in column[1:]):
        raise _C.InvalidError("vmap: out_dims has a None for an output that is another for each place of the batch")
    return column[0]


def _state():
    from tensord.core._generators import _session

    return _session()


# ---- modules


def _homes(module):
    """{name: (the dict that holds it, its key)} of all parameters and buffers."""
    found = {}
    for prefix, part in module.named_modules():
        for home in (part._parameters, part._buffers):
            found.update({prefix + "." * bool(prefix) + name: (home, name) for name, x in home.items() if x is not None})
    return found


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """What module(*args, **kwargs) gives with other parameters and buffers, by their names, in place of its own: one dict, or several.

    One that stands in several places is replaced in all, unless tie_weights is False. Names that it has not are no matter. A buffer that the call assigns
    anew is put into its dict. Raises InvalidError for a name in several dicts, and for two values of one that is tied; strict: Error for names that it has
    not, and for those that are missing.
    """
    dicts = [parameter_and_buffer_dicts] if isinstance(parameter_and_buffer_dicts, dict) else list(parameter_and_buffer_dicts)
    given: dict = {}
    for d in dicts:
        if twice := sorted(given.keys() & d.keys()):
            raise _C.InvalidError(f"{twice} appear in multiple dictionaries; behavior of functional call is ambiguous")
        given.update(d)
    homes = _homes(module)
    unexpected, ties = [k for k in given if k not in homes], {}
    for name, (home, key) in homes.items():
        ties.setdefault(id(home[key]), []).append(name)
    tied = [names for names in ties.values() if tie_weights and any(n in given for n in names)]
    for names in tied:
        values = {id(given[n]): given[n] for n in names if n in given}
        if len(values) > 1:
            raise _C.InvalidError(f"functional_call got multiple values for keys {names}, which are tied. Consider using tie_weights=False")
    missing = [k for k in homes if k not in given and not any(k in names for names in tied)]
    if strict and (missing or unexpected):
        raise _C.Error(f"Error(s) in functional_call for {type(module).__name__}: missing: {missing}, unexpected: {unexpected}")
    for name in unexpected:
        del given[name]
    for names in tied:
        value = next(given[n] for n in names if n in given)
        given.update(dict.fromkeys(names, value))
    before = {name: homes[name][0][homes[name][1]] for name in given}
    try:
        for name, value in given.items():
            homes[name][0][homes[name][1]] = value
        return module(*(() if args is None else args if isinstance(args, tuple) else (args,)), **(kwargs or {}))
    finally:
        for name, own in before.items():
            home, key = homes[name]
            for d in dicts:
                if name in d and home.get(key) is not given[name]:
                    d[name] = home.get(key)
            home[key] = own


def stack_module_state(models):
    """(parameters, buffers) of modules of one class, each a dict of stacked tensors, for vmap() over functional_call(). Raises Error where they are not alike."""
    models = list(models)
    if not models:
        raise _C.Error("stack_module_state: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise _C.Error("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(m) for m in models}) > 1:
        raise _C.Error("stack_module_state: Expected all models to be of the same class.")
    named = [dict(m.named_parameters()) for m in models]
    params = {k: td.stack([each[k].detach() for each in named]).requires_grad_(all(each[k].requires_grad for each in named)) for k in named[0]}
    held = [dict(m.named_buffers()) for m in models]
    return params, {k: td.stack([each[k].detach() for each in held]) for k in held[0]}


def replace_all_batch_norm_modules_(root):
    """Batch norms of the module, and it if it is one, keep no running statistics from here on, which are written in place. Returns it."""
    from tensord.nn._norms import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of("tensord.func")

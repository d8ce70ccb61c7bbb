"""Jacobians, Hessians and products with them, of functions of Python."""

import tensord as td
from tensord import _C


def _as_tuple(x, what, function):
    single = _C.is_tensor(x)
    all_of_them = (x,) if single else tuple(x) if isinstance(x, (tuple, list)) else None
    if all_of_them is None or not all(map(_C.is_tensor, all_of_them)):
        raise _C.DTypeError(f"The {what} given to {function} must be either a Tensor or a tuple of Tensors")
    return all_of_them, single


def _fresh(inputs, create_graph):
    """Inputs to differentiate by: views of the given ones when the result is to be differentiated, else leaves of their own."""
    if create_graph:
        return tuple(x.view(x.shape) if x.requires_grad else x.detach().requires_grad_() for x in inputs)
    return tuple(x.detach().requires_grad_() for x in inputs)


def _kept(results, create_graph):
    return results if create_graph else tuple(r.detach() for r in results)


def _unpacked(results, single):
    return results[0] if single else tuple(results)


def _call(func, inputs, function):
    outputs, single = _as_tuple(func(*inputs), "outputs of the user-provided function", function)
    return outputs, single


def _grad(outputs, inputs, grads, create_graph, strict, retain=True):
    """Zeros where an input takes no part, unless that is an error."""
    used = [(o, g) for o, g in zip(outputs, grads) if o.requires_grad]
    if not used:
        if strict:
            raise _C.AutogradError("Output of the user-provided function is independent of all inputs. This is not allowed in strict mode.")
        return tuple(td.zeros_like(x) for x in inputs)
    results = td.autograd.grad([o for o, _ in used], inputs, [g for _, g in used], retain_graph=retain, create_graph=create_graph, allow_unused=True)
    if strict and any(r is None for r in results):
        raise _C.AutogradError("Output of the user-provided function is independent of an input. This is not allowed in strict mode.")
    return tuple(td.zeros_like(x) if r is None else r for r, x in zip(results, inputs))


def _directions(v, of, what):
    if v is None:
        if len(of) != 1 or of[0].numel() != 1:
            raise _C.InvalidError(f"The vector v can only be None if the user-provided function returns a single Tensor with a single element ({what}).")
        return tuple(td.ones_like(x) for x in of)
    vs, _ = _as_tuple(v, "vector v", what)
    if len(vs) != len(of):
        raise _C.InvalidError(f"v is a tuple of invalid length: should be {len(of)} but got {len(vs)}.")
    for k, (x, y) in enumerate(zip(vs, of)):
        if x.shape != y.shape:
            raise _C.ShapeError(f"Entry {k} of v has invalid size: should be {y.shape} but got {x.shape}.")
    return vs


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(outputs, v times the Jacobian)."""
    with td.enable_grad():
        given, single = _as_tuple(inputs, "inputs", "vjp")
        xs = _fresh(given, create_graph)
        outputs, single_out = _call(func, xs, "vjp")
        with td.set_grad_enabled(create_graph):
            made = _grad(outputs, xs, _directions(v, outputs, "vjp"), create_graph, strict)
    return _unpacked(_kept(outputs, create_graph), single_out), _unpacked(_kept(made, create_graph), single)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(outputs, the Jacobian times v), by two backwards."""
    with td.enable_grad():
        given, _ = _as_tuple(inputs, "inputs", "jvp")
        xs = _fresh(given, create_graph)
        vs = _directions(v, xs, "jvp")
        outputs, single_out = _call(func, xs, "jvp")
        zeros = tuple(td.zeros_like(o, requires_grad=True) for o in outputs)
        forth = _grad(outputs, xs, zeros, True, strict)
        made = _grad(forth, zeros, vs, create_graph, False)
    return _unpacked(_kept(outputs, create_graph), single_out), _unpacked(_kept(made, create_graph), single_out)


def _rows(output, xs, create_graph, strict):
    """For each input a tensor of output.shape + input.shape."""
    flat, made = output.reshape(-1), [[] for _ in xs]
    for k in range(flat.numel()):
        for rows, g in zip(made, _grad((flat[k],), xs, (td.ones_like(flat[k]),), create_graph, strict)):
            rows.append(g)
    return tuple(td.stack(rows).reshape(output.shape + x.shape) if rows else td.zeros(output.shape + x.shape, dtype=x.dtype) for rows, x in zip(made, xs))


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """The derivative of each output by each input: a tensor, or tuples of them."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise _C.InvalidError('Expected strategy to be either "forward-mode" or "reverse-mode"')
    with td.enable_grad():
        given, single = _as_tuple(inputs, "inputs", "jacobian")
        xs = _fresh(given, create_graph)
        outputs, single_out = _call(func, xs, "jacobian")
        made = tuple(_unpacked(_kept(_rows(o, xs, create_graph, strict), create_graph), single) for o in outputs)
    return _unpacked(made, single_out)


def _scalar(outputs, single, function):
    if not single or outputs[0].numel() != 1:
        raise _C.InvalidError(f"The Tensor returned by the function given to {function} should contain a single element")
    return outputs[0].reshape(())


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """The second derivatives of a function that gives one number: a tensor, or tuples of tuples of them."""
    given, single = _as_tuple(inputs, "inputs", "hessian")

    def gradient(*xs):
        outputs, single_out = _call(func, xs, "hessian")
        value = _scalar(outputs, single_out, "hessian")
        return _grad((value,), xs, (td.ones_like(value),), True, strict)

    made = jacobian(gradient, given, create_graph, strict)
    return made[0][0] if single else made


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(output, v times the Hessian)."""
    with td.enable_grad():
        given, single = _as_tuple(inputs, "inputs", "vhp")
        xs = _fresh(given, create_graph)
        vs = _directions(v, xs, "vhp")
        outputs, single_out = _call(func, xs, "vhp")
        value = _scalar(outputs, single_out, "vhp")
        first = _grad((value,), xs, (td.ones_like(value),), True, strict)
        made = _grad(first, xs, vs, create_graph, strict)
    return _kept(outputs, create_graph)[0], _unpacked(_kept(made, create_graph), single)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(output, the Hessian times v)."""
    with td.enable_grad():
        given, single = _as_tuple(inputs, "inputs", "hvp")
        xs = _fresh(given, create_graph)
        vs = _directions(v, xs, "hvp")
        outputs, single_out = _call(func, xs, "hvp")
        value = _scalar(outputs, single_out, "hvp")
        first = _grad((value,), xs, (td.ones_like(value),), True, strict)
        zeros = tuple(td.zeros_like(x, requires_grad=True) for x in xs)
        forth = _grad(first, xs, zeros, True, strict)
        made = _grad(forth, zeros, vs, create_graph, False)
    return _kept(outputs, create_graph)[0], _unpacked(_kept(made, create_graph), single)

"""Gradients against differences of values."""

import tensord as td
from tensord import _C


class GradcheckError(RuntimeError):
    """What gradcheck() found to differ."""


def _tuple(x):
    return (x,) if _C.is_tensor(x) else tuple(x)


def _differentiable(outputs):
    return [o for o in outputs if _C.is_tensor(o) and o.requires_grad]


def _values(fn, inputs):
    with td.no_grad():
        return [o.detach().clone() for o in _tuple(fn(*inputs)) if _C.is_tensor(o)]


def _numerical(fn, inputs, x, outputs_at, eps):
    """Columns: for each element of x what the outputs change by; of complex ones once along the real axis and once along the other."""
    flat, columns = x.data.reshape(-1), []
    for k in range(flat.numel()):
        parts = []
        for step in (eps, eps * 1j) if x.is_complex() else (eps,):
            with td.no_grad():
                place = x.data.view(-1)[k] if x.is_contiguous() else _element(x.data, k)
                before = place.clone()
                place.copy_(before + step)
                high = _values(fn, inputs)
                place.copy_(before - step)
                low = _values(fn, inputs)
                place.copy_(before)
            parts.append([((high[o] - low[o]) / (2 * eps)).reshape(-1) for o in outputs_at])
        columns.append(parts)
    return columns


def _element(x, k):
    index = []
    for size in reversed(x.shape):
        index.append(k % size)
        k //= size
    return x[tuple(reversed(index))]


def _analytical(outputs, o, inputs, at, retain=True):
    """For output o rows, one an element (of complex ones two: by 1 and by 1j), of the gradients of the inputs."""
    out, rows = outputs[o], []
    for k in range(out.numel()):
        parts = []
        for seed in (1, 1j) if out.is_complex() else (1,):
            g = td.zeros(out.numel(), dtype=out.dtype, device=out.device)
            g[k] = seed
            parts.append(td.autograd.grad(out, [inputs[i] for i in at], g.reshape(out.shape), retain_graph=True, allow_unused=True))
        rows.append(parts)
    return rows


def _real(x):
    return complex(x.item())


def _compare(fn, inputs, at, outputs, which, eps, atol, rtol):
    for j, i in enumerate(at):
        columns = _numerical(fn, inputs, inputs[i], which, eps)
        for place, o in enumerate(which):
            rows = _analytical(outputs, o, inputs, at)
            for a in range(outputs[o].numel()):
                for b in range(inputs[i].numel()):
                    for got, want in _pairs(rows[a], columns[b], place, a, b, j, outputs[o].is_complex(), inputs[i].is_complex()):
                        if not abs(got - want) <= atol + rtol * abs(want):
                            return (f"Jacobian mismatch for output {o} with respect to input {i}, element {a} by {b}:\n"
                                    f"numerical:{want}\nanalytical:{got}\n")
    return None


def _pairs(row, column, place, a, b, j, complex_out, complex_in):
    """(analytical, numerical) of the real derivatives: a gradient g of an output is the direction in which Re(conj(seed) * output) grows."""
    for seed, grads in zip((1, 1j), row):
        g = grads[j]
        value = 0 if g is None else _real(g.reshape(-1)[b])
        for axis, changes in zip((1, 1j), column):
            change = _real(changes[place][a])
            want = change.real if seed == 1 else change.imag
            got = value.real if axis == 1 else value.imag
            yield got, want


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0, check_undefined_grad=True, check_grad_dtypes=False,
              check_batched_grad=False, check_batched_forward_grad=False, check_forward_ad=False, check_backward_ad=True, fast_mode=False, masked=None):
    """Do the gradients of func agree with the differences of its values? Inputs are float64 or complex128, or eps is too small for them."""
    try:
        return _check(func, _tuple(inputs), eps, atol, rtol, nondet_tol, check_grad_dtypes)
    except GradcheckError:
        if raise_exception:
            raise
        return False


def _check(func, inputs, eps, atol, rtol, nondet_tol, check_grad_dtypes):
    at = [i for i, x in enumerate(inputs) if _C.is_tensor(x) and x.requires_grad]
    if not at:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True.")
    for i in at:
        if inputs[i].dtype not in (td.float64, td.complex128):
            import warnings

            warnings.warn(f"Input #{i} requires gradient and is not a double precision floating point or complex. This check will likely fail if all "
                          "the inputs are not of double precision floating point or complex.", stacklevel=4)
        inputs[i].retain_grad()
    outputs = [o for o in _tuple(func(*inputs)) if _C.is_tensor(o)]
    which = [o for o, out in enumerate(outputs) if out.requires_grad]
    if not which:
        raise GradcheckError("gradcheck expects all tensor inputs that require gradient to have an effect on an output that does")
    told = _compare(func, inputs, at, outputs, which, eps, atol, rtol)
    if told:
        raise GradcheckError(told)
    for o in which:
        ones = td.ones_like(outputs[o])
        first, again = (td.autograd.grad(outputs[o], [inputs[i] for i in at], ones, retain_graph=True, allow_unused=True) for _ in range(2))
        for x, y, i in zip(first, again, at):
            if x is None:
                continue
            if check_grad_dtypes and x.dtype != inputs[i].dtype:
                raise GradcheckError("Expected grads to have the same dtype as inputs")
            if x.numel() and (x - y).abs().max().item() > nondet_tol:
                raise GradcheckError("Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different "
                                     "values, although analytical gradient matches numerical gradient.")
    return True


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, gen_non_contig_grad_outputs=False, raise_exception=True,
                  nondet_tol=0.0, check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False, check_fwd_over_rev=False,
                  check_rev_over_rev=True, fast_mode=False, masked=False):
    """The same of the gradients themselves, by the inputs and by the gradients that they are made from."""
    inputs = _tuple(inputs)
    if grad_outputs is None:
        outputs = _differentiable(_tuple(func(*inputs)))
        grad_outputs = tuple(td.randn(o.shape, dtype=o.dtype, device=o.device).requires_grad_() for o in outputs)
    else:
        grad_outputs = _tuple(grad_outputs)
    n = len(grad_outputs)

    def gradient(*args):
        xs, gs = args[:-n], args[-n:]
        wanted = [x for x in xs if _C.is_tensor(x) and x.requires_grad]
        return tuple(g for g in td.autograd.grad(_differentiable(_tuple(func(*xs))), wanted, gs, create_graph=True, allow_unused=True) if g is not None)

    def recorded(*args):
        with td.enable_grad():
            return gradient(*args)

    return gradcheck(recorded, inputs + grad_outputs, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
                     check_grad_dtypes=check_grad_dtypes)

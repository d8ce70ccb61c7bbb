"""Programs that keep what ops save: each takes the module (tensord's, or torch) and returns a log, as in hook_programs.py; test_saved.py compares."""

from hook_programs import error, leaf, n


def hooks(T, log, scale=1):
    return T.autograd.graph.saved_tensors_hooks(lambda t: (log.append(("pack", n(t), t.requires_grad)), t.detach() * scale)[1],
                                                lambda p: (log.append(("unpack", n(p))), p / scale)[1])


def in_any_order(log):
    """What an op saves is packed in whatever order it is saved."""
    return sorted(log, key=str)


def inputs_and_outputs(T):
    log, a, b = [], leaf(T, 1.0, 2.0), leaf(T, 3.0, 4.0)
    with hooks(T, log):
        y = (a * b).exp()
    log.append("built")
    y.sum().backward()
    return in_any_order(log) + [n(a.grad), n(b.grad)]


def only_what_is_wanted(T):
    log, a, b = [], leaf(T, 1.0, 2.0), T.tensor([3.0, 4.0])
    with hooks(T, log):
        y = a * b
        z = a + b
    (y + z).sum().backward()
    return log + [n(a.grad)]


def other_values(T):
    log, a = [], leaf(T, 3.0)
    with T.autograd.graph.saved_tensors_hooks(lambda t: 2 * t, lambda t: t):
        y = a * a
    y.backward()
    return [n(a.grad)]


def innermost(T):
    log, a = [], leaf(T, 2.0)
    with T.autograd.graph.saved_tensors_hooks(lambda t: (log.append("outer"), t)[1], lambda t: t):
        y = a * a
        with T.autograd.graph.saved_tensors_hooks(lambda t: (log.append("inner"), t)[1], lambda t: t):
            z = a.sin()
        w = a.cos()
    (y + z + w).backward()
    return log + [n(a.grad)]


def twice(T):
    log, a = [], leaf(T, 2.0)
    with hooks(T, log):
        y = a * a * a
    y.backward(retain_graph=True)
    y.backward()
    return in_any_order(log) + [n(a.grad), error(y.backward, RuntimeError)]


def second_order(T):
    log, a = [], leaf(T, 2.0)
    with hooks(T, log):
        y = a.exp() * a
    g, = T.autograd.grad(y, a, create_graph=True)
    h, = T.autograd.grad(g.sum(), a, create_graph=True)
    h.sum().backward()
    return in_any_order([k for k in log if k[0] == "pack"]) + [n(g), n(h), n(a.grad)]


def in_place(T):
    log, a = [], leaf(T, 1.0, 2.0)
    b = a.clone()
    with hooks(T, log):
        b.mul_(b.detach() + 1)
        b[0] *= 5
        c = b * b
    b.add_(1)  # what was packed does not mind
    c.sum().backward()
    return log + [n(a.grad)]


def no_graph(T):
    log, a = [], leaf(T, 1.0)
    with hooks(T, log):
        with T.no_grad():
            a * a
        a.detach() * a.detach()
    return log


def nobody_asks(T):
    log, a = [], leaf(T, 1.0, 2.0)
    with hooks(T, log):
        y = a * a
        z = a.exp()
    g, = T.autograd.grad(z.sum(), a)
    del y
    return log + [n(g)]


def layers(T):
    log, x = [], T.arange(12.0).reshape(3, 4)
    w, b = T.arange(8.0).reshape(2, 4).requires_grad_(), T.ones(2, requires_grad=True)
    with T.autograd.graph.saved_tensors_hooks(lambda t: (log.append(list(t.shape)), t.detach().clone())[1], lambda p: p):
        y = T.nn.functional.cross_entropy(T.nn.functional.linear(x, w, b) / 10, T.tensor([0, 1, 0]))
    y.backward()
    return [len(log) > 2, n(w.grad), n(b.grad)]


def function_of_ones_own(T):
    log, a = [], leaf(T, 2.0, 3.0)

    class Cube(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x * x
            ctx.save_for_backward(x, y, None)
            return y

        @staticmethod
        def backward(ctx, g):
            x, y, nothing = ctx.saved_tensors
            log.append(("backward", n(x), n(y), nothing))
            return 3 * g * y / x

    with hooks(T, log, 4):
        y = Cube.apply(a)
    log.append("built")
    g, = T.autograd.grad(y.sum(), a, create_graph=True)
    g.sum().backward()
    return [k for k in log if k[0] != "unpack"] + [n(g), n(a.grad)]


def mistakes(T):
    a, log = leaf(T, 2.0), []
    saved = T.autograd.graph.saved_tensors_hooks
    log.append(error(lambda: saved(lambda t: t)))

    def gives(pack, unpack):
        def run():
            with saved(pack, unpack):
                y = a * a
            y.backward()
        return run

    log += [error(gives(lambda t: t, lambda t: 1), TypeError), error(gives(lambda t: t.add_(1), lambda t: t), RuntimeError),
            error(gives(lambda t: 1 // 0, lambda t: t), ZeroDivisionError), error(gives(lambda t: t, lambda t: 1 // 0), ZeroDivisionError),
            error(gives(lambda: 0, lambda t: t), TypeError)]
    (a * 3).backward()
    return log + [n(a.detach() * 0)]


def refused(T):
    log, a = [], leaf(T, 2.0)
    graph = T.autograd.graph

    def enter():
        with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            a * a

    def message(f):
        try:
            f()
        except RuntimeError as e:
            return str(e)
        return "nothing"

    with graph.disable_saved_tensors_hooks("outer"):
        log.append(message(enter))
        with graph.disable_saved_tensors_hooks("inner"):
            log.append(message(enter))
        log.append(message(enter))

    def disable():
        with graph.disable_saved_tensors_hooks("late"):
            pass

    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        log.append(message(disable))
    log.append(message(enter))
    return log


def on_cpu(T):
    a, b = leaf(T, 2.0, 3.0), leaf(T, 1.0, 2.0)
    with T.autograd.graph.save_on_cpu():
        y = (a * b).tanh() * a
    y.sum().backward()
    return [n(a.grad), n(b.grad)]


def of_a_node(T):
    a, b = leaf(T, 2.0), leaf(T, 5.0)
    y = a * b
    z = y.exp()
    log = [n(y.grad_fn._saved_self), n(y.grad_fn._saved_other), n(z.grad_fn._saved_result), z.grad_fn._saved_result.requires_grad]
    y.grad_fn._raw_saved_self.register_hooks(lambda t: 2 * t, lambda t: 3 * t)
    log += [n(y.grad_fn._saved_self), error(lambda: y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t), RuntimeError)]
    y.backward()
    return log + [n(a.grad), n(b.grad), error(lambda: y.grad_fn._saved_self, RuntimeError), error(lambda: y.grad_fn._saved_nothing, AttributeError),
                  hasattr(y.grad_fn, "_saved_nothing")]


def written_since(T):
    x = leaf(T, 1.0, 2.0)
    with T.autograd.graph.allow_mutation_on_saved_tensors():
        y = x.clone()
        z = y.sin() * y
        y.mul_(5)
        z.sum().backward()
    return n(x.grad)


def of_a_leaf(T):
    x = leaf(T, 1.0, 2.0)
    found = (x * 2).grad_fn.next_functions[0][0].variable
    return [n(found), found.requires_grad, found.is_leaf]


PROGRAMS = [written_since, of_a_leaf, inputs_and_outputs, only_what_is_wanted, other_values, innermost, twice, second_order, in_place, no_graph, nobody_asks, layers, function_of_ones_own, mistakes, refused,
            on_cpu, of_a_node]

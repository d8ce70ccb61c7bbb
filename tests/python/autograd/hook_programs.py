"""Programs with hooks and functions of their own: each takes the module (tensord's, or torch) and returns a log. test_hooks.py and
test_function.py have what PyTorch returns, and run them with it where it is installed."""


def n(x):
    """Numbers that both print alike."""
    if x is None or isinstance(x, (str, bool, int)):
        return x
    if isinstance(x, float):
        return round(x, 4)
    if isinstance(x, (tuple, list)):
        return [n(k) for k in x]
    return n(x.tolist())


def leaf(T, *values):
    return T.tensor(list(values), requires_grad=True)


def error(f, *kinds):
    try:
        f()
    except kinds or Exception as e:
        return "raised " + ("KeyError" if isinstance(e, KeyError) else "")
    return "nothing raised"


# ---- hooks


def order_at_a_node(T):
    log, x = [], leaf(T, 1.0, 2.0)
    y = x * 3
    y.register_hook(lambda g: log.append(("first", n(g))))
    y.register_hook(lambda g: (log.append(("second", n(g))), g * 2)[1])
    y.retain_grad()
    y.register_hook(lambda g: (log.append(("third", n(g))), g + 1)[1])
    node = y.grad_fn
    node.register_hook(lambda gi, go: log.append(("after", n(gi), n(go))))
    node.register_prehook(lambda go: (log.append(("before", n(go))), (go[0] * 10,))[1])
    x.register_hook(lambda g: log.append(("leaf", n(g))))
    x.register_post_accumulate_grad_hook(lambda p: log.append(("accumulated", p is x, n(p.grad))))
    (y * y).sum().backward()
    return log + [("y.grad", n(y.grad)), ("x.grad", n(x.grad))]


def order_of_a_chain(T):
    log, a, b = [], leaf(T, 1.0), leaf(T, 2.0)
    h = a * 2
    k = h * b
    out = k + h
    for name, t in (("a", a), ("b", b), ("h", h), ("k", k), ("out", out)):
        t.register_hook(lambda g, name=name: log.append((name, n(g))))
    for name, t in (("a", a), ("b", b)):
        t.register_post_accumulate_grad_hook(lambda p, name=name: log.append(("acc " + name, n(p.grad))))
    out.backward(T.ones(1))
    return log


def accumulated_in_turn(T):
    """Leaves with such hooks have their .grad at once, with the hook of one before the next node is run."""
    log, ws = [], [leaf(T, float(k)) for k in range(1, 4)]
    h = T.ones(1)
    for k, w in enumerate(ws):
        h = h * w
        h.register_hook(lambda g, k=k: log.append(("h", k, n(g))))
        w.register_post_accumulate_grad_hook(lambda p, k=k: log.append(("acc", k, n(p.grad), [n(w.grad) for w in ws])))
    h.sum().backward()
    return log


def optimizer_in_backward(T):
    T.manual_seed(0)
    ws = [leaf(T, 1.0, 2.0), leaf(T, 3.0, 4.0), leaf(T, 0.5, 0.25)]
    opts = {w: T.optim.SGD([w], lr=0.1) for w in ws}

    def step(w):
        opts[w].step()
        opts[w].zero_grad()

    for w in ws:
        w.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        (ws[0] + ws[1] + ws[2] * ws[2]).sum().backward()
    return [n(w) for w in ws] + [n(w.grad) for w in ws]


def handles(T):
    log, x = [], leaf(T, 1.0)
    y = x * 2
    first = y.register_hook(lambda g: log.append("first"))
    second = y.register_hook(lambda g: log.append("second"))
    y.sum().backward(retain_graph=True)
    first.remove()
    first.remove()
    y.sum().backward(retain_graph=True)
    with y.register_hook(lambda g: log.append("within")):
        y.sum().backward(retain_graph=True)
    second.remove()
    y.sum().backward()
    return log + [n(x.grad)]


def removes_itself(T):
    log, x = [], leaf(T, 1.0)
    y = x * 2
    made = []

    def once(g):
        log.append(n(g))
        made[0].remove()
        return g * 5

    made.append(y.register_hook(once))
    for _ in range(2):
        y.sum().backward(retain_graph=True)
    return log + [n(x.grad)]


def in_place_after(T):
    """Hooks stay with the old value, retain_grad follows the new."""
    log, x = [], leaf(T, 1.0, 2.0)
    y = x * 3
    y.register_hook(lambda g: log.append(("old", n(g))))
    y.retain_grad()
    y.mul_(2)
    y.register_hook(lambda g: log.append(("new", n(g))))
    (y * y).sum().backward()
    return log + [n(y.grad), n(x.grad)]


def through_a_view(T):
    log, x = [], leaf(T, 1.0, 2.0, 3.0, 4.0)
    y = x * 1
    v = y[:2]
    v.register_hook(lambda g: log.append(("v", n(g))))
    y.register_hook(lambda g: (log.append(("y", n(g))), g * T.tensor([1.0, 2.0, 3.0, 4.0]))[1])
    ((v * v).sum() + y.sum()).backward()
    return log + [n(x.grad)]


def of_grad(T):
    """grad() runs hooks of its inputs, fills what is retained, and leaves leaves alone."""
    log, x = [], leaf(T, 1.0, 2.0)
    y = x * 3
    y.retain_grad()
    y.register_hook(lambda g: (log.append(("y", n(g))), g * 2)[1])
    x.register_hook(lambda g: (log.append(("x", n(g))), g + 1)[1])
    x.register_post_accumulate_grad_hook(lambda p: log.append("accumulated"))
    y.grad_fn.register_prehook(lambda go: log.append(("before", n(go))))
    z = (y * y).sum()
    only = T.autograd.grad(z, y, retain_graph=True)
    both = T.autograd.grad(z, [x, y])
    return log + [n(only), n(both), n(y.grad), n(x.grad)]


def into_inputs(T):
    log, x, w = [], leaf(T, 1.0), leaf(T, 2.0)
    y = x * w
    x.register_hook(lambda g: log.append(("x", n(g))))
    w.register_hook(lambda g: log.append(("w", n(g))))
    x.register_post_accumulate_grad_hook(lambda p: log.append(("acc x", n(p.grad))))
    w.register_post_accumulate_grad_hook(lambda p: log.append(("acc w", n(p.grad))))
    (y * y).sum().backward(inputs=[x])
    return log + [n(x.grad), n(w.grad)]


def into_what_is_no_leaf(T):
    x = leaf(T, 1.0)
    y = x * 2
    (y * y).sum().backward(inputs=[y])
    return [n(y.grad), n(x.grad)]


def of_undefined(T):
    log, x = [], leaf(T, 1.0, 2.0)
    a, b = (x * 2).unbind()
    a.register_hook(lambda g: log.append(("a", n(g))))
    b.register_hook(lambda g: log.append(("b", n(g))))
    (a * 3).backward()
    return log + [n(x.grad)]


def of_several_outputs(T):
    log, x = [], leaf(T, 1.0, 2.0)
    a, b = (x * 2).unbind()
    a.register_hook(lambda g: (log.append(("a", n(g))), g * 10)[1])
    b.register_hook(lambda g: (log.append(("b", n(g))), g * 100)[1])
    a.grad_fn.register_prehook(lambda go: log.append(("before", n(go))))
    (a + b).backward()
    return log + [n(x.grad)]


def differentiated_again(T):
    x = leaf(T, 1.0, 2.0)
    y = x * x
    y.register_hook(lambda g: g * g)
    g, = T.autograd.grad((y * y).sum(), x, create_graph=True)
    second, = T.autograd.grad(g.sum(), x)
    return [n(g), n(second), g.requires_grad]


def modes_in_hooks(T):
    log, x = [], leaf(T, 1.0)
    y = x * 2
    y.register_hook(lambda g: log.append((T.is_grad_enabled(), g.requires_grad)))
    T.autograd.grad(y.sum(), x, retain_graph=True)
    T.autograd.grad(y.sum(), x, create_graph=True)
    with T.no_grad():
        y.backward(T.ones(1))
    return log + [T.is_grad_enabled()]


def backward_in_a_hook(T):
    log, x, q = [], leaf(T, 1.0), leaf(T, 3.0)

    def hook(g):
        with T.enable_grad():
            p = q * q
            p.register_hook(lambda inner: log.append(("inner", n(inner))))
            p.sum().backward()
        return g * q.grad

    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
    return log + [n(x.grad), n(q.grad)]


def same_graph_in_a_hook(T):
    x = leaf(T, 2.0)
    y = x * x
    z = y * 3
    s = y.sum()
    z.register_hook(lambda g: g + T.autograd.grad(s, x, retain_graph=True)[0])
    z.sum().backward()
    return n(x.grad)


def a_hook_that_fails(T):
    log, x = [], leaf(T, 1.0)
    y = x * 2

    def hook(g):
        raise KeyError("mine")

    y.register_hook(hook)
    log.append(error(lambda: y.sum().backward(retain_graph=True), KeyError))
    log.append(n(x.grad))
    inner = leaf(T, 1.0)
    w = inner * 2
    s = y.sum()
    w.register_hook(lambda g: s.backward(retain_graph=True))
    log.append(error(lambda: w.sum().backward(), KeyError))
    return log + [n(inner.grad)]


def bad_answers(T):
    log, x = [], leaf(T, 1.0, 2.0)
    for answer in (lambda g: 1, lambda g: g.sum(), lambda g: g.double(), lambda g: (g,)):
        y = x * 2
        y.register_hook(answer)
        log.append(error(lambda: y.sum().backward(), RuntimeError, TypeError))
    y = x * 2
    y.grad_fn.register_hook(lambda gi, go: (gi[0],))
    log.append(error(lambda: y.sum().backward(), RuntimeError, TypeError))
    log.append(error(lambda: T.ones(1).register_hook(print), RuntimeError))
    log.append(error(lambda: (x * 2).register_post_accumulate_grad_hook(print), RuntimeError))
    x.register_post_accumulate_grad_hook(lambda p: 1)
    log.append(error(lambda: (x * 2).sum().backward(), RuntimeError, TypeError))
    return log


def node_hooks(T):
    log, x = [], leaf(T, 1.0, 2.0)
    y = x * x
    node = y.grad_fn
    h = node.register_hook(lambda gi, go: (log.append(("one", n(gi))), (gi[0] * 2, gi[1]))[1])
    node.register_hook(lambda gi, go: log.append(("two", n(gi), n(go))))
    node.register_prehook(lambda go: (log.append(("pre", n(go))), (go[0] + 1,))[1])
    y.sum().backward(retain_graph=True)
    h.remove()
    y.sum().backward()
    return log + [n(x.grad)]


def nodes(T):
    x = leaf(T, 1.0, 2.0)
    y = (x * 2).exp() + x
    fn = y.grad_fn
    names = [fn.name(), type(fn).__name__, [f and f.name() for f, _ in fn.next_functions], [k for _, k in fn.next_functions]]
    acc = fn.next_functions[1][0]
    names.append(acc is fn.next_functions[0][0].next_functions[0][0].next_functions[0][0])
    names.append([y.grad_fn is fn, x.grad_fn is None, acc.next_functions == (), type(acc).__name__])
    z = x * 1
    z[0] = 5
    names.append(z.grad_fn.name().rpartition(":")[2])
    return names


def names_of_nodes(T):
    x = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    made = [x * 2, x + 1, x - 1, x / 2, -x, x.exp(), x.log(), x.tanh(), x.relu(), x.sigmoid(), x.sqrt(), x.abs(), x.sin(), x.unsqueeze(0), x[0], x.sum(), x.mean(),
            x.clone(), x.expand(3, 2, 2), T.cat([x, x]), T.stack([x, x]), T.where(x > 1, x, x), x.pow(2), x.reshape(4), x.permute(1, 0), x.transpose(0, 1), x.clamp(0, 1),
            T.softmax(x, 0), T.log_softmax(x, 0), x.cumsum(0), T.maximum(x, x), T.nn.functional.gelu(x), x.square(), x.rsqrt(), x.flip(0), x.tril(), x.unbind()[0]]
    return [m.grad_fn.name() for m in made]


def whole_modules(T):
    log, m = [], T.nn.Linear(2, 1)
    with T.no_grad():
        m.weight.copy_(T.tensor([[1.0, 2.0]]))
        m.bias.copy_(T.tensor([0.5]))
    pre = m.register_full_backward_pre_hook(lambda mod, go: (log.append(("pre", mod is m, n(go))), (go[0] * 2,))[1])
    m.register_full_backward_hook(lambda mod, gi, go: (log.append(("full", n(gi), n(go))), (gi[0] * 10,))[1])
    x = T.tensor([[1.0, 1.0]], requires_grad=True)
    m(x).sum().backward()
    log.append((n(x.grad), n(m.weight.grad), n(m.bias.grad)))
    pre.remove()
    x.grad = None
    m(x).sum().backward()
    return log + [n(x.grad), n(m.weight.grad)]


def modules_without_input_grads(T):
    log, m = [], T.nn.Linear(2, 1)
    with T.no_grad():
        m.weight.copy_(T.tensor([[1.0, 2.0]]))
    m.register_full_backward_hook(lambda mod, gi, go: log.append(("full", n(gi), n(go))))
    m(T.tensor([[3.0, 1.0]])).sum().backward()
    with T.no_grad():
        m(T.tensor([[3.0, 1.0]]))
    return log + [n(m.weight.grad)]


def modules_in_modules(T):
    log = []
    net = T.nn.Sequential(T.nn.Linear(2, 2), T.nn.Tanh(), T.nn.Linear(2, 1))
    with T.no_grad():
        for p in net.parameters():
            p.fill_(0.5)
    for k, m in enumerate(net):
        m.register_full_backward_pre_hook(lambda mod, go, k=k: log.append(("pre", k)))
        m.register_full_backward_hook(lambda mod, gi, go, k=k: log.append(("full", k, n(go))))
    net.register_full_backward_hook(lambda mod, gi, go: log.append(("net", n(go))))
    net(T.ones(3, 2)).sum().backward()
    return log + [n(p.grad) for p in net.parameters()]


def added_in_a_hook(T):
    log, x = [], leaf(T, 1.0)
    y = x * 2
    z = y * 3
    z.register_hook(lambda g: (log.append("z"), y.register_hook(lambda g: log.append(("late", n(g)))))[0])
    z.sum().backward()
    return log


def writes_in_a_hook(T):
    """What a node saved and a hook writes is an error of that node."""
    x = leaf(T, 1.0)
    y = x * 2
    w = y.exp()
    z = w * w
    z.register_hook(lambda g: w.detach().add_(1) and None)
    return [error(lambda: z.sum().backward(), RuntimeError), n(x.grad)]


HOOKS = [order_at_a_node, order_of_a_chain, accumulated_in_turn, optimizer_in_backward, handles, removes_itself, in_place_after, through_a_view, of_grad, into_inputs,
         into_what_is_no_leaf, of_undefined, of_several_outputs, differentiated_again, modes_in_hooks, backward_in_a_hook, same_graph_in_a_hook, a_hook_that_fails, bad_answers, node_hooks, nodes,
         names_of_nodes, whole_modules, modules_without_input_grads, modules_in_modules, added_in_a_hook, writes_in_a_hook]


# ---- functions


def cube(T):
    class Cube(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, times=1):
            ctx.save_for_backward(x)
            ctx.times = times
            return x * x * x * times

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return 3 * x * x * g * ctx.times, None

    return Cube


def function_plain(T):
    x = leaf(T, 1.0, 2.0)
    y = cube(T).apply(x, 2)
    y.sum().backward()
    return [n(y), n(x.grad), y.requires_grad, y.is_leaf, y.grad_fn.name(), len(y.grad_fn.next_functions)]


def function_twice(T):
    x = leaf(T, 1.0, 2.0)
    g, = T.autograd.grad(cube(T).apply(x).sum(), x, create_graph=True)
    second, = T.autograd.grad(g.sum(), x, create_graph=True)
    third, = T.autograd.grad(second.sum(), x)
    return n([g, second, third])


def function_saved_output(T):
    class Exp(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            y, = ctx.saved_tensors
            return g * y

    x = leaf(T, 0.0, 1.0)
    y = Exp.apply(x)
    g, = T.autograd.grad(y.sum(), x, create_graph=True)
    second, = T.autograd.grad(g.sum(), x)
    log = [n(g), n(second)]
    y = Exp.apply(x)
    y.sum().backward()
    log.append(error(lambda: y.sum().backward(), RuntimeError))
    y = Exp.apply(x)
    y.detach().mul_(2)
    return log + [error(lambda: y.sum().backward(), RuntimeError), n(x.grad)]


def function_needs(T):
    log = []

    class Mul(T.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, c):
            log.append(("forward", ctx.needs_input_grad, T.is_grad_enabled()))
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            log.append(("backward", ctx.needs_input_grad, T.is_grad_enabled()))
            a, b = ctx.saved_tensors
            return g * b, (g * a if ctx.needs_input_grad[1] else None), None

    a, b = leaf(T, 2.0), T.tensor([3.0])
    Mul.apply(a, b, "text").sum().backward()
    with T.no_grad():
        out = Mul.apply(a, b, 1)
    plain = Mul.apply(b, b, 1)
    return log + [n(a.grad), b.grad is None, out.requires_grad, plain.requires_grad, plain.grad_fn is None]


def function_several(T):
    log = []

    class Two(T.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b, a * 2, (b > 0), "word"

        @staticmethod
        def backward(ctx, g, h, flags, word):
            log.append((n(g), n(h), flags is None or n(flags), word is None))
            return g + 2 * h, g

    a, b = leaf(T, 1.0, 2.0), leaf(T, 3.0, 4.0)
    s, d, flags, word = Two.apply(a, b)
    log.append((s.requires_grad, d.requires_grad, flags.requires_grad, word))
    s.sum().backward()
    s, d, flags, word = Two.apply(a, b)
    (d * 3).sum().backward()
    return log + [n(a.grad), n(b.grad)]


def function_unmaterialized(T):
    log = []

    class Two(T.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.set_materialize_grads(False)
            return a * 1, a * 2

        @staticmethod
        def backward(ctx, g, h):
            log.append((g is None, h is None))
            return g if h is None else h

    a = leaf(T, 1.0)
    Two.apply(a)[1].sum().backward()
    return log + [n(a.grad)]


def function_dirty(T):
    class Double(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    log, x = [], leaf(T, 1.0, 2.0)
    y = x * 3
    before = y._version
    z = Double.apply(y)
    log.append((z is y, n(y), y._version > before, y.grad_fn.name()))
    (y * y).sum().backward()
    log.append(n(x.grad))
    log.append(error(lambda: Double.apply(x), RuntimeError))
    free = T.tensor([1.0])
    same = Double.apply(free)
    return log + [same is free, n(free)]


def function_apart(T):
    class Sort(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            v, i = x.sort()
            f = i.to(x.dtype)
            ctx.mark_non_differentiable(f)
            ctx.save_for_backward(i)
            return v, f

        @staticmethod
        def backward(ctx, g, gf):
            i, = ctx.saved_tensors
            out = T.zeros_like(g)
            return out.index_add(0, i, g)

    x = leaf(T, 3.0, 1.0, 2.0)
    v, f = Sort.apply(x)
    (v * T.tensor([1.0, 10.0, 100.0])).sum().backward()
    return [v.requires_grad, f.requires_grad, n(x.grad)]


def function_identity(T):
    class Same(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 7

    x = leaf(T, 1.0)
    y = Same.apply(x)
    y.sum().backward()
    return [y is x, x.is_leaf, y.is_leaf, n(x.grad)]


def function_setup(T):
    class Scale(T.autograd.Function):
        @staticmethod
        def forward(x, k):
            return x * k, k

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, k = inputs
            ctx.k = k
            ctx.save_for_backward(output[0], None)

        @staticmethod
        def backward(ctx, g, unused):
            y, nothing = ctx.saved_tensors
            return g * ctx.k + y * 0, None

    x = leaf(T, 1.0, 2.0)
    y, k = Scale.apply(x, 4)
    y.sum().backward()
    return [n(y), k, n(x.grad)]


def function_once(T):
    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @T.autograd.function.once_differentiable
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return 2 * x * g

    x = leaf(T, 3.0)
    g, = T.autograd.grad(Square.apply(x).sum(), x)
    w = x * 1
    h, = T.autograd.grad(Square.apply(w).sum() * x.sum(), x, create_graph=True)
    return [n(g), n(h), error(lambda: T.autograd.grad(h.sum(), x), RuntimeError)]


def function_mistakes(T):
    def made(back):
        class Bad(T.autograd.Function):
            forward = staticmethod(lambda ctx, x, y: x * 2)
            backward = staticmethod(back)

        return Bad

    x, y = leaf(T, 1.0, 2.0), T.ones(2)
    log = []
    for back in (lambda ctx, g: g, lambda ctx, g: (g, None, None, g), lambda ctx, g: (1, None), lambda ctx, g: (g[:1].repeat(3), None), lambda ctx, g: 1 / 0):
        log.append(error(lambda: made(back).apply(x, 3).sum().backward(), RuntimeError, TypeError, ZeroDivisionError))
    log.append(error(lambda: made(lambda ctx, g: (g, g)).apply(x, 3).sum().backward(), RuntimeError))
    made(lambda ctx, g: (g, g)).apply(x, y).sum().backward()
    made(lambda ctx, g: (g, None, None, None)).apply(x, y).sum().backward()
    made(lambda ctx, g: (None, None)).apply(x, y).sum().backward()
    return log + [n(x.grad), n(y.grad)]


def function_shapes(T):
    """A gradient is summed to its input's shape, and cast to its dtype, as those of ops."""
    class Add(T.autograd.Function):
        forward = staticmethod(lambda ctx, a, b: a + b)
        backward = staticmethod(lambda ctx, g: (g, g.double()))

    a, b = leaf(T, 1.0, 2.0), leaf(T, 3.0)
    Add.apply(a, b).sum().backward()
    return [n(a.grad), n(b.grad), str(b.grad.dtype).rpartition(".")[2]]


def function_in_modules(T):
    Cube = cube(T)

    class Layer(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = T.nn.Linear(2, 2)

        def forward(self, x):
            return Cube.apply(self.lin(x), 2)

    net = T.nn.Sequential(Layer(), T.nn.Linear(2, 1))
    with T.no_grad():
        for p in net.parameters():
            p.fill_(0.5)
    opt = T.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        opt.zero_grad()
        net(T.ones(4, 2)).mean().backward()
        opt.step()
    return [n(p) for p in net.parameters()]


def function_in_a_function(T):
    Cube = cube(T)

    class Outer(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with T.enable_grad():
                inner = x.detach().requires_grad_()
                y = Cube.apply(inner) + inner
            ctx.inner, ctx.y = inner, y
            return y.detach()

        @staticmethod
        def backward(ctx, g):
            return T.autograd.grad(ctx.y, ctx.inner, g)[0]

    x = leaf(T, 2.0, 3.0)
    Outer.apply(x).sum().backward()
    return n(x.grad)


def function_hooks(T):
    log, x = [], leaf(T, 1.0, 2.0)
    y = cube(T).apply(x)
    y.register_hook(lambda g: (log.append(("y", n(g))), g * 2)[1])
    y.grad_fn.register_prehook(lambda go: log.append(("before", n(go))))
    y.grad_fn.register_hook(lambda gi, go: log.append(("after", n(gi), n(go))))
    y.sum().backward()
    return log + [n(x.grad)]


FUNCTIONS = [function_plain, function_twice, function_saved_output, function_needs, function_several, function_unmaterialized, function_dirty, function_apart, function_identity, function_setup,
             function_once, function_mistakes, function_shapes, function_in_modules, function_in_a_function, function_hooks]

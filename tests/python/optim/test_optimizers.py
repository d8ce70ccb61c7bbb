"""Optimizers and schedules against torch's, of those that the system's torch has: float64, over twenty steps."""

import inspect
import math
import types

import pytest
import tensord as td

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")
torch = pytest.importorskip("torch")

RULES = [("SGD", dict(lr=0.1, momentum=0.9, dampening=0.3)), ("SGD", dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1, maximize=True)),
         ("Adam", dict(lr=0.05, weight_decay=0.1)), ("Adam", dict(lr=0.05, amsgrad=True, weight_decay=0.1)), ("AdamW", dict(lr=0.05, amsgrad=True)),
         ("AdamW", dict(lr=0.05, maximize=True)), ("RMSprop", dict(lr=0.02, momentum=0.5, centered=True)), ("Adagrad", dict(lr=0.1, lr_decay=0.1)),
         ("Adadelta", dict(lr=0.5, weight_decay=0.1)), ("Adamax", dict(lr=0.05, weight_decay=0.1)), ("NAdam", dict(lr=0.05, weight_decay=0.1)),
         ("RAdam", dict(lr=0.05, betas=(0.8, 0.9), weight_decay=0.1)), ("Rprop", {}), ("ASGD", dict(lr=0.05, t0=5, weight_decay=0.1)), ("ASGD", dict(maximize=True)), ("Adafactor", dict(lr=0.1)),
         ("Adafactor", dict(lr=0.05, beta2_decay=-0.5, eps=(1e-3, 1e-2), d=1.5, weight_decay=0.1, maximize=True))]


def losses(lib, w, b, k):
    return ((w * (k % 3 + 1) - b) ** 2).sum() + (w @ b[0]).sin().sum() + b.cos().sum()


def trained(lib, kind, options, start):
    w, b = (lib.tensor(x, requires_grad=True) for x in start)
    o = getattr(lib.optim, kind)([w, b], **options)
    for k in range(20):
        o.zero_grad()
        loss = losses(lib, w, b, k)
        (-loss if options.get("maximize") else loss).backward()
        o.step()
    return o, w, b


@pytest.mark.parametrize("kind, options", RULES, ids=lambda x: x if isinstance(x, str) else "-".join(x))
def test_twenty_steps(kind, options):
    if kind == "NAdam" and torch.__version__ < "2":
        pytest.skip("PyTorch 1.13 takes other momenta there")
    if not hasattr(torch.optim, kind):
        pytest.skip(f"this PyTorch has no {kind}")
    rng = np.random.default_rng(0)
    start = [rng.standard_normal((3, 3)) for _ in range(2)]
    (mine, *ours), (_, *theirs) = (trained(lib, kind, options, start) for lib in (td, torch))
    close = 1e-6 if kind in ("NAdam", "ASGD", "Adagrad") else 1e-10  # numbers that a step counts with are float32 in torch, or here
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=close, atol=close)
    again = getattr(td.optim, kind)(ours, **options)
    again.load_state_dict(mine.state_dict())
    losses(td, *ours, 0).backward()
    again.step()


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs(search):
    got = []
    for lib in (td, torch):
        x = lib.tensor([-1.2, 1.0], dtype=lib.float64, requires_grad=True)
        o = lib.optim.LBFGS([x], lr=1 if search else 0.01, max_iter=60 if search else 8, line_search_fn=search)

        def closure():
            o.zero_grad()
            loss = rosenbrock(x)
            loss.backward()
            return loss

        first = [float(o.step(closure)) for _ in range(3)]
        got.append((first, x.detach().numpy()))
    if search:  # both are at the bottom
        np.testing.assert_allclose(got[0][1], np.ones(2), atol=1e-4)
    else:
        np.testing.assert_allclose(got[0][0], got[1][0], rtol=1e-8)
        np.testing.assert_allclose(got[0][1], got[1][1], rtol=1e-8)
    with pytest.raises(td.InvalidError, match="per-parameter"):
        td.optim.LBFGS([{"params": [td.ones(1)]}, {"params": [td.ones(1)]}])


def test_lion_and_lamb():
    """By their papers, in NumPy."""
    p, g = np.array([1.0, -2.0, 3.0]), np.array([0.5, 0.25, -1.0])
    w = td.tensor(p, requires_grad=True)
    lion, m = td.optim.Lion([w], lr=0.1, betas=(0.9, 0.99), weight_decay=0.1), 0
    for _ in range(3):
        w.grad = td.tensor(g)
        lion.step()
        p, m = p * (1 - 0.01) - 0.1 * np.sign(0.9 * m + 0.1 * g), 0.99 * m + 0.01 * g
    np.testing.assert_allclose(w.detach().numpy(), p, rtol=1e-12)
    p = np.array([1.0, -2.0, 3.0])
    w = td.tensor(p, requires_grad=True)
    lamb, m, v = td.optim.Lamb([w], lr=0.1, weight_decay=0.1), 0, 0
    for t in range(1, 4):
        w.grad = td.tensor(g)
        lamb.step()
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        step = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6) + 0.1 * p
        p = p - 0.1 * np.linalg.norm(p) / np.linalg.norm(step) * step
    np.testing.assert_allclose(w.detach().numpy(), p, rtol=1e-10)


SCHEDULES = [lambda m, o: m.MultiplicativeLR(o, lambda k: 0.9), lambda m, o: m.ChainedScheduler([m.ConstantLR(o, 0.1, 2), m.ExponentialLR(o, 0.9)]),
             lambda m, o: m.CyclicLR(o, 0.01, 0.1, 3, 5), lambda m, o: m.CyclicLR(o, 0.01, 0.1, 3, mode="triangular2"),
             lambda m, o: m.CyclicLR(o, 0.01, 0.1, 3, mode="exp_range", gamma=0.9), lambda m, o: m.CyclicLR(o, 0.01, 0.1, 4, cycle_momentum=False),
             lambda m, o: m.OneCycleLR(o, 0.1, 20, three_phase=True), lambda m, o: m.OneCycleLR(o, 0.1, 20, pct_start=0.9, three_phase=True, anneal_strategy="linear"),
             lambda m, o: m.OneCycleLR(o, 0.1, 20)]


@pytest.mark.parametrize("make", SCHEDULES)
def test_schedules(make):
    got = []
    for lib in (td, torch):
        o = lib.optim.SGD([lib.ones(1, requires_grad=True)], lr=0.5, momentum=0.9)
        s, rates = make(lib.optim.lr_scheduler, o), []
        for _ in range(20):
            rates.append((o.param_groups[0]["lr"], o.param_groups[0]["momentum"]))
            o.step()
            s.step()
        got.append(rates)
    np.testing.assert_allclose(*got, rtol=1e-12)


def test_clipping():
    for norm in (2.0, 1.0, math.inf):
        got = []
        for lib in (td, torch):
            ps = [lib.ones(3, requires_grad=True), lib.ones(2, 2, requires_grad=True), lib.ones(1, requires_grad=True)]
            (ps[0].sum() * 3 + (ps[1] * 5).sum()).backward()
            total = lib.nn.utils.clip_grad_norm_(ps, 2.0, norm)
            lib.nn.utils.clip_grad_value_(ps[0], 0.1)
            got.append([float(total), *[p.grad.tolist() for p in ps[:2]]])
        np.testing.assert_allclose(got[0][0], got[1][0], rtol=1e-6)
        np.testing.assert_allclose(got[0][1], got[1][1], rtol=1e-6)
        np.testing.assert_allclose(got[0][2], got[1][2], rtol=1e-6)
    p = td.ones(2, requires_grad=True)
    (p * math.inf).sum().backward()
    with pytest.raises(td.InvalidError, match="non-finite"):
        td.nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)


M = td.optim.lr_scheduler
REFUSED = [(lambda o: M.LinearLR(o, total_iters=0), "total_iters must be above 0"), (lambda o: M.PolynomialLR(o, total_iters=0), "total_iters must be above 0"),
           (lambda o: M.CosineAnnealingLR(o, 0), "T_max must be above 0"), (lambda o: M.StepLR(o, 0), "step_size must be above 0"),
           (lambda o: M.CosineAnnealingWarmRestarts(o, 0), "T_0 must be above 0"), (lambda o: M.CosineAnnealingWarmRestarts(o, 2, 1.5), "T_mult must be a whole number"),
           (lambda o: M.LinearLR(o, start_factor=0), "start_factor must be above 0"), (lambda o: M.OneCycleLR(o, 0.1, 10, pct_start=1.5), "pct_start must be from 0 to 1"),
           (lambda o: M.OneCycleLR(o, 0.1, epochs=0, steps_per_epoch=3), "epochs must be above 0")]


@pytest.mark.parametrize("make, says", REFUSED)
def test_lengths_that_no_schedule_has(make, says):
    with pytest.raises(td.InvalidError, match=says):
        make(td.optim.SGD([td.ones(1, requires_grad=True)], lr=0.5, momentum=0.9))


def test_a_cycle_whose_rise_takes_no_step():
    """PyTorch divides by 0 there."""
    o = td.optim.SGD([td.ones(1, requires_grad=True)], lr=0.5)
    s, rates = M.OneCycleLR(o, 0.1, 5, pct_start=0.2, anneal_strategy="linear", cycle_momentum=False, final_div_factor=math.inf), []
    for _ in range(5):
        rates.append(o.param_groups[0]["lr"])
        o.step(), s.step()
    np.testing.assert_allclose(rates, [0.1, 0.075, 0.05, 0.025, 0], atol=1e-15)


def test_adafactor():
    """By its paper, in NumPy: a matrix by its row and column, a vector by itself."""
    for shape in ((3, 4), (5,), (2, 3, 4)):
        rng = np.random.default_rng(0)
        p, lr, eps2, moments = rng.standard_normal(shape), 0.05, 1e-3, {}
        w = td.tensor(p, requires_grad=True)
        o = td.optim.Adafactor([w], lr=lr, weight_decay=0.1)
        for t in range(1, 5):
            g = rng.standard_normal(shape)
            w.grad = td.tensor(g)
            o.step()
            share, size = t**-0.8, max(eps2, np.sqrt((p**2).mean())) * min(lr, t**-0.5)
            p = p * (1 - lr * 0.1)
            if len(shape) > 1:
                for name, axis in (("row", -1), ("col", -2)):
                    mean = (g**2).mean(axis, keepdims=True)
                    moments[name] = moments.get(name, 0) + share * (mean - moments.get(name, 0))
                v = moments["row"] @ moments["col"] / moments["row"].mean(-2, keepdims=True)
            else:
                v = moments["v"] = moments.get("v", 0) + share * (g**2 - moments.get("v", 0))
            step = g / np.sqrt(v)
            p = p - size / max(1, np.sqrt((step**2).mean())) * step
        np.testing.assert_allclose(w.detach().numpy(), p, rtol=1e-10)


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 5)])
def test_muon(shape):
    rng = np.random.default_rng(0)
    start, grads = rng.standard_normal(shape).astype("float32"), [rng.standard_normal(shape).astype("float32") for _ in range(3)]
    w = td.tensor(start, requires_grad=True)
    o = td.optim.Muon([w], lr=0.1, weight_decay=0.0, adjust_lr_fn="original")
    w.grad = td.tensor(grads[0])
    o.step()
    sizes = np.linalg.svd((start - w.detach().numpy()) / (0.1 * max(1, shape[0] / shape[1]) ** 0.5), compute_uv=False)
    assert 0.4 < sizes.min() and sizes.max() < 1.4, "nearly orthogonal"
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("this PyTorch has no Muon")
    for options in (dict(lr=0.1), dict(lr=0.05, nesterov=False, weight_decay=0.3, adjust_lr_fn="match_rms_adamw")):
        got = []
        for lib in (td, torch):
            w = lib.tensor(start, requires_grad=True)
            o = lib.optim.Muon([w], **options)
            for g in grads:
                w.grad = lib.tensor(g)
                o.step()
            got.append(w.detach().numpy())
        np.testing.assert_allclose(*got, atol=0.03)  # bfloat16


@pytest.mark.parametrize("wrong, said", [
    (lambda p: td.optim.Adafactor([p], lr=-1), "lr"), (lambda p: td.optim.Adafactor([p], beta2_decay=1), "beta2_decay"),
    (lambda p: td.optim.Adafactor([p], eps=(-1, 0)), "epsilon1"), (lambda p: td.optim.Adafactor([p], eps=(None, -1)), "epsilon2"),
    (lambda p: td.optim.Adafactor([p], d=0.5), "threshold"), (lambda p: td.optim.Muon([p]), "2D"), (lambda p: td.optim.Muon([p], adjust_lr_fn="x"), "x is not"),
    (lambda p: td.optim.Muon([p], ns_steps=100), "steps"), (lambda p: td.optim.Muon([p], ns_coefficients=(1, 2)), "3 values"),
    (lambda p: td.optim.swa_utils.get_ema_avg_fn(1.5), "decay"),
    (lambda p: td.optim.swa_utils.SWALR(td.optim.SGD([p], lr=1), [1, 2]), "same length"),
    (lambda p: td.optim.swa_utils.SWALR(td.optim.SGD([p], lr=1), 1, anneal_strategy="x"), "anneal_strategy"),
    (lambda p: td.optim.swa_utils.SWALR(td.optim.SGD([p], lr=1), 1, anneal_epochs=-1), "anneal_epochs")])
def test_refused(wrong, said):
    with pytest.raises(td.InvalidError, match=said):
        wrong(td.ones(3))


def test_each_optimizer_refuses_negative_numbers():
    """Rates, momentum and decay of the weights, each by its name."""
    p, tried = td.zeros(2, 2, requires_grad=True), 0
    for o in (each for each in vars(td.optim).values() if isinstance(each, type) and issubclass(each, td.optim.Optimizer) and each is not td.optim.Optimizer):
        for name in {"lr", "momentum", "weight_decay", "lr_decay"} & inspect.signature(o).parameters.keys():
            with pytest.raises(td.InvalidError, match=f"^{name} must not be negative, but is -1"):
                o([p], **{name: -1})
            tried += 1
    assert tried > 25


def test_complex_is_refused():
    for o, p in ((td.optim.Adafactor, td.ones(2, dtype=td.complex64)), (td.optim.Muon, td.ones(2, 2, dtype=td.complex64))):
        with pytest.raises(TypeError, match="complex"):
            p.requires_grad_().grad = td.ones_like(p)
            o([p]).step()


def averages(lib, make, buffers):
    """A model that is averaged over four moments: its mean's state."""
    model = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.BatchNorm1d(3))
    rng = np.random.default_rng(0)
    mean = lib.optim.swa_utils.AveragedModel(model, use_buffers=buffers, **make(lib.optim.swa_utils))
    for _ in range(4):
        with lib.no_grad():
            for p in model.parameters():
                p.copy_(lib.tensor(rng.standard_normal(tuple(p.shape)).astype("float32")))
        model(lib.tensor(rng.standard_normal((5, 2)).astype("float32")))
        mean.update_parameters(model)
    return mean


AVERAGES = [lambda m: {}, lambda m: dict(avg_fn=m.get_ema_avg_fn(0.7)), lambda m: dict(multi_avg_fn=m.get_ema_multi_avg_fn(0.7)),
            lambda m: dict(avg_fn=m.get_swa_avg_fn()), lambda m: dict(multi_avg_fn=m.get_swa_multi_avg_fn()),
            lambda m: dict(avg_fn=lambda a, b, n: 0.9 * a + 0.1 * b)]


@pytest.mark.parametrize("make", AVERAGES)
@pytest.mark.parametrize("buffers", [False, True])
def test_averaged_model(make, buffers):
    mean = averages(td, make, buffers)
    assert int(mean.n_averaged) == 4 and list(mean.state_dict())[:2] == ["n_averaged", "module.0.weight"]
    if not hasattr(torch.optim.swa_utils, "get_ema_avg_fn"):
        pytest.skip("this PyTorch has no get_ema_avg_fn()")
    if buffers and make is AVERAGES[4]:
        pytest.skip("PyTorch refuses the mean of integers there")
    theirs = averages(torch, make, buffers).state_dict()
    for k, v in mean.state_dict().items():
        np.testing.assert_allclose(v.numpy(), theirs[k].numpy(), rtol=1e-5, atol=1e-6)
    assert len(theirs) == len(mean.state_dict()) and mean(td.ones(4, 2)).shape == (4, 3)


def test_hooks_around_a_step():
    seen = []
    for lib in (td, torch):
        w = lib.ones(1, requires_grad=True)
        o = lib.optim.SGD([w], lr=0.5)
        if not hasattr(o, "register_step_pre_hook"):
            continue  # not in PyTorch 1.13
        first = o.register_step_pre_hook(lambda o, args, kwargs: seen.append((lib.__name__, "before", w.item(), args == (o,), kwargs)))
        o.register_step_post_hook(lambda o, args, kwargs: seen.append((lib.__name__, "behind", w.item(), args == (o,), kwargs)))
        w.grad = lib.ones(1)
        o.step()
        first.remove()
        o.step()
    assert seen[:3] == [("tensord", "before", 1, True, {}), ("tensord", "behind", 0.5, True, {}), ("tensord", "behind", 0, True, {})]
    assert [row[1:] for row in seen[3:]] in ([], [row[1:] for row in seen[:3]])
    w = td.ones(1, requires_grad=True)
    o = td.optim.SGD([w], lr=0.5)
    o.register_step_pre_hook(lambda o, args, kwargs: ((*args, lambda: w.sum()), {}))
    assert float(o.step()) == 1
    o.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="new_args, new_kwargs"):
        o.step()
    net = td.nn.Linear(1, 1)
    o = td.optim.SGD(net.parameters(), lr=0.1)
    o.register_step_post_hook(lambda *a: None)
    with pytest.raises(td.Error, match="hooks of the optimizer"):
        td.jit.script(Steps(net, o))(td.ones(1, 1))


class Steps(td.nn.Module):
    def __init__(self, net, optimizer):
        super().__init__()
        self.net, self.optimizer = net, optimizer

    def forward(self, x):
        self.net(x).sum().backward()
        self.optimizer.step()
        return x


def test_a_mean_of_models_that_differ():
    """Refused before anything is averaged."""
    def model(bias=True, buffer=True):
        return td.nn.Sequential(td.nn.Linear(2, 2, bias=bias), td.nn.BatchNorm1d(2, track_running_stats=buffer))

    for buffers in (False, True):
        for other in (model(bias=False), model(buffer=False)):
            mean = td.optim.swa_utils.AveragedModel(model(), use_buffers=buffers)
            before = mean.module[0].weight.clone()
            for _ in range(2):
                with pytest.raises(ValueError, match="zip"):
                    mean.update_parameters(other)
            assert td.equal(mean.module[0].weight, before) and int(mean.n_averaged) == 0
    for make in (td.optim.swa_utils.get_ema_multi_avg_fn(0.5), td.optim.swa_utils.get_swa_multi_avg_fn()):
        with pytest.raises(ValueError, match="zip"):
            make([td.ones(1), td.ones(1)], [td.ones(1)], 1)
    for wrong in (-0.1, 1.1):
        with pytest.raises(td.InvalidError, match=f"Invalid decay value {wrong} provided"):
            td.optim.swa_utils.get_ema_avg_fn(wrong)


def test_means_keep_their_kind():
    mean = td.optim.swa_utils.AveragedModel(td.nn.Linear(1, 1), device="cpu")
    assert mean.n_averaged.dtype is td.int64 and "n_averaged" in dict(mean.named_buffers()) and not any(p.requires_grad and p.grad is not None for p in mean.parameters())
    model = td.nn.BatchNorm1d(2)
    model.train()
    td.optim.swa_utils.update_bn([td.tensor([[1.0, 2.0], [3.0, 6.0]])] * 2, model)
    assert model.training and model.momentum == 0.1 and td.allclose(model.running_mean, td.tensor([2.0, 4.0])) and td.allclose(model.running_var, td.tensor([2.0, 8.0]))
    moved = []
    td.optim.swa_utils.update_bn([types.SimpleNamespace(to=lambda device: moved.append(device) or td.ones(2, 2))], model, device="cpu")
    assert moved == ["cpu"]


def test_one_kind_of_mean():
    with pytest.raises(AssertionError, match="Only one"):
        td.optim.swa_utils.AveragedModel(td.nn.Linear(1, 1), avg_fn=max, multi_avg_fn=max)


def test_statistics_of_the_averaged():
    got = []
    batches = [np.random.default_rng(k).standard_normal((4, 2)).astype("float32") for k in range(3)]
    for lib in (td, torch):
        model = lib.nn.Sequential(lib.nn.BatchNorm1d(2), lib.nn.ReLU(), lib.nn.BatchNorm1d(2, momentum=0.3))
        model.eval()
        model[0](lib.ones(2, 2))
        lib.optim.swa_utils.update_bn([(lib.tensor(b), 0) for b in batches[:2]] + [lib.tensor(batches[2])], model, device="cpu")
        assert not model.training and model[2].momentum == 0.3 and int(model[0].num_batches_tracked) == 3
        got.append([b.numpy() for b in model.buffers()])
    for a, b in zip(*got, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    td.optim.swa_utils.update_bn((1 / 0 for _ in range(1)), td.nn.Linear(1, 1))  # of no batch norm: the batches are not asked for
    norm = td.nn.BatchNorm1d(2)
    norm(td.randn(4, 2))
    norm.weight.data.fill_(3)
    norm.reset_parameters()
    assert norm.weight.tolist() == [1, 1] and norm.running_mean.tolist() == [0, 0] and int(norm.num_batches_tracked) == 0


@pytest.mark.parametrize("options", [{}, dict(anneal_strategy="linear", anneal_epochs=4), dict(anneal_epochs=0), dict(anneal_epochs=6)])
def test_swalr(options):
    got = []
    for lib in (td, torch):
        o = lib.optim.SGD([{"params": [lib.ones(1, requires_grad=True)]}, {"params": [lib.ones(1, requires_grad=True)], "lr": 0.1}], lr=0.5)
        other, s, rates = lib.optim.lr_scheduler.ExponentialLR(o, 0.9), lib.optim.swa_utils.SWALR(o, [0.05, 0.2], **options), []
        for k in range(12):
            rates.append([g["lr"] for g in o.param_groups])
            o.step()
            (s if k > 3 else other).step()
        got.append(rates)
    np.testing.assert_allclose(*got, rtol=1e-12)
    o = td.optim.SGD([{"params": [td.ones(1)]}, {"params": [td.ones(1)]}], lr=0.5)
    again = td.optim.swa_utils.SWALR(o, 0.1)
    o.step(), again.step()
    state = again.state_dict()
    again.step()
    again.load_state_dict(state)
    assert again.last_epoch == 1 and 0.1 < again.get_last_lr()[0] < 0.5


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop", "ASGD", "Adafactor"])
def test_ways_of_stepping_change_nothing(name):
    make = getattr(td.optim, name)
    x, y = (td.nn.Parameter(td.tensor([1.0, -2.0])) for _ in range(2))
    a, b = make([x], lr=0.1), make([y], lr=0.1, foreach=True, capturable=True, fused=True)
    for p, o in ((x, a), (y, b)):
        p.square().sum().backward()
        o.step()
    assert td.equal(x, y) and b.param_groups[0].keys() == a.param_groups[0].keys()


def test_hooks_of_state_dicts():
    x = td.nn.Parameter(td.ones(2))
    o, seen = td.optim.SGD([x], lr=0.5), []
    hooks = [o.register_state_dict_pre_hook(lambda o: seen.append("before")),
             o.register_state_dict_post_hook(lambda o, s: {**s, "more": 1}),
             o.register_state_dict_post_hook(lambda o, s: seen.append(sorted(s)), prepend=True),
             o.register_load_state_dict_pre_hook(lambda o, s: seen.append(s.pop("more"))),
             o.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))]
    s = o.state_dict()
    s["param_groups"][0]["lr"] = 0.25
    o.load_state_dict(s)
    assert seen == ["before", ["param_groups", "state"], 1, "loaded"] and o.param_groups[0]["lr"] == 0.25
    for h in hooks:
        h.remove()
    assert "more" not in o.state_dict() and len(seen) == 4


@pytest.mark.parametrize("kind, options", [("SGD", dict(lr=0.1, momentum=0.9)), ("Adam", dict(lr=0.1)), ("Adam", dict(lr=0.1, amsgrad=True)), ("AdamW", dict(lr=0.1)),
                                           ("RMSprop", dict(lr=0.02, momentum=0.5)), ("Adagrad", dict(lr=0.1)), ("Adadelta", dict(lr=0.5)), ("LBFGS", {})])
def test_complex_parameters(kind, options):
    """Stepped on as pairs of real ones, with a state of complex numbers."""
    if torch.__version__ < "2" and (kind in ("Adagrad", "Adadelta", "LBFGS") or "amsgrad" in options):
        pytest.skip("PyTorch 1.13 steps on them wrongly, or not at all")
    start, got, state = np.array([0.5 - 1j, 2 + 0.25j]), [], []
    for lib in (td, torch):
        z = lib.tensor(start, requires_grad=True)
        o = getattr(lib.optim, kind)([z], **options)

        def closure():
            o.zero_grad()
            loss = (z * (1 + 2j) - 3).abs().square().sum()
            loss.backward()
            return loss

        for _ in range(5):
            o.step(closure)
        got.append(z.detach().numpy())
        state.append({k: (v.is_complex(), tuple(v.shape)) for k, v in o.state[z].items() if lib.is_tensor(v) and v.ndim})
    np.testing.assert_allclose(*got, rtol=1e-6)
    if kind != "LBFGS":
        assert state[0] == state[1]


def test_what_groups_may_be():
    p, q = td.ones(2), td.ones(3)
    with pytest.warns(UserWarning, match="duplicate"):
        td.optim.SGD([p, p], lr=0.1)
    for wrong in (p, [{p}], [{"params": {p, q}}], [3]):
        with pytest.raises(TypeError):
            td.optim.SGD(wrong, lr=0.1)
    o = td.optim.SGD([("first", p), ("second", q)], lr=0.1)
    assert o.param_groups[0]["param_names"] == ["first", "second"] and all(a is b for a, b in zip(o.param_groups[0]["params"], [p, q]))
    assert o.state_dict()["param_groups"][0]["param_names"] == ["first", "second"]
    with pytest.raises(ValueError, match="names"):
        td.optim.SGD([("first", p), q], lr=0.1)
    with pytest.raises(ValueError, match="non-leaf"):
        td.optim.SGD([td.ones(2, requires_grad=True) * 2], lr=0.1)
    o.param_groups.append(o.param_groups[0])
    assert [g["params"] for g in o.state_dict()["param_groups"]] == [[0, 1], [0, 1]]


@pytest.mark.parametrize("kind", ["Adam", "RMSprop", "Adagrad", "NAdam", "ASGD"])
def test_states_of_another_kind(kind):
    """A count of steps that older files have as a number, and the state of wider parameters."""
    w = td.ones(3, requires_grad=True)
    o = getattr(td.optim, kind)([w])
    w.sum().backward()
    o.step()
    state = o.state_dict()
    state["state"][0]["step"] = 1.0
    narrow = td.ones(3, dtype=td.bfloat16, requires_grad=True)
    other = getattr(td.optim, kind)([narrow])
    other.load_state_dict(state)
    assert {v.dtype for k, v in other.state[narrow].items() if td.is_tensor(v) and v.ndim} <= {td.bfloat16} and other.state[narrow]["step"].dtype == td.float32
    o.load_state_dict(state)
    narrow.sum().backward()
    other.step(), o.step()
    assert float(o.state[w]["step"]) == float(other.state[narrow]["step"]) == 2


def test_lbfgs_where_all_is_flat():
    p = td.ones(2)
    assert td.optim.LBFGS([p], tolerance_grad=-math.inf).step(lambda: td.tensor([10])).item() == 10


RECORDED = [r for r in RULES if r[0] != "Adafactor"] + [("SGD", dict(lr=0.1, weight_decay=0.2)), ("RMSprop", dict(lr=0.02, weight_decay=0.1)), ("NAdam", dict(decoupled_weight_decay=True))]


def stepped(kind, options, start, differentiable=True):
    """A parameter behind three steps by gradients that come of its start, and what the optimizer was given."""
    w = td.tensor(start, dtype=td.float64, requires_grad=True)
    p = w.clone() if differentiable else w.detach().clone()
    o = getattr(td.optim, kind)([p], differentiable=differentiable, **options)
    for k in range(3):
        p.grad = (w * w * (k + 1) + w.sin()).detach() if not differentiable else w * w * (k + 1) + w.sin()
        o.step()
    return w, p


@pytest.mark.parametrize("kind, options", RECORDED, ids=lambda x: x if isinstance(x, str) else "-".join(x))
def test_gradients_pass_through_steps(kind, options):
    start = [1.0, -2.0, 0.5]
    w, p = stepped(kind, options, start)
    td.testing.assert_close(p, stepped(kind, options, start, False)[1], check_stride=False, rtol=1e-6, atol=1e-8)
    (p**3).sum().backward()
    if kind == "SGD" and options.get("momentum"):  # nothing flows to the first gradient: see the next test
        return
    for k in range(3):
        low, high = ((stepped(kind, options, [x + d * (k == j) for j, x in enumerate(start)], False)[1] ** 3).sum().item() for d in (-1e-5, 1e-5))
        assert w.grad[k].item() == pytest.approx((high - low) / 2e-5, rel=1e-4, abs=1e-6)


def test_gradients_of_momentum_and_of_numbers():
    """The numbers are PyTorch 2.13's."""
    w, p = stepped("SGD", dict(lr=0.1, momentum=0.9, weight_decay=0.1), [1.0, -2.0, 0.5])
    (p**3).sum().backward()
    assert p.tolist() == pytest.approx([-0.4688655764600004, -5.1638376782252875, -0.030774278827043783], rel=1e-12) and w.grad.tolist() == pytest.approx([-0.35682332778962456, 304.25280331074043, 0.00011216547566168756], rel=1e-12)
    lr, decay = (td.tensor(x, dtype=td.float64, requires_grad=True) for x in (0.1, 0.2))
    w, p = stepped("SGD", dict(lr=lr, weight_decay=decay), [1.0, -2.0, 0.5])
    (p**3).sum().backward()
    assert [w.grad.tolist(), lr.grad.item(), decay.grad.item()] == [pytest.approx([-0.012472374920977601, 163.33947979613407, 0.009015354756647803], rel=1e-12), pytest.approx(-933.1267211032806, rel=1e-12), pytest.approx(33.666784984391796, rel=1e-12)]
    betas = [td.tensor(x, dtype=td.float64, requires_grad=True) for x in (0.9, 0.99)]
    w, p = stepped("Adam", dict(lr=td.tensor(0.1), betas=betas), [1.0, -2.0, 0.5])
    (p**3).sum().backward()
    assert [b.grad.item() for b in betas] == pytest.approx([0.9664884906100148, -0.7662403252027161], rel=1e-5)


def test_what_records_no_step_takes_leaves():
    w = td.ones(2, requires_grad=True)
    with pytest.raises(td.InvalidError, match="non-leaf"):
        td.optim.SGD([w * 2])
    assert td.optim.Adam([w * 2], differentiable=True).param_groups[0]["differentiable"] is True

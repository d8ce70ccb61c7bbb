"""Optimizers and schedules against torch's, of those that the system's torch has: float64, over twenty steps."""

import math

import numpy as np
import pytest
import tensord as td

torch = pytest.importorskip("torch")

RULES = [("SGD", dict(lr=0.1, momentum=0.9, dampening=0.3)), ("SGD", dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1, maximize=True)),
         ("Adam", dict(lr=0.05, weight_decay=0.1)), ("Adam", dict(lr=0.05, amsgrad=True, weight_decay=0.1)), ("AdamW", dict(lr=0.05, amsgrad=True)),
         ("AdamW", dict(lr=0.05, maximize=True)), ("RMSprop", dict(lr=0.02, momentum=0.5, centered=True)), ("Adagrad", dict(lr=0.1, lr_decay=0.1)),
         ("Adadelta", dict(lr=0.5, weight_decay=0.1)), ("Adamax", dict(lr=0.05, weight_decay=0.1)), ("NAdam", dict(lr=0.05, weight_decay=0.1)),
         ("RAdam", dict(lr=0.05, betas=(0.8, 0.9), weight_decay=0.1)), ("Rprop", {}), ("ASGD", dict(lr=0.05, t0=5, weight_decay=0.1)), ("ASGD", dict(maximize=True))]


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
        s.step()
    np.testing.assert_allclose(rates, [0.1, 0.075, 0.05, 0.025, 0], atol=1e-15)

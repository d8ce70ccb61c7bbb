"""Optimizers, schedules and means over a training beside the numbers that PyTorch 2.13 gave: those that have an older one, or none, see them too.

`python test_recorded.py`, with such a PyTorch, writes recorded.json.
"""
import json
import pathlib

import pytest

RESULTS = pathlib.Path(__file__).with_name("recorded.json")
BIG, SMALL = dict(lr=0.1), dict(lr=0.01)
RULES = [("SGD", BIG), ("SGD", dict(lr=0.1, weight_decay=0.2)), ("SGD", dict(lr=0.1, momentum=0.9, dampening=0.3)), ("SGD", dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1, maximize=True)),
         ("SGD", dict(lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1, differentiable=True)), ("SGD", dict(lr=0.1, momentum=0.5, nesterov=True, differentiable=True)),
         ("Adam", BIG), ("Adam", dict(lr=0.1, weight_decay=0.1, amsgrad=True)), ("Adam", dict(lr=0.1, betas=(0.5, 0.7), eps=0.1, maximize=True)),
         ("AdamW", dict(lr=0.1, weight_decay=0.3)), ("AdamW", dict(lr=0.1, amsgrad=True, maximize=True)), ("RMSprop", SMALL), ("RMSprop", dict(lr=0.02, momentum=0.5, centered=True, alpha=0.8)),
         ("RMSprop", dict(lr=0.02, weight_decay=0.3, eps=0.1, maximize=True)), ("Adagrad", BIG), ("Adagrad", dict(lr=0.1, lr_decay=0.1, initial_accumulator_value=0.5, weight_decay=0.2)), ("Adagrad", dict(lr=0.1, maximize=True, eps=0.1)),
         ("Adadelta", {}), ("Adadelta", dict(lr=0.5, rho=0.5, eps=0.01, weight_decay=0.1)), ("Adadelta", dict(rho=0.0, maximize=True)), ("Adamax", BIG), ("Adamax", dict(lr=0.1, betas=(0.5, 0.6), eps=0.1, weight_decay=0.1)),
         ("NAdam", BIG), ("NAdam", dict(lr=0.1, weight_decay=0.2, momentum_decay=0.5)), ("NAdam", dict(lr=0.1, weight_decay=0.2, decoupled_weight_decay=True, maximize=True)),
         ("RAdam", BIG), ("RAdam", dict(lr=0.1, betas=(0.8, 0.9), weight_decay=0.1)), ("RAdam", dict(lr=0.1, betas=(0.8, 0.9), weight_decay=0.1, decoupled_weight_decay=True, maximize=True)),
         ("Rprop", BIG), ("Rprop", dict(lr=0.1, etas=(0.3, 1.5), step_sizes=(0.05, 0.2))), ("Rprop", dict(maximize=True)), ("ASGD", BIG), ("ASGD", dict(lr=0.1, t0=2, alpha=0.5, lambd=0.1, weight_decay=0.1)), ("ASGD", dict(lr=0.1, t0=3, maximize=True)),
         ("Adafactor", BIG), ("Adafactor", dict(lr=0.05, beta2_decay=-0.5, eps=(1e-3, 1e-2), d=1.5, weight_decay=0.1, maximize=True)), ("Adafactor", dict(lr=0.5, eps=(1e-3, 10.0))),
         ("Muon", SMALL), ("Muon", dict(lr=0.1, momentum=0.5, nesterov=False, weight_decay=0.3)), ("Muon", dict(lr=0.1, adjust_lr_fn="match_rms_adamw", ns_steps=3))]
SEARCHES = [{}, dict(lr=0.3, history_size=2), dict(max_iter=1), dict(max_iter=4, max_eval=3), dict(tolerance_grad=10.0), dict(tolerance_change=0.5), *(dict(line_search_fn="strong_wolfe", **more) for more in (
    {}, dict(lr=0.01, history_size=3), dict(lr=30.0), dict(max_iter=3), dict(max_eval=4), dict(max_eval=9, lr=5.0), dict(tolerance_change=0.1)))]


def trained(lib, kind, options):
    """The weights after some of the steps, whose gradients turn round, and what the optimizer keeps."""
    w, b = lib.tensor([[0.5, -1.25], [2.0, 0.75]], dtype=lib.float64, requires_grad=True), lib.tensor([[1.5, -0.5]], dtype=lib.float64, requires_grad=True)
    o, seen = getattr(lib.optim, kind)([{"params": [w]}, {"params": [b], "lr": 0.05}], **options), []
    inner = [w.clone(), b.clone()] if options.get("differentiable") else [w, b]
    if options.get("differentiable"):
        for group, p in zip(o.param_groups, inner):
            group["params"] = [p]
    for k in range(7):
        for p in inner:
            p.grad = None
        loss = ((inner[0] * (k % 3 - 0.5) - inner[1]) ** 2).sum() + inner[1].cos().sum()
        for p, g in zip(inner, lib.autograd.grad(loss, inner)):
            p.grad = g
        o.step()
        if k in (0, 1, 3, 6):
            seen.append([p.tolist() for p in inner])
    kept = {} if options.get("differentiable") else o.state_dict()["state"].get(0, {})
    return seen, {k: kept[k].tolist() if hasattr(kept[k], "tolist") else kept[k] for k in sorted(kept)}


def searched(lib, options):
    """L-BFGS in a bent valley, among several pits, and on what has no slope at its end: values, what it asked, where it ends."""
    seen = []
    for f, start in ((lambda x: (3 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum(), [-0.5, 0.8, 0.4]), (lambda x: (x**2).sum() / 4 + (3 * x).cos().sum(), [2.0, -0.3]), (lambda x: (x**4).sum().sqrt(), [3.0, 0.5])):
        x, asked = lib.tensor(start, dtype=lib.float64, requires_grad=True), []

        def closure():
            x.grad = None
            y = f(x)
            y.backward()
            asked.append(float(y))
            return y

        o = lib.optim.LBFGS([x], **options)
        values = [float(o.step(closure)) for _ in range(3)]
        state = o.state_dict()["state"][0]
        seen.append([values, asked, x.tolist(), state["func_evals"], state["n_iter"]])
    return seen


def optimizer(lib, kind="SGD", **options):
    return getattr(lib.optim, kind)([{"params": [lib.ones(1, requires_grad=True)]}, {"params": [lib.ones(1, requires_grad=True)], "lr": 0.1}], lr=0.5, **options)


SCHEDULES = [("LambdaLR", dict(lr_lambda=[lambda k: 0.5**k, lambda k: 1 + k])), ("MultiplicativeLR", dict(lr_lambda=lambda k: 1 - k / 20)), ("StepLR", dict(step_size=3)), ("StepLR", dict(step_size=1, gamma=0.5)),
             ("MultiStepLR", dict(milestones=[2, 2, 5], gamma=0.5)), ("ConstantLR", dict(factor=0.5, total_iters=3)), ("ConstantLR", {}), ("LinearLR", dict(start_factor=0.5, end_factor=0.1, total_iters=4)), ("LinearLR", {}),
             ("ExponentialLR", dict(gamma=0.8)), ("PolynomialLR", dict(total_iters=6, power=2.0)), ("PolynomialLR", {}), ("CosineAnnealingLR", dict(T_max=4, eta_min=0.02)), ("CosineAnnealingWarmRestarts", dict(T_0=3, T_mult=2, eta_min=0.01)),
             ("CosineAnnealingWarmRestarts", dict(T_0=2)), ("CyclicLR", dict(base_lr=0.1, max_lr=0.9, step_size_up=2, mode="triangular2")), ("CyclicLR", dict(base_lr=[0.1, 0.2], max_lr=0.9, step_size_up=2, step_size_down=3)),
             ("CyclicLR", dict(base_lr=0.1, max_lr=0.9, step_size_up=3, mode="exp_range", gamma=0.8)), ("CyclicLR", dict(base_lr=0.1, max_lr=0.9, step_size_up=3, scale_fn=lambda x: 1 / x, cycle_momentum=False)),
             ("CyclicLR", dict(base_lr=0.1, max_lr=0.9, step_size_up=2, scale_fn=lambda x: 1 / (1 + x), scale_mode="iterations")), ("OneCycleLR", dict(max_lr=1.0, total_steps=14)), ("OneCycleLR", dict(max_lr=[1.0, 2.0], epochs=2, steps_per_epoch=7, three_phase=True)),
             ("OneCycleLR", dict(max_lr=1.0, total_steps=14, anneal_strategy="linear", pct_start=0.5, div_factor=10.0, final_div_factor=100.0, base_momentum=0.7, max_momentum=0.99)), ("OneCycleLR", dict(max_lr=1.0, total_steps=14, cycle_momentum=False))]


def rates(lib, kind, options, base):
    """Rates and momenta of each step, and what a schedule keeps."""
    o = optimizer(lib, base, **({"momentum": 0.9} if base == "SGD" else {}))
    s, seen = getattr(lib.optim.lr_scheduler, kind)(o, **options), []
    for _ in range(12):
        seen.append([[g["lr"], g["momentum"] if base == "SGD" else g["betas"][0]] for g in o.param_groups] + [list(s.get_last_lr()), s.last_epoch])
        o.step()
        s.step()
    return seen, [list(s.base_lrs), s._step_count, sorted(k for k in s.state_dict() if k in ("base_lrs", "last_epoch", "T_i", "T_cur", "lr_lambdas", "total_steps", "_scale_fn_custom"))]


PLATEAUS = [{}, dict(patience=1), dict(patience=0, factor=0.5, cooldown=1), dict(mode="max", patience=1, threshold=0.5, threshold_mode="abs"), dict(mode="max", patience=0, threshold=0.2), dict(patience=0, min_lr=[0.2, 0.01]), dict(patience=0, eps=0.3, min_lr=0.05),
            dict(mode="min", patience=0, threshold=0.3, threshold_mode="abs", cooldown=2)]


def levels(lib, options):
    o = optimizer(lib)
    s, seen = lib.optim.lr_scheduler.ReduceLROnPlateau(o, **options), []
    for value in (3.0, 2.5, 2.5, 2.4, 2.4, 2.4, 3.0, 1.0, 1.0, 0.9, 1.1, 1.2, 1.2, 1.2):
        s.step(lib.tensor(value))
        seen.append([[g["lr"] for g in o.param_groups], s.best, s.num_bad_epochs, s.cooldown_counter, s.last_epoch, list(s.get_last_lr())])
    return seen


def together(lib):
    """Schedules of schedules."""
    of, o = lib.optim.lr_scheduler, optimizer(lib)
    s, seen = of.SequentialLR(o, [of.LinearLR(o, 0.1, total_iters=3), of.ExponentialLR(o, 0.5), of.ConstantLR(o, 0.5, 2)], [3, 6]), []
    for _ in range(9):
        seen.append([g["lr"] for g in o.param_groups])
        o.step()
        s.step()
    o = optimizer(lib)
    s = of.ChainedScheduler([of.StepLR(o, 2, 0.5), of.ExponentialLR(o, 0.9)])
    for _ in range(5):
        seen.append([g["lr"] for g in o.param_groups] + list(s.get_last_lr()))
        o.step()
        s.step()
    return seen


MEANS = [lambda m: {}, lambda m: dict(avg_fn=m.get_ema_avg_fn(0.75)), lambda m: dict(multi_avg_fn=m.get_ema_multi_avg_fn(0.75)), lambda m: dict(avg_fn=m.get_swa_avg_fn()), lambda m: dict(multi_avg_fn=m.get_swa_multi_avg_fn()),
         lambda m: dict(avg_fn=lambda a, b, n: 0.5 * a + 0.25 * b * n), lambda m: dict(use_buffers=True)]


def mean(lib, make):
    model = lib.nn.Sequential(lib.nn.Linear(2, 1).double(), lib.nn.BatchNorm1d(1).double())
    m = lib.optim.swa_utils.AveragedModel(model, **make(lib.optim.swa_utils))
    for k in range(4):
        with lib.no_grad():
            for n, p in enumerate(model.parameters()):
                p.copy_(lib.ones_like(p) * (k * k + n))
        model[1].running_mean.fill_(k + 0.5)
        m.update_parameters(model)
    return {k: v.tolist() for k, v in m.state_dict().items()}


def annealed(lib, options):
    o = optimizer(lib)
    other, s, seen = lib.optim.lr_scheduler.ExponentialLR(o, 0.9), lib.optim.swa_utils.SWALR(o, **options), []
    for k in range(12):
        seen.append([g["lr"] for g in o.param_groups])
        o.step()
        (s if k > 3 else other).step()
    return seen


CASES = {f"{k} {kind}": (lambda lib, kind=kind, options=options: trained(lib, kind, options)) for k, (kind, options) in enumerate(RULES) if kind != "Muon"}
CASES.update({f"{k} Muon": (lambda lib, options=options: muon(lib, options)) for k, (kind, options) in enumerate(RULES) if kind == "Muon"})
CASES.update({f"{k} LBFGS": (lambda lib, options=options: searched(lib, options)) for k, options in enumerate(SEARCHES)})
CASES.update({f"{k} {kind} {base}": (lambda lib, kind=kind, options=options, base=base: rates(lib, kind, options, base)) for k, (kind, options) in enumerate(SCHEDULES) for base in (["SGD", "Adam"] if kind in ("CyclicLR", "OneCycleLR") else ["SGD"])})
CASES.update({f"{k} plateau": (lambda lib, options=options: levels(lib, options)) for k, options in enumerate(PLATEAUS)})
CASES.update({f"{k} mean": (lambda lib, make=make: mean(lib, make)) for k, make in enumerate(MEANS)})
CASES.update({f"{k} annealed": (lambda lib, options=options: annealed(lib, options)) for k, options in enumerate([
    dict(swa_lr=0.05), dict(swa_lr=[0.05, 0.2], anneal_strategy="linear", anneal_epochs=4), dict(swa_lr=0.05, anneal_epochs=0), dict(swa_lr=0.05, anneal_epochs=6)])})
CASES["together"] = together


def muon(lib, options):
    """Of matrices; in float32, of which it makes bfloat16."""
    w = lib.tensor([[0.5, -1.25, 1.0], [2.0, 0.75, -1.0]], requires_grad=True)
    o, seen = lib.optim.Muon([w], **options), []
    for k in range(3):
        w.grad = None
        ((w * (k % 3 - 0.5) - 1) ** 2).sum().backward()
        o.step()
        seen.append(w.tolist())
    return seen


def short(x):
    """With as many digits as count here."""
    if isinstance(x, dict):
        return {k: short(v) for k, v in x.items()}
    return [short(v) for v in x] if isinstance(x, (list, tuple)) else float(f"{x:.10g}") if isinstance(x, float) else x


def near(a, b, close, where=()):
    if isinstance(b, dict):
        assert sorted(a) == sorted(b), where
        a, b = [a[k] for k in sorted(a)], [b[k] for k in sorted(b)]
    if isinstance(b, (list, tuple)):
        assert len(a) == len(b), where
        for k, (x, y) in enumerate(zip(a, b)):
            near(x, y, close, (*where, k))
    elif isinstance(b, (int, float)) and not isinstance(b, bool):
        assert a == pytest.approx(b, rel=close, abs=close), where
    else:
        assert a == b, where


@pytest.mark.filterwarnings("ignore:the schedule's step:UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_as_recorded(name):
    import tensord as td

    recorded = json.loads(RESULTS.read_text())
    assert sorted(recorded) == sorted(CASES)
    near(CASES[name](td), recorded[name], 0.02 if "Muon" in name else 1e-5 if any(kind in name for kind in ("NAdam", "ASGD", "Adagrad", "LBFGS")) else 1e-8)


@pytest.mark.parametrize("kind, options", [*SCHEDULES, ("CyclicLR", dict(base_lr=0.1, max_lr=0.9)), ("OneCycleLR", dict(max_lr=1.0, total_steps=4))], ids=lambda x: x if isinstance(x, str) else "")
def test_the_rate_to_come_is_no_rate(kind, options):
    import tensord as td

    s = getattr(td.optim.lr_scheduler, kind)(optimizer(td, momentum=0.5), **options)
    with pytest.warns(UserWarning, match="get_last_lr"):
        s.get_lr()


REFUSED = [("Adadelta", dict(rho=-0.1), "rho must be between 0 and 1, but is -0.1"), ("Adadelta", dict(rho=1.1), "rho must be"), ("Adamax", dict(betas=(1.0, 0.5)), "betas must be at least 0 and below 1"),
           ("Adam", dict(betas=(0.5, 1.0)), "betas must be"), ("AdamW", dict(betas=(-0.1, 0.5)), "betas must be"), ("NAdam", dict(betas=(0.5, 1.5)), "betas must be"), ("Rprop", dict(etas=(1.0, 1.5)), "etas lie below and above 1"),
           ("Rprop", dict(etas=(0.5, 1.0)), "etas lie"), ("Rprop", dict(etas=(0.0, 1.5)), "etas lie"), ("SGD", dict(nesterov=True), "nesterov needs a momentum"), ("SGD", dict(nesterov=True, momentum=0.5, dampening=0.1), "and no dampening"),
           ("Adafactor", dict(beta2_decay=0.1), "beta2_decay should be <= 0"), ("Adafactor", dict(eps=(-1e-9, 0)), "epsilon1"), ("Adafactor", dict(eps=(None, -1e-9)), "epsilon2"), ("Adafactor", dict(d=0.9), "threshold d should be >= 1"),
           ("LBFGS", dict(line_search_fn="no"), "only 'strong_wolfe' is supported, not 'no'"), ("RMSprop", dict(eps=-1), "eps must not be negative"), ("Adagrad", dict(initial_accumulator_value=-1), "initial_accumulator_value must not be negative")]
ALLOWED = [("Adadelta", dict(rho=1.0)), ("Adadelta", dict(rho=0.0)), ("Adam", dict(betas=(0.0, 0.0))), ("Adafactor", dict(eps=(0, 0), beta2_decay=0, d=1)), ("SGD", dict(lr=0, momentum=0, weight_decay=0)), ("SGD", dict(nesterov=True, momentum=0.1)), ("LBFGS", dict(lr=0)),
           ("Rprop", dict(etas=(0.5, 1.1)))]


@pytest.mark.parametrize("kind, options, said", REFUSED)
def test_numbers_out_of_range(kind, options, said):
    import tensord as td

    with pytest.raises(ValueError, match=said):
        getattr(td.optim, kind)([td.ones(2, requires_grad=True)], **options)


@pytest.mark.parametrize("kind, options", ALLOWED)
def test_numbers_at_the_edge(kind, options):
    import tensord as td

    assert getattr(td.optim, kind)([td.ones(2, requires_grad=True)], **options).param_groups[0].items() >= options.items()


SCHEDULED = [("CyclicLR", dict(base_lr=0.1, max_lr=1), "must support momentum or beta1"), ("OneCycleLR", dict(max_lr=1, total_steps=3), "must support momentum or beta1"), ("OneCycleLR", dict(max_lr=1), "either total_steps OR both epochs"),
             ("OneCycleLR", dict(max_lr=1, epochs=3), "either total_steps OR both"), ("OneCycleLR", dict(max_lr=1, steps_per_epoch=3), "either total_steps OR both"), ("OneCycleLR", dict(max_lr=1, total_steps=3, anneal_strategy="no"), "'cos' or 'linear', not 'no'"),
             ("OneCycleLR", dict(max_lr=1, total_steps=3, pct_start=1.1), "pct_start must be from 0 to 1, not 1.1"), ("OneCycleLR", dict(max_lr=1, total_steps=3, pct_start=-0.1), "pct_start must be"), ("CyclicLR", dict(base_lr=0.1, max_lr=1, mode="no"), "mode is invalid and scale_fn is None"),
             ("OneCycleLR", dict(max_lr=1, total_steps=0), "total_steps must be above 0, not 0"), ("OneCycleLR", dict(max_lr=1, total_steps=1.5), "total_steps must be a whole number, not 1.5"), ("OneCycleLR", dict(max_lr=[1, 2, 3], total_steps=3, cycle_momentum=False), "max_lr must have the same length"),
             ("ConstantLR", dict(factor=1.1), "factor must be from 0 to 1, not 1.1"), ("ConstantLR", dict(factor=-0.1), "factor must be"), ("LinearLR", dict(start_factor=0.0), "start_factor must be above 0"), ("LinearLR", dict(start_factor=1.1), "at most 1"),
             ("LinearLR", dict(end_factor=-0.1), "end_factor from 0 to 1"), ("LinearLR", dict(end_factor=1.1), "end_factor from 0 to 1"), ("LambdaLR", dict(lr_lambda=[abs]), "there are 1 lr_lambdas, and 2 groups"), ("ReduceLROnPlateau", dict(factor=1.0), "Factor should be < 1.0"),
             ("ReduceLROnPlateau", dict(mode="no"), "mode is 'min' or 'max'"), ("ReduceLROnPlateau", dict(threshold_mode="no"), "threshold_mode 'rel' or 'abs'"), ("ReduceLROnPlateau", dict(min_lr=[1.0]), "there are 1 min_lrs, and 2 groups")]


@pytest.mark.parametrize("kind, options, said", SCHEDULED)
def test_schedules_that_are_refused(kind, options, said):
    import tensord as td

    with pytest.raises(ValueError, match=said):
        getattr(td.optim.lr_scheduler, kind)(optimizer(td, "Adagrad"), **options)


def test_edges_of_schedules():
    import tensord as td

    of, o = td.optim.lr_scheduler, optimizer(td, momentum=0.5)
    of.ConstantLR(o, 0.0), of.ConstantLR(o, 1.0), of.LinearLR(o, 1.0, 0.0), of.OneCycleLR(o, 1.0, 3, pct_start=0), of.OneCycleLR(o, 1.0, 3, pct_start=1), of.CyclicLR(o, 0.1, 1, mode="no", scale_fn=abs)
    assert [g["momentum"] for g in o.param_groups] == [0.9, 0.9]
    of.CyclicLR(optimizer(td, "Adagrad"), 0.1, 1, cycle_momentum=False), of.OneCycleLR(optimizer(td, "Adagrad"), 1.0, 3, cycle_momentum=False)
    s = of.OneCycleLR(o, 1.0, total_steps=2)
    for _ in range(2):
        o.step()
        s.step()
    with pytest.raises(ValueError, match="Tried to step 3 times. The specified number of total steps is 2"):
        s.step()


if __name__ == "__main__":
    import torch

    RESULTS.write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(short(case(torch)), separators=(',', ':'))}" for name, case in CASES.items()) + "\n}\n")

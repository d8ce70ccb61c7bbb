"""Schedules of learning rates beside torch's: what goes to any epoch, goes on later, is kept in state dicts, and what is warned of."""

import copy
import math
import warnings

import pytest
import tensord as td

np = pytest.importorskip("numpy", reason="NumPy is not there (Debian: python3-numpy)")
torch = pytest.importorskip("torch")

KINDS = [("StepLR", dict(step_size=3)), ("MultiStepLR", dict(milestones=[2, 5, 5])), ("ExponentialLR", dict(gamma=0.8)), ("ConstantLR", dict(factor=0.5, total_iters=3)),
         ("LinearLR", dict(start_factor=0.25, total_iters=4)), ("PolynomialLR", dict(total_iters=5, power=0.9)), ("CosineAnnealingLR", dict(T_max=4, eta_min=0.01)),
         ("LambdaLR", dict(lr_lambda=lambda k: 0.9**k)), ("MultiplicativeLR", dict(lr_lambda=lambda k: 0.9)),
         ("CosineAnnealingWarmRestarts", dict(T_0=3, T_mult=2, eta_min=0.01)), ("CyclicLR", dict(base_lr=0.1, max_lr=0.5, step_size_up=3, mode="exp_range", gamma=0.9)),
         ("OneCycleLR", dict(max_lr=[0.4, 0.2], total_steps=20, max_momentum=[0.9, 0.8]))]
LIBS = (td, torch)


def optimizer(lib, lr=0.2):
    return lib.optim.SGD([{"params": [lib.ones(1)]}, {"params": [lib.ones(1)], "lr": lr / 2}], lr=lr, momentum=0.9)


def numbers(o):
    return [(g["lr"], g["momentum"]) for g in o.param_groups]


def both(walk):
    """What a walk through a schedule gives, of both libraries."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = (walk(lib) for lib in LIBS)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


@pytest.mark.parametrize("kind, options", KINDS, ids=[k for k, _ in KINDS])
def test_to_any_epoch(kind, options):
    def walk(lib):
        o, seen = optimizer(lib), []
        s = getattr(lib.optim.lr_scheduler, kind)(o, **options)
        back = () if kind == "MultiplicativeLR" and torch.__version__ < "2" else (0,)  # that version leaves the rate as it is there
        for epoch in (None, 4, None, 1, 9, 10, None, *back):
            o.step()
            s.step() if epoch is None else s.step(epoch)
            seen.append(numbers(o))
            assert s.get_last_lr() == [lr for lr, _ in seen[-1]]
        return seen

    both(walk)


def test_shares_of_an_epoch():
    def walk(lib):
        o, seen = optimizer(lib), []
        s = lib.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, T_0=2, T_mult=3)
        for k in range(60):
            s.step(k / 4)
            seen.append((*s.get_last_lr(), s.T_cur, s.T_i, s.last_epoch))
        return seen

    both(walk)


@pytest.mark.parametrize("kind, options", KINDS, ids=[k for k, _ in KINDS])
@pytest.mark.parametrize("after", [1, 3, 4])
def test_goes_on_later(kind, options, after):
    """With an optimizer as it was after some epochs, and with the state that a schedule had then."""
    if kind in ("LinearLR", "ExponentialLR", "PolynomialLR", "MultiplicativeLR", "CosineAnnealingLR") and torch.__version__ < "2":
        pytest.skip("PyTorch 1.13 takes the step that the rate has made once more")

    def walk(lib):
        o, seen = optimizer(lib), []
        make = getattr(lib.optim.lr_scheduler, kind)
        s = make(o, **options)
        for _ in range(after):
            o.step(), s.step()
        other = optimizer(lib)
        other.load_state_dict(copy.deepcopy(o.state_dict()))
        later = make(other, **options, last_epoch=s.last_epoch - 1)
        third = optimizer(lib)
        loaded = make(third, **options)
        third.load_state_dict(copy.deepcopy(o.state_dict()))
        loaded.load_state_dict(s.state_dict())
        for _ in range(3):
            later.step(), loaded.step()
            seen.append([*later.get_last_lr(), *loaded.get_last_lr()])
        return seen

    both(walk)


@pytest.mark.parametrize("nested", [False, True])
def test_one_after_the_other(nested):
    if nested and torch.__version__ < "2":
        pytest.skip("PyTorch 1.13 takes the first steps of those within once more")
    def walk(lib):
        o, seen, m = optimizer(lib), [], lib.optim.lr_scheduler
        parts = [m.ConstantLR(o, 0.1, 2), m.ExponentialLR(o, 0.9), m.StepLR(o, 2, 0.5)]
        if nested:
            parts[0] = m.SequentialLR(o, [m.LinearLR(o), m.ExponentialLR(o, 0.7)], [1])
        s = m.SequentialLR(o, parts, [2, 7])
        seen.append(s.get_last_lr())
        for _ in range(12):
            o.step(), s.step()
            seen.append(s.get_last_lr())
        again = copy.deepcopy(s.state_dict())
        s.load_state_dict(again)
        s.step()
        return [*seen, s.get_last_lr()]

    both(walk)


class Slower:
    def __init__(self, by):
        self.by = by

    def __call__(self, k):
        return self.by**k


def test_state_of_functions():
    """What an object holds is in a state dict, a function is not, and both libraries read the other's."""
    made = {lib: lib.optim.lr_scheduler.LambdaLR(optimizer(lib), [Slower(0.5), lambda k: 1.0]) for lib in LIBS}
    assert made[td].state_dict()["lr_lambdas"] == made[torch].state_dict()["lr_lambdas"] == [{"by": 0.5}, None]
    for lib, other in (LIBS, LIBS[::-1]):
        s = lib.optim.lr_scheduler.LambdaLR(optimizer(lib), [Slower(0.9), lambda k: 1.0])
        s.load_state_dict(made[other].state_dict())
        assert s.lr_lambdas[0].by == 0.5


@pytest.mark.parametrize("kind, options", KINDS, ids=[k for k, _ in KINDS])
def test_state_of_the_other_library(kind, options):
    them, us = (getattr(lib.optim.lr_scheduler, kind)(optimizer(lib), **options) for lib in LIBS[::-1])
    for _ in range(4):
        them.optimizer.step(), them.step()
    us.load_state_dict(them.state_dict())
    us.step(), them.step()
    if kind in ("LambdaLR", "CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"):  # they say what the rate is, the others what it is multiplied by
        np.testing.assert_allclose(us.get_last_lr(), them.get_last_lr(), rtol=1e-9)
    assert us.last_epoch == them.last_epoch == 5


def test_of_ones_own():
    """Written as for PyTorch: by the older name, with a closed form."""

    class Halved(td.optim.lr_scheduler._LRScheduler):
        def get_lr(self):
            if not self._get_lr_called_within_step:
                warnings.warn("outside")
            return [g["lr"] / 2 if self._step_count > 1 else g["lr"] for g in self.optimizer.param_groups]

        def _get_closed_form_lr(self):
            return [base / 2**self.last_epoch for base in self.base_lrs]

    o = optimizer(td)
    s = Halved(o)
    o.step(), s.step()
    assert s.get_last_lr() == [0.1, 0.05] and isinstance(td.optim.lr_scheduler.StepLR(o, 1), td.optim.lr_scheduler._LRScheduler)
    with pytest.warns(UserWarning, match="epoch parameter"):
        s.step(3)
    assert s.get_last_lr() == [0.025, 0.0125]
    with pytest.warns(UserWarning, match="get_last_lr"):
        td.optim.lr_scheduler.StepLR(o, 1).get_lr()


class Plain(td.optim.Optimizer):
    """As they are written for PyTorch: a state that is there when it is asked for."""

    def __init__(self, params, lr):
        super().__init__(params, dict(lr=lr))

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("later", 1)

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["step"] = state.get("step", 0) + 1


@pytest.mark.parametrize("make", [optimizer, lambda lib: Plain([td.ones(1)], 0.1)], ids=["SGD", "own"])
def test_order_of_the_steps(make):
    o = make(td)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        td.optim.lr_scheduler.StepLR(o, 2).step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        o = make(td)
        s = td.optim.lr_scheduler.StepLR(o, 2)
        o.step(), s.step(), s.step()
        o = make(td)
        s = td.optim.lr_scheduler.StepLR(o, 2)
        o.step()
        copy.deepcopy(s).step()
    o = make(td)
    s = td.optim.lr_scheduler.StepLR(o, 2)
    o.step = lambda: None
    with pytest.warns(UserWarning, match="overridden"):
        s.step()


def test_an_optimizer_of_ones_own():
    p = td.ones(1)
    o = Plain([p], 0.1)
    o.step(), o.step()
    o.load_state_dict(o.state_dict())
    assert o.state[p]["step"] == 2 and o.param_groups[0]["later"] == 1


@pytest.mark.skipif(torch.__version__ < "2", reason="PyTorch 1.13 knows no rate for them")
def test_groups_that_came_later():
    def walk(lib):
        o = optimizer(lib)
        s, seen = lib.optim.lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=0, min_lr=0.01), []
        o.add_param_group({"params": [lib.ones(2)], "lr": 0.4})
        for k in range(4):
            s.step(1.0)
            seen.append([g["lr"] for g in o.param_groups])
        assert s.factor == 0.5 and s.in_cooldown is False and s.mode_worse == math.inf
        return seen

    both(walk)


@pytest.mark.parametrize("error, wrong", [
    (TypeError, lambda m, o: m.StepLR(3, 1)), (KeyError, lambda m, o: m.StepLR(o, 1, last_epoch=2)), (ValueError, lambda m, o: m.ConstantLR(o, 2.0)),
    (ValueError, lambda m, o: m.ReduceLROnPlateau(o, min_lr=[1.0])), (TypeError, lambda m, o: m.LambdaLR(o, [1, 2])), (ValueError, lambda m, o: m.CyclicLR(o, [1], 2)),
    (ValueError, lambda m, o: m.SequentialLR(o, [], [])), (ValueError, lambda m, o: m.SequentialLR(o, [m.ReduceLROnPlateau(o)], [])),
    (ValueError, lambda m, o: m.ChainedScheduler([m.StepLR(o, 1), m.StepLR(optimizer(td), 1)])), (ValueError, lambda m, o: m.CosineAnnealingWarmRestarts(o, 2).step(-1))])
def test_refused(error, wrong):
    with pytest.raises(error):
        wrong(td.optim.lr_scheduler, optimizer(td))

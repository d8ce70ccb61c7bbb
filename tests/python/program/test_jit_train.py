"""Training in programs: forward, backward and the optimizer's step as one program leave what the same lines leave when they are run one by one,
to the bit; eager steps and such of a program follow each other; what cannot be is refused where it stands; and nothing stays behind."""
import asyncio
import copy
import os
import subprocess
import sys
import textwrap

import pytest
from common import SLOW, at_rest, script, settles

import tensord as td
import tensord.aio
import tensord.nn.functional as F
from tensord import nn
from tensord.nn.utils import clip_grad_norm_

OPTIMIZERS = {
    "sgd": lambda p: td.optim.SGD(p, lr=0.1),
    "momentum": lambda p: td.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: td.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "maximize": lambda p: td.optim.SGD(p, lr=1e-3, maximize=True),
    "adam": lambda p: td.optim.Adam(p, lr=0.01, weight_decay=0.1),
    "adamw": lambda p: td.optim.AdamW(p, lr=0.01, betas=(0.8, 0.95)),
    "rmsprop": lambda p: td.optim.RMSprop(p, lr=0.01),
    "centered": lambda p: td.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True, weight_decay=0.1),
    "adagrad": lambda p: td.optim.Adagrad(p, lr=0.01, lr_decay=0.1, weight_decay=0.1),
}


def mlp():
    td.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def data(n, *shape):
    td.manual_seed(7)
    return [(td.randn(6, *shape), td.randint(0, 3, (6,))) for _ in range(n)]


def trainer(model, opt, set_to_none: bool = True):
    def step(x, y):
        opt.zero_grad(set_to_none)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    return step


def state_of(model, opt):
    """All that training changes, as tensors and numbers, in an order."""
    values = [*model.parameters(), *model.buffers()]
    return values + [opt.state[p][name] for p in model.parameters() for name in sorted(opt.state[p])]


def same(a, b):
    return len(a) == len(b) and all(td.equal(x, y) if td.is_tensor(x) else x == y for x, y in zip(a, b))


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_twenty_steps_are_the_eager_ones(kind):
    batches, losses, states = data(20, 4), [], []
    for scripted in (False, True):
        model = mlp()
        opt = OPTIMIZERS[kind](model.parameters())
        eager = trainer(model, opt)
        program = td.jit.script(eager) if scripted else eager
        losses.append([(eager if k in (6, 13) else program)(x, y).item() for k, (x, y) in enumerate(batches)])
        states.append(state_of(model, opt))
    assert losses[0] == losses[1]
    assert same(*states)


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Linear(64, 3)
        self.drop = nn.Dropout(0.25)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.out(self.drop(x.flatten(1)))


def test_pictures_with_statistics_and_random_numbers():
    losses, states = [], []
    for scripted in (False, True):
        td.manual_seed(11)
        model = Pictures()
        opt = td.optim.Adam(model.parameters(), lr=0.01)
        step = trainer(model, opt)
        step = td.jit.script(step) if scripted else step
        batches = data(20, 1, 8, 8)
        td.manual_seed(5)
        losses.append([step(x, y).item() for x, y in batches])
        states.append(state_of(model, opt))
    assert losses[0] == losses[1] and losses[0][-1] < losses[0][0]
    assert same(*states)


def test_the_learning_rate_and_zeros_follow_the_optimizer():
    states = []
    for scripted in (False, True):
        model = mlp()
        opt = td.optim.SGD([{"params": model[0].parameters(), "lr": 0.2}, {"params": model[2].parameters()}], lr=0.1, momentum=0.5)
        schedule = td.optim.lr_scheduler.StepLR(opt, 2, 0.5)
        step = trainer(model, opt, False)
        step = td.jit.script(step) if scripted else step
        for x, y in data(7, 4):
            step(x, y)
            schedule.step()
        states.append(state_of(model, opt))
    assert same(*states)


@pytest.mark.parametrize("kind", ["momentum", "nesterov", "adamw", "rmsprop", "centered"])
def test_what_schedules_change_is_told(kind):
    """Momentum, betas and weight decay as well as the rate: by one program."""
    states = []
    for scripted in (False, True):
        model = mlp()
        opt = OPTIMIZERS[kind](model.parameters())
        group = opt.param_groups[0]
        cycled = "betas" in group or bool(group["momentum"])
        schedule = td.optim.lr_scheduler.OneCycleLR(opt, 0.2, total_steps=8, cycle_momentum=cycled)
        step = trainer(model, opt)
        step = td.jit.script(step) if scripted else step
        made = set()
        for k, (x, y) in enumerate(data(8, 4)):
            group["weight_decay"] *= 1.5
            step(x, y)
            schedule.step()
            made.add(id(step._program) if scripted else 0)
        assert len(made) == 1
        group["weight_decay"] = 0.5 - group["weight_decay"] if not group["weight_decay"] else 0
        step(x, y)
        states.append(state_of(model, opt))
    assert same(*states)


def test_what_is_made_in_inference_mode_trains_outside():
    """State and rates are normal tensors, whoever steps or makes the program first."""
    batches, states = data(4, 4), []
    for scripted in (False, True):
        model = mlp()
        opt = td.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        schedule = td.optim.lr_scheduler.StepLR(opt, 1, 0.5)
        for p in model.parameters():
            p.grad = td.ones_like(p)
        with td.inference_mode():
            opt.step()
            step = td.jit.script(trainer(model, opt)) if scripted else trainer(model, opt)
        for x, y in batches:
            step(x, y)
            schedule.step()
        for p in model.parameters():
            (p * opt.state[p]["momentum_buffer"]).sum().backward()  # which saves it
        td.sync()
        states.append(state_of(model, opt))
    assert same(*states)


def test_rates_are_told_beside_a_trace():
    w = td.ones(2, requires_grad=True)
    opt = td.optim.SGD([w], lr=1.0)

    @td.jit.script
    def descend(x):
        w.grad = x
        opt.step()
        return w.detach()

    for made in (False, True):  # by a call outside, or in the trace
        if made:
            descend(td.zeros(2))
        opt.param_groups[0]["lr"] = 0.5
        traced = td.jit.trace(lambda x: descend(x).clone(), (td.zeros(2),))
        assert "full" not in traced.graph.split("fn ")[0]
        before = w.tolist()
        opt.param_groups[0]["lr"] = 0.25
        descend(td.zeros(2))  # tells
        assert traced(td.ones(2)).tolist() == [v - 0.25 for v in before]


def test_what_is_changed_of_an_optimizer_makes_the_program_anew():
    states = []
    for scripted in (False, True):
        model = mlp()
        opt = td.optim.SGD(model[0].parameters(), lr=0.1, momentum=0.5)
        step = trainer(model, opt)
        step = td.jit.script(step) if scripted else step
        batches = data(8, 4)
        for x, y in batches[:2]:
            step(x, y)
        kept = copy.deepcopy(opt.state_dict())
        opt.add_param_group({"params": list(model[2].parameters()), "lr": 0.3})
        for x, y in batches[2:4]:
            step(x, y)
        opt.param_groups[0]["momentum"] = 0.25
        for x, y in batches[4:6]:
            step(x, y)
        opt.param_groups.pop()
        opt.load_state_dict(kept)
        for x, y in batches[6:]:
            step(x, y)
        states.append([*model.parameters(), *(opt.state[p]["momentum_buffer"] for p in model[0].parameters())])
    assert same(*states)


def by_hand(w, b, x, lr: float, clip: float):
    """Gradients gathered over parts, cut to a norm, and used by hand."""
    w.grad = None
    total = x.sum() * 0
    for part in x.split(2):
        loss = td.relu(part @ w + b).square().mean() / 2
        loss.backward()
        total = total + loss
    with td.no_grad():
        norm = td.sqrt(w.grad.square().sum())
        if float(norm) > clip:
            w.grad.mul_(clip / float(norm))
        w.sub_(lr * w.grad)
        g = b.grad
        if g is not None:
            b -= lr * g
            g.zero_()
        missing = x.grad is None
    return total, missing


def test_gradients_by_hand():
    td.manual_seed(2)
    x, w0, b0 = td.randn(6, 3), td.randn(3, 4), td.randn(4)
    program, results = td.jit.script(by_hand), []
    for f in (by_hand, program):
        w, b = w0.clone().requires_grad_(), b0.clone().requires_grad_()
        out = [f(w, b, x, 0.1, 0.5) for _ in range(4)]
        assert all(missing for _, missing in out)
        results.append([w, b, w.grad, b.grad, *(t for t, _ in out)])
    assert same(*results)


def higher(x, w):
    y = (x.pow(3) * w).sum()
    (g,) = td.autograd.grad(y, x, create_graph=True)
    h, gw = td.autograd.grad([g.sum()], (x, w))
    none = td.autograd.grad(h.sum() + w.sum(), [x, w], allow_unused=True, retain_graph=True)
    given = td.autograd.grad((x * 2, w * x), (x,), (td.ones_like(x), h))
    return g, h, gw, none[0], none[1], given[0]


def test_gradients_as_values():
    td.manual_seed(4)
    x, w = td.randn(3, requires_grad=True), td.randn(3, requires_grad=True)
    for eager, scripted in zip(higher(x, w), td.jit.script(higher)(x, w)):
        assert eager is scripted is None or td.equal(eager, scripted)
    assert x.grad is None and w.grad is None


def lists(xs: list[td.Tensor], y):
    gs = td.autograd.grad(y.sum(), xs)
    td.autograd.backward([y, y.sum()], [td.ones_like(y), None])
    return gs


def test_lists_of_tensors():
    results = []
    for f in (lists, td.jit.script(lists)):
        xs = [td.ones(2, requires_grad=True), td.full((2,), 3.0, requires_grad=True)]
        y = xs[0] * xs[1] + xs[1]
        with pytest.raises(td.AutogradError, match="freed"):
            f(xs, y)
            td.sync()
        y = xs[0] + xs[1]
        results.append([*f(xs, y), xs[0].grad, xs[1].grad])
    assert same(*results)


@td.jit.script
def own():
    a = td.ones(3).requires_grad_()
    h = a * 2
    h.retain_grad()
    (h * h).sum().backward()
    b = h.detach()
    return a.grad, h.grad, b.requires_grad, a.requires_grad


def test_tensors_of_the_programs_own():
    a, h, b, on = own()
    assert a.tolist() == [8.0] * 3 and h.tolist() == [4.0] * 3 and not b and on


def test_the_code_is_a_program_again():
    model = mlp()
    opt = td.optim.AdamW(model.parameters())
    program = td.jit.script(trainer(model, opt))
    assert "td.autograd.backward(" in program.code and ".grad" in program.code and "prim::backward" in program.graph


# ---- what is said of all parameters


def clipped(model, opt):
    def step(x, y):
        opt.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        opt.step()
        return loss, norm

    return step


def parts(model, opt):
    def step(x, y):
        model.zero_grad()
        F.cross_entropy(model(x), y).backward(inputs=[model[0].weight, model[2].bias])
        loss = F.cross_entropy(model(x), y)
        loss.backward(inputs=list(model.parameters()))
        most = clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1, td.inf)
        one = nn.utils.clip_grad_norm_(model[0].weight, 0.01, 1.0)
        opt.step()
        return loss, most, one

    return step


def by_name(model, opt):
    def step(x, y):
        model.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        td.autograd.backward([loss, loss * 2], inputs=model[2].weight)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.05)
        decayed = 0
        with td.no_grad():
            for k, (name, p) in enumerate(model.named_parameters()):
                if "bias" not in name:
                    p.sub_(0.1 * p)
                    decayed += k
        opt.step()
        first, _, _, last = model.parameters()
        return loss, decayed, first.sum(), td.stack([p.grad.sum() for p in model.parameters()]), last.clone()

    return step


def numbers(value):
    return value.tolist() if td.is_tensor(value) else [numbers(v) for v in value] if isinstance(value, tuple) else value


@pytest.mark.parametrize("kind", [clipped, parts, by_name])
def test_what_is_said_of_all_parameters(kind):
    batches, results = data(6, 4), []
    for scripted in (False, True):
        model = mlp()
        opt = td.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        step = kind(model, opt)
        step = td.jit.script(step) if scripted else step
        results.append([numbers(step(x, y)) for x, y in batches] + [t.tolist() for t in state_of(model, opt)] + [p.grad.tolist() for p in model.parameters()])
    assert results[0] == results[1]


def test_nothing_to_clip():
    w = td.ones(2, requires_grad=True)

    @td.jit.script
    def clip():
        nn.utils.clip_grad_value_(w, 1)
        return clip_grad_norm_([w], 1.0)

    norm = clip()
    assert norm.item() == 0 and norm.dtype == td.float32 and w.grad is None


class Averaged(nn.Module):
    """A module that looks at its own parameters, and has lists of them."""

    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(td.full((2,), k + 1.0)) for k in range(3)])
        self.register_buffer("count", td.zeros(()))

    def forward(self, x, n: int):
        for k in range(n):
            x = x * self.weights[k]
        for name, b in self.named_buffers():
            if name == "count":
                b.add_(1)
        return x + self.weights[-1] + len([b for b in self.buffers()])

    def zero_grad(self, set_to_none: bool = True):
        return "its own"


def test_a_module_of_itself():
    model, x = Averaged(), td.ones(2)
    program = td.jit.script(model)
    assert [program(x, k).tolist() for k in (0, 2, 3)] == [model(x, k).tolist() for k in (0, 2, 3)] and model.count.item() == 6

    def empty():
        total = 0
        for _ in nothing.parameters():
            total += 1
        return total, nn.utils.clip_grad_norm_(nothing.parameters(), 1.0)

    nothing = nn.Tanh()
    assert numbers(td.jit.script(empty)()) == [0, 0.0] == numbers(empty())


def test_all_parameters_refused():
    model, w = mlp(), td.ones(2, requires_grad=True)
    opt = td.optim.SGD(model.parameters(), lr=0.1)

    def named():
        params = model.parameters()
        return [p.sum() for p in params]

    def asked():
        return model.parameters()[0]

    def direct():
        return [p.sum() for p in model.parameters(False)]

    def closure(x):
        def loss():
            return model(x).sum()

        opt.step(loss)

    def reached(x):
        (w * x).sum().backward(inputs=[])

    for f in (named, asked):
        assert "this can only be gone over, once; write list(...) around it" in refusal(f)
    assert "a program says 'parameters()' without arguments: of all modules inside" in refusal(direct)
    told = refusal(closure)
    assert "step() of a program takes no closure: before it compute the loss and call loss.backward()" in told
    assert told.endswith("opt.step(loss)\n                     ^~~~")
    for f in (reached, td.jit.script(reached)):
        with pytest.raises(Exception, match="inputs of backward.. cannot be empty"):
            f(td.ones(2))
            td.sync()


# ---- where and when


PUBLISHED = """
    import sys
    import tensord as td
    step = td.jit.open(sys.argv[1])
    for k in range(int(sys.argv[2]), int(sys.argv[3])):
        td.manual_seed(k)
        step(td.randn(6, 4), td.randint(0, 3, (6,)))
    td.sync()
"""


def test_two_processes_one_after_the_other():
    def batch(k):
        td.manual_seed(k)
        return td.randn(6, 4), td.randint(0, 3, (6,))

    eager = mlp()
    with td.service_memory():
        model = mlp()
    step = trainer(eager, td.optim.Adam(eager.parameters(), lr=0.01))
    opt = td.optim.Adam(model.parameters(), lr=0.01).share_memory()
    program = td.jit.script(trainer(model, opt))
    program.publish("test-train-step", replace=True)
    try:
        for a, b in ((0, 3), (3, 6)):
            done = script(PUBLISHED, "test-train-step", a, b, TENSORD_SOCKET=td.connection()["path"])
            assert done.returncode == 0, done.stderr
        opened = td.jit.open("test-train-step")
        losses = [opened(*batch(6)).item()]
    finally:
        td.drop("test-train-step")
    for k in range(6):
        step(*batch(k))
    assert losses == [step(*batch(6)).item()]
    assert same([*eager.parameters()], [*model.parameters()])


PRIVATE = """
import tensord as td
if True:
    td.autograd.private_grads()
    w = td.ones(2, requires_grad=True)
    @td.jit.script
    def f():
        (w * w).sum().backward()
        return w.grad
    a = f()
    assert a.tolist() == w.grad.tolist() == [2.0, 2.0]
    td.autograd.private_grads(False)
    assert w.grad is None
    f()
    assert w.grad.tolist() == [2.0, 2.0]
"""


def test_gradients_of_a_process_alone(tmp_path):
    (tmp_path / "private.py").write_text(PRIVATE)
    done = script("import sys; sys.path.insert(0, sys.argv[1]); import private", tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_file_of_a_step(tmp_path):
    model, batches = mlp(), data(3, 4)
    opt = td.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    program = td.jit.script(trainer(model, opt))
    program(*batches[0])
    program.save(str(tmp_path / "step.td"))
    loaded = td.jit.load(str(tmp_path / "step.td"))
    assert "prim::backward" in loaded.graph


def test_who_looks_at_a_gradient_sees_it_grow():
    np = pytest.importorskip("numpy")
    w = td.ones(2, requires_grad=True)

    @td.jit.script
    def f():
        (w * 3).sum().backward()
        return w.grad

    first = f()
    seen = [np.asarray(first), np.asarray(w.grad)]
    for k in range(2, 5):
        f()
        assert [x.tolist() for x in seen] == [[3.0 * k] * 2] * 2


def test_values_in_place():
    @td.jit.script
    def f(x):
        a, b = x.clone(), x.clone()
        a.fill_(2.5)
        return a.zero_() + 1, b.fill_(True)

    a, b = f(td.arange(3))
    assert a.tolist() == [1, 1, 1] == b.tolist() and a.dtype == b.dtype == td.int64


def long_graph(x, n: int):
    y = x
    for _ in range(n):
        y = y * 1.0001
    y.sum().backward()
    return y


def test_a_stopped_one_leaves_nothing():
    @td.jit.script
    def forever(x):
        n = 0
        while True:
            y = x
            for _ in range(300):
                y = y * 0.999
            y.sum().backward()
            n += 1
        return n

    x = td.ones(4, requires_grad=True)
    td.jit.script(long_graph)(x, 10)
    before = at_rest()
    for seconds in (0.001, 0.02, 0.05):
        with td.jit.timeout(seconds), pytest.raises(td.Timeout):
            forever(x)
    assert td.isfinite(x.grad).all()
    assert settles(before) == before


def test_a_long_graph():
    x = td.ones(2, requires_grad=True)
    td.jit.script(long_graph)(x, 20000)
    z = td.ones(2, requires_grad=True)
    long_graph(z, 20000)
    assert td.equal(x.grad, z.grad)


def test_nothing_stays_behind():
    def trained():
        model = mlp()
        opt = td.optim.AdamW(model.parameters())
        program = td.jit.script(trainer(model, opt))
        for x, y in data(4, 4):
            program(x, y)
        opt.zero_grad()

    trained()
    before = at_rest()
    for _ in range(3):
        trained()
    assert settles(before) == before


# ---- refused


def test_errors_are_those_of_eager_work():
    w, x = td.ones(2, requires_grad=True), td.ones(2)

    def none(x):
        x.sum().backward()

    def shape(x):
        (w * x).backward()

    def twice(x):
        y = (w * w * x).sum()
        y.backward()
        y.backward()

    def unused(x):
        return td.autograd.grad((w * 2).sum(), (w, x.detach().requires_grad_()))

    def no_grad(x):
        return x.grad * 2

    for f, error, text in ((none, td.AutogradError, "does not require grad"), (shape, td.AutogradError, "only for scalar outputs"),
                           (twice, td.AutogradError, "a second time"), (unused, td.AutogradError, "not have been used"), (no_grad, Exception, "None")):
        with pytest.raises(error, match=text):
            td.jit.script(f)(x)
            td.sync()
    assert w.grad.tolist() == [2.0, 2.0]  # by the first backward of `twice`


class Own(td.optim.SGD):
    pass


def refusal(f):
    with pytest.raises((TypeError, td.Unsupported)) as caught:
        td.jit.script(f)
    return str(caught.value)


def test_refusals():
    w = td.ones(2, requires_grad=True)
    own, other = Own([w]), td.optim.SGD([w], momentum=0.9)
    schedule = td.optim.lr_scheduler.StepLR(td.optim.SGD([w]), 1)

    def other_optimizer():
        own.step()

    def scheduled():
        schedule.step()

    def with_closure():
        return other.param_groups

    def given(x):
        return x.requires_grad_()

    assert "a program steps SGD, Adam, AdamW, RMSprop, Adagrad; Own is none of these: call step() outside" in refusal(other_optimizer)
    assert "a schedule is stepped outside of programs: call it behind the program" in refusal(scheduled)
    assert "'other' has no 'param_groups' that a program could use" in refusal(with_closure)
    assert "write x.detach().requires_grad_()" in refusal(given)
    for f in (other_optimizer, given):
        assert "test_jit_train.py:" in refusal(f) and "^" in refusal(f)


@pytest.mark.parametrize("eager", [(), (0,), (3,), (1, 4), (2, 5)])
def test_a_dampened_momentum_begins_when_a_gradient_comes(eager):
    """Of three parameters one has its first gradient later, and one none at all."""
    results = []
    for scripted in (False, True):
        w, late, unused = (td.full((2,), k + 1.0, requires_grad=True) for k in range(3))
        opt = td.optim.SGD([w, late, unused], lr=0.1, momentum=0.9, dampening=0.25)

        def step(also: bool):
            opt.zero_grad()
            loss = (w * w).sum()
            if also:
                loss = loss + (late * late).sum()
            loss.backward()
            opt.step()

        program = td.jit.script(step) if scripted else step
        for k in range(6):
            (step if k in eager else program)(k > 2)
            if k == 1:
                assert not opt.state_dict()["state"].get(1)
                opt.load_state_dict(copy.deepcopy(opt.state_dict()))
        saved = opt.state_dict()["state"]
        assert not saved.get(2) and [*saved[0]] == [*saved[1]] == ["momentum_buffer"]
        results.append([w, late, unused, saved[0]["momentum_buffer"], saved[1]["momentum_buffer"]])
    assert same(*results)


def test_a_trace_refuses_a_backward():
    w = td.ones(2, requires_grad=True)
    with pytest.raises(Exception, match="backward"):
        td.jit.trace(lambda x: (w * x).sum().backward() or x, (td.ones(2),))


@pytest.mark.parametrize("clip", ["", "norm", "value"])
def test_losses_are_those_of_pytorch(clip):
    torch = pytest.importorskip("torch")
    model, batches = mlp(), data(20, 4)
    theirs = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    with torch.no_grad():
        for p, q in zip(theirs.parameters(), model.parameters()):
            p.copy_(torch.tensor(q.tolist()))
    mine, opt = td.optim.AdamW(model.parameters(), lr=0.01), torch.optim.AdamW(theirs.parameters(), lr=0.01)

    def limited(x, y):
        model.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        if clip == "norm":
            clip_grad_norm_(model.parameters(), 0.2)
        elif clip == "value":
            nn.utils.clip_grad_value_(model.parameters(), 0.02)
        mine.step()
        return loss

    program = td.jit.script(limited)
    for x, y in batches:
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(theirs(torch.tensor(x.tolist())), torch.tensor(y.tolist()))
        loss.backward()
        if clip == "norm":
            torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.2)
        elif clip == "value":
            torch.nn.utils.clip_grad_value_(theirs.parameters(), 0.02)
        opt.step()
        assert program(x, y).item() == pytest.approx(loss.item(), rel=1e-4)


class Twice(td.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = td.nn.Parameter(td.ones(3))

    def forward(self, x):
        if self.training:
            return x * self.w
        return self.nothing(x)


def test_what_cannot_be_made_anew_is_not_run_as_it_was():
    m = Twice()

    @td.jit.script
    def f(x):
        return m(x)

    f(td.ones(3))
    m.eval()
    for _ in range(2):
        with pytest.raises(td.Error):
            f(td.ones(3))
    m.train()
    assert f(td.ones(3)).tolist() == [1, 1, 1]


def test_a_module_that_has_an_optimizer_leaves_it_as_it_is():
    m = td.nn.Linear(2, 2)
    m.opt = td.optim.Adam(m.parameters())
    td.jit.script(m)(td.ones(1, 2))
    assert not m.opt.state


def test_optimizers_of_ones_own():
    class Plain(td.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"rate": 0.1, "note": ("enc", 1)})

    w = td.ones(3).requires_grad_()
    opt = Plain([w])

    @td.jit.script
    def clear():
        opt.zero_grad()

    w.sum().backward()
    clear()
    assert w.grad is None


def test_other_groups_and_state_are_noticed():
    w = td.ones(3).requires_grad_()
    opt = td.optim.SGD([w], lr=1.0, momentum=0.5)

    @td.jit.script
    def step():
        opt.zero_grad()
        w.sum().backward()
        opt.step()

    step()
    assert w.tolist() == [0, 0, 0]
    opt.state.clear()
    step()
    assert w.tolist() == [-1, -1, -1]  # no momentum of before
    opt.param_groups = [dict(g, lr=0.0) for g in opt.param_groups]
    step()
    assert w.tolist() == [-1, -1, -1]


def test_a_backward_that_failed_unseen_is_told_at_the_grad():
    w = td.ones(3).requires_grad_()

    @td.jit.script
    def train(x):
        loss = (x * w).sum()
        loss.backward()
        return loss

    train(td.ones(3))
    train(td.ones(2))
    with pytest.raises(td.Error):
        w.grad  # noqa: B018
    assert w.grad.tolist() == [1, 1, 1]


def test_items_of_lists_are_no_longer_plain():
    @td.jit.script
    def give(xs: list[td.Tensor]):
        for x in xs:
            x.grad = td.ones_like(x)

    x = td.zeros(2)
    give([x])
    assert x.grad.tolist() == [1, 1]


def test_what_a_program_writes_into_a_graph_is_known_to_be_there():
    w, other, before = td.full((3,), 2.0, requires_grad=True), td.ones(3), td.zeros(3)

    def add(acc, xs: list[td.Tensor], in_place: bool):
        if in_place:
            acc.add_(w * w)
        else:
            xs[0][1:].mul_(w[1:])

    def alone(acc):
        acc.add_(w * w)  # of a graph that nobody records
        y = acc * 1
        y += w
        return y

    program = td.jit.script(add)
    acc, item = td.zeros(3), td.ones(3)
    view, base = acc[:2], td.ones(2, 3)
    row = base[1]
    for _ in range(2):
        program(acc, [row], True)
        program(other, [row], False)
    for x in (acc, view, base, row):
        assert x.requires_grad and x.grad_fn and not x.is_leaf
    with pytest.raises(BufferError, match="requires grad"):
        memoryview(view)
    (acc.sum() + base.sum()).backward()
    assert w.grad.tolist() == [8.0, 12.0, 12.0]  # 4 w, and 2 w where w was multiplied twice
    for x in (other, before, item):
        assert not x.requires_grad and x.is_leaf and x.grad_fn is None and memoryview(x)
    with td.no_grad():
        td.jit.script(alone)(before)
    assert not before.requires_grad and before.tolist() == [4.0] * 3
    td.jit.script(alone)(td.zeros(3))
    assert not before.requires_grad


def test_a_gradient_given_to_what_is_captured():
    w = td.zeros(2)

    @td.jit.script
    def give():
        w.grad = td.ones(2)

    give()
    assert w.grad.tolist() == [1, 1]


def test_who_waits_for_what_a_backward_reads_goes_on(tmp_path):
    """A gradient of a program pins what its graph has saved; another process that wants to write that is told when it is over."""
    td.publish("pinned", td.ones(1000))
    w, program, stop = td.open("pinned"), tmp_path / "long.py", tmp_path / "stop"
    program.write_text(textwrap.dedent("""
        import os, sys
        import tensord as td
        w, x = td.open("pinned"), td.ones(1000).requires_grad_()

        @td.jit.script
        def long(x):
            y = x * w
            for k in range(2000):
                y = y * w
            return td.autograd.grad([y.sum()], [x])[0]

        long(x).tolist()
        print("ready", flush=True)
        while not os.path.exists(sys.argv[1]):
            try:
                long(x).sum().item()
            except RuntimeError:
                pass  # it was written meanwhile
    """))
    env = {**os.environ, "TENSORD_SOCKET": td.connection()["path"]}
    with subprocess.Popen([sys.executable, str(program), str(stop)], stdout=subprocess.PIPE, text=True, env=env) as other:
        try:
            assert other.stdout.readline() == "ready\n"
            for _ in range(40):
                w.mul_(1)
                asyncio.run(written(w))
        finally:
            stop.touch()
        assert other.wait(60 * SLOW) == 0


async def written(w):
    await td.aio.ready(w, timeout=20 * SLOW)

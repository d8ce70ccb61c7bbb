"""tensord.func: derivatives of functions, alone and inside of each other, batches, and modules as functions; as torch.func has them.

`python test_func.py`, with a PyTorch that has torch.func.linearize, writes func_results.json: what the CASES are there.
"""
import copy
import json
import pathlib

import pytest
import tensord as td
import tensord.nn as nn
from tensord import func

RESULTS = pathlib.Path(__file__).with_name("func_results.json")  # of PyTorch 2.13, for those that have an older one, or none


def plain(tree):
    """Nested lists of what both libraries give."""
    if isinstance(tree, dict):
        return {k: plain(v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [plain(v) for v in tree]
    return tree.detach().tolist() if hasattr(tree, "detach") else tree


def close(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b))
    return a == pytest.approx(b, rel=1e-9, abs=1e-12)


def wave(x):
    return (x.sin() * x).sum()


def of_a_tree(d, scale=1.0):
    return {"sum": (d["a"] ** 3).sum() * scale, "all": (d["a"] * d["b"][0],)}


CASES = [
    lambda f, lib, x, y: f.grad(wave)(x), lambda f, lib, x, y: f.grad(f.grad(lambda t: t.exp() * t))(x[0]), lambda f, lib, x, y: f.grad_and_value(wave)(x),
    lambda f, lib, x, y: f.grad(lambda a, b: (a * b**2).sum(), argnums=(0, 1))(x, y), lambda f, lib, x, y: f.grad(lambda a, b: (a * b**2).sum(), argnums=1)(x, y),
    lambda f, lib, x, y: f.grad(lambda a, b: (a * b**2).sum(), argnums=-1)(x, y), lambda f, lib, x, y: f.grad(lambda x: (wave(x), x + 1), has_aux=True)(x),
    lambda f, lib, x, y: f.grad_and_value(lambda x: (wave(x), {"n": x + 1}), has_aux=True)(x),
    lambda f, lib, x, y: f.grad(lambda d, scale: of_a_tree(d, scale)["sum"])({"a": x, "b": [y]}, scale=2.0), lambda f, lib, x, y: f.grad(lambda a, b: b.sum())(x, y),
    lambda f, lib, x, y: f.grad(lambda x: f.grad(lambda z: (x * z**2).sum())(x).sum())(x),
    lambda f, lib, x, y: f.vjp(of_a_tree, {"a": x, "b": [y]})[1]({"sum": lib.ones_like(x[0]), "all": (y,)}), lambda f, lib, x, y: f.vjp(lambda a, b: a * b, x, y)[1](y),
    lambda f, lib, x, y: f.vjp(lambda a: (a * 2, a.sum()), x, has_aux=True)[2], lambda f, lib, x, y: f.jvp(lambda a, b: a * b.exp(), (x, y), (y, x)),
    lambda f, lib, x, y: f.jvp(lambda a: {"r": a.sum(), "k": lib.ones_like(a)}, (x,), (y,)), lambda f, lib, x, y: f.jvp(lambda a: (a.sin(), a), (x,), (y,), has_aux=True),
    lambda f, lib, x, y: f.jacrev(lambda a: a.sin().unsqueeze(1) * a)(x), lambda f, lib, x, y: f.jacfwd(lambda a: a.sin().unsqueeze(1) * a)(x),
    lambda f, lib, x, y: f.jacrev(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, y), lambda f, lib, x, y: f.jacfwd(lambda a, b: (a * b, b.sum()), argnums=(0, 1))(x, y),
    lambda f, lib, x, y: f.jacrev(of_a_tree)({"a": x, "b": [y]}), lambda f, lib, x, y: f.jacfwd(of_a_tree)({"a": x, "b": [y]}),
    lambda f, lib, x, y: f.jacrev(lambda a: (a * a, a), has_aux=True)(x), lambda f, lib, x, y: f.jacfwd(lambda a: (a * a, a), has_aux=True)(x),
    lambda f, lib, x, y: f.hessian(wave)(x), lambda f, lib, x, y: f.hessian(lambda a, b: (a * b).sum() * a[0], argnums=(0, 1))(x, y),
    lambda f, lib, x, y: f.jacrev(f.jacfwd(lambda a: a**3))(x), lambda f, lib, x, y: f.linearize(lambda a, b: a.sin() * b, x, y)[1](y, x),
    lambda f, lib, x, y: f.vmap(lambda a, b: a * b.sum())(lib.stack([x, y]), lib.stack([y, y])), lambda f, lib, x, y: f.vmap(lambda a, b: a * b, in_dims=(0, None))(x, y),
    lambda f, lib, x, y: f.vmap(lambda a: a.cumsum(0), in_dims=1, out_dims=1)(lib.stack([x, y])), lambda f, lib, x, y: f.vmap(f.grad(wave))(lib.stack([x, y])),
    lambda f, lib, x, y: f.vmap(f.vmap(lambda a, b: a - b, in_dims=(None, 0)), in_dims=(0, None))(x, y), lambda f, lib, x, y: f.vmap(lambda a: (a, {"s": a.sum()}), out_dims=-1)(lib.stack([x, y])) [0],
    lambda f, lib, x, y: f.vmap(lambda d, k: d["a"] * k, in_dims=({"a": 0}, None))({"a": x}, 3), lambda f, lib, x, y: f.vmap(lambda a: (a, a), out_dims=(0, 1))(lib.stack([x, y])),
    lambda f, lib, x, y: f.vmap(lambda a, *, b: a + b)(x, b=y), lambda f, lib, x, y: f.grad(lambda t: f.vmap(lambda a: a**2)(t).sum())(x),
    lambda f, lib, x, y: f.vmap(lambda a: a * 2, chunk_size=2)(x)]


def results(lib):
    return [plain(case(lib.func, lib, lib.tensor([0.5, -1.25, 2.0], dtype=lib.float64), lib.tensor([1.5, 0.25, -0.75], dtype=lib.float64))) for case in CASES]


def test_like_torch():
    recorded = json.loads(RESULTS.read_text())
    assert len(recorded) == len(CASES)
    for k, (mine, theirs) in enumerate(zip(results(td), recorded)):
        assert close(mine, theirs), (k, mine, theirs)


def test_values():
    x = td.tensor([1.0, 2.0])
    assert func.grad(lambda x: (x**3).sum())(x).tolist() == [3, 12] and func.hessian(lambda x: (x**3).sum())(x).tolist() == [[6, 0], [0, 12]]
    assert func.jvp(lambda x: x**2, (x,), (td.ones(2),))[1].tolist() == [2, 4] and td.vmap(lambda r: r.sum())(td.ones(2, 3)).tolist() == [3, 3]
    value, along = func.linearize(lambda x: x**2, x)
    assert value.tolist() == [1, 4] and along(td.ones(2)).tolist() == [2, 4] == (2 * along(td.ones(2) / 2)).tolist()


def test_what_comes_out_is_recorded_where_an_argument_is():
    x = td.tensor([1.0, 2.0])
    for made in (func.grad(wave)(x), *func.vjp(wave, x)[1](td.tensor(1.0)), func.vjp(wave, x)[0], *func.jvp(wave, (x,), (x,)), func.jacrev(wave)(x), func.hessian(wave)(x)):
        assert not made.requires_grad
    x.requires_grad_()
    func.grad(lambda x: (x**3).sum())(x).sum().backward()
    assert x.grad.tolist() == [6, 12]
    with td.no_grad():
        assert func.grad(lambda x: (x**3).sum())(x).tolist() == [3, 12] and not func.grad(wave)(x).requires_grad
    assert x.grad.tolist() == [6, 12], "a derivative adds to no .grad"


@pytest.mark.parametrize("wrong, kind, said", [
    (lambda x: func.grad(lambda x: x)(x), RuntimeError, "scalar tensor, got tensor with 1 dims"), (lambda x: func.grad(lambda x: 3)(x), RuntimeError, "return a tensor"),
    (lambda x: func.grad(lambda x: x.sum())(td.ones(2, dtype=td.int64)), TypeError, "floats"), (lambda x: func.grad(lambda x: x.sum(), 1)(x), ValueError, "argnums"),
    (lambda x: func.grad(lambda x, y: x.sum(), (0, 0))(x, x), ValueError, "argnums"), (lambda x: func.grad(wave, has_aux=True)(x), RuntimeError, "has_aux"),
    (lambda x: func.grad(lambda x: x)(3), TypeError, "must be tensors"), (lambda x: func.vjp(wave, x)[1](x), ValueError, "shapes"),
    (lambda x: func.jvp(wave, x, x), RuntimeError, "tuples"), (lambda x: func.jvp(wave, (x,), (x[:1],)), ValueError, "shapes"),
    (lambda x: func.jvp(lambda x: td.ones(1), (x,), (x,), strict=True), RuntimeError, "independent"), (lambda x: func.jacrev(wave, chunk_size=0), ValueError, "chunk_size"),
    (lambda x: func.vmap(td.sum)(3), ValueError, "non-Tensor"), (lambda x: func.vmap(td.add)(td.ones(2), td.ones(3)), ValueError, "same size"),
    (lambda x: func.vmap(td.sum, in_dims=2)(x), ValueError, "dimensionality 1"), (lambda x: func.vmap(lambda x: 3)(x), TypeError, "outputs"),
    (lambda x: func.vmap(td.sin, in_dims=(None,))(x), ValueError, "at least one"), (lambda x: func.vmap(td.sin, in_dims=(0, 0))(x), ValueError, "in_dims"),
    (lambda x: func.vmap(td.sin, out_dims=None)(td.arange(2.0)), ValueError, "out_dims"),
    (lambda x: func.vmap(td.sin, randomness="x"), RuntimeError, "randomness"), (lambda x: func.vmap(lambda x: x + td.rand(1))(x), RuntimeError, "random operation")])
def test_refused(wrong, kind, said):
    with pytest.raises(kind, match=said):
        wrong(td.ones(2))


def test_random_numbers_in_a_batch():
    td.manual_seed(1)
    same, different = (func.vmap(lambda x: td.rand(2) + 0 * x, randomness=how)(td.ones(3)) for how in ("same", "different"))
    assert td.equal(same[0], same[1]) and td.equal(same[1], same[2]) and not td.equal(different[0], different[1])
    assert not td.equal(td.rand(2), same[0]), "random numbers go on"


def test_modules_as_functions():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    own, before = net.state_dict(), {k: v.clone() for k, v in net.state_dict().items()}
    params, buffers = {k: 2 * v.detach() for k, v in net.named_parameters()}, {k: v.clone() for k, v in net.named_buffers()}
    x = td.randn(4, 2)
    twin = copy.deepcopy(net)
    with td.no_grad():
        for k, p in twin.named_parameters():
            p.copy_(params[k])
    td.testing.assert_close(func.functional_call(net, (params, buffers), (x,)), twin(x))
    assert all(td.equal(own[k], before[k]) for k in own), "the module's own are not touched"
    assert td.equal(buffers["1.running_mean"], twin[1].running_mean) and int(buffers["1.num_batches_tracked"]) == 1
    loss = lambda p: func.functional_call(net.eval(), p, x).pow(2).mean()  # noqa: E731
    made = func.grad(loss)({k: v.detach() for k, v in net.named_parameters()})
    net.zero_grad()
    net.eval()(x).pow(2).mean().backward()
    for k, p in net.named_parameters():
        td.testing.assert_close(made[k], p.grad)
    func.functional_call(net, {"nothing": x}, x)
    with pytest.raises(RuntimeError, match="unexpected: .'nothing'"):
        func.functional_call(net, {"nothing": x}, x, strict=True)
    with pytest.raises(ValueError, match="multiple dictionaries"):
        func.functional_call(net, (params, params), x)
    with pytest.raises(ValueError):
        func.functional_call(net, {"0.weight": td.ones(3, 7)}, x)
    assert net[0].weight.shape == (3, 2), "also after an error"


def test_tied_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2, bias=False)
            self.b = nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x, scale=1):
            return self.b(self.a(x)) * scale

    net, x, w = Tied(), td.tensor([[1.0, 2.0]]), td.tensor([[0.0, 1.0], [2.0, 0.0]])
    assert func.functional_call(net, {"a.weight": w}, x, {"scale": 3}).tolist() == (3 * x @ w.t() @ w.t()).tolist()
    td.testing.assert_close(func.functional_call(net, {"a.weight": w}, x, tie_weights=False), x @ w.t() @ net.b.weight.t())
    with pytest.raises(ValueError, match="tied"):
        func.functional_call(net, {"a.weight": w, "b.weight": w + 1}, x)


def test_an_ensemble():
    nets = [nn.Linear(2, 3) for _ in range(4)]
    params, buffers = func.stack_module_state(nets)
    assert params["weight"].shape == (4, 3, 2) and params["weight"].requires_grad and params["weight"].is_leaf and buffers == {}
    x = td.randn(5, 2)
    out = func.vmap(lambda p: func.functional_call(nets[0], p, x))(params)
    td.testing.assert_close(out, td.stack([net(x) for net in nets]))
    out.sum().backward()
    assert params["bias"].grad.tolist() == [[5.0] * 3] * 4
    for wrong, said in (([], "at least one"), ([nn.Linear(1, 1), nn.ReLU()], "same class"), ([nn.ReLU(), nn.ReLU().eval()], "mode")):
        with pytest.raises(RuntimeError, match=said):
            func.stack_module_state(wrong)


def test_gradients_of_each_sample():
    net, x, y = nn.Linear(3, 1), td.randn(4, 3), td.randn(4, 1)
    params = {k: v.detach() for k, v in net.named_parameters()}
    loss = lambda p, x, y: nn.functional.mse_loss(func.functional_call(net, p, x), y)  # noqa: E731
    made = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(params, x, y)
    for k in range(4):
        net.zero_grad()
        nn.functional.mse_loss(net(x[k]), y[k]).backward()
        td.testing.assert_close(made["weight"][k], net.weight.grad)


def test_norms_without_running_statistics():
    net = func.replace_all_batch_norm_modules_(nn.Sequential(nn.BatchNorm1d(3), nn.ReLU()))
    assert list(net.buffers()) == [] and net.eval()(td.randn(8, 3)).shape == (8, 3) and not net[0].track_running_stats
    alone = nn.BatchNorm2d(3)
    assert func.replace_all_batch_norm_modules_(alone) is alone and alone.running_mean is alone.running_var is alone.num_batches_tracked is None


def test_batches_of_nothing_and_what_is_the_same_for_all():
    """As in PyTorch 2.13."""
    x = td.arange(6.0).reshape(2, 3)
    doubled, ones = func.vmap(lambda x: (x * 2, td.ones(2)), out_dims=(-1, None))(x)
    assert doubled.tolist() == (x * 2).t().tolist() and ones.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="out_dims has a None"):
        func.vmap(lambda x: x * 2, out_dims=None)(x)
    none = func.vmap(lambda x, w: {"y": x @ w, "s": x.sum()}, in_dims=(0, None), out_dims={"y": 1, "s": 0})(td.zeros(0, 3), td.ones(3, 4))
    assert none["y"].shape == (4, 0) and none["s"].shape == (0,)
    assert func.vmap(func.grad(lambda w, x: (w * x).sum()), in_dims=(None, 1))(td.ones(3), td.zeros(3, 0)).shape == (0, 3)


def test_what_an_inner_derivative_does_not_get_as_an_argument():
    """It is differentiated all the same, as what it reaches may hang together with the outer one's."""
    x, one = td.tensor([1.0, 2.0]), td.ones(2)
    assert func.grad(lambda x: func.grad(lambda z: (x * z**2).sum())(one).sum())(x).tolist() == [2, 2]
    assert func.grad(lambda x: func.jvp(lambda z: x * z, (one,), (one,))[1].sum())(x).tolist() == [1, 1]
    assert not func.grad(lambda z: (z**2).sum())(one).requires_grad, "when both are over"


def test_derivatives_of_nothing_and_by_nothing():
    x, nothing = td.ones(2), td.ones(0)
    for jacobian in (func.jacrev, func.jacfwd):
        assert jacobian(lambda x: x[:0])(x).shape == (0, 2) and jacobian(lambda e: e.sum() + x)(nothing).shape == (2, 0)
        by = jacobian(lambda a, b: a.sum() * b.sum() ** 2, (0, 1))(td.ones(2, 1), td.ones(3))  # of different shapes
        assert by[0].tolist() == [[9], [9]] and by[1].tolist() == [12, 12, 12]


@pytest.mark.parametrize("wrong, kind, said", [
    (lambda x: func.vjp(wave, 3), TypeError, r"vjp\(f, \*primals\): primals"), (lambda x: func.linearize(wave, 3), TypeError, r"linearize\(f, \*primals\): primals"),
    (lambda x: func.jvp(wave, (x,), [x]), RuntimeError, "to be tuples"), (lambda x: func.jvp(wave, [x], (x,)), RuntimeError, "to be tuples"),
    (lambda x: func.jvp(lambda a, b: (a, td.ones(1)), (x, x), (x, x), strict=True), RuntimeError, "independent"), (lambda x: func.jacfwd(wave, randomness="no"), RuntimeError, "randomness.*Got no"),
    (lambda x: func.jacfwd(wave, 1)(x), ValueError, "argnums"), (lambda x: func.vmap(wave, chunk_size=0), ValueError, "chunk_size.*got 0"), (lambda x: func.vmap(wave, chunk_size="1"), ValueError, "chunk_size"),
    (lambda x: func.vmap(lambda d: d["a"], in_dims=({"b": 0},))({"a": x}), ValueError, "in_dims is not compatible"), (lambda x: func.vmap(lambda d: d[0], in_dims=({"a": 0},))([x]), ValueError, "in_dims is not compatible"),
    (lambda x: func.vmap(lambda d: d["a"], in_dims=([0],))({"a": x}), ValueError, "in_dims is not compatible"), (lambda x: func.vmap(lambda d: d[0], in_dims=([0, 0],))([x]), ValueError, "in_dims is not compatible"),
    (lambda x: func.vmap(td.sin, in_dims=True)(x), ValueError, "in_dims is not compatible")])
def test_what_else_is_refused(wrong, kind, said):
    with pytest.raises(kind, match=said):
        wrong(td.ones(2))


class Counts(nn.Module):
    """It gives its buffer a new tensor, or writes into it."""

    def __init__(self, assigns):
        super().__init__()
        self.weight, self.assigns = nn.Parameter(td.ones(1)), assigns
        self.register_buffer("seen", td.zeros(1))

    def forward(self, x):
        if self.assigns:
            self.seen = self.seen + 1
        else:
            self.seen += 1
        return self.weight * x


@pytest.mark.parametrize("assigns", [False, True])
def test_buffers_of_a_call(assigns):
    """What the call makes of one is in the dict that it came from, and in no other."""
    module, x = Counts(assigns), td.ones(1)
    own, params, buffers = module.seen, {"weight": td.tensor([3.0])}, {"seen": td.tensor([5.0])}
    given = buffers["seen"]
    assert func.functional_call(module, (params, buffers), x).tolist() == [3] and list(params) == ["weight"] and list(buffers) == ["seen"]
    assert buffers["seen"].tolist() == [6] and (buffers["seen"] is given) == (not assigns)
    assert module.seen is own and own.tolist() == [0] and module.weight.tolist() == [1] and params["weight"].tolist() == [3]


def test_names_of_a_call_that_is_strict():
    module, x = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), td.ones(3, 2)
    all_of_them = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    assert func.functional_call(module, dict(all_of_them), (x,), strict=True).shape == (3, 2)
    some = {k: v for k, v in all_of_them.items() if k != "0.bias"}
    for given, missing, unexpected in ((some, ["0.bias"], []), ({**all_of_them, "more": x}, [], ["more"]), ({**some, "more": x}, ["0.bias"], ["more"])):
        with pytest.raises(RuntimeError) as e:
            func.functional_call(module, given, x, strict=True)
        assert str(e.value).endswith(f"for Sequential: missing: {missing}, unexpected: {unexpected}")
    tied = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    tied[1].weight = tied[0].weight
    assert func.functional_call(tied, {"1.weight": 2 * td.eye(2)}, x, strict=True).tolist() == (4 * x).tolist()
    with pytest.raises(RuntimeError, match="missing: .'0.weight'., unexpected: ..$"):
        func.functional_call(tied, {"1.weight": td.eye(2)}, x, tie_weights=False, strict=True)


if __name__ == "__main__":
    import torch.func

    RESULTS.write_text("[\n" + ",\n".join(json.dumps(r) for r in results(torch)) + "\n]\n")

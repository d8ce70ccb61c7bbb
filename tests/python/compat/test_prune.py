"""nn.utils.prune: masks, names, what is left of what, beside PyTorch."""
import pytest
import tensord as td
from tensord.nn.utils import prune

try:
    import numpy as np
    import torch
    import torch.nn.utils.prune as their_prune
except ImportError:
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not there (Debian: python3-torch)")

WAYS = ["p.identity(m, 'weight')", "p.l1_unstructured(m, 'weight', 0.3)", "p.l1_unstructured(m, 'weight', 7)", "p.l1_unstructured(m, 'bias', 1.0)",
        "p.l1_unstructured(m, 'weight', 0)", "p.ln_structured(m, 'weight', 0.5, 2, 0)", "p.ln_structured(m, 'weight', 1, 1, 1)",
        "p.ln_structured(m, 'weight', 2, float('inf'), -1)", "p.ln_structured(m, 'weight', 0.5, float('-inf'), 0)", "p.ln_structured(m, 'weight', 5, 2, 0)",
        "p.l1_unstructured(m, 'weight', 0.3, importance_scores=scores)", "p.ln_structured(m, 'weight', 2, 2, 0, importance_scores=scores)",
        "p.custom_from_mask(m, 'weight', lib.arange(15).reshape(5, 3) % 2)", "p.l1_unstructured(p.l1_unstructured(m, 'weight', 0.4), 'weight', 0.5)",
        "p.ln_structured(p.l1_unstructured(m, 'weight', 8), 'weight', 0.4, 2, 0)", "p.l1_unstructured(p.ln_structured(m, 'weight', 2, 2, 0), 'weight', 3)",
        "p.ln_structured(p.ln_structured(m, 'weight', 2, 2, 0), 'weight', 1, 2, 0)", "p.identity(p.ln_structured(m, 'weight', 1, 2, 1), 'weight')",
        "p.l1_unstructured(p.custom_from_mask(p.ln_structured(m, 'weight', 1, 2, 1), 'weight', lib.eye(5)[:, :3]), 'weight', 1)",
        "p.global_unstructured([(m, 'weight'), (m, 'bias')], p.L1Unstructured, amount=0.35)",
        "p.global_unstructured([(p.l1_unstructured(m, 'weight', 4), 'weight'), (m, 'bias')], p.L1Unstructured, amount=6)",
        "p.global_unstructured([(m, 'weight'), (m, 'bias')], p.L1Unstructured, {(m, 'weight'): scores}, amount=6)"]


def layer(lib):
    rng = np.random.default_rng(5)
    m = lib.nn.Linear(3, 5, dtype=lib.float64)
    m.load_state_dict({"weight": lib.tensor(rng.standard_normal((5, 3))), "bias": lib.tensor(rng.standard_normal(5))})
    return dict(m=m, lib=lib, p=prune if lib is td else their_prune, scores=lib.tensor(rng.standard_normal((5, 3))))


@needs_torch
@pytest.mark.parametrize("way", WAYS)
def test_what_is_left_is_what_pytorch_leaves(way):
    found = []
    for lib in (td, torch):
        names = layer(lib)
        eval(way, names)
        m = names["m"]
        x = lib.arange(6, dtype=lib.float64).reshape(2, 3)
        y = m(x)
        (y * y).sum().backward()
        grads = {k: p.grad.numpy() for k, p in m.named_parameters()}
        state = {k: v.numpy().copy() for k, v in m.state_dict().items()}
        kept = m.weight.detach().numpy().copy()
        hooked = names["p"].is_pruned(m)
        for name in ("weight", "bias"):
            if hasattr(m, name + "_orig"):
                assert names["p"].remove(m, name) is m
        assert not names["p"].is_pruned(m) and sorted(k for k, _ in m.named_parameters()) == ["bias", "weight"] and not list(m.buffers())
        found.append((state, grads, kept, hooked, y.detach().numpy(), m.weight.detach().numpy(), m(x).detach().numpy()))
    ours, theirs = found
    assert sorted(ours[0]) == sorted(theirs[0]) and sorted(ours[1]) == sorted(theirs[1]) and ours[3] == theirs[3] is True
    for k in theirs[0]:
        np.testing.assert_array_equal(ours[0][k], theirs[0][k], err_msg=k)
    for k in theirs[1]:
        np.testing.assert_allclose(ours[1][k], theirs[1][k], rtol=1e-12, err_msg=k)
    for a, b in zip(ours[4:] + ours[2:3], theirs[4:] + theirs[2:3]):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@needs_torch
@pytest.mark.parametrize("wrong", ["p.l1_unstructured(m, 'weight', 16)", "p.l1_unstructured(m, 'weight', 1.5)", "p.l1_unstructured(m, 'weight', -1)",
                                   "p.l1_unstructured(m, 'weight', 'a')", "p.ln_structured(m, 'bias', 1, 2, 0)", "p.ln_structured(m, 'weight', 1, 2, 4)",
                                   "p.ln_structured(m, 'weight', 6, 2, 0)", "p.remove(m, 'weight')", "p.custom_from_mask(m, 'weight', lib.ones(3))",
                                   "p.global_unstructured([(m, 'weight')], p.LnStructured, amount=1, n=2)", "p.global_unstructured(3, p.L1Unstructured, amount=1)",
                                   "p.global_unstructured([(m, 'weight')], p.L1Unstructured, scores, amount=1)",
                                   "p.l1_unstructured(m, 'weight', 1, importance_scores=scores[:2])", "p.l1_unstructured(m, 'weigh', 1)"])
def test_refused_as_pytorch_refuses(wrong):
    kinds = []
    for lib in (td, torch):
        names = layer(lib)
        with pytest.raises(Exception) as e:
            eval(wrong, names)
        kinds.append(next(k for k in (AssertionError, IndexError, TypeError, ValueError, AttributeError) if isinstance(e.value, k)))
        assert sorted(k for k, _ in names["m"].named_parameters()) == ["bias", "weight"] and not list(names["m"].buffers())
    assert kinds[0] is kinds[1]


def test_by_chance():
    m = td.nn.Conv2d(4, 6, 3)
    prune.random_unstructured(m, "weight", 0.25)
    assert int((m.weight_mask == 0).sum()) == 54 and m.weight.is_leaf is False
    prune.random_structured(m, "weight", 2, 0)
    gone = (m.weight_mask.reshape(6, -1).sum(1) == 0).sum()
    assert int(gone) == 2
    m.register_forward_hook(lambda *_: None)
    assert [type(method).__name__ for method in next(iter(m._before.values()))] == ["RandomUnstructured", "RandomStructured"]
    y = m(td.ones(1, 4, 5, 5))
    y.sum().backward()
    assert int((m.weight_orig.grad == 0).sum()) == int((m.weight_mask == 0).sum())
    with td.no_grad():
        m.weight_orig.fill_(2)
    m(td.ones(1, 4, 5, 5))
    assert td.equal(m.weight, 2 * m.weight_mask), "each forward() begins with the mask times what was trained"
    optimized = m.weight_orig
    prune.remove(m, "weight")
    assert m.weight is optimized and isinstance(m.weight, td.nn.Parameter)


def test_a_method_of_one_s_own():
    class EverySecond(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    m = td.nn.Linear(3, 2)
    EverySecond.apply(m, "weight")
    assert m.weight_mask.tolist() == [[0, 1, 0], [1, 0, 1]]
    EverySecond.apply(m, "weight")
    assert m.weight_mask.tolist() == [[0, 0, 0], [1, 0, 0]], "it sees what is left"
    assert prune.L1Unstructured(1).prune(td.tensor([3.0, -1.0, 2.0])).tolist() == [3, 0, 2]
    again = td.nn.Linear(3, 2)
    prune.identity(again, "weight")
    again.load_state_dict(m.state_dict())
    assert again.weight_mask.tolist() == m.weight_mask.tolist()

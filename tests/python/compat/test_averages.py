"""Losses as older programs call them: size_average= and reduce=, arguments by PyTorch's places, weights of elements."""
import itertools
import warnings

import pytest
import tensord as td
import tensord.nn.functional as F

try:
    import torch
except ImportError:
    torch = None

X = [[0.5, -1.25, 2.0, 0.0], [-0.75, 0.25, -2.0, 1.5], [1.0, -0.5, 0.125, -1.0]]
Y = [[-0.5, 1.0, 0.25, 2.0], [1.5, 0.5, -1.0, 0.0], [0.75, -2.0, 1.0, 0.5]]
P = [[0.5, 0.25, 0.75, 0.125], [0.9, 0.1, 0.4, 0.6], [0.3, 0.7, 0.2, 0.8]]
SIGNS, CLASSES, WEIGHTS, SEVERAL = [[1.0, -1.0, -1.0, 1.0]] * 3, [1, 3, 0], [0.5, 1.0, 2.0, 0.25], [[1, 0, -1, 0]] * 3
LOSSES = {"mse_loss": (X, Y), "l1_loss": (X, Y), "smooth_l1_loss": (X, Y), "cross_entropy": (X, CLASSES, WEIGHTS), "nll_loss": (X, CLASSES, WEIGHTS),
          "binary_cross_entropy": (P, P), "binary_cross_entropy_with_logits": (X, P), "kl_div": (X, P), "soft_margin_loss": (X, SIGNS), "hinge_embedding_loss": (X, SIGNS),
          "multi_margin_loss": (X, CLASSES), "multilabel_margin_loss": (X, SEVERAL), "multilabel_soft_margin_loss": (X, P), "poisson_nll_loss": (X, P),
          "cosine_embedding_loss": (X, Y, [1.0, -1.0, 1.0]), "margin_ranking_loss": (X[0], Y[0], SIGNS[0]), "triplet_margin_loss": (X, Y, P)}
MODULES = {"mse_loss": "MSELoss", "l1_loss": "L1Loss", "smooth_l1_loss": "SmoothL1Loss", "cross_entropy": "CrossEntropyLoss", "nll_loss": "NLLLoss", "binary_cross_entropy": "BCELoss",
           "binary_cross_entropy_with_logits": "BCEWithLogitsLoss", "kl_div": "KLDivLoss", "soft_margin_loss": "SoftMarginLoss", "hinge_embedding_loss": "HingeEmbeddingLoss",
           "multi_margin_loss": "MultiMarginLoss", "multilabel_margin_loss": "MultiLabelMarginLoss", "multilabel_soft_margin_loss": "MultiLabelSoftMarginLoss",
           "poisson_nll_loss": "PoissonNLLLoss", "cosine_embedding_loss": "CosineEmbeddingLoss", "margin_ranking_loss": "MarginRankingLoss", "triplet_margin_loss": "TripletMarginLoss"}
PLACES = [lambda lib, f, x, y, p, c, w: f.cross_entropy(x, c, None, None, 3), lambda lib, f, x, y, p, c, w: f.cross_entropy(x, c, w, False, 1, True, "none", 0.1),
          lambda lib, f, x, y, p, c, w: f.nll_loss(x, c, w, None, 3, None, "sum"), lambda lib, f, x, y, p, c, w: f.mse_loss(x, y, None, None, "sum"),
          lambda lib, f, x, y, p, c, w: f.kl_div(x, p, None, None, "sum", True), lambda lib, f, x, y, p, c, w: f.huber_loss(x, y, "sum", 0.5),
          lambda lib, f, x, y, p, c, w: f.poisson_nll_loss(p, p, True, True, None, 1e-7, None, "sum"), lambda lib, f, x, y, p, c, w: f.gaussian_nll_loss(x, y, p, True, 1e-5, "sum"),
          lambda lib, f, x, y, p, c, w: f.binary_cross_entropy_with_logits(x, p, None, None, None, "mean", w), lambda lib, f, x, y, p, c, w: lib.nn.MSELoss(False)(x, y),
          lambda lib, f, x, y, p, c, w: lib.nn.CrossEntropyLoss(w, None, 1)(x, c), lambda lib, f, x, y, p, c, w: lib.nn.PoissonNLLLoss(False, True)(p, p),
          lambda lib, f, x, y, p, c, w: lib.nn.TripletMarginLoss(1.0, 2.0, 1e-6, True, False)(x, y, p), lambda lib, f, x, y, p, c, w: lib.nn.MultiMarginLoss(2, 0.5, w, False)(x, c)]
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not there (Debian: python3-torch)")


@pytest.mark.parametrize("name", LOSSES)
def test_they_say_what_reduction_says(name):
    args = [td.tensor(a) for a in LOSSES[name]]
    for average, reduce in itertools.product((None, True, False), repeat=2):
        reduction = "none" if reduce is False else "sum" if average is False else "mean"
        expected = getattr(F, name)(*args, reduction=reduction).tolist()
        keywords = {"size_average": average, "reduce": reduce}
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert getattr(F, name)(*args, **keywords).tolist() == expected
            module = getattr(td.nn, MODULES[name])(**keywords)
        assert module.reduction == reduction
        assert [(w.category, w.filename) for w in said] == [(UserWarning, __file__)] * (0 if average is reduce is None else 2)
        assert all(f"reduction='{reduction}'" in str(w.message) for w in said)


@needs_torch
@pytest.mark.parametrize("call", PLACES)
def test_places_are_pytorch_s(call):
    def of(lib):
        return call(lib, lib.nn.functional, *(lib.tensor(a) for a in (X, Y, P, CLASSES, WEIGHTS))).tolist()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert of(td) == pytest.approx(of(torch), rel=1e-5) if not isinstance(of(td), list) else of(td) == [pytest.approx(v, rel=1e-5) for v in of(torch)]


@pytest.mark.parametrize(("name", "each"), [("mse_loss", lambda d: d * d), ("l1_loss", abs), ("huber_loss", lambda d: d * d / 2 if abs(d) < 1 else abs(d) - 0.5)])
def test_a_weight_for_each_element(name, each):
    x, y, w = td.tensor(X[0], requires_grad=True), td.tensor(Y[0]), td.tensor(WEIGHTS)
    terms = [each(a - b) * v for a, b, v in zip(X[0], Y[0], WEIGHTS, strict=True)]
    mean = sum(terms) / (4 if name == "huber_loss" else sum(WEIGHTS))
    for reduction, expected in ("none", terms), ("sum", sum(terms)), ("mean", mean):
        assert getattr(F, name)(x, y, weight=w, reduction=reduction).tolist() == pytest.approx(expected)
    getattr(F, name)(x, y, weight=w).backward()
    assert x.grad[3].item() != 0
    with pytest.raises(td.InvalidError, match="same size"):
        getattr(F, name)(x, y, weight=w[:2])


@pytest.mark.parametrize(("call", "said"), [
    (lambda x: F.mse_loss(x, x, sizes=1), "unexpected keyword argument 'sizes'"), (lambda x: F.mse_loss(x, x, None, None, "mean", None, 3), "takes 6 positional arguments but 7 were given"),
    (lambda x: F.mse_loss(x, x, target=x), "multiple values for argument 'target'"), (lambda x: F.mse_loss(x, size_average=True), "missing required argument 'target'"),
    (lambda x: F.mse_loss(x, x, None, None, "median"), "must be 'none', 'mean' or 'sum'"), (lambda x: F.l1_loss(x, x, weight=x, reduction="median"), "must be 'none', 'mean' or 'sum'")])
def test_what_is_wrong_is_named(call, said):
    with pytest.raises((TypeError, ValueError), match=said), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call(td.ones(3))

"""Losses as PyTorch's older programs call them: with size_average= and reduce=, which stand among the other arguments by place.

    F.mse_loss(x, y, size_average=False)     # reduction="sum"
    F.cross_entropy(scores, classes, None, None, 0)     # ignore_index=0, by place

Asked for what the functions of tensord.nn.functional do not take themselves; so calls as they are today pay nothing for it.
"""

from typing import Any

from tensord import _C
from tensord._C import Tensor
from tensord.nn.losses import reduction_of

_ENDS = "size_average reduce reduction"
_ORDER = {name: order.split() for name, order in {
    "binary_cross_entropy": f"input target weight {_ENDS}",
    "binary_cross_entropy_with_logits": f"input target weight {_ENDS} pos_weight",
    "cosine_embedding_loss": f"input1 input2 target margin {_ENDS}",
    "cross_entropy": "input target weight size_average ignore_index reduce reduction label_smoothing",
    "gaussian_nll_loss": "input target var full eps reduction",
    "hinge_embedding_loss": f"input target margin {_ENDS}",
    "huber_loss": "input target reduction delta weight",
    "kl_div": f"input target {_ENDS} log_target",
    "l1_loss": f"input target {_ENDS} weight",
    "margin_ranking_loss": f"input1 input2 target margin {_ENDS}",
    "mse_loss": f"input target {_ENDS} weight",
    "multi_margin_loss": f"input target p margin weight {_ENDS}",
    "multilabel_margin_loss": f"input target {_ENDS}",
    "multilabel_soft_margin_loss": f"input target weight {_ENDS}",
    "nll_loss": "input target weight size_average ignore_index reduce reduction",
    "poisson_nll_loss": "input target log_input full size_average eps reduce reduction",
    "smooth_l1_loss": f"input target {_ENDS} beta",
    "soft_margin_loss": f"input target {_ENDS}",
    "triplet_margin_loss": f"anchor positive negative margin p eps swap {_ENDS}",
}.items()}


def _loss_as_before(name: str, *args: Any, **keywords: Any) -> Tensor:
    order = _ORDER[name]
    if len(args) > len(order):
        raise _C.DTypeError(f"{name}() takes {len(order)} positional arguments but {len(args)} were given")
    given = dict(zip(order, args, strict=False))
    for key, value in keywords.items():
        if key in given:
            raise _C.DTypeError(f"{name}() got multiple values for argument '{key}'")
        if key not in order:
            raise _C.DTypeError(f"{name}() got an unexpected keyword argument '{key}'")
        given[key] = value
    given["reduction"] = reduction_of(given.pop("size_average", None), given.pop("reduce", None), given.get("reduction", "mean"))
    if name in ("mse_loss", "l1_loss", "huber_loss"):
        return _weighted(name, given, given.pop("weight", None))
    return getattr(_C._nn, name)(**given)


def _weighted(name: str, given: "dict[str, Any]", weight: "Tensor | None") -> Tensor:
    """A weight for each element; a mean of squares or sizes is over the sum of the weights, that of huber_loss over their number."""
    function, reduction = getattr(_C._nn, name), given["reduction"]
    if weight is None:
        return function(**given)
    if tuple(weight.shape) != tuple(given["input"].shape):
        raise _C.InvalidError("Weights and input must have the same size.")
    if reduction not in ("none", "mean", "sum"):
        raise _C.InvalidError(f"{name}(): argument 'reduction' must be 'none', 'mean' or 'sum', not {reduction!r}")
    each = function(**{**given, "reduction": "none"}) * weight
    if reduction == "none":
        return each
    if reduction == "sum":
        return each.sum()
    return each.mean() if name == "huber_loss" else each.sum() / weight.sum()

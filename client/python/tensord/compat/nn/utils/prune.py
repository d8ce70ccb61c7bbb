"""Pruning: a parameter NAME becomes NAME_orig, which is trained, and NAME_mask, a buffer of ones and zeros; each forward() begins with NAME = mask * orig.

    prune.l1_unstructured(layer, "weight", amount=0.3)      # 30% of the numbers, those nearest to 0
    prune.remove(layer, "weight")                           # the parameter again, with the zeros in it

What is pruned again loses more of what is left. `amount` is a share (a float from 0 to 1) or a number of elements, or of channels where it is structured.
"""

import numbers
from collections.abc import Iterable

import tensord as td

__all__ = ["BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer", "RandomStructured", "RandomUnstructured",
           "custom_from_mask", "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured", "random_structured", "random_unstructured",
           "remove"]


class BasePruningMethod:
    """The base: write compute_mask(t, default_mask), which returns default_mask with zeros for what else goes.

    PRUNING_TYPE says what of a pruned tensor it is shown: "unstructured" the elements that are left, as a vector, "structured" the channels (of its `dim`)
    in which some are left, "global" all.
    """

    PRUNING_TYPE = "global"
    _tensor_name: str

    def __call__(self, module, inputs):
        setattr(module, self._tensor_name, self.apply_mask(module))

    def compute_mask(self, t, default_mask):
        raise NotImplementedError(f"{type(self).__name__} has no compute_mask(t, default_mask)")

    def apply_mask(self, module):
        """What the module's tensor is now: mask times original."""
        mask, original = getattr(module, self._tensor_name + "_mask"), getattr(module, self._tensor_name + "_orig")
        return mask.to(original.dtype) * original

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prunes the module's tensor by cls(*args, **kwargs), behind what pruned it before. Returns the method, or the container of all.

        importance_scores: what stands in the tensor's place when the mask is made. A method that raises leaves the module as it was.
        """
        method = cls(*args, **kwargs)
        method._tensor_name = name
        at, before = _hook_of(module, name)
        value = getattr(module, name)
        scores = value if importance_scores is None else importance_scores
        if scores.shape != value.shape:
            raise AssertionError(f"importance_scores are of shape {scores.shape}, the parameter '{name}' of {type(module).__name__} is of {value.shape}")
        if before is None:
            whole = method
            mask = method.compute_mask(scores.detach(), td.ones_like(value.detach()))
            del module._parameters[name]
            module.register_parameter(name + "_orig", value)
        else:
            whole = PruningContainer(*before) if isinstance(before, PruningContainer) else PruningContainer(before)
            whole.add_pruning_method(method)
            mask = whole.compute_mask(scores.detach(), getattr(module, name + "_mask").clone())
            del module._before[at]
        module.register_buffer(name + "_mask", mask)
        whole(module, ())
        module.register_forward_pre_hook(whole)
        return whole

    def prune(self, t, default_mask=None, importance_scores=None):
        """The tensor times the mask that the method makes of it, or of the importance_scores."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(f"importance_scores are of shape {scores.shape}, t is of {t.shape}")
        mask = td.ones_like(t.detach()) if default_mask is None else default_mask
        return t * self.compute_mask(scores.detach(), mask)

    def remove(self, module):
        """The parameter again, with the values that it has now; its hook is the caller's to take away, see remove() of this module."""
        name = self._tensor_name
        value, original = self.apply_mask(module).detach(), module._parameters.pop(name + "_orig")
        with td.no_grad():
            original.copy_(value)
        del module._buffers[name + "_mask"]
        module.__dict__.pop(name, None)
        module.register_parameter(name, original)


class PruningContainer(BasePruningMethod):
    """Several methods of one tensor, one behind the other. A sequence of them."""

    def __init__(self, *args):
        self._pruning_methods: tuple = ()
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method):
        """One more, the last. Raises TypeError for what is no method, ValueError for one of another tensor."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"a container takes pruning methods, not a {type(method).__name__}")
        if self._pruning_methods and method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(f"the container prunes '{self._tensor_name}', the method '{method._tensor_name}': one container holds methods of one tensor")
        if method is not None:
            self._tensor_name = getattr(method, "_tensor_name", getattr(self, "_tensor_name", ""))
        self._pruning_methods += (method,)

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, k):
        return self._pruning_methods[k]

    def compute_mask(self, t, default_mask):
        """The mask with what the last method takes; those before have made default_mask."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            shown = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.ndim
            left = mask.movedim(dim, 0).reshape(mask.shape[dim], -1).sum(1) != 0
            shown = (slice(None),) * dim + (left.nonzero().flatten(),)
        elif method.PRUNING_TYPE == "global":
            shown = (slice(None),) * t.ndim
        else:
            raise ValueError(f"PRUNING_TYPE of {type(method).__name__} is {method.PRUNING_TYPE!r}; it can be 'unstructured', 'structured' or 'global'")
        made = mask.clone()
        made[shown] = method.compute_mask(t[shown], mask[shown]).to(mask.dtype)
        return made


class Identity(BasePruningMethod):
    """Takes nothing: a mask of ones, and the names that pruning gives."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        return default_mask


def _checked(amount):
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"amount is an int or a float, not a {type(amount).__name__}")
    if amount < 0 or amount > 1 and not isinstance(amount, numbers.Integral):
        raise ValueError(f"amount is a share from 0 to 1, or how many there are to go: not {amount}")
    return amount


def _count(amount, size):
    """How many of `size` go."""
    if isinstance(amount, numbers.Integral):
        if amount > size:
            raise ValueError(f"amount={amount} of {size} cannot go")
        return int(amount)
    return round(amount * size)


class _Unstructured(BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def __init__(self, amount):
        self.amount = _checked(amount)

    def scores(self, t):
        raise NotImplementedError

    def compute_mask(self, t, default_mask):
        gone = _count(self.amount, t.numel())
        mask = default_mask.clone().flatten()
        if gone:
            mask[self.scores(t).flatten().topk(gone, largest=False)[1]] = 0
        return mask.reshape(default_mask.shape)


class RandomUnstructured(_Unstructured):
    """Elements by chance."""

    def scores(self, t):
        return td.rand_like(t)


class L1Unstructured(_Unstructured):
    """Those elements that are nearest to 0."""

    def scores(self, t):
        return t.abs()


class _Structured(BasePruningMethod):
    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1):
        self.amount, self.dim = _checked(amount), dim

    def scores(self, t, dim):
        raise NotImplementedError

    def compute_mask(self, t, default_mask):
        if t.ndim < 2:
            raise ValueError(f"channels are pruned of tensors with two dimensions or more, not of one of shape {t.shape}")
        if not -t.ndim <= self.dim < t.ndim:
            raise IndexError(f"there is no dimension {self.dim} in a tensor of shape {t.shape}")
        dim = self.dim % t.ndim
        gone = _count(self.amount, t.shape[dim])
        if not gone:
            return default_mask
        kept = td.zeros(t.shape[dim], dtype=default_mask.dtype, device=t.device)
        if gone < t.shape[dim]:
            kept[self.scores(t, dim).topk(t.shape[dim] - gone)[1]] = 1
        return default_mask * kept.reshape([-1 if d == dim else 1 for d in range(t.ndim)])


class RandomStructured(_Structured):
    """Channels, places of dimension `dim`, by chance."""

    def scores(self, t, dim):
        return td.rand(t.shape[dim], dtype=t.dtype, device=t.device)


class LnStructured(_Structured):
    """Those channels, places of dimension `dim`, whose n-norm is smallest."""

    def __init__(self, amount, n, dim=-1):
        super().__init__(amount, dim)
        self.n = n

    def scores(self, t, dim):
        return td.norm(t, p=self.n, dim=[d for d in range(t.ndim) if d != dim])


class CustomFromMask(BasePruningMethod):
    """What the zeros of a mask say."""

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        if default_mask.shape != self.mask.shape:
            raise AssertionError(f"the mask's shape is {self.mask.shape}, the tensor's {default_mask.shape}")
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module, name):
    """A mask of ones. Returns the module, as all of these do."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Elements by chance."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """Those elements that are nearest to 0, or whose scores are."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Channels by chance."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Those channels whose n-norm is smallest, or that of their scores."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module, name, mask):
    """What the zeros of a mask say."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Elements of all parameters, (module, name) each, by one method that sees them as one vector: global_unstructured(those, prune.L1Unstructured, amount=0.2).

    importance_scores: a dict by (module, name). Raises TypeError for a method whose PRUNING_TYPE is not "unstructured".
    """
    if not isinstance(parameters, Iterable):
        raise TypeError(f"global_unstructured(): parameters is a list of (module, name), not a {type(parameters).__name__}")
    if importance_scores is not None and not isinstance(importance_scores, dict):
        raise TypeError(f"global_unstructured(): importance_scores is a dict by (module, name), not a {type(importance_scores).__name__}")
    parameters, given = [(module, name) for module, name in parameters], importance_scores or {}
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(f"global_unstructured(): the PRUNING_TYPE of {pruning_method.__name__} is {method.PRUNING_TYPE!r}; only methods of 'unstructured' see all tensors as one")
    values = [getattr(module, name).detach() for module, name in parameters]
    scores = td.cat([given.get(p, v).detach().flatten() for p, v in zip(parameters, values)])
    before = td.cat([getattr(module, name + "_mask", td.ones_like(v)).flatten() for (module, name), v in zip(parameters, values)])
    mask = PruningContainer(method).compute_mask(scores, before)
    for (module, name), v, part in zip(parameters, values, mask.split([v.numel() for v in values])):
        custom_from_mask(module, name, part.reshape(v.shape))


def _hook_of(module, name):
    """(its place among the module's hooks, the method that prunes this tensor), or (None, None)."""
    return next(((at, hook) for at, hook in module._before.items() if isinstance(hook, BasePruningMethod) and hook._tensor_name == name), (None, None))


def remove(module, name):
    """The parameter again, with the zeros in it; what was pruned stays so. Returns the module. Raises ValueError when it is not pruned."""
    at, method = _hook_of(module, name)
    if method is None:
        raise ValueError(f"'{name}' of {type(module).__name__} is not pruned")
    method.remove(module)
    del module._before[at]
    return module


def is_pruned(module):
    """Whether something in the module is pruned."""
    return any(isinstance(hook, BasePruningMethod) for m in module.modules() for hook in m._before.values())

"""What layers of one's own ask for: one number or a tuple of them as a tuple, and the names of a state without what stands in front of them."""

import collections
from itertools import repeat

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n, name="parse"):
    """A function that makes n of one, and a tuple of what is several, of whatever length."""

    def parse(x):
        return tuple(x) if isinstance(x, collections.abc.Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single, _pair, _triple, _quadruple = (_ntuple(n, name) for n, name in enumerate(("_single", "_pair", "_triple", "_quadruple"), 1))


def _reverse_repeat_tuple(t, n):
    """Each of them n times, the last one first: paddings by dimension as pad() has them."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size, defaults):
    """Sizes as a list; those that are None are the last of the defaults. Raises ValueError when there are not more defaults than sizes."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"{len(out_size)} sizes want more defaults than {len(defaults)}")
    return [default if v is None else v for v, default in zip(out_size, defaults[-len(out_size) :])]


def consume_prefix_in_state_dict_if_present(state_dict, prefix):
    """Takes `prefix` ("module." of what DataParallel saved) from all names of a state that have it, in place and in their order."""
    for key in list(state_dict):
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)

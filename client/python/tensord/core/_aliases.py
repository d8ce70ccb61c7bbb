"""Import paths of PyTorch over what the package keeps elsewhere: `from tensord.nn.modules.conv import _ConvNd` finds the class under that name.

A module of such a path is made of a list of names when its parent is imported. It holds nothing of its own.
"""

import sys
from types import ModuleType


def put(parent, home, paths):
    """For each {name: "Name Name other=where.it.is"} a module beneath `parent`. Names are looked up in `home`, a module, those behind "=" by their way from there.

    Returns the names that are looked up.
    """
    above, all_names = sys.modules[parent], []
    for name, words in paths.items():
        made = ModuleType(f"{parent}.{name}", f"What is in {home.__name__}, by the name that PyTorch has for the place.")
        for word in words.split():
            shown, _, way = word.partition("=")
            value = home
            for step in (way or shown).split("."):
                value = getattr(value, step)
            setattr(made, shown, value)
        made.__dict__["__all__"] = [word for word in words.split() if "=" not in word]
        all_names += made.__dict__["__all__"]
        sys.modules[made.__name__] = made
        setattr(above, name, made)
    return all_names

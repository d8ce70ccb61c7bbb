"""As on a machine without them: Pythons that have this directory on PYTHONPATH find none of the modules that TENSORD_WITHOUT names (torch,numpy)."""
import importlib.machinery
import os

_gone = frozenset(os.environ.get("TENSORD_WITHOUT", "").split(","))
_find = importlib.machinery.PathFinder.find_spec


def _find_others(name, path=None, target=None):
    return None if name in _gone else _find(name, path, target)


importlib.machinery.PathFinder.find_spec = staticmethod(_find_others)

"""Weights of model zoos by the older name: load_url() is tensord.hub's load_state_dict_from_url()."""

import contextlib as _contextlib

from tensord.hub import load_state_dict_from_url as load_url

with _contextlib.suppress(ImportError):  # who loads by steps takes it from here
    from tqdm.auto import tqdm as tqdm

__all__ = ["load_url"]

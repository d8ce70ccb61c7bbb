"""The session's random numbers: seeds, states, and a block that leaves them as they were."""

import contextlib

from tensord.core._generators import (default_generator as default_generator, get_rng_state as get_rng_state, initial_seed as initial_seed, manual_seed as manual_seed,
                             seed as seed, set_rng_state as set_rng_state)

__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, device_type="cpu"):
    """What is drawn inside goes on from the state that is there, which comes back at the end. enabled=False: nothing comes back.

    There is one stream for all devices, so `devices` and `device_type` say nothing here.
    """
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(state)

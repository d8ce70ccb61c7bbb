"""Random numbers that are drawn in this process: orders of samples, for what has the names of torch.utils.data. Those in tensors are the daemon's.

manual_seed() begins both anew, so a script that calls it shuffles the same way in every run.
"""

import os
import random

from tensord import _C


class Generator(random.Random):
    """A source of random numbers for loaders, samplers and random_split, also a random.Random. Tensors are drawn by the daemon, whose numbers manual_seed() begins.

        parts = tensord.utils.data.random_split(dataset, [0.8, 0.2], generator=tensord.Generator().manual_seed(0))
    """

    def __new__(cls, device="cpu"):
        _C.device(str(device))
        return super().__new__(cls)

    def __init__(self, device="cpu"):
        super().__init__()

    def manual_seed(self, seed: int):
        """Begin anew with this seed; returns the generator."""
        self.seed(seed)
        return self

    def seed(self, a=None, version=2):
        """Begin anew, without an argument with a seed that nobody knows; returns the seed."""
        self._seed = int.from_bytes(os.urandom(8), "little") >> 1 if a is None else a
        super().seed(self._seed, version)
        return self._seed

    def initial_seed(self):
        """The seed that it began with."""
        return self._seed

    get_state, set_state = random.Random.getstate, random.Random.setstate


default_generator = Generator()


def initial_seed() -> int:
    """The seed of the orders in which tensord.utils.data shuffles; in a loader's worker, the seed of that worker."""
    return default_generator.initial_seed()


def manual_seed(seed: int) -> Generator:
    """Begin random numbers anew: those of this session's tensors, and the orders in which tensord.utils.data shuffles. Returns the generator of the latter.
    Its loaders' workers begin with seeds that are drawn from these, as PyTorch's do."""
    _C._manual_seed(seed)
    return default_generator.manual_seed(seed)

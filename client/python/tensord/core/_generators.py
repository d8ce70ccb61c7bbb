"""Generators: where random numbers come from, those of tensors and those that are drawn in this process (orders of samples, for what has the names of
torch.utils.data).

A tensor's numbers are drawn by the daemon, by seed and number of the draw in its stream. A generator holds both; a function that is given one has its
draw made there, between two words to the daemon that exchange the session's stream for it. default_generator is the session's own stream. While a
generator draws, other threads of this process that draw do so from the same stream.

manual_seed() begins all anew, so a script that calls it draws and shuffles the same way in every run.
"""

import contextlib
import os
import random
import struct

from tensord import _C
from tensord.core import _forking, _overloads

_lock = _forking.rlock()
_own = None  # the session's stream, while a generator draws
_STATE = struct.Struct("<QQ625IBd")


class _Forked:
    """A child forked while another thread's generator draws goes on with the session's own stream."""

    def _in_child(self):
        global _own
        if _own and not _lock._is_owned():
            own, _own = _own, None
            with contextlib.suppress(_C.Error):  # the next draw says it
                _C._set_random_state(*own)


_forked = _Forked()
_forking.in_child(_forked)


def _session():
    """(seed, draws) of the session. One that was never seeded has a seed that nobody knows: it gets another such, which is known here."""
    state = _C._random_state()
    if state is None:
        _C._manual_seed(int.from_bytes(os.urandom(8), "little"))
        state = _C._random_state()
    return state


class Generator(random.Random):
    """A source of random numbers: functions of tensors, loaders, samplers and random_split take it as generator=. Also a random.Random.

        dice = tensord.Generator().manual_seed(0)
        tensord.randn(3, generator=dice)
        parts = tensord.utils.data.random_split(dataset, [0.8, 0.2], generator=dice)
    """

    def __new__(cls, device="cpu"):
        made = super().__new__(cls)
        made.device = _overloads.there(device)
        return made

    def __init__(self, device="cpu"):
        super().__init__()

    def manual_seed(self, seed: int):
        """Begin anew with this seed; returns the generator."""
        self.seed(seed)
        return self

    def seed(self, a=None, version=2):
        """Begin anew, without an argument with a seed that nobody knows; returns the seed."""
        self._seed = int.from_bytes(os.urandom(8), "little") >> 1 if a is None else a
        self._stream = (hash(self._seed) if not isinstance(self._seed, int) else self._seed) % (1 << 64), 0
        super().seed(self._seed, version)
        return self._seed

    def initial_seed(self):
        """The seed that it began with; of a negative one, the number of 64 bits that it is."""
        return self._seed % (1 << 64) if isinstance(self._seed, int) else self._seed

    def _draw(self, make, *args):
        """make(*args) with the numbers of this generator."""
        global _own
        with _lock:
            outer, before = _own, _session()
            _own = outer or before
            _C._set_random_state(*self._stream)
            try:
                return make(*args)
            finally:
                self._stream = _session()
                _C._set_random_state(*before)
                _own = outer

    def _tensor_state(self):
        return self._stream

    def _set_tensor_state(self, state):
        self._stream = state

    def get_state(self):
        """All that its next numbers follow from, as a tensor of bytes."""
        _, words, left = self.getstate()
        state = _STATE.pack(*self._tensor_state(), *words, left is not None, left or 0.0)
        return _C.tensor(list(state), dtype=_C.uint8)

    def set_state(self, new_state):
        """Go on from a state that get_state() gave; returns the generator."""
        raw = bytes(new_state.tolist()) if _C.is_tensor(new_state) else b""
        if len(raw) != _STATE.size:
            raise _C.DTypeError("RNG state must be a torch.ByteTensor" if not raw else "RNG state is wrong size")
        seed, drawn, *words, have, left = _STATE.unpack(raw)
        self.setstate((3, tuple(words), left if have else None))
        self._set_tensor_state((seed, drawn))
        return self

    def clone_state(self):
        """Another generator that goes on as this one would."""
        return Generator(self.device).set_state(self.get_state())


class _Default(Generator):
    """That of who names none: its tensors' numbers are the session's."""

    def manual_seed(self, seed: int):
        return manual_seed(seed)

    def _draw(self, make, *args):
        return make(*args)

    def _tensor_state(self):
        return _session()

    def _set_tensor_state(self, state):
        _C._set_random_state(*state)


default_generator: Generator = _Default()


def drawn(generator, make, *args):
    """make(*args) with the numbers of a generator; None: the session's."""
    if generator is None:
        return make(*args)
    if not isinstance(generator, Generator):
        raise _C.DTypeError(f"generator must be a tensord.Generator, not {_C._a_type(generator)}")
    return generator._draw(make, *args)


def initial_seed() -> int:
    """The seed of the orders in which tensord.utils.data shuffles; in a loader's worker, the seed of that worker."""
    return default_generator.initial_seed()


def manual_seed(seed: int) -> Generator:
    """Begin random numbers anew: those of this session's tensors, and the orders in which tensord.utils.data shuffles. Returns the generator of both.
    Its loaders' workers begin with seeds that are drawn from these, as PyTorch's do."""
    _C._manual_seed(seed)
    default_generator.seed(seed)
    return default_generator


def seed() -> int:
    """Begin random numbers anew with a seed that nobody knows; returns it."""
    value = int.from_bytes(os.urandom(8), "little") >> 1
    manual_seed(value)
    return value


def get_rng_state():
    """All that the next random numbers follow from, as a tensor of bytes."""
    return default_generator.get_state()


def set_rng_state(new_state) -> None:
    """Go on from a state that get_rng_state() gave."""
    default_generator.set_state(new_state)

"""Sequences of several lengths beside each other: padded to the longest, or packed, step by step, without what is padded."""

from collections import namedtuple

import tensord as td
from tensord import _C
from tensord.core import _overloads

PackedSequence_ = namedtuple("PackedSequence_", "data batch_sizes sorted_indices unsorted_indices")


def bind(optional, fn):
    """fn(optional), or None."""
    return None if optional is None else fn(optional)


def invert_permutation(permutation):
    """Where each place went."""
    if permutation is None:
        return None
    out = td.empty_like(permutation)
    return out.scatter_(0, permutation, td.arange(permutation.numel(), device=permutation.device))


class PackedSequence(PackedSequence_):
    """`data` has the first elements of all sequences, from the longest on, then the second of those that have one, ...; batch_sizes says how many of each."""

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if batch_sizes is None:
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else type(self)(data, self.batch_sizes, *(bind(i, lambda t: t.to(data.device)) for i in (self.sorted_indices, self.unsorted_indices)))

    def cuda(self, *args, **kwargs):
        return self.to("cuda")

    def cpu(self, *args, **kwargs):
        return self.to("cpu")

    def double(self):
        return self.to(_C.float64)

    def float(self):
        return self.to(_C.float32)

    def half(self):
        return self.to(_C.float16)

    def long(self):
        return self.to(_C.int64)

    def int(self):
        return self.to(_C.int32)

    def short(self):
        return self.to(_C.int16)

    def char(self):
        return self.to(_C.int8)

    def byte(self):
        return self.to(_C.uint8)

    def pin_memory(self):
        return self

    @property
    def is_cuda(self):
        return self.data.device.type == "cuda"

    def is_pinned(self):
        return False


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """The sequences of input (T, B, ...), of these lengths."""
    given = lengths.tolist() if td.is_tensor(lengths) else [int(n) for n in lengths]
    if batch_first:
        input = input.transpose(0, 1)
    if len(given) != input.shape[1]:
        raise _C.InvalidError(f"Expected `len(lengths)` to be equal to batch_size, but got {len(given)} (batch_size={input.shape[1]})")
    if not given or min(given) <= 0:
        raise _C.InvalidError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0")
    if max(given) > input.shape[0]:
        raise _C.InvalidError(f"a length of {max(given)} of {input.shape[0]} steps")
    order = sorted(range(len(given)), key=lambda k: -given[k])
    sorted_indices = None
    if enforce_sorted:
        if any(a < b for a, b in zip(given, given[1:])):
            raise _C.InvalidError("`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass `enforce_sorted=False` to "
                                  "pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX exportability.")
    else:
        sorted_indices = td.tensor(order, dtype=_C.int64, device=input.device)
        given = [given[k] for k in order]
    sizes = [sum(n > t for n in given) for t in range(given[0])]
    at = [t * input.shape[1] + k for t, n in enumerate(sizes) for k in order[:n]]
    flat = input.reshape(input.shape[0] * input.shape[1], *input.shape[2:])
    return PackedSequence(flat.index_select(0, td.tensor(at, dtype=_C.int64, device=input.device)), td.tensor(sizes, dtype=_C.int64), sorted_indices)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """(what was packed, as (T, B, ...); the lengths)"""
    sizes = sequence.batch_sizes.tolist()
    steps, n = len(sizes), sizes[0]
    if total_length is not None:
        if total_length < steps:
            raise ValueError(f"Expected total_length to be at least the length of the longest sequence in input, but got total_length={total_length} and max "
                             f"sequence length being {steps}")
        steps = total_length
    data = sequence.data
    back = list(range(n)) if sequence.unsorted_indices is None else sequence.unsorted_indices.tolist()
    home = [back.index(k) for k in range(n)]  # of a packed place, the sequence
    at = [t * n + home[k] for t, size in enumerate(sizes) for k in range(size)]
    flat, index = td.full((steps * n, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device), td.tensor(at, dtype=_C.int64, device=data.device)
    flat[index] = 0
    out = flat.index_add(0, index, data).reshape(steps, n, *data.shape[1:])
    lengths = [sum(size > back[k] for size in sizes) for k in range(n)]
    return out.transpose(0, 1) if batch_first else out, td.tensor(lengths, dtype=_C.int64)


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Tensors (L, ...) of several lengths as one (T, B, ...)."""
    if padding_side not in ("left", "right"):
        raise _C.InvalidError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    try:
        sequences = sequences.unbind(0) if td.is_tensor(sequences) else list(sequences)
    except TypeError:
        raise _C.Error(f"pad_sequence() pads a list of tensors, not {_C._a_type(sequences)}") from None
    if not sequences:
        raise _C.InvalidError("received an empty list of sequences")
    if any(_overloads._follows(s.shape[0]) for s in sequences):
        return _overloads._program("padded")(sequences, batch_first, float(padding_value), padding_side == "left")
    most = max(s.shape[0] for s in sequences)
    even = [(0, 0) * (s.ndim - 1) + ((0, most - s.shape[0]) if padding_side == "right" else (most - s.shape[0], 0)) for s in sequences]
    return td.stack([_C.ops.constant_pad(s, pad, padding_value) for s, pad in zip(sequences, even)], 1 if not batch_first else 0)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The tensors that pad_sequence() was given."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[: int(n)] for row, n in zip(rows.unbind(0), lengths.tolist() if td.is_tensor(lengths) else lengths)]


def pack_sequence(sequences, enforce_sorted=True):
    """Tensors (L, ...) of several lengths, packed."""
    return pack_padded_sequence(pad_sequence(sequences), [s.shape[0] for s in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The tensors that pack_sequence() was given."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)

"""Recurrent layers, put together from ops: the products with the input are one for all steps, those with the state one a step.

Parameters, their order and names, their initialisation and the order of the gates are PyTorch's. Not here, and refused by name: proj_size, packed
sequences.
"""

import math
from typing import Any

import tensord as td
from tensord import _C
from tensord.nn import functional as F
from tensord.nn import init
from tensord.nn.module import Module, Parameter, layer_count

__all__ = ["RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"]

_TOGETHER = 64  # steps that one op cuts apart or puts together


def _rnn(function):
    def step(x, hidden, w, b):
        h = function(x + F.linear(hidden[0], w, b))
        return (h,)

    return step


def _lstm(x, hidden, w, b):
    i, f, g, o = (x + F.linear(hidden[0], w, b)).chunk(4, -1)
    c = f.sigmoid() * hidden[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru(x, hidden, w, b):
    (xr, xz, xn), (hr, hz, hn) = x.chunk(3, -1), F.linear(hidden[0], w, b).chunk(3, -1)
    z, n = (xz + hz).sigmoid(), (xn + (xr + hr).sigmoid() * hn).tanh()
    return (n + z * (hidden[0] - n),)


# What a kind of layer is: parts of the weights, states it carries, and the step.
_KINDS = {"RNN_TANH": (1, 1, _rnn(td.tanh)), "RNN_RELU": (1, 1, _rnn(td.relu)), "LSTM": (4, 2, _lstm), "GRU": (3, 1, _gru)}


def _steps(x):
    for part in x.split(_TOGETHER, 0):
        yield part.unbind(0)


def _along(x, hidden, w_ih, w_hh, b_ih, b_hh, step, backwards):
    """One layer in one direction over x (steps, batch, features): (what came out of each step, the last state)."""
    x = F.linear(x.flip(0) if backwards else x, w_ih, b_ih)
    parts = []
    for some in _steps(x):
        outs = []
        for each in some:
            hidden = step(each, hidden, w_hh, b_hh)
            outs.append(hidden[0])
        parts.append(td.stack(outs))
    out = td.cat(parts, 0)
    return out.flip(0) if backwards else out, hidden


class _Recurrent(Module):
    _mode = ""

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, proj_size=0, device=None,
                 dtype=None):
        super().__init__()
        if proj_size:
            raise _C.Unsupported(f"{type(self).__name__} has no proj_size here")
        num_layers = layer_count(num_layers, 1)
        if not 0 <= dropout <= 1:
            raise _C.InvalidError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
        self.input_size, self.hidden_size, self.num_layers, self.bias, self.batch_first = input_size, hidden_size, num_layers, bias, batch_first
        self.dropout, self.bidirectional = float(dropout), bidirectional
        self.mode = getattr(self, "mode", self._mode)
        self._ways = 2 if bidirectional else 1
        gates = _KINDS[self.mode][0] * hidden_size
        for name, width in self._names():
            size = (gates, width) if width else (gates,)
            self.register_parameter(name, Parameter(td.empty(size, dtype=dtype, device=device)))
        self.reset_parameters()

    def _names(self):
        """(name, columns) of the parameters in PyTorch's order; no columns: a bias."""
        for layer in range(self.num_layers):
            width = self.input_size if layer == 0 else self.hidden_size * self._ways
            for way in ["", "_reverse"][: self._ways]:
                yield f"weight_ih_l{layer}{way}", width
                yield f"weight_hh_l{layer}{way}", self.hidden_size
                if self.bias:
                    yield f"bias_ih_l{layer}{way}", 0
                    yield f"bias_hh_l{layer}{way}", 0

    def reset_parameters(self):
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def flatten_parameters(self):
        """Nothing: parameters need not lie together here."""

    def _begin(self, hx, x):
        """A tuple of states (layers * directions, batch, hidden)."""
        shape, states = (self.num_layers * self._ways, x.shape[1], self.hidden_size), _KINDS[self.mode][1]
        if hx is None:
            return (td.zeros(shape, dtype=x.dtype, device=x.device),) * states
        hx = hx if states > 1 else (hx,)
        for h in hx:
            if h.shape != shape:
                raise _C.ShapeError(f"Expected hidden size {shape}, got {h.shape}")
        return tuple(hx)

    def _weights(self, layer, way):
        end = f"_l{layer}" + ("_reverse" if way else "")
        biases = (getattr(self, "bias_ih" + end), getattr(self, "bias_hh" + end)) if self.bias else (None, None)
        return getattr(self, "weight_ih" + end), getattr(self, "weight_hh" + end), *biases

    def forward(self, input, hx=None):
        if input.ndim not in (2, 3):
            raise _C.ShapeError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.ndim}D instead")
        if input.shape[-1] != self.input_size:
            raise _C.ShapeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}")
        alone = input.ndim == 2
        many = _KINDS[self.mode][1] > 1
        x = input.unsqueeze(1) if alone else input.transpose(0, 1) if self.batch_first else input
        if hx is not None and alone:
            hx = tuple(h.unsqueeze(1) for h in hx) if many else hx.unsqueeze(1)
        begin, step = self._begin(hx, x), _KINDS[self.mode][2]
        last: list[Any] = []
        for layer in range(self.num_layers):
            outs = []
            for way in range(self._ways):
                at = layer * self._ways + way
                w_ih, w_hh, b_ih, b_hh = self._weights(layer, way)
                out, end = _along(x, tuple(h[at] for h in begin), w_ih, w_hh, b_ih, b_hh, step, bool(way))
                outs.append(out)
                last.append(end)
            x = outs[0] if self._ways == 1 else td.cat(outs, -1)
            if self.dropout and layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, self.training)
        ends = tuple(td.stack(list(h)) for h in zip(*last))
        if alone:
            x, ends = x.squeeze(1), tuple(h.squeeze(1) for h in ends)
        elif self.batch_first:
            x = x.transpose(0, 1)
        return x, ends if many else ends[0]

    def extra_repr(self) -> str:
        shown = [("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0.0), ("bidirectional", False)]
        return ", ".join([f"{self.input_size}, {self.hidden_size}"] + [f"{k}={getattr(self, k)}" for k, d in shown if getattr(self, k) != d])


class RNN(_Recurrent):
    """h = tanh(W x + U h): input (steps, batch, features) gives all h, and the last one of each layer."""

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False, dropout=0.0, bidirectional=False,
                 device=None, dtype=None):
        if nonlinearity not in ("tanh", "relu"):
            raise _C.InvalidError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        self.__dict__["mode"] = "RNN_" + nonlinearity.upper()
        self.__dict__["nonlinearity"] = nonlinearity
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device=device, dtype=dtype)


class LSTM(_Recurrent):
    """Long short-term memory: input (steps, batch, features) gives all h, and the last (h, c) of each layer."""

    _mode = "LSTM"


class GRU(_Recurrent):
    """Gated recurrent units: input (steps, batch, features) gives all h, and the last one of each layer."""

    _mode = "GRU"


class _Cell(Module):
    _mode = ""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        gates = _KINDS[self._mode][0] * hidden_size
        self.weight_ih = Parameter(td.empty((gates, input_size), dtype=dtype, device=device))
        self.weight_hh = Parameter(td.empty((gates, hidden_size), dtype=dtype, device=device))
        self.register_parameter("bias_ih", Parameter(td.empty(gates, dtype=dtype, device=device)) if bias else None)
        self.register_parameter("bias_hh", Parameter(td.empty(gates, dtype=dtype, device=device)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def forward(self, input, hx=None):
        _, states, step = _KINDS[self._mode]
        if hx is None:
            hx = (td.zeros(input.shape[:-1] + (self.hidden_size,), dtype=input.dtype, device=input.device),) * states
        out = step(F.linear(input, self.weight_ih, self.bias_ih), tuple(hx) if states > 1 or isinstance(hx, tuple) else (hx,), self.weight_hh, self.bias_hh)
        return out if states > 1 else out[0]

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(_Cell):
    """One step of RNN."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        if nonlinearity not in ("tanh", "relu"):
            raise _C.InvalidError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        self.__dict__["_mode"] = "RNN_" + nonlinearity.upper()
        self.__dict__["nonlinearity"] = nonlinearity
        super().__init__(input_size, hidden_size, bias, device, dtype)


class LSTMCell(_Cell):
    """One step of LSTM: (h, c)."""

    _mode = "LSTM"


class GRUCell(_Cell):
    """One step of GRU."""

    _mode = "GRU"

"""Recurrent layers: a layer in one direction is one op for all steps (tensord.ops.lstm_layer, gru_layer, rnn_layer), a cell one step of it.

Parameters, their order and names, their initialisation and the order of the gates are PyTorch's. LSTM with projections is put together from ops, step by
step; half types are computed in float32. Not here: packed sequences.
"""

import math
from typing import Any

import tensord as td
from tensord import _C
from tensord.core import _overloads
from tensord._C import ops
from tensord.nn import functional as F
from tensord.nn import init
from tensord.nn.module import Module, Parameter, layer_count

__all__ = ["RNNBase", "RNNCellBase", "RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"]

_KINDS = {"RNN_TANH": (1, 1), "RNN_RELU": (1, 1), "LSTM": (4, 2), "GRU": (3, 1)}  # parts of the weights, states that a layer carries
_HALVES = (_C.float16, _C.bfloat16)


def _along(mode, x, hidden, weights, backwards):
    """One layer in one direction over x (steps, batch, features): (what came out of each step, the last state)."""
    out, last = _layer(mode, x.flip(0) if backwards else x, hidden, weights)
    return out.flip(0) if backwards else out, last


def _layer(mode, x, hidden, weights):
    if weights[4] is not None:
        return _projected(x, hidden, weights)
    if x.dtype in _HALVES:
        wide = [None if t is None else t.to(_C.float32) for t in (x, *hidden, *weights)]
        out, last = _layer(mode, wide[0], wide[1:-5], wide[-5:])
        return out.to(x.dtype), tuple(h.to(x.dtype) for h in last)
    if mode == "LSTM":
        out, h, c, _, _ = ops.lstm_layer(x, *hidden, *weights[:4])
        return out, (h, c)
    if mode == "GRU":
        out, h, _, _ = ops.gru_layer(x, *hidden, *weights[:4])
    else:
        out, h = ops.rnn_layer(x, *hidden, *weights[:4], mode == "RNN_RELU")
    return out, (h,)


def _projected(x, hidden, weights):
    """LSTM whose state is projected behind each step."""
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    (h, c), outs = hidden, []
    if _overloads._follows(x.shape[0]):
        return _overloads._program("lstm_projected")(x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr)
    for each in F.linear(x, w_ih, b_ih).unbind(0):
        i, f, g, o = (each + F.linear(h, w_hh, b_hh)).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = F.linear(o.sigmoid() * c.tanh(), w_hr)
        outs.append(h)
    return td.stack(outs), (h, c)


class RNNBase(Module):
    """What RNN, LSTM and GRU have in common; made itself it is of no kind."""

    _mode = ""

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, proj_size=0, device=None,
                 dtype=None):
        super().__init__()
        if proj_size and self._mode != "LSTM":
            raise _C.InvalidError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if proj_size < 0 or proj_size and proj_size >= hidden_size:
            raise _C.InvalidError("proj_size has to be a positive integer, smaller than hidden_size, or zero to disable projections")
        num_layers = layer_count(num_layers, 1)
        if not 0 <= dropout <= 1:
            raise _C.InvalidError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
        self.input_size, self.hidden_size, self.num_layers, self.bias, self.batch_first = input_size, hidden_size, num_layers, bias, batch_first
        self.dropout, self.bidirectional = float(dropout), bidirectional
        self.proj_size = proj_size
        self.mode = getattr(self, "mode", self._mode)
        self._ways = 2 if bidirectional else 1
        for name, size in self._names():
            self.register_parameter(name, Parameter(td.empty(size, dtype=dtype, device=device)))
        self.reset_parameters()

    def _names(self):
        """(name, size) of the parameters in PyTorch's order."""
        gates, out = _KINDS[self.mode][0] * self.hidden_size, self.proj_size or self.hidden_size
        for layer in range(self.num_layers):
            for way in ["", "_reverse"][: self._ways]:
                yield f"weight_ih_l{layer}{way}", (gates, self.input_size if layer == 0 else out * self._ways)
                yield f"weight_hh_l{layer}{way}", (gates, out)
                if self.bias:
                    yield f"bias_ih_l{layer}{way}", (gates,)
                    yield f"bias_hh_l{layer}{way}", (gates,)
                if self.proj_size:
                    yield f"weight_hr_l{layer}{way}", (self.proj_size, self.hidden_size)

    def reset_parameters(self):
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def flatten_parameters(self):
        """Nothing: parameters need not lie together here."""

    def _begin(self, hx, x):
        """A tuple of states (layers * directions, batch, hidden)."""
        shapes = [(self.num_layers * self._ways, x.shape[1], n) for n in (self.proj_size or self.hidden_size, self.hidden_size)][: _KINDS[self.mode][1]]
        if hx is None:
            return tuple(td.zeros(shape, dtype=x.dtype, device=x.device) for shape in shapes)
        hx = tuple(hx) if len(shapes) > 1 else (hx,)
        for k, (h, shape) in enumerate(zip(hx, shapes, strict=True)):
            if h.shape != shape:
                raise _C.ShapeError(f"Expected hidden{f'[{k}]' if len(hx) > 1 else ''} size {shape}, got {h.shape}")
        return hx

    def _weights(self, layer, way):
        end = f"_l{layer}" + ("_reverse" if way else "")
        biases = (getattr(self, "bias_ih" + end), getattr(self, "bias_hh" + end)) if self.bias else (None, None)
        projection = getattr(self, "weight_hr" + end) if self.proj_size else None
        return getattr(self, "weight_ih" + end), getattr(self, "weight_hh" + end), *biases, projection

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
        if x.shape[0] == 0:
            raise _C.ShapeError("Expected sequence length to be larger than 0 in RNN")
        begin = self._begin(hx, x)
        last: list[Any] = []
        for layer in range(self.num_layers):
            outs = []
            for way in range(self._ways):
                at = layer * self._ways + way
                states = [h[at] if self.proj_size else h[at:at + 1] for h in begin]  # with their first dimension, as ATen's ops have them
                out, end = _along(self.mode, x, states, self._weights(layer, way), bool(way))
                outs.append(out)
                last.append(end)
            x = outs[0] if self._ways == 1 else td.cat(outs, -1)
            if self.dropout and layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, self.training)
        ends = tuple((td.stack if self.proj_size else td.cat)(list(h)) for h in zip(*last))
        if alone:
            x, ends = x.squeeze(1), tuple(h.squeeze(1) for h in ends)
        elif self.batch_first:
            x = x.transpose(0, 1)
        return x, ends if many else ends[0]

    def extra_repr(self) -> str:
        shown = [("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0.0), ("bidirectional", False)]
        return ", ".join([f"{self.input_size}, {self.hidden_size}"] + [f"{k}={getattr(self, k)}" for k, d in shown if getattr(self, k) != d])


class RNN(RNNBase):
    """h = tanh(W x + U h): input (steps, batch, features) gives all h, and the last one of each layer."""

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False, dropout=0.0, bidirectional=False,
                 device=None, dtype=None):
        if nonlinearity not in ("tanh", "relu"):
            raise _C.InvalidError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        self.__dict__["mode"] = "RNN_" + nonlinearity.upper()
        self.__dict__["nonlinearity"] = nonlinearity
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device=device, dtype=dtype)


class LSTM(RNNBase):
    """Long short-term memory: input (steps, batch, features) gives all h, and the last (h, c) of each layer."""

    _mode = "LSTM"


class GRU(RNNBase):
    """Gated recurrent units: input (steps, batch, features) gives all h, and the last one of each layer."""

    _mode = "GRU"


class RNNCellBase(Module):
    """What RNNCell, LSTMCell and GRUCell have in common; made itself it is of no kind."""

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
        weights = self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        if hx is None:
            zero = td.zeros(input.shape[:-1] + (self.hidden_size,), dtype=input.dtype, device=input.device)
            hx = (zero, zero) if self._mode == "LSTM" else zero
        if self._mode == "LSTM":
            return ops.lstm_cell(input, *hx, *weights)
        return ops.gru_cell(input, hx, *weights) if self._mode == "GRU" else ops.rnn_cell(input, hx, *weights, self._mode == "RNN_RELU")

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(RNNCellBase):
    """One step of RNN."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        if nonlinearity not in ("tanh", "relu"):
            raise _C.InvalidError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        self.__dict__["_mode"] = "RNN_" + nonlinearity.upper()
        self.__dict__["nonlinearity"] = nonlinearity
        super().__init__(input_size, hidden_size, bias, device, dtype)


class LSTMCell(RNNCellBase):
    """One step of LSTM: (h, c)."""

    _mode = "LSTM"


class GRUCell(RNNCellBase):
    """One step of GRU."""

    _mode = "GRU"

"""Recurrent layers and cells, attention by tiles: what they are called in torch. Layers in one direction are torch's own of one layer, on the flipped sequence where they go back."""

import torch
from cases import NO_COUNTERPART, UNREPEATED, op

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
NO_COUNTERPART.update({f"{kind}_layer_backward": f"reached through {kind}_layer" for kind in GATES})


def weights(r, kind, size, n):
    """w_ih, w_hh and two biases, which may be absent."""
    all_, bias = GATES[kind] * n, r.pick(True, True, False)
    shapes = [[all_, size], [all_, n], [all_], [all_]]
    most = 0.7 / (1 + max(size, n) / 8) ** 0.5  # so that gates are seldom shut
    return [r.t(s, -most, most) if bias or len(s) == 2 else None for s in shapes]


def along(kind, x, states, w, relu, reverse):
    """(y, h) or (y, h, c) of torch's layer."""
    many = [w_ for w_ in w if w_ is not None]
    x, states = x.flip(0) if reverse else x, [s if s.dim() == 3 else s[None] for s in states]
    function = getattr(torch._VF, {"lstm": "lstm", "gru": "gru", "rnn": "rnn_relu" if relu else "rnn_tanh"}[kind])
    y, *last = function(x, states if kind == "lstm" else states[0], many, len(many) == 4, 1, 0.0, False, False, False)
    return (y.flip(0) if reverse else y, *last)


def layer(kind):
    def case(r):
        steps, rows, size, n = r.int(1, 4), r.size(1, 5, 16, 17, 32, 33, 65), r.size(1, 5, 255, 257), r.size(1, 5, 63, 65)
        one, reverse, relu = r.pick([], [1]), bool(r.int(0, 1)), bool(r.int(0, 1)) and kind == "rnn"
        states = [r.t([*one, rows, n]) for _ in range(2 if kind == "lstm" else 1)]
        w = weights(r, kind, size, n)
        attrs = ([relu] if kind == "rnn" else []) + [reverse]

        def run(x, *rest):
            y, *last = along(kind, x, rest[:len(states)], rest[len(states):], relu, reverse)
            return (y, *[s if one else s[0] for s in last])
        return [r.t([steps, rows, size]), *states, *w], attrs, run
    op(f"{kind}_layer")(case)


def cell(kind):
    def case(r):
        rows, size, n, relu = r.pick([], [3]), r.int(1, 5), r.int(1, 5), bool(r.int(0, 1)) and kind == "rnn"
        states = [r.t([*rows, n]) for _ in range(2 if kind == "lstm" else 1)]

        def run(x, *rest):
            together = x.dim() == 1
            x, rest = x[None] if together else x, [s[None] if together else s for s in rest[:len(states)]] + list(rest[len(states):])
            _, *last = along(kind, x[None], rest[:len(states)], rest[len(states):], relu, False)
            last = [s[0][0] if together else s[0] for s in last]
            return tuple(last) if kind == "lstm" else last[0]
        return [r.t([*rows, size]), *states, *weights(r, kind, size, n)], [relu] if kind == "rnn" else [], run
    op(f"{kind}_cell")(case)


for kind_ in GATES:
    layer(kind_)
    cell(kind_)


# ---- attention by tiles

UNREPEATED.update(("tiled_attention", "scaled_dot_product_attention"))  # what all keys have alike has no gradient but for rounding
NO_COUNTERPART["tiled_attention_backward"] = "reached through tiled_attention"


@op("tiled_attention")
def _(r):
    batch, pairs, share, e, f = r.int(1, 2), r.int(1, 2), r.int(1, 2), r.size(1, 6, 16, 33), r.size(1, 6, 17, 32)
    n, m, kind = r.size(1, 5, 63, 64, 65), r.size(1, 5, 127, 128, 129), r.pick("none", "causal", "bool", "add")
    seen = r.b(r.pick([n, m], [1, 1, n, m], [pairs * share, 1, m])) | (torch.arange(m) == 0)
    mask = {"bool": seen, "add": r.t(r.pick([n, m], [1, m], [batch, 1, n, m]))}.get(kind)
    scale = r.pick(0.5, 1.0)

    def run(q, k, v, mask=None):
        k, v = (x.repeat_interleave(share, 1) for x in (k, v))
        scores = q @ k.transpose(-2, -1) * scale
        look = torch.ones(n, m, dtype=torch.bool).tril() if kind == "causal" else mask
        if look is not None:
            scores = scores.masked_fill(~look, -torch.inf) if look.dtype == torch.bool else scores + look
        return (scores.softmax(-1) @ v,)
    return [r.t([batch, pairs * share, n, e]), r.t([batch, pairs, m, e]), r.t([batch, pairs, m, f]), mask], [kind == "causal", scale], run

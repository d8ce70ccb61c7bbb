"""Functions and layers beside the numbers that PyTorch 2.13 gave, with each of their arguments said otherwise than they are by themselves.

`python test_formulas.py`, with such a PyTorch, writes formulas.json.
"""
import json
import pathlib

import pytest

RESULTS = pathlib.Path(__file__).with_name("formulas.json")


def wave(lib, *shape, step=0.7, add=0.0):
    """Numbers of no pattern, of float64."""
    n = 1
    for size in shape:
        n *= size
    return ((lib.arange(n, dtype=lib.float64) * step + 0.3).sin() * 2 + add).reshape(shape)


def parameters(layer, lib):
    """The same in both libraries."""
    with lib.no_grad():
        for k, p in enumerate(layer.parameters()):
            p.copy_(wave(lib, *p.shape, step=0.9 + k / 7) / 2)
    return layer


LOSSES = ["L1Loss()", "MSELoss()", "SmoothL1Loss(beta=0.5)", "SmoothL1Loss(beta=0.0)", "HuberLoss(delta=0.7)", "SoftMarginLoss()", "PoissonNLLLoss()", "PoissonNLLLoss(log_input=False, full=True)", "KLDivLoss()", "KLDivLoss(log_target=True)"]
LOGITS = ["CrossEntropyLoss()", "CrossEntropyLoss(ignore_index=1)", "CrossEntropyLoss(label_smoothing=0.2)", "CrossEntropyLoss(W)", "MultiMarginLoss()", "MultiMarginLoss(p=2, margin=0.5, weight=W)", "NLLLoss()", "NLLLoss(W, ignore_index=2)"]
PAIRS = ["MarginRankingLoss()", "MarginRankingLoss(margin=0.5)"]


def losses(lib):
    nn, a, b = lib.nn, wave(lib, 3, 4), wave(lib, 3, 4, step=0.4)
    weight, target, sign = wave(lib, 4, add=3.0), lib.tensor([1, 0, 2]), lib.tensor([1.0, -1.0, 1.0], dtype=lib.float64)
    made = {}
    for how in ("mean", "sum", "none"):
        for text in LOSSES:
            made[f"{text} {how}"] = with_reduction(lib, text, how)(a.abs() + 0.1 if "log_input=False" in text else a, b.softmax(-1) if text == "KLDivLoss()" else b)
        for text in LOGITS:
            made[f"{text} {how}"] = with_reduction(lib, text, how, weight)(a.log_softmax(-1) if "NLL" in text else a, target)
        for text in PAIRS:
            made[f"{text} {how}"] = with_reduction(lib, text, how)(a[:, 0], b[:, 0], sign)
        made[f"hinge {how}"] = nn.HingeEmbeddingLoss(margin=0.8, reduction=how)(a[:, 0], sign)
        made[f"cosine {how}"] = nn.CosineEmbeddingLoss(margin=0.1, reduction=how)(a, b, sign)
        made[f"triplet {how}"] = nn.TripletMarginLoss(margin=0.5, p=1.5, eps=1e-3, swap=True, reduction=how)(a, b, a * b)
        made[f"triplet by itself {how}"] = nn.TripletMarginLoss(reduction=how)(a, b, a * b)
        made[f"triplet of another {how}"] = nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs().sum(-1), margin=0.3, swap=True, reduction=how)(a, b, a * b)
        made[f"triplet of its own {how}"] = nn.TripletMarginWithDistanceLoss(reduction=how)(a, b, a * b)
        made[f"gaussian {how}"] = nn.GaussianNLLLoss(full=True, eps=0.5, reduction=how)(a, b, b.abs() + 0.1)
        made[f"gaussian by itself {how}"] = nn.GaussianNLLLoss(reduction=how)(a, b, b.abs() + 0.1)
        made[f"bce {how}"] = nn.BCELoss(weight, reduction=how)(a.sigmoid(), b.sigmoid())
        made[f"logits {how}"] = nn.BCEWithLogitsLoss(weight, pos_weight=weight / 2, reduction=how)(a, b.sigmoid())
        made[f"several {how}"] = nn.MultiLabelSoftMarginLoss(weight, reduction=how)(a, (b > 0).double())
        made[f"margins {how}"] = nn.MultiLabelMarginLoss(reduction=how)(a, lib.tensor([[1, 3, -1, 0], [0, -1, 1, 1], [2, 1, 0, -1]]))
        made[f"ctc {how}"] = nn.CTCLoss(blank=1, zero_infinity=True, reduction=how)(wave(lib, 5, 2, 4).log_softmax(-1), lib.tensor([[2, 3, 2], [0, 2, 3]]), lib.tensor([5, 2]), lib.tensor([3, 3]))
    return made


def with_reduction(lib, text, how, weight=None):
    return eval(f"nn.{text[:-1]}{', ' * (text[-2] != '(')}reduction={how!r})", {"nn": lib.nn, "W": weight})


def resized(lib):
    f, row, picture, cube = lib.nn.functional.interpolate, wave(lib, 1, 2, 5), wave(lib, 1, 2, 3, 4), wave(lib, 1, 1, 2, 3, 2)
    made = {f"{mode} {size}": f(x, size, mode=mode) for x, mode, size in ((row, "nearest", 7), (row, "nearest-exact", 3), (row, "linear", 8), (row, "area", 3), (picture, "nearest", (5, 2)), (picture, "nearest-exact", (2, 7)),
                                                                          (picture, "bilinear", (5, 3)), (picture, "bicubic", (4, 6)), (picture, "area", (2, 3)), (cube, "nearest", (3, 2, 4)), (cube, "trilinear", (3, 2, 3)), (cube, "area", (1, 2, 2)))}
    made |= {f"{mode} corners": f(x, size, mode=mode, align_corners=True) for x, mode, size in ((row, "linear", 8), (picture, "bilinear", (5, 3)), (picture, "bicubic", (4, 6)), (cube, "trilinear", (3, 2, 3)))}
    made |= {f"{mode} {factor} {again}": f(picture, scale_factor=factor, mode=mode, recompute_scale_factor=again) for mode in ("nearest", "bilinear", "bicubic", "area") for factor in (1.7, (0.5, 2.3)) for again in (None, True, False)}
    made |= {f"{mode} smooth": f(picture, (2, 2), mode=mode, antialias=True) for mode in ("bilinear", "bicubic")}
    whole = (wave(lib, 1, 2, 4, 5) * 50 + 120).to(lib.uint8)
    made |= {f"bytes {mode}": f(whole, (3, 7), mode=mode) for mode in ("nearest", "nearest-exact")}
    return made


def pooled(lib):
    F, row, picture, cube = lib.nn.functional, wave(lib, 2, 2, 7), wave(lib, 2, 2, 5, 6), wave(lib, 1, 2, 4, 5, 4)
    made = {}
    for n, x in ((1, row), (2, picture), (3, cube)):
        for alone in (False, True):
            y = x[0] if alone else x
            pool, mean = (getattr(F, f"{kind}_pool{n}d") for kind in ("max", "avg"))
            made[f"max {n} {alone}"] = list(pool(y, 3, 2, 1, 1, True, True))
            made[f"max {n} {alone} wide"] = pool(y, 2, 1, 0, 2)
            made[f"mean {n} {alone}"] = mean(y, 2, 2, 1, True, False)
            made[f"mean {n} {alone} all"] = mean(y, 3, 1, 1)
            made[f"norm {n} {alone}"] = getattr(F, f"lp_pool{n}d")(y.abs(), 2.0, 2, 1, False)
            made[f"adaptive {n} {alone}"] = [getattr(F, f"adaptive_avg_pool{n}d")(y, 2), *getattr(F, f"adaptive_max_pool{n}d")(y, 3, True)]
            found, places = pool(y, 2, return_indices=True)
            made[f"back {n} {alone}"] = getattr(F, f"max_unpool{n}d")(found, places, 2, output_size=list(y.shape[-n:]))
            if n > 1:
                draws = lib.full((1 if alone else x.shape[0], 2, n), 0.3, dtype=lib.float64)
                made[f"spread {n} {alone}"] = list(getattr(F, f"fractional_max_pool{n}d")(y, 2, (2,) * n, return_indices=True, _random_samples=draws))
                made[f"spread by ratio {n} {alone}"] = getattr(F, f"fractional_max_pool{n}d")(y, 2, output_ratio=(0.5,) * n, _random_samples=draws)
    made["divided"] = [F.avg_pool2d(picture, 2, divisor_override=3), F.avg_pool3d(cube, 2, divisor_override=5)]
    made["back with a size"] = F.max_unpool1d(*F.max_pool1d(row, 2, return_indices=True), 2, output_size=[7])
    return made


def embedded(lib):
    F, w, x = lib.nn.functional, wave(lib, 5, 3), lib.tensor([[1, 2, 4], [4, 2, 0]])
    made = {f"{mode} {pad}": F.embedding_bag(x, w, mode=mode, padding_idx=pad) for mode in ("sum", "mean", "max") for pad in (None, 2, -1)}
    flat, starts = x.reshape(-1), lib.tensor([0, 0, 4])
    made |= {f"{mode} by starts": F.embedding_bag(flat, w, starts, mode=mode, padding_idx=2) for mode in ("sum", "mean", "max")}
    made |= {f"{mode} with the end": F.embedding_bag(flat, w, lib.tensor([0, 2, 2, 6]), mode=mode, include_last_offset=True) for mode in ("sum", "mean", "max")}
    made["weighed"] = F.embedding_bag(x, w, mode="sum", per_sample_weights=wave(lib, 2, 3))
    for more in (dict(max_norm=1.0), dict(max_norm=1.0, norm_type=1.0), dict(scale_grad_by_freq=True), dict(padding_idx=2), dict(padding_idx=-1)):
        for name in ("embedding", "embedding_bag"):
            table = wave(lib, 5, 3).requires_grad_("max_norm" not in more)
            out = getattr(F, name)(x, table, **more)
            made[f"{name} {more}"] = [out, table if "max_norm" in more else lib.autograd.grad((out**2).sum(), table)[0]]
    layer = lib.nn.Embedding.from_pretrained(w, freeze=False, padding_idx=1)
    bags = lib.nn.EmbeddingBag.from_pretrained(w, mode="max")
    made["layers"] = [layer(x), bags(x), lib.nn.Embedding(3, 2, padding_idx=1, dtype=lib.float64).weight[1], float(layer.weight.requires_grad), float(bags.weight.requires_grad), repr(bags), repr(layer)]
    return made


def normed(lib):
    F, nn, x = lib.nn.functional, lib.nn, wave(lib, 2, 4, 3)
    w, b = wave(lib, 3), wave(lib, 3, step=0.2)
    made = {"layer": F.layer_norm(x, (3,), w, b, 0.1), "plain layer": F.layer_norm(x, (4, 3)), "rms": F.rms_norm(x, (3,), w, 0.1), "plain rms": F.rms_norm(x, (4, 3)), "group": F.group_norm(x, 2, wave(lib, 4), wave(lib, 4, step=0.2), 0.1), "instance": F.instance_norm(x, eps=0.1),
            "response": F.local_response_norm(x, 3, 0.1, 0.5, 2.0), "normalized": F.normalize(x, 3.0, -1, 0.1), "cosine": F.cosine_similarity(x, x.flip(1), -1, 0.1), "apart": F.pairwise_distance(x, x.flip(1), 3.0, 0.1, True),
            "instance by what was": F.instance_norm(x, wave(lib, 4), wave(lib, 4, add=3.0), use_input_stats=False)}
    for name, layer in (("batch", nn.BatchNorm1d(4, eps=0.1, momentum=0.3)), ("mean of all", nn.BatchNorm1d(4, momentum=None)), ("no batch", nn.BatchNorm1d(4, affine=False)), ("untold", nn.BatchNorm1d(4, track_running_stats=False)),
                        ("instances", nn.InstanceNorm1d(4, affine=True, track_running_stats=True)), ("groups", nn.GroupNorm(2, 4, affine=False)), ("layers", nn.LayerNorm((4, 3), bias=False)), ("roots", nn.RMSNorm(3, eps=0.1))):
        layer = parameters(layer.double(), lib)
        made[name] = [layer(x), layer(x * 2), layer.eval()(x), *layer.buffers(), repr(layer)]
    return made


def attended(lib):
    F, nn, q = lib.nn.functional, lib.nn, wave(lib, 2, 3, 4)
    k, v = wave(lib, 2, 5, 4, step=0.4), wave(lib, 2, 5, 4, step=0.2)
    hidden, mask, addend = lib.tensor([[False] * 4 + [True], [True] + [False] * 4]), lib.tensor([[False, True, False, False, True]] * 3), wave(lib, 3, 5)
    made = {"plain": F.scaled_dot_product_attention(q, k, v), "causal": F.scaled_dot_product_attention(q, q, q, is_causal=True), "masked": F.scaled_dot_product_attention(q, k, v, ~mask, scale=0.3), "added": F.scaled_dot_product_attention(q, k, v, addend)}
    for first in (False, True):
        layer = parameters(nn.MultiheadAttention(4, 2, batch_first=first, dtype=lib.float64), lib)
        turn = (lambda x: x) if first else (lambda x: x.transpose(0, 1))
        a, b, c = map(turn, (q, k, v))
        for name, more in (("", {}), ("mask", dict(attn_mask=mask)), ("added", dict(attn_mask=addend)), ("hidden", dict(key_padding_mask=hidden)), ("both", dict(attn_mask=mask, key_padding_mask=hidden)), ("each", dict(average_attn_weights=False)),
                           ("of each", dict(attn_mask=wave(lib, 4, 3, 5))), ("alone", dict(need_weights=False))):
            out, weights = layer(a, b, c, **more)
            made[f"{first} {name}"] = [out] if weights is None else [out, weights]
    layer = parameters(nn.MultiheadAttention(4, 2, bias=False, add_zero_attn=False, kdim=3, vdim=2, batch_first=True, dtype=lib.float64), lib)
    made["other sizes"] = list(layer(q, wave(lib, 2, 5, 3), wave(lib, 2, 5, 2)))
    layer = parameters(nn.MultiheadAttention(4, 2, batch_first=True, dtype=lib.float64), lib)
    made["one"] = list(layer(q[0], k[0], v[0])) + list(layer(q[0], k[0], v[0], key_padding_mask=hidden[0]))
    causal = nn.Transformer.generate_square_subsequent_mask(3, dtype=lib.float64)
    made["square"] = causal.exp()
    for how in (dict(norm_first=True), dict(activation="gelu"), dict(activation=lambda x: x.sigmoid(), layer_norm_eps=0.1), dict(bias=False)):
        encoder = parameters(nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True, dtype=lib.float64, **how), lib)
        decoder = parameters(nn.TransformerDecoderLayer(4, 2, 6, dropout=0.0, batch_first=True, dtype=lib.float64, **how), lib)
        made[f"coder {sorted(how)}"] = [encoder(q), encoder(q, causal), decoder(q, k), decoder(q, k, causal, memory_key_padding_mask=hidden)]
    stack = parameters(nn.Transformer(4, 2, 1, 2, 6, dropout=0.0, batch_first=True, dtype=lib.float64), lib)
    made["whole"] = [stack(k, q, tgt_mask=causal), stack(k[0], q[0])]
    return made


def windows(lib):
    F, nn, made = lib.nn.functional, lib.nn, {}
    for n, x in ((1, wave(lib, 2, 4, 7)), (2, wave(lib, 2, 4, 5, 6)), (3, wave(lib, 1, 4, 3, 4, 3))):
        kind = f"Conv{n}d"
        for name, more in (("plain", {}), ("wide", dict(stride=2, padding=1, dilation=1, groups=2)), ("same", dict(padding="same", dilation=2)), ("valid", dict(padding="valid", bias=False)), ("mirrored", dict(padding=1, padding_mode="reflect")), ("round", dict(padding=1, padding_mode="circular")),
                           ("again", dict(padding=1, padding_mode="replicate"))):
            layer = parameters(getattr(nn, kind)(4, 2, 2, dtype=lib.float64, **more), lib)
            made[f"{n} {name}"] = [layer(x), layer(x[0]), repr(layer)]
        for name, more in (("plain", {}), ("wide", dict(stride=2, padding=1, output_padding=1, groups=2)), ("dilated", dict(dilation=2, bias=False))):
            layer = parameters(getattr(nn, f"ConvTranspose{n}d")(4, 2, 3, dtype=lib.float64, **more), lib)
            made[f"turned {n} {name}"] = [layer(x), repr(layer)]
        layer = parameters(getattr(nn, f"ConvTranspose{n}d")(4, 2, 3, stride=2, dtype=lib.float64), lib)
        sizes = [(s - 1) * 2 + 4 for s in x.shape[2:]]
        made[f"turned {n} to a size"] = [layer(x, sizes), layer(x, [1, 2, *sizes])]
    picture = wave(lib, 1, 4, 4, 6)
    made["columns"] = [F.unfold(picture, (2, 3), dilation=(1, 2), padding=1, stride=2), F.fold(wave(lib, 1, 8, 15), (4, 6), 2, stride=1)]
    made["channels"] = [F.pixel_shuffle(picture, 2), F.pixel_unshuffle(picture, 2), F.channel_shuffle(picture, 2)]
    for mode in ("constant", "reflect", "replicate", "circular"):
        made[f"pad {mode}"] = F.pad(picture, (1, 2, 0, 1), mode)
    made["pad with"] = [F.pad(picture, (1, -1), value=3.0), F.pad(picture, (0, 0, 0, 0, 1, 1))]
    grid = wave(lib, 1, 2, 3, 2)
    for mode in ("bilinear", "nearest", "bicubic"):
        for edge in ("zeros", "border", "reflection"):
            for corners in (False, True):
                made[f"grid {mode} {edge} {corners}"] = F.grid_sample(picture, grid, mode, edge, corners)
    turned = lib.tensor([[[0.5, 0.1, 0.2], [-0.3, 1.0, 0.0]]], dtype=lib.float64)
    made["affine"] = [F.affine_grid(turned, (1, 1, 2, 3), True), F.affine_grid(turned, (1, 1, 2, 3), False)]
    made["bilinear"] = F.bilinear(wave(lib, 2, 3), wave(lib, 2, 4), wave(lib, 5, 3, 4), wave(lib, 5))
    return made


def cells(lib):
    nn, x, made = lib.nn, wave(lib, 3, 2, 4), {}
    for kind in ("LSTM", "GRU", "RNN"):
        for name, more in (("plain", {}), ("both", dict(bidirectional=True, num_layers=2)), ("first", dict(batch_first=True, bias=False)), *((("less", dict(proj_size=2)),) if kind == "LSTM" else ()), *((("relu", dict(nonlinearity="relu")),) if kind == "RNN" else ())):
            layer = parameters(getattr(nn, kind)(4, 3, dtype=lib.float64, **more), lib)
            y, h = layer(x)
            one, held = layer(x[:, 0])
            made[f"{kind} {name}"] = [y, *(h if kind == "LSTM" else [h]), one, *(held if kind == "LSTM" else [held]), layer(x[:2], tuple(t * 0.5 for t in h) if kind == "LSTM" else h * 0.5)[0] if name != "first" else y, repr(layer)]
        cell = parameters(getattr(nn, kind + "Cell")(4, 3, dtype=lib.float64), lib)
        h = cell(x[0])
        made[f"{kind} cell"] = [*(h if kind == "LSTM" else [h]), *(cell(x[1], h) if kind == "LSTM" else [cell(x[1], h)]), *(cell(x[0, 0]) if kind == "LSTM" else [cell(x[0, 0])]), repr(cell)]
    return made


def shares(lib):
    F, x = lib.nn.functional, wave(lib, 2, 3, 4)
    layer = parameters(lib.nn.AdaptiveLogSoftmaxWithLoss(4, 7, [2, 4], div_value=2.0, head_bias=True, dtype=lib.float64), lib)
    y = layer(wave(lib, 5, 4), lib.tensor([0, 3, 6, 1, 4]))
    return {"adaptive": [y.output, y.loss, layer.log_prob(wave(lib, 2, 4)), layer.predict(wave(lib, 5, 4))], "one": list(layer(wave(lib, 4), lib.tensor(3))), "glu": F.glu(x, 2), "celu": F.celu(x, 0.7), "softplus": F.softplus(x, 2.0, 1.0), "hard": F.hardtanh(x, -0.5, 0.7),
            "threshold": F.threshold(x, 0.1, 20.0), "leaky": F.leaky_relu(x, 0.3), "elu": F.elu(x, 0.5), "gelu": [F.gelu(x), F.gelu(x, approximate="tanh")], "prelu": F.prelu(x, wave(lib, 3)), "rrelu": F.rrelu(x, 0.2, 0.4), "shrunk": [F.hardshrink(x, 0.7), F.softshrink(x, 0.7)], "softmin": F.softmin(x, 1),
            "as": F.softmax(x, 1, dtype=lib.float32), "log": F.log_softmax(x, 0), "hot": [F.one_hot(lib.tensor([2, 0])), F.one_hot(lib.tensor([2, 0]), 4)], "apart": F.pdist(x[0], 3.0)}


CASES = {f.__name__: f for f in (losses, resized, pooled, embedded, normed, attended, windows, cells, shares)}


def short(x, lib):
    """With as many digits as count here; of more than a few numbers their shape and two sums, in which each has a weight of its own."""
    if isinstance(x, dict):
        return {k: short(v, lib) for k, v in x.items()}
    if hasattr(x, "detach"):
        flat = x.detach().reshape(-1).double()
        x = flat.tolist() if len(flat) <= 4 else [list(x.shape), *(float((flat * wave(lib, len(flat), step=step)).sum()) for step in (0.7, 1.3))]
    return [short(v, lib) for v in x] if isinstance(x, (list, tuple)) else float(f"{x:.8g}") if isinstance(x, float) else x


def differs(a, b):
    if isinstance(b, list):
        return not isinstance(a, list) or len(a) != len(b) or any(map(differs, a, b))
    return a != pytest.approx(b, rel=1e-5, abs=1e-5) if isinstance(b, (int, float)) else a != b


@pytest.mark.parametrize("name", CASES)
def test_as_recorded(name):
    import tensord as td

    wanted, made = json.loads(RESULTS.read_text())[name], short(CASES[name](td), td)
    assert sorted(made) == sorted(wanted)
    wrong = {k: (made[k], wanted[k]) for k in wanted if differs(made[k], wanted[k])}
    assert not wrong, wrong


if __name__ == "__main__":
    import torch

    RESULTS.write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(short(case(torch), torch), separators=(',', ':'))}" for name, case in CASES.items()) + "\n}\n")

"""Convolution of rows and volumes, edges, pools, other sizes, places of a grid, and the losses beside them (proto/ops/spatial.toml)."""

import torch
import torch.nn.functional as F
from cases import COMPLEX, DIFFERENTIABLE, HALF, INTS, NO_COUNTERPART, UNREPEATED, op


def few(r, n, lo, hi):
    return [r.int(lo, hi) for _ in range(n)]


# ---- convolution

@op("conv3d", COMPLEX)
def _(r):
    groups, bias = r.pick(1, 1, 2), r.int(0, 1)
    ci, co, k = 2 * r.int(1, 2), 2 * r.int(1, 2), few(r, 3, 1, 3)
    st, pad, dil = few(r, 3, 1, 2), few(r, 3, 0, 2), few(r, 3, 1, 2)
    x = r.t([r.int(1, 2), ci, *few(r, 3, 5, 7)])
    return [x, r.t([co, ci // groups, *k]), r.t([co]) if bias else None], [st, pad, dil, groups], lambda x, w, b=None: F.conv3d(x, w, b, st, pad, dil, groups)


def turned(name, n, function):
    def case(r):
        groups, bias = r.pick(1, 1, 2), r.int(0, 1)
        ci, co, k = 2 * r.int(1, 2), r.int(1, 2), few(r, n, 1, 3)
        st, pad, dil = few(r, n, 1, 3), few(r, n, 0, 1), few(r, n, 1, 2)
        more = [r.int(0, max(s, d) - 1) for s, d in zip(st, dil)]
        x = r.t([r.int(1, 2), ci, *few(r, n, 2, 4)])
        if any((m - 1) * s - 2 * p + d * (j - 1) + o < 0 for m, s, p, d, j, o in zip(x.shape[2:], st, pad, dil, k, more)):
            st, pad = [3] * n, [0] * n
        return ([x, r.t([ci, co, *k]), r.t([co * groups]) if bias else None], [st, pad, more, groups, dil],
                lambda x, w, b=None: function(x, w, b, st, pad, more, groups, dil))
    op(name)(case)


turned("conv_transpose1d", 1, F.conv_transpose1d)
turned("conv_transpose3d", 3, F.conv_transpose3d)


# ---- edges

def edges(name, mode):
    def case(r):
        n = r.int(1, 3)
        s = few(r, 2, 1, 2) + few(r, n, 3, 5)
        pad = [r.int(0, 2) for _ in range(2 * n)]
        if r.int(0, 3) == 0:
            pad[r.int(0, 2 * n - 1)] = -1
        if not any(pad):
            pad[0] = 1
        return [r.t(s)], [pad], lambda x: F.pad(x, pad, mode)
    op(name)(case)


edges("reflection_pad", "reflect")
edges("replication_pad", "replicate")
edges("circular_pad", "circular")


# ---- pools

def window(r, n):
    k = few(r, n, 1, 3)
    st = few(r, n, 1, 3)
    return k, st, [r.int(0, j // 2) for j in k], bool(r.int(0, 1))


@op("max_pool1d_with_indices", HALF)
def _(r):
    k, st, pad, ceil = window(r, 1)
    return [r.distinct([2, r.int(1, 3), r.int(6, 9)])], [k, st, pad, [1], ceil], lambda x: F.max_pool1d(x, k, st, pad, 1, ceil, True)


@op("max_pool3d", [torch.int64])
def _(r):
    k, st, pad, ceil = window(r, 3)
    dil = r.pick([1, 1, 1], [2, 1, 1], [1, 2, 2])
    return [r.distinct([r.int(1, 2), r.int(1, 2), *few(r, 3, 5, 7)])], [k, st, pad, dil, ceil], lambda x: F.max_pool3d(x, k, st, pad, dil, ceil)


@op("max_pool3d_with_indices")
def _(r):
    k, st, pad, ceil = window(r, 3)
    return [r.distinct([r.int(1, 2), r.int(1, 2), *few(r, 3, 5, 7)])], [k, st, pad, [1], ceil], lambda x: F.max_pool3d(x, k, st, pad, 1, ceil, True)


@op("avg_pool3d")
def _(r):
    k, st, pad, ceil = window(r, 3)
    inc, div = bool(r.int(0, 1)), r.pick(None, None, 3)
    return [r.t([r.int(1, 2), r.int(1, 2), *few(r, 3, 5, 7)])], [k, st, pad, ceil, inc, div], lambda x: F.avg_pool3d(x, k, st, pad, ceil, inc, div)


@op("adaptive_avg_pool3d")
def _(r):
    s, size = [r.int(1, 2), r.int(1, 2), *few(r, 3, 1, 6)], few(r, 3, 1, 5)
    return [r.t(s)], [size], lambda x: F.adaptive_avg_pool3d(x, size)


@op("adaptive_max_pool1d", HALF)
def _(r):
    s, size = [r.int(1, 2), r.int(1, 2), r.int(1, 7)], r.int(1, 5)
    return [r.distinct(s)], [size], lambda x: F.adaptive_max_pool1d(x, size, True)


@op("adaptive_max_pool3d")
def _(r):
    s, size = [r.int(1, 2), r.int(1, 2), *few(r, 3, 1, 6)], few(r, 3, 1, 5)
    return [r.distinct(s)], [size], lambda x: F.adaptive_max_pool3d(x, size, True)


@op("adaptive_max", HALF)
def _(r):
    n = r.int(1, 3)
    s, size = [r.int(1, 2), r.int(1, 2), *few(r, n, 1, 7)], few(r, n, 1, 5)
    return [r.distinct(s)], [size], lambda x: getattr(F, f"adaptive_max_pool{n}d")(x, size, True)


def norms(name, n, function):
    def case(r):
        k, st, _, ceil = window(r, n)
        norm = r.pick(2.0, 3.0)
        return [r.t([r.int(1, 2), r.int(1, 2), *few(r, n, 5, 7)], 0.3, 2)], [norm, k, st, ceil], lambda x: function(x, norm, k[0] if n == 1 else k, st[0] if n == 1 else st, ceil)
    op(name)(case)


norms("lp_pool1d", 1, F.lp_pool1d)
norms("lp_pool2d", 2, F.lp_pool2d)
if hasattr(F, "lp_pool3d"):
    norms("lp_pool3d", 3, F.lp_pool3d)
else:
    NO_COUNTERPART["lp_pool3d"] = "not in this PyTorch"


@op("max_unpool")
def _(r):
    n = r.int(1, 3)
    s, k = [r.int(1, 2), r.int(1, 2), *few(r, n, 2, 6)], [2] * n
    pool, unpool = ((F.max_pool1d, F.max_unpool1d), (F.max_pool2d, F.max_unpool2d), (F.max_pool3d, F.max_unpool3d))[n - 1]
    x, at = pool(r.distinct(s), k, k, 0, 1, False, True)
    return [x, at], [s[2:]], lambda x, i: unpool(x, i, k, k, 0, s[2:])


def strewn(name, n, function):
    def case(r):
        s, k = [r.int(1, 2), r.int(1, 2), *few(r, n, 4, 7)], few(r, n, 1, 2)
        size = [r.int(1, m - j) for m, j in zip(s[2:], k)]
        samples = torch.rand(*s[:2], n, generator=r.g, dtype=torch.float64).to(r.dtype)
        return [r.distinct(s), samples], [k, size], lambda x, u: function(x, k, size, None, True, u.detach())
    op(name)(case)
    DIFFERENTIABLE[name] = 0


strewn("fractional_max_pool2d", 2, F.fractional_max_pool2d)
strewn("fractional_max_pool3d", 3, F.fractional_max_pool3d)


# ---- other sizes, places of a grid

MODES = [["nearest"] * 3, ["nearest-exact"] * 3, ["linear", "bilinear", "trilinear"], [None, "bicubic", None], ["area"] * 3]


@op("resample")
def _(r):
    mode = r.int(0, 4)
    n = 2 if mode == 3 else r.int(1, 3)
    s, size = [r.int(1, 2), r.int(1, 3), *few(r, n, 1, 6)], few(r, n, 1, 8)
    if r.wide:
        n = r.int(1, 2) if mode != 3 else 2
        s, size = [2, 3, *few(r, n, 20, 60)], few(r, n, 20, 90)
        if mode < 2:  # which is nearest is another thing in float32 and in float64
            size = [m * r.pick(1, 2, 4) for m in s[2:]]
    corners, anti = mode in (2, 3) and bool(r.int(0, 1)), mode in (2, 3) and n == 2 and r.int(0, 2) == 0
    if anti:
        corners = False
    scale = None
    if mode != 4 and not corners and not r.wide and r.int(0, 2) == 0:  # float and double differ about places in the middle
        scale = [r.pick(0.5, 1.5, 2.0, 2.3) for _ in range(n)]
        size = [int(m * f) for m, f in zip(s[2:], scale)]
        if 0 in size or any(o == m or o == 2 * m != f * m for m, o, f in zip(s[2:], size, scale)):  # torch's gradient is not that of its values
            scale, size = None, few(r, n, 1, 8)

    def run(x):
        more = {} if mode not in (2, 3) else {"align_corners": corners}
        if anti:
            more["antialias"] = True
        to = {"size": size} if scale is None else {"scale_factor": scale, "recompute_scale_factor": False}
        return F.interpolate(x, mode=MODES[mode][n - 1], **to, **more)
    return [r.t(s)], [size, mode, corners, anti, *[None] * (3 - n), *(scale or [None] * n)], run


@op("grid_sampler")
def _(r):
    n, mode, padding, corners = r.int(2, 3), r.int(0, 2), r.int(0, 2), bool(r.int(0, 1))
    n = 2 if mode == 2 else n
    batch, channels = r.int(1, 2), r.size(1, 3, 1, 16, 17)
    x, grid = r.t([batch, channels, *few(r, n, 2, 6)]), r.t([batch, *([r.size(1, 4, 15, 17) for _ in range(n)] if n == 2 else few(r, n, 1, 4)), n], -1.3, 1.3)
    return ([x, grid], [mode, padding, corners],
            lambda x, g: F.grid_sample(x, g, ("bilinear", "nearest", "bicubic")[mode], ("zeros", "border", "reflection")[padding], corners))


@op("affine_grid")
def _(r):
    n, corners, batch = r.int(2, 3), bool(r.int(0, 1)), r.int(1, 2)
    size = [batch, 2, *few(r, n, 1, 4)]
    return [r.t([batch, n, n + 1])], [size, corners], lambda t: F.affine_grid(t, size, corners)


@op("pixel_unshuffle", HALF + INTS)
def _(r):
    k = r.int(1, 3)
    s = few(r, r.int(0, 1), 1, 2) + [r.int(1, 3), k * r.int(1, 3), k * r.int(1, 3)]
    return [r.t(s)], [k], lambda x: F.pixel_unshuffle(x, k)


@op("channel_shuffle", HALF)
def _(r):
    k = r.int(1, 3)
    s = [r.int(1, 2), k * r.int(1, 3), *few(r, 2, 1, 3)]
    return [r.t(s)], [k], lambda x: x.reshape(s[0], k, -1, *s[2:]).transpose(1, 2).reshape(s)


def patches(r):
    k, dil, pad, st = few(r, 2, 1, 3), few(r, 2, 1, 2), few(r, 2, 0, 2), few(r, 2, 1, 3)
    s = few(r, 2, 5, 7)
    return k, dil, pad, st, s, torch.nn.functional.unfold(torch.zeros(1, 1, *s), k, dil, pad, st).shape[2]


@op("im2col")
def _(r):
    k, dil, pad, st, s, _ = patches(r)
    return [r.t([r.int(1, 2), r.int(1, 2), *s])], [k, dil, pad, st], lambda x: F.unfold(x, k, dil, pad, st)


@op("col2im")
def _(r):
    k, dil, pad, st, s, n = patches(r)
    return [r.t([r.int(1, 2), r.int(1, 2) * k[0] * k[1], n])], [s, k, dil, pad, st], lambda x: F.fold(x, s, k, dil, pad, st)


@op("bilinear")
def _(r):
    first, i, j, k = r.shape(0, 2), r.int(1, 4), r.int(1, 4), r.int(1, 3)
    return [r.t([*first, i]), r.t([*first, j]), r.t([k, i, j]), r.t([k]) if r.int(0, 1) else None], [], lambda a, b, w, c=None: F.bilinear(a, b, w, c)


@op("local_response_norm")
def _(r):
    s, n = [r.int(1, 2), r.int(1, 5), *few(r, r.int(1, 2), 1, 4)], r.int(1, 4)
    return [r.t(s)], [n, 0.1, 0.75, 1.5], lambda x: F.local_response_norm(x, n, 0.1, 0.75, 1.5)


@op("pdist")
def _(r):
    p = r.pick(1.0, 2.0, 3.0, float("inf"))
    x = r.distinct([r.size(1, 7, 40), r.int(1, 4)])
    return [x + 0.01 * r.t(x.shape)], [p], lambda x: F.pdist(x, p)


# ---- losses

HOW = ["none", "mean", "sum"]


def signs(r, s):
    return (torch.randint(0, 2, s, generator=r.g) * 2 - 1).to(r.dtype)


@op("hinge_embedding_loss")
def _(r):
    s, how = r.shape(0, 3), r.int(0, 2)
    return [r.t(s), signs(r, s)], [0.7, how], lambda x, y: F.hinge_embedding_loss(x, y, 0.7, reduction=HOW[how])


@op("soft_margin_loss")
def _(r):
    s, how = r.shape(0, 3), r.int(0, 2)
    return [r.t(s), signs(r, s)], [how], lambda x, y: F.soft_margin_loss(x, y, reduction=HOW[how])


@op("multi_margin_loss")
def _(r):
    n, c, how, p = r.int(1, 4), r.int(1, 5), r.int(0, 2), r.int(1, 2)
    w = r.t([c], 0.2, 2).detach() if r.int(0, 1) else None
    return ([r.t([n, c]), r.idx([n], c), w], [p, 0.8, how],
            lambda x, t, w=None: F.multi_margin_loss(x, t, p, 0.8, None if w is None else w.detach(), reduction=HOW[how]))


@op("multilabel_margin_loss")
def _(r):
    n, c, how = r.int(1, 4), r.int(1, 5), r.int(0, 2)
    t = torch.stack([torch.randperm(c, generator=r.g) for _ in range(n)])
    for row in t:
        if (k := r.int(0, c)) < c:
            row[k:] = -1
    return [r.t([n, c]), t], [how], lambda x, t: F.multilabel_margin_loss(x, t, reduction=HOW[how])


@op("multilabel_soft_margin_loss")
def _(r):
    s, how = [r.int(1, 4), r.int(1, 5)], r.int(0, 2)
    w = r.t([s[1]], 0.2, 2) if r.int(0, 1) else None
    return [r.t(s), r.b(s).to(r.dtype), w], [how], lambda x, y, w=None: F.multilabel_soft_margin_loss(x, y, w, reduction=HOW[how])


def spoken(r):
    steps, n, c, most = r.int(1, 8), r.int(1, 3), r.int(2, 5), r.int(1, 3)
    lengths, heard = r.idx([n], most + 1), torch.randint(1, steps + 1, [n], generator=r.g)
    targets = torch.randint(1, c, [n, most], generator=r.g)
    if r.int(0, 1) and lengths.sum() > 0:
        targets = torch.cat([t[:k] for t, k in zip(targets, lengths)])
    return r.t([steps, n, c]).log_softmax(-1), targets, heard, lengths


@op("ctc_losses")
def _(r):
    x, targets, heard, lengths = spoken(r)
    return [x, targets, heard, lengths], [0, True], lambda x, t, i, j: F.ctc_loss(x, t, i, j, 0, "none", True)


@op("ctc_loss")
def _(r):
    x, targets, heard, lengths = spoken(r)
    how = r.int(0, 2)
    return [x, targets, heard, lengths], [0, how, True], lambda x, t, i, j: F.ctc_loss(x, t, i, j, 0, HOW[how], True)


UNREPEATED |= {"max_pool1d_with_indices", "max_pool3d", "max_pool3d_with_indices", "adaptive_max", "adaptive_max_pool1d", "adaptive_max_pool3d", "fractional_max_pool2d",
               "fractional_max_pool3d", "max_unpool", "pdist", "ctc_losses", "ctc_loss"}
DIFFERENTIABLE |= dict.fromkeys(["hinge_embedding_loss", "soft_margin_loss", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss"], 0)
NO_COUNTERPART |= {"resample_backward": "reached through resample", "grid_sampler_backward": "reached through grid_sampler",
                   "ctc_losses_backward": "reached through ctc_losses"}

#!/usr/bin/env python3
"""Every op of the table at three sizes (1K, 64K and 4M elements: in the first cache, in the last, in memory), beside torch in the same process.

Prints the lines that table.py reads, the worst first, and the median of all ratios. Beside what misses the goal stands why (REASONS). A row of the table is
called as Python does (CALLS); what has none here is skipped by name, so that a new op is missed by nobody. Each figure is the least of rounds in which both
sides take turns; ours are pipelined and end with a sync. It takes some minutes: `tests/bench/run --only every_op`, and is left out of a run without --only."""
import math
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "proto/gen"))
SIZES = {"1K": 1 << 10, "64K": 1 << 16, "4M": 1 << 22}
ROUNDS, LEAST, MOST = 5, 2e-3, 4000  # rounds a figure, seconds that one takes at least, and calls at most
PAUSE = 8e-3  # seconds before each: behind its work PyTorch's second thread spins for some milliseconds, on a processor that ours is measured on
GOAL = 1.2

# Names of rows -> how they are called, with what operands() makes.
CALLS = {}


def calls(names, *texts):
    for name in names.split():
        for k, text in enumerate(texts):
            CALLS[name if k == 0 else f"{name}_{k + 1}"] = text.replace("$", name)


calls("neg abs sign exp exp2 expm1 sin cos tan asinh atan sinh cosh tanh sigmoid erf erfc floor ceil round trunc isnan isinf isfinite "
      "logical_not square nan_to_num relu signbit positive frac sinc deg2rad rad2deg sgn isposinf isneginf angle", "lib.$(x)")
calls("log log2 log10 log1p sqrt rsqrt reciprocal acosh lgamma digamma i0", "lib.$(p)")
calls("asin acos atanh erfinv", "lib.$(u)")
calls("polygamma", "lib.polygamma(1, p)", "lib.polygamma(3, p)")
calls("i0e i1 i1e log_ndtr erfcx bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 "
      "spherical_bessel_j0 airy_ai", "lib.special.$(p)")
calls("ndtr entr ndtri", "lib.special.$(u)")
calls("zeta", "lib.special.zeta(p, p)")
calls("xlog1py", "lib.special.xlog1py(x, p)")
calls("igamma igammac", "lib.$(p, u)")
calls("chebyshev_polynomial_t chebyshev_polynomial_u hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p", "lib.special.$(x, 4)")
calls("ldexp", "lib.ldexp(x, few)")
calls("frexp", "lib.frexp(x)")
calls("logit", "lib.logit(u, 1e-3)")
calls("add sub mul maximum minimum eq ne lt le gt ge atan2 hypot copysign fmod remainder logaddexp logaddexp2 fmax fmin nextafter heaviside", "lib.$(x, y)")
calls("div floor_divide xlogy", "lib.$(x, p)")
calls("pow", "lib.pow(p, 1.7)", "lib.pow(x, 2)", "lib.pow(p, u)")
calls("bitwise_and bitwise_or bitwise_xor", "lib.$(i, j)")
calls("bitwise_left_shift bitwise_right_shift gcd lcm", "lib.$(i, few)")
calls("bitwise_not", "lib.bitwise_not(i)")
calls("logical_and logical_or logical_xor", "lib.$(mask, mask2)")
calls("add_row", "lib.add(x, row)")
calls("add_column", "lib.add(x, column)")
calls("add_turned", "lib.add(sq.t(), sq)")
calls("where", "lib.where(mask, x, y)")
calls("clamp", "lib.clamp(x, -0.5, 0.5)")
calls("lerp", "lib.lerp(x, y, 0.3)")
calls("addcmul", "lib.addcmul(x, y, z, value=0.5)")
calls("addcdiv", "lib.addcdiv(x, y, p, value=0.5)")
calls("leaky_relu elu gelu silu mish softplus hardtanh relu6 hardsigmoid hardswish logsigmoid selu celu softsign tanhshrink softshrink hardshrink", "F.$(x)")
calls("gelu_tanh", "F.gelu(x, approximate='tanh')")
calls("glu", "F.glu(x, 1)")
calls("prelu", "F.prelu(x, one)")
calls("copy", "x.clone()", "sq.t().contiguous()", "x.to(lib.float64)", "x.to(lib.float16)", "x.to(lib.int32)")
calls("fill", "x2.fill_(1.5)")
calls("full", "lib.full((n,), 1.5)")
calls("arange", "lib.arange(n)")
calls("linspace", "lib.linspace(0.0, 1.0, n)")
calls("eye", "lib.eye(side)")
calls("sum mean amax amin prod all any logsumexp", "lib.$(x, 1)", "lib.$(x, 0)")

for each in "sum mean amax amin prod norm var std".split():
    CALLS[f"{each}_all"] = f"lib.{each}(x)"
calls("var std", "lib.$(x, 1)", "lib.$(x, 0)")
calls("var_mean", "lib.var_mean(x, 1)")
calls("norm", "lib.norm(x, 2, 1)")

CALLS |= {"max_dim": "lib.max(x, 1)", "min_dim": "lib.min(x, 1)", "median_dim": "lib.median(x, 1)"}
calls("argmax argmin count_nonzero aminmax", "lib.$(x, dim=1)")
calls("cumsum cumprod", "lib.$(x, 1)", "lib.$(x, 0)")
calls("softmax log_softmax", "lib.$(x, 1)", "lib.$(x, 0)")
calls("cummax cummin logcumsumexp", "lib.$(x, 1)", "lib.$(x, 0)")
calls("median nanmedian", "lib.$(x)")
CALLS["nanmedian_dim"] = "lib.nanmedian(x, 1)"
calls("kthvalue", "lib.kthvalue(x, 7, 1)", "lib.kthvalue(x, x.shape[0] // 2, 0)", "lib.kthvalue(flat, n // 2)")
calls("quantile nanquantile", "lib.$(x, 0.3, 1)")
calls("sort argsort", "lib.$(x, 1)", "lib.$(x, 0)", "lib.$(i, 1)", "lib.$(flat, 0)", "lib.$(wide, 1)")
calls("msort", "lib.msort(x)")
calls("topk", "lib.topk(x, 8, 1)", "lib.topk(x, x.shape[1] // 2, 1)", "lib.topk(x, 8, 0)", "lib.topk(flat, 100, 0)")
calls("unique", "lib.unique(few)", "lib.unique(i)", "lib.unique(x)")
CALLS |= {"unique_counts": "lib.unique(few, return_counts=True)", "unique_inverse": "lib.unique(few, return_inverse=True)",
          "unique_all": "lib.unique(i, return_inverse=True, return_counts=True)", "slice_ranks": "lib.unique(few[:, :4], dim=0)",
          "unique_runs": "lib.unique_consecutive(few)", "unique_runs_2": "lib.unique_consecutive(few, return_inverse=True, return_counts=True)"}
calls("mode_dim", "lib.mode(few, 1)", "lib.mode(x, 1)")
calls("isin", "lib.isin(i, few.reshape(-1)[:64])")
calls("histc", "lib.histc(x, 100)")
calls("searchsorted", "lib.searchsorted(sorted_row, x)")
calls("bincount", "lib.bincount(few.reshape(-1))")
calls("cat", "lib.cat([x, y], 0)", "lib.cat([x, y], 1)")
calls("stack", "lib.stack([x, y], 0)", "lib.stack([x, y], 2)")
calls("repeat", "row.repeat(x.shape[0], 1)")
calls("repeat_interleave", "lib.repeat_interleave(x, 2, 1)")
calls("flip", "lib.flip(x, (1,))", "lib.flip(x, (0,))")
calls("roll", "lib.roll(x, 3, 1)")
calls("constant_pad", "F.pad(x, (1, 1, 1, 1))")
calls("tril triu", "lib.$(sq)")
calls("index_select", "lib.index_select(x, 0, rows)", "lib.index_select(x, 1, columns)")
calls("gather", "lib.gather(x, 1, at)", "lib.gather(x, 0, at0)")
calls("scatter", "lib.scatter(x, 1, at, y)")
calls("scatter_add", "lib.scatter_add(x, 1, at, y)")
calls("index_add", "lib.index_add(x, 0, rows, y)")
calls("index", "x[rows]", "x[rows, first]", "x[mask]")
calls("index_put", "x2.index_put_((rows,), y)")
calls("masked_fill", "lib.masked_fill(x, mask, 0.5)")
calls("masked_select", "lib.masked_select(x, mask)")
calls("nonzero", "lib.nonzero(mask)")
calls("take", "lib.take(x, at)")
calls("embedding", "F.embedding(rows, x)")
calls("one_hot", "F.one_hot(first % 16, 16)")
calls("mm", "lib.mm(sq, sq)")
calls("bmm", "lib.bmm(heads, heads)")
calls("mv", "lib.mv(x, row)")
calls("dot", "lib.dot(flat, flat)")
calls("outer", "lib.outer(flat[:side], flat[:side])")
calls("addmm", "lib.addmm(sq, sq, sq)")
calls("baddbmm", "lib.baddbmm(heads, heads, heads)")
calls("linear", "F.linear(x, weight, bias)")
calls("einsum", "lib.einsum('ij,kj->ik', x[:64], x)")
calls("conv1d", "F.conv1d(wave, filter1, padding=1)")
calls("conv2d", "F.conv2d(picture, filter2, padding=1)", "F.conv2d(picture, filter2, stride=2)", "F.conv2d(picture, each, padding=1, groups=8)")
calls("conv_transpose2d", "F.conv_transpose2d(picture, filter2)")
calls("max_pool2d avg_pool2d", "F.$(picture, 2)", "F.$(picture, 3, 1, 1)")
calls("max_pool1d_with_indices", "F.max_pool1d(wave, 2)", "F.max_pool1d(wave, 3, 1, 1, return_indices=True)")
calls("avg_pool1d", "F.avg_pool1d(wave, 2)")
calls("max_pool3d avg_pool3d", "F.$(volume, 2)")
calls("max_pool3d_with_indices", "F.max_pool3d(volume, 2, return_indices=True)")
calls("lp_pool1d", "F.lp_pool1d(wave, 2.0, 2)")
calls("lp_pool2d", "F.lp_pool2d(picture, 2.0, 2)")
calls("lp_pool3d", "F.lp_pool3d(volume, 2.0, 2)")
calls("adaptive_avg_pool1d adaptive_max_pool1d", "F.$(wave, 3)")
calls("adaptive_avg_pool2d adaptive_max_pool2d", "F.$(picture, 1)", "F.$(picture, 3)")
calls("adaptive_avg_pool3d adaptive_max_pool3d", "F.$(volume, 3)")
calls("max_unpool", "F.max_unpool2d(best, places, 2)")
calls("im2col", "F.unfold(picture, 3, padding=1)")
calls("col2im", "F.fold(spread, picture.shape[2:], 3, padding=1)")
calls("ctc_losses", "F.ctc_loss(said, labels, lengths, label_lengths)")
calls("resample_nearest", "F.interpolate(picture, scale_factor=2)")
calls("resample_linear", "F.interpolate(picture, scale_factor=2, mode='bilinear')")
calls("pixel_shuffle", "F.pixel_shuffle(picture, 2)")
calls("batch_norm", "F.batch_norm(picture, None, None, training=True)", "F.batch_norm(picture, mean8, var8)")
calls("layer_norm", "F.layer_norm(x, (x.shape[1],))")
calls("rms_norm", "F.rms_norm(x, (x.shape[1],))")
calls("group_norm", "F.group_norm(picture, 4)")
calls("normalize", "F.normalize(x, dim=1)")
calls("mse_loss l1_loss smooth_l1_loss huber_loss", "F.$(x, y)")
calls("binary_cross_entropy", "F.binary_cross_entropy(u, v)")
calls("bce_with_logits", "F.binary_cross_entropy_with_logits(x, v)")
calls("cross_entropy", "F.cross_entropy(x, classes)")
calls("nll_loss", "F.nll_loss(x, classes)")
calls("kl_div", "F.kl_div(x, v, reduction='sum')")
calls("cosine_similarity", "F.cosine_similarity(x, y)")
calls("scaled_dot_product_attention", "F.scaled_dot_product_attention(heads4, heads4, heads4)")
calls("dropout", "F.dropout(x, 0.3)")
calls("rand", "lib.rand(n)")
calls("randn", "lib.randn(n)")
calls("randint", "lib.randint(0, 100, (n,))")
calls("bernoulli", "lib.bernoulli(u)")

# What a call takes along that is no row's own name, or is measured elsewhere.
ELSEWHERE = {"as a view": "view as_strided expand permute transpose squeeze unsqueeze select slice diagonal unfold view_dtype detach unbind split",
             "by bench_train": "sgd_step adam_step", "nothing is computed": "empty empty_strided"}

# Why a call may take longer than in PyTorch, by size; said beside what does. An empty name: any.
REASONS = {
    ("1K", ""): "the call is a message, and the end of the round an answer",
    ("64K", "add sub mul div maximum minimum fmax fmin addcmul addcdiv lerp reciprocal rsqrt sqrt neg abs relu copy full fill pow_2 square add_row add_column outer "
            "exp2 sigmoid silu floor ceil round frac nan_to_num hardsigmoid hardswish softshrink bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift"):
        "one thread has done it before a second one is awake; PyTorch's second one spins",
    ("64K", "prod prod_all"): "in double, where PyTorch multiplies floats",
    ("64K", "norm cosine_similarity"): "squares in double, which neither overflow nor vanish",
    ("64K", "cummax cummin"): "elements become doubles or int64 on the way, and back",
    ("64K", "nanmedian"): "sorted whole: which one it is depends on how many are NaN",
    ("64K", "unique_all unique_counts unique_runs unique_runs_2 bincount lp_pool3d avg_pool3d max_pool3d max_pool3d_with_indices"):
        "a composition, each op of which goes over all elements",
    ("64K", "scatter scatter_add"): "all indices are looked at before anything is written, so that a wrong one leaves the tensor as it was",
    ("64K", "conv2d_2"): "as columns and one product: oneDNN takes what has two million products an image",
    ("64K", "igamma igammac"): "in double",
    ("64K", "max_pool1d_with_indices"): "the places are worked out, too, where PyTorch leaves them out",
    ("64K", "adaptive_avg_pool1d adaptive_max_pool1d adaptive_max_pool2d_2 adaptive_max_pool3d"): "a task for planes that take some ten microseconds in all",
    ("4M", "prod prod_2 prod_all"): "in double, where PyTorch multiplies floats",
    ("4M", "sum sum_2 sum_all mean mean_2 mean_all amax amin amax_all amin_all norm norm_all"):
        "as much of a processor's time as PyTorch's; the loop and the caller share both processors with the workers",
    ("4M", ""): "calls run ahead, so results lie in several blocks of memory; PyTorch writes the same one again, which is in a cache (16 MB: 0.27 and 0.8 ms)",
}


def reason(size, name):
    """Of the longest list that names it."""
    return next((f"; {why}" for (at, names), why in sorted(REASONS.items(), key=lambda r: -len(r[0][1])) if at == size and (not names or name in names.split())), "")


def operands(lib, n, torch):
    """What CALLS name, of n elements; the same values on both sides."""
    g = torch.Generator().manual_seed(0)
    side, columns = math.isqrt(n), 32 if n < 4096 else 1024
    rows = n // columns
    width = max(math.isqrt(n // 64), 4)

    def real(*shape, lo=-1.0, hi=1.0):
        return torch.rand(shape, generator=g) * (hi - lo) + lo

    def whole(hi, *shape):
        return torch.randint(0, hi, shape, generator=g)

    own = dict(
        x=real(rows, columns), y=real(rows, columns), z=real(rows, columns), x2=real(rows, columns), wide=real(rows, columns).double(), p=real(rows, columns, lo=1.1, hi=3.0), u=real(rows, columns, lo=0.1, hi=0.9),
        v=real(rows, columns, lo=0.1, hi=0.9), flat=real(n), row=real(columns), column=real(rows, 1), one=real(1), sq=real(side, side),
        i=whole(1 << 20, rows, columns), j=whole(1 << 20, rows, columns), few=whole(16, rows, columns), mask=real(rows, columns) > 0, mask2=real(rows, columns) > 0,
        rows=whole(rows, rows), first=whole(columns, rows), columns=whole(columns, columns), at=whole(columns, rows, columns), at0=whole(rows, rows, columns),
        sorted_row=real(columns).sort()[0], classes=whole(columns, rows), weight=real(64, columns), bias=real(64),
        heads=real(max(n // 4096, 1), 64, 64) if n >= 4096 else real(4, 16, 16), heads4=real(max(n // 16384, 1), 4, 64, 64) if n >= 16384 else real(1, 4, 16, 16),
        wave=real(8, 8, max(n // 64, 8)), filter1=real(8, 8, 3), picture=real(8, 8, width, width), filter2=real(8, 8, 3, 3), each=real(8, 1, 3, 3), mean8=real(8), var8=real(8, lo=0.5),
        volume=real(4, 4, *[max(round((n / 16) ** (1 / 3)), 4)] * 3))
    own["best"], own["places"] = torch.nn.functional.max_pool2d(own["picture"], 2, return_indices=True)
    own |= dict(spread=torch.nn.functional.unfold(own["picture"], 3, padding=1))
    steps, classes = (16, 8) if n < 4096 else (64, 32)
    said = real(steps, max(n // steps // classes, 1), classes).log_softmax(2)
    own |= dict(said=said, labels=whole(classes - 1, said.shape[1], steps // 4) + 1, lengths=torch.full(said.shape[1:2], steps), label_lengths=torch.full(said.shape[1:2], steps // 4))
    made = own if lib is torch else {k: lib.tensor(t.numpy()) for k, t in own.items()}
    return dict(made, lib=lib, F=lib.nn.functional, n=n, side=side)


def times_of(run, end):
    """How often a figure repeats it. By as many as take half of that: one alone is mostly a first time, and an end."""
    run(), end()
    n = took = 0
    while took < LEAST / 2 and n < MOST:
        n = max(1, 2 * n)
        began = time.perf_counter()
        for _ in range(n):
            run()
        end()
        took = time.perf_counter() - began
    return max(1, min(int(n * LEAST / took), MOST))


def ratio(code, mine, theirs, sync):
    sides = [(mine, sync), (theirs, lambda: None)]
    runs = [(lambda names=names: eval(code, names)) for names, _ in sides]
    repeat = [times_of(run, end) for run, (_, end) in zip(runs, sides)]
    best = [math.inf, math.inf]
    for _ in range(ROUNDS):
        for k, (_, end) in enumerate(sides):
            time.sleep(PAUSE)
            runs[k](), end()
            began = time.perf_counter()
            for _ in range(repeat[k]):
                runs[k]()
            end()
            best[k] = min(best[k], (time.perf_counter() - began) / repeat[k])
    return best


def without(names):
    """Rows of the table that no call reaches, with the reason."""
    import table

    root = Path(__file__).resolve().parents[2] / "proto"
    rows = table.load(sorted((root / "ops").glob("*.toml")), root / "infer" / "infer.h", root / "ops" / "ops.lock", True).ops
    why = {n: reason for reason, text in ELSEWHERE.items() for n in text.split()}
    for op in rows:
        if op.name not in names:
            yield op.name, why.get(op.name, "through the op that it belongs to" if op.name.endswith("_backward") else "no call of it here")


def main():
    import tensord as td
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    lines = []
    for size, n in SIZES.items():
        mine, theirs = operands(td, n, torch), operands(torch, n, torch)
        for name, text in CALLS.items():
            try:
                code = compile(text, name, "eval")
                a, b = ratio(code, mine, theirs, td.sync)
                lines.append((a / b, f"every_op.{name}.{size}", a, b, reason(size, name) if a > GOAL * b else ""))
            except Exception as e:  # noqa: BLE001
                print(f"skip every_op.{name}.{size} {type(e).__name__}: {str(e).splitlines()[0][:120]}")
    lines.sort(reverse=True)
    print(f"ours every_op.median {statistics.median(r for r, *_ in lines):.4g} of 1 0.9\nreference every_op.median 1 torch {torch.__version__} in process, over {len(lines)} calls")
    for _, name, a, b, why in lines:
        print(f"ours {name} {a * 1e6:.6g} us {GOAL}\nreference {name} {b * 1e6:.6g} torch {torch.__version__} in process{why}")
    for name, why in without(set(CALLS)):
        print(f"skip every_op.{name} {why}")


if __name__ == "__main__":
    try:
        import numpy  # noqa: F401
        import tensord  # noqa: F401
        import torch
    except ImportError as e:
        print(f"skip every_op {e}")
        sys.exit(0)
    main()

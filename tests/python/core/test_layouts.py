"""Memory formats and layouts: where PyTorch's programs name them, they mean what they say."""
import copy
import pickle

import pytest
import tensord as td

CL = td.channels_last
LAID = (240, 1, 48, 8)  # of (2, 8, 5, 6)


@pytest.fixture
def x():
    return td.arange(480.0).reshape(2, 8, 5, 6)


def test_a_tensor_in_channels_last(x):
    for y in (x.to(memory_format=CL), x.contiguous(memory_format=CL), x.clone(memory_format=CL), x.to(td.float64, memory_format=CL)):
        assert y.stride() == LAID and not y.is_contiguous() and y.is_contiguous(memory_format=CL) and td.equal(x, y.float())
    assert not x.is_contiguous(memory_format=CL) and x.is_contiguous(memory_format=td.contiguous_format)
    y = x.to(memory_format=CL)
    assert y.to(memory_format=CL) is y and y.contiguous(memory_format=CL) is y and y.clone(memory_format=CL) is not y
    assert y.contiguous().stride() == x.stride() and x.to(memory_format=td.preserve_format) is x
    assert td.ones(1, 2, 3, 4, 5).to(memory_format=td.channels_last_3d).stride() == (120, 1, 40, 10, 2)


@pytest.mark.parametrize("name", ["empty_like", "zeros_like", "ones_like", "rand_like", "randn_like"])
def test_like(x, name):
    make = getattr(td, name)
    assert make(x, memory_format=td.preserve_format).stride() == x.stride()
    y = make(x, dtype=td.float64, memory_format=CL, layout=td.strided, requires_grad=True)
    assert y.stride() == LAID and y.is_leaf and y.requires_grad and y.dtype is td.float64


def test_made_so():
    assert td.empty(2, 8, 5, 6, memory_format=CL).stride() == LAID
    assert td.zeros((2, 8, 5, 6), memory_format=CL).stride() == LAID
    y = td.full((2, 8, 5, 6), 7.0, memory_format=CL, requires_grad=True)
    assert y.stride() == LAID and y.requires_grad and y.is_leaf and y[1, 7, 4, 5].item() == 7
    for y in (td.rand(2, 3, layout=td.strided), td.randint(3, (2, 3), layout=td.strided), td.arange(6, layout=td.strided), td.eye(3, layout=td.strided)):
        assert y.layout is td.strided and y.is_contiguous()


def test_gradients_and_layers(x):
    x.requires_grad_()
    x.to(memory_format=CL).square().sum().backward()
    assert td.equal(x.grad, 2 * x.detach())
    net = td.nn.Sequential(td.nn.Conv2d(8, 4, 3), td.nn.BatchNorm2d(4), td.nn.ReLU(), td.nn.AvgPool2d(2)).to(memory_format=CL)
    assert td.allclose(net(x), net(x.to(memory_format=CL)))
    assert td.nn.utils.convert_conv2d_weight_memory_format(net, CL) is net


w3 = [[[[(o * 7 + c * 3 + i * 5 + j) % 11 / 11 - 0.4 for j in range(3)] for i in range(3)] for c in range(8)] for o in range(4)]
KEPT = {
    "conv2d": lambda t, x: t.conv2d(x, t.tensor(w3), padding=1), "conv2d of columns": lambda t, x: t.conv2d(x, t.tensor(w3), stride=2),
    "conv2d 1x1": lambda t, x: t.conv2d(x, t.tensor(w3)[:, :, :1, :1], t.arange(4.0)), "depthwise": lambda t, x: t.conv2d(x, t.tensor(w3)[:1].transpose(0, 1), groups=8),
    "relu": lambda t, x: t.relu(x), "gelu": lambda t, x: t.nn.functional.gelu(x), "a number": lambda t, x: x * 2 + 1, "with itself": lambda t, x: x + x.abs(),
    "a bias": lambda t, x: t.arange(8.0).reshape(8, 1, 1) + x, "where": lambda t, x: t.where(x > 9, x, 0.5), "compared": lambda t, x: x > 9,
    "max_pool2d": lambda t, x: t.nn.functional.max_pool2d(x, 2), "avg_pool2d": lambda t, x: t.nn.functional.avg_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, (5, 3)),
    "batch_norm": lambda t, x: t.nn.functional.batch_norm(x, None, None, training=True),
    "batch_norm with statistics": lambda t, x: t.nn.functional.batch_norm(x, t.arange(8.0), t.arange(8.0) + 1),
    "interpolate": lambda t, x: t.nn.functional.interpolate(x, scale_factor=2), "bilinear": lambda t, x: t.nn.functional.interpolate(x, scale_factor=2, mode="bilinear"),
    "cat": lambda t, x: t.cat([x, -x], 1), "pad": lambda t, x: t.nn.functional.pad(x, (1, 1, 1, 1)), "dropout": lambda t, x: t.nn.functional.dropout(x, 0.0),
    "clone": lambda t, x: x.clone(), "double": lambda t, x: x.double(), "zeros_like": lambda t, x: t.zeros_like(x), "ones_like": lambda t, x: t.ones_like(x, dtype=t.float64),
    "full_like": lambda t, x: t.full_like(x, 3), "exp_": lambda t, x: (x / 480).exp_(), "lrn": lambda t, x: t.nn.functional.local_response_norm(x, 2),
}


@pytest.mark.parametrize("name", KEPT)
def test_kept(x, name):
    """The format, the values and the gradients; by themselves and in a program."""
    f, last = KEPT[name], x.to(memory_format=CL)
    rows, made = f(td, x), f(td, last)
    assert made.is_contiguous(memory_format=CL) and not made.is_contiguous() and rows.is_contiguous()
    near(made, rows)
    near(td.jit.trace(lambda y: f(td, y), (last,))(last), rows)
    if rows.dtype is td.bool or name.endswith("_like"):
        return
    slope = td.arange(rows.numel(), dtype=rows.dtype).reshape(rows.shape) % 7
    x.requires_grad_(), last.requires_grad_()
    for to in (slope, slope.contiguous(memory_format=CL), slope[:, :, :1, :1].expand(slope.shape)):
        a, = td.autograd.grad(f(td, x), x, to)
        b, = td.autograd.grad(f(td, last), last, to)
        near(b, a)


def near(a, b):
    assert a.shape == b.shape and a.dtype is b.dtype and td.allclose(a.double(), b.double(), rtol=1e-5, atol=1e-5)


def test_kept_as_torch_does(x):
    torch = pytest.importorskip("torch")
    theirs = torch.arange(480.0).reshape(2, 8, 5, 6).contiguous(memory_format=torch.channels_last)
    for name, f in KEPT.items():
        a, b = f(td, x.to(memory_format=CL)), f(torch, theirs)
        assert a.stride() == b.stride() and tuple(a.shape) == tuple(b.shape), name
        assert abs(a.double().numpy() - b.double().numpy()).max() < 1e-4 * (1 + abs(b.double()).max().item()), name


def test_which_format(x):
    last = x.to(memory_format=CL)
    assert (x + last).is_contiguous() and (last + x).stride() == LAID  # the first says it
    assert (x[:, :1, :1, :1] + last).stride() == LAID and (x[:1, :, :, :].expand(2, 8, 5, 6) + last).stride() == LAID
    assert td.conv2d(x, td.tensor(w3).to(memory_format=CL)).is_contiguous(memory_format=CL)
    assert last.clone(memory_format=td.contiguous_format).is_contiguous() and last.to(memory_format=td.contiguous_format).is_contiguous()
    assert td.zeros_like(last, memory_format=td.contiguous_format).is_contiguous()
    for rows in (last.softmax(1), last.cumsum(1), last.flip(1), last.sort(1)[0], td.stack([last, last])):
        assert rows.is_contiguous()
    y = x.clone()
    assert y.add_(last) is y and y.is_contiguous() and td.equal(y, x + x)
    last *= 2
    assert last.stride() == LAID and td.equal(last, x * 2)
    into = td.empty(2, 8, 5, 6)
    td.add(last, x, out=into)
    assert into.is_contiguous() and td.equal(into, x * 3)
    with pytest.raises(td.ShapeError, match="view"):
        last.relu().view(-1)
    v = td.arange(240.0).reshape(1, 2, 3, 4, 10).to(memory_format=td.channels_last_3d)
    assert v.exp().is_contiguous(memory_format=td.channels_last_3d) and (v + 1).clone().stride() == v.stride()
    assert x[:, :1].to(memory_format=CL).relu().is_contiguous()  # one channel: both formats are the same


def test_what_is_no_image():
    """Lines, and pictures without a batch, that were turned: rows come out, as from PyTorch."""
    lines = td.arange(30.0).reshape(2, 5, 3).transpose(1, 2)
    for made in (td.nn.functional.conv1d(lines, td.ones(4, 3, 2)), td.nn.functional.max_pool1d(lines, 2), td.nn.functional.avg_pool1d(lines, 2),
                 td.nn.functional.conv2d(td.arange(75.0).reshape(5, 5, 3).permute(2, 0, 1), td.ones(2, 3, 3, 3)),
                 td.nn.functional.max_pool2d(td.arange(75.0).reshape(5, 5, 3).permute(2, 0, 1), 2)):
        assert made.is_contiguous() and made.view(-1).shape[0] == made.numel()
    assert td.cat([td.zeros(1, 2, 3, 3), td.zeros(1, 2, 3, 3).to(memory_format=CL)], 1).is_contiguous()


def test_a_traced_reshape(x):
    """A program is called with what lies otherwise than what it was traced with."""
    def f(y):
        return (y * 2).reshape(y.shape[0], -1) + 1

    for first in (x, x.to(memory_format=CL)):
        p = td.jit.trace(f, (first,))
        for given in (x, x.to(memory_format=CL), x.transpose(2, 3).contiguous().transpose(2, 3)):
            assert td.equal(p(given), f(x))


def test_copies_are_no_views(x):
    last = x.to(memory_format=CL)
    for made in (last, last.clone(), last.double(), last.to(td.float64, copy=True), last.to(copy=True), td.zeros_like(last), td.empty_like(last), td.rand_like(last),
                 td.randn_like(last, dtype=td.float64), td.randint_like(last, 9), copy.deepcopy(last)):
        assert made.stride() == LAID and not made._is_view()
    w = td.ones(2, 8, 5, 6, requires_grad=True)
    with td.no_grad():
        sums, twice = td.zeros_like(last), last.clone()
    sums += w * 2
    twice.mul_(w)
    (sums + twice).sum().backward()
    assert td.equal(w.grad, x + 2)
    w = last.clone().requires_grad_()
    y = w.clone().double()
    y.square().sum().backward()
    assert td.equal(w.grad, 2 * x) and td.equal(y.detach_(), x.double())


def test_in_memory(x):
    """What is handed on lies as it says: to NumPy, in files, through queues of bytes."""
    y = x.to(memory_format=CL).neg()
    assert y.numpy().strides == tuple(4 * s for s in LAID) and (y.numpy() == -x.numpy()).all()
    assert pickle.loads(pickle.dumps(y)).tolist() == y.tolist()


def test_names():
    assert repr(CL) == "tensord.channels_last" and isinstance(CL, td.memory_format) and isinstance(td.strided, td.layout)
    assert copy.deepcopy(CL) is CL and pickle.loads(pickle.dumps(CL)) is CL


def test_refused(x):
    with pytest.raises(td.ShapeError, match=r"required rank 4 tensor to use tensord.channels_last format, but it has 1 dimensions"):
        td.ones(3, memory_format=CL)
    with pytest.raises(TypeError, match="argument 'memory_format' must be tensord.memory_format, not int"):
        x.clone(memory_format=1)
    with pytest.raises(td.Unsupported, match="layout can be tensord.strided only"):
        td.ones(3, layout="sparse")
    with pytest.raises(TypeError, match="unexpected keyword argument 'memory_format'"):
        td.relu(x, memory_format=CL)


def pools(t, x):
    """What looks at windows, with each of its gradients."""
    F = t.nn.functional
    yield "max", lambda y: F.max_pool2d(y, 3, 2, 1)
    yield "dilated", lambda y: F.max_pool2d(y, (2, 3), (1, 2), (1, 1), dilation=2)
    yield "ceil", lambda y: F.max_pool2d(y, 3, 2, 0, ceil_mode=True)
    yield "avg", lambda y: F.avg_pool2d(y, 3, 2, 1)
    yield "without the padding", lambda y: F.avg_pool2d(y, 3, 2, 1, count_include_pad=False)
    yield "of all", lambda y: F.avg_pool2d(y, tuple(y.shape[2:]))
    yield "norm", lambda y: F.batch_norm(y, None, None, t.linspace(-1, 1, y.shape[1], dtype=y.dtype), t.linspace(2, 3, y.shape[1], dtype=y.dtype), training=True)
    yield "norm by statistics", lambda y: F.batch_norm(y, t.linspace(-1, 1, y.shape[1], dtype=y.dtype), t.linspace(0.5, 3, y.shape[1], dtype=y.dtype))


@pytest.mark.parametrize("shape", [(1, 3, 7, 9), (2, 16, 8, 8), (3, 17, 12, 11), (2, 40, 33, 31), (5, 130, 20, 20)], ids=str)
@pytest.mark.parametrize("dtype", [td.float32, td.float64, td.float16], ids=str)
def test_windows(shape, dtype):
    """Kernels for channels last beside those for rows: the same values, and the same bits where sums have one order."""
    n = shape[0] * shape[1] * shape[2] * shape[3]
    x = ((td.arange(n) * 7919 % 10007).to(td.float64).reshape(shape) / 5003 - 1).to(dtype)
    for name, f in pools(td, x):
        a, b = x.clone().requires_grad_(), x.to(memory_format=CL).requires_grad_()
        y, z = f(a), f(b)
        slope = ((td.arange(y.numel()) * 31 % 17).reshape(y.shape) - 8).to(dtype) / 4
        y.backward(slope)
        z.backward(slope.to(memory_format=CL))
        assert z.is_contiguous(memory_format=CL), name
        for made, wanted in ((z, y), (b.grad, a.grad)):
            made, wanted = made.detach().double(), wanted.detach().double()
            if "norm" not in name:
                assert td.equal(made, wanted), name
            else:
                assert td.allclose(made, wanted, rtol=2e-2 if dtype is td.float16 else 1e-4, atol=2e-2 if dtype is td.float16 else 2e-5), name
        assert name == "of all" or b.grad.stride() == b.stride(), name  # whose gradient has one place, in any order


def test_windows_of_special_values():
    nan, inf = float("nan"), float("inf")
    x = td.tensor([nan, inf, -inf, -0.0, 0.0, 1e38, -1e38, 1e-45] * 36).reshape(2, 8, 6, 3).flip(3)
    for f in (lambda y: td.nn.functional.max_pool2d(y, 2, 1, 1), lambda y: td.nn.functional.max_pool2d(y, 2, 1, 1, return_indices=True)[1],
              lambda y: td.nn.functional.avg_pool2d(y, 2), lambda y: td.nn.functional.batch_norm(y, td.zeros(8), td.ones(8))):
        a, b = f(x), f(x.to(memory_format=CL))
        assert a.shape == b.shape and ((a == b) | (a.isnan() & b.isnan())).all()


def test_statistics_far_from_zero():
    x = (td.arange(2 * 16 * 30 * 30).reshape(2, 16, 30, 30) % 5).float() + 1e6
    mean, var = td.zeros(16), td.ones(16)
    td.nn.functional.batch_norm(x.to(memory_format=CL), mean, var, training=True, momentum=1.0)
    assert td.allclose(var, x.double().permute(1, 0, 2, 3).reshape(16, -1).var(1).float(), rtol=1e-4) and (mean - 1e6 - 2).abs().max() < 0.1


def test_written_where_it_is_given(x):
    """out= of any strides: what a kernel cannot write goes through a temporary, also where it could write channels last."""
    for shape, view in (((2, 4, 5, 12), lambda t: t[:, :, :, ::2]), ((4, 2, 5, 6), lambda t: t.transpose(0, 1)), ((2, 5, 6, 4), lambda t: t.permute(0, 3, 1, 2))):
        for given in (x, x.to(memory_format=CL)):
            joined = view(td.zeros(shape))
            td.cat([given[:, :3], given[:, 3:4]], 1, out=joined)
            near(joined, x[:, :4])


@td.jit.script
def chain(x: td.Tensor, y: td.Tensor):
    a = td.relu(x * 2 + y)
    return td.sigmoid(a - y) * a, a > 1


@pytest.mark.parametrize("shape", [(1, 3, 5, 7), (4, 32, 30, 31)], ids=str)
def test_a_fused_chain(shape):
    """One loop over what lies alike; the same program of tensors that do not."""
    x = td.arange(shape[0] * shape[1] * shape[2] * shape[3]).float().reshape(shape) % 101 / 50 - 1
    y = x.flip(1) + 0.25
    for a, b in ((x, y), (x.to(memory_format=CL), y.to(memory_format=CL)), (x.to(memory_format=CL), y), (x, y.to(memory_format=CL)), (x, y)):
        for _ in range(3):
            value, mask = chain(a, b)
            want = td.relu(x * 2 + y)
            assert td.equal(value, td.sigmoid(want - y) * want) and td.equal(mask, want > 1) and value.stride() == (a * 1).stride()


def test_autocast_leaves_out_alone():
    a, into = td.ones(4, 4), td.zeros(4, 4)
    with td.amp.autocast("cpu", dtype=td.bfloat16):
        td.mm(a, a, out=into)
        assert td.mm(a, a).dtype is td.bfloat16
    assert td.equal(into, a * 4)


@pytest.mark.parametrize("write, shape", [
    (lambda x, out: td.nn.functional.gelu(x, out=out), (2, 3, 4, 6, 8)),
    (lambda x, out: td.narrow_copy(x, 3, 1, 4, out=out), (2, 3, 4, 4, 8)),
    (lambda x, out: td.nn.functional.avg_pool3d(x, 2, out=out), (2, 3, 2, 3, 4)),
])
def test_out_with_gaps(write, shape):
    """What PyTorch 2.13 itself gets wrong: its gelu leaves such a result as it was, narrow_copy and avg_pool3d write over the gaps."""
    x = td.rand(2, 3, 4, 6, 8) - 0.5
    want = td.empty(0)
    write(x, want)
    assert want.shape == shape
    stepped, turned = td.full((*shape[:-1], 2 * shape[-1]), 7.0), td.full(shape[::-1], 7.0)
    for whole, part in ((stepped, stepped[..., ::2]), (turned, turned.permute(4, 3, 2, 1, 0))):
        strides = part.stride()
        assert write(x, part) is part
        assert part.stride() == strides and td.equal(part, want) and whole.eq(7).sum().item() == whole.numel() - part.numel()


def test_resize_to_a_format():
    x = td.arange(24, dtype=td.float32).reshape(1, 2, 3, 4)
    kept = x.untyped_storage()
    assert x.resize_(1, 2, 3, 3, memory_format=td.channels_last).stride() == (18, 1, 6, 2) and x.untyped_storage() == kept and x.flatten().tolist()[:3] == [0.0, 2.0, 4.0]
    assert x.resize_((1, 2, 3, 3), memory_format=td.contiguous_format).stride() == (18, 9, 3, 1) and x.flatten().tolist() == list(map(float, range(18)))
    assert td.empty(2).resize_(1, 2, 2, 2, 2, memory_format=td.channels_last_3d).stride() == (16, 1, 8, 4, 2)
    last = td.empty(1, 2, 2, 2).to(memory_format=td.channels_last)
    assert td.empty(1).resize_as_(last, memory_format=td.preserve_format).stride() == (8, 1, 4, 2) and td.empty(1).resize_as_(last).stride() == (8, 4, 2, 1)
    for sizes in ((-1,), (2, -3), (-2, -2)):
        with pytest.raises(td.ShapeError, match="must not be negative"):
            td.ones(4).resize_(*sizes)
    with pytest.raises(td.ShapeError, match="required rank 4"):
        x.resize_(3, 2, memory_format=td.channels_last)
    with pytest.raises(td.Unsupported, match="Preserve"):
        x.resize_(3, 2, memory_format=td.preserve_format)

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

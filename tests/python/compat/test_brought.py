"""What libraries that are written for PyTorch import, call and compare with before they do any work: modules, names of what is not there."""

import gc
import threading
import weakref

import pytest
import tensord as td


def test_lists_by_dtype():
    from tensord.utils._foreach_utils import _group_tensors_by_device_and_dtype

    a, b = td.ones(1), td.ones(2, dtype=td.float64)
    groups = _group_tensors_by_device_and_dtype([[a, b, a], [None, b, a]], with_indices=True)
    assert [(key[1], at) for key, (_, at) in groups.items()] == [(td.float32, [0, 2]), (td.float64, [1])]
    assert groups[a.device, td.float32][0][1][0] is None


def test_futures():
    from tensord.futures import Future, collect_all, wait_all

    told = []
    one, other = Future(), Future()
    doubled = one.then(lambda f: 2 * f.value())
    one.add_done_callback(lambda f: told.append(f.value()))
    with pytest.raises(RuntimeError, match="no result yet"):
        one.value()
    threading.Timer(0.02, one.set_result, (3,)).start()
    assert one.wait() == 3 and doubled.wait() == 6 and one.done() and told == [3]
    with pytest.raises(RuntimeError, match="mark a completed Future as complete"):
        one.set_result(4)
    with pytest.raises(AssertionError, match="not an Exception"):
        other.set_exception("x")
    both = collect_all([one, other])
    assert not both.done()
    other.set_exception(KeyError("lost"))
    for f in (other, both, other.then(lambda f: f.value())):
        with pytest.raises(KeyError, match="lost"):
            f.wait()
    with pytest.raises(KeyError, match="lost"):
        wait_all([one, other])
    assert wait_all([one, doubled]) == [3, 6] and wait_all([]) == []
    for call in (one.add_done_callback, one.then, Future().then):
        with pytest.raises(TypeError, match="callback is no function, but a NoneType"):
            call(None)


def leave(f):
    raise SystemExit(3)


def test_futures_of_what_ends_the_thread_and_of_what_failed():
    first = td.futures.Future()
    after, told = first.then(leave), []
    first.add_done_callback(lambda f: told.append(f.value()))
    with pytest.raises(SystemExit):
        first.set_result(1)
    assert after.done() and told == [1]
    with pytest.raises(SystemExit):
        after.wait()
    failed = td.futures.Future()
    failed.set_exception(KeyError("lost"))
    with pytest.raises(KeyError):
        failed.wait()
    gone = weakref.ref(failed)
    gc.disable()
    del failed
    try:
        assert gone() is None  # an exception that was raised does not hold what it came from
    finally:
        gc.enable()


def test_names_of_what_is_not_there_can_be_compared_with():
    assert td.ones(1).layout is td.strided and td.ones(1).layout not in (td.sparse_coo, td.sparse_csr, td.sparse_csc, td.sparse_bsr, td.sparse_bsc, td.jagged)
    assert repr(td.sparse_coo) == "tensord.sparse_coo" and isinstance(td.sparse_coo, td.layout)
    with pytest.raises(td.Unsupported, match="not tensord.sparse_coo"):
        td.zeros(2, layout=td.sparse_coo)
    assert isinstance(td.ones(1).storage(), td.storage.TypedStorage) and not isinstance(td.ones(1), td.UntypedStorage | td.TypedStorage)


def test_process_groups_are_refused_where_they_are_called():
    from tensord.distributed import ReduceOp, all_reduce, get_rank, group

    assert td._C._log_api_usage_once("torchmetrics.metric") is None
    assert not td.distributed.is_initialized() and ReduceOp.SUM == "SUM" and group.WORLD is None
    for call in (get_rank, lambda: all_reduce(td.ones(1), op=ReduceOp.SUM), lambda: td.distributed.init_process_group("gloo")):
        with pytest.raises(td.Unsupported, match="no process groups here.*share_memory"):
            call()


def test_paths_that_libraries_import():
    from tensord.distributions.utils import _standard_normal, _sum_rightmost
    from tensord.nn.parallel.distributed import DistributedDataParallel
    from tensord.nn.parallel.scatter_gather import scatter
    from tensord.optim.optimizer import ParamsT, required
    from tensord.serialization import MAP_LOCATION
    from tensord.utils.model_zoo import load_url

    assert load_url is td.hub.load_state_dict_from_url and repr(required) == "<required parameter>" and ParamsT and MAP_LOCATION
    assert DistributedDataParallel is td.nn.parallel.DistributedDataParallel
    with pytest.raises(td.Unsupported, match="a module runs where it lies"):
        scatter(td.ones(2), [0])
    drawn = _standard_normal(td.Size([3, 2]), td.float64, td.device("cpu"))
    assert drawn.shape == (3, 2) and drawn.dtype is td.float64
    assert _sum_rightmost(td.ones(2, 3, 4), 2).tolist() == [12.0, 12.0] and _sum_rightmost(drawn, 0) is drawn


def test_resize_as_of_a_program():
    @td.jit.script
    def kept(into, values):
        into.resize_as_(values).copy_(values)
        return into

    x = td.zeros(3)
    assert kept(x, td.ones(3)).tolist() == x.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(RuntimeError, match=r"to the shape that is there, \[3\], not \[4\]"):
        kept(x, td.ones(4)).tolist()


def test_a_class_is_of_no_kind_that_it_is_not_in_pytorch():
    """Programs that initialize, freeze or replace layers ask isinstance(): one of two dimensions is none of one."""
    nn, data, lr = td.nn, td.utils.data, td.optim.lr_scheduler
    for some_layers in (("Conv1d", "Conv2d", "Conv3d"), ("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"), ("Sequential", "ModuleList", "ModuleDict"),
                        ("Embedding", "EmbeddingBag"), ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LayerNorm", "GroupNorm"), ("RNN", "LSTM", "GRU"),
                        ("MaxPool1d", "MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d"), ("Dropout", "Dropout2d", "AlphaDropout"), ("Linear", "Bilinear", "Identity")):
        for a in some_layers:
            assert [b for b in some_layers if issubclass(getattr(nn, a), getattr(nn, b))] == [a]
    assert all(issubclass(c, nn.modules.conv._ConvNd) for c in (nn.Conv1d, nn.Conv3d, nn.ConvTranspose2d)) and issubclass(nn.ConvTranspose1d, nn.modules.conv._ConvTransposeNd)
    for special, general in (("ReLU6", "Hardtanh"), ("UpsamplingNearest2d", "Upsample"), ("UpsamplingBilinear2d", "Upsample"), *((f"ZeroPad{n}d", f"ConstantPad{n}d") for n in (1, 2, 3))):
        assert issubclass(getattr(nn, special), getattr(nn, general)) and not issubclass(getattr(nn, general), getattr(nn, special))
    held, larger = nn.ReLU6(), nn.UpsamplingBilinear2d(scale_factor=2)
    assert (held.min_val, held.max_val, larger.mode, larger.align_corners, nn.ZeroPad2d(1).value) == (0, 6, "bilinear", True, 0) and repr(held) == "ReLU6()"
    assert repr(nn.UpsamplingNearest2d(size=3)) == "UpsamplingNearest2d(size=3, mode='nearest')" and repr(nn.Upsample((2, 3))) == "Upsample(size=(2, 3), mode='nearest')"
    assert held(td.tensor([-1.0, 5.0, 7.0])).tolist() == [0, 5, 6] and larger(td.ones(1, 1, 2, 2)).shape == (1, 1, 4, 4) and nn.ZeroPad1d(1)(td.ones(1, 1)).tolist() == [[0, 1, 0]]
    assert not issubclass(lr.MultiplicativeLR, lr.LambdaLR) and not issubclass(data.RandomSampler, data.SequentialSampler)
    assert all(issubclass(c, data.Sampler) for c in (data.SequentialSampler, data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler, data.BatchSampler))
    assert issubclass(data.IterableDataset, data.Dataset) and issubclass(data.ChainDataset, data.Dataset)


def test_lists_of_modules_are_lists():
    layers = td.nn.ModuleList([td.nn.Linear(1, 2), td.nn.ReLU()])
    more = layers + [td.nn.Tanh()]
    assert type(more) is td.nn.ModuleList and len(more) == 3 and more[0] is layers[0] and [k for k, _ in more.named_children()] == ["0", "1", "2"]
    layers += [td.nn.Tanh()]
    assert len(layers) == 3 and type(layers[1:]) is td.nn.ModuleList and layers.pop(2).__class__ is td.nn.Tanh
    with pytest.raises(TypeError):
        layers * 2
    with pytest.raises(NotImplementedError, match="no layer"):
        layers(td.ones(1))
    both = td.nn.Sequential(td.nn.Tanh()) * 2 + td.nn.Sequential(td.nn.ReLU())
    assert type(both) is td.nn.Sequential and [type(m).__name__ for m in both] == ["Tanh", "Tanh", "ReLU"]


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_softmax_of_older_programs_says_no_dimension(name):
    layer = {"softmax": td.nn.Softmax, "log_softmax": td.nn.LogSoftmax, "softmin": td.nn.Softmin}[name]
    function = getattr(td.nn.functional, name)
    for shape, dim in (((4,), 0), ((2, 4), 1), ((2, 3, 4), 0), ((2, 3, 4, 2), 1)):
        x = td.randn(shape)
        with pytest.warns(UserWarning, match=f"Implicit dimension choice for {name} has been deprecated"):
            assert td.equal(function(x), function(x, dim))
        with pytest.warns(UserWarning, match="Change the call to include dim=X"):
            assert td.equal(layer()(x), layer(dim)(x))
    assert function(td.ones(2, dtype=td.float16), 0, dtype=td.float64).dtype is td.float64 and repr(layer()) == f"{layer.__name__}(dim=None)"

    @td.jit.script
    def along(x):
        return td.nn.functional.softmax(x, 1) + td.nn.functional.log_softmax(x, dim=1) + td.nn.functional.softmin(x, -1)

    x, f = td.randn(2, 3), td.nn.functional
    assert td.equal(along(x), f.softmax(x, 1) + f.log_softmax(x, 1) + f.softmin(x, 1))


def test_gradients_as_older_programs_ask_for_them():
    x, y = td.tensor([2.0], requires_grad=True), td.tensor([3.0], requires_grad=True)
    assert td.autograd.grad(x * x * y, x, grad_outputs=td.ones(1), create_graph=True, retain_graph=True, only_inputs=True)[0].tolist() == [12.0]
    assert td.autograd.grad(x * x, [x, y], None, None, False, True, True)[1] is None, "allow_unused stands behind only_inputs"
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
        td.autograd.grad(x * x, x, only_inputs=False)
    assert {k: g.tolist() for k, g in td.autograd.grad(x * x * y, {"x": x, "y": y}).items()} == {"x": [12.0], "y": [4.0]}

"""What libraries that are written for PyTorch import, call and compare with before they do any work."""

import pytest
import tensord as td


def test_a_class_is_of_no_kind_that_it_is_not_in_pytorch():
    """Programs that initialize, freeze or replace layers ask isinstance(): one of two dimensions is none of one."""
    nn, data, lr = td.nn, td.utils.data, td.optim.lr_scheduler
    for some_layers in (("Conv1d", "Conv2d", "Conv3d"), ("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"), ("Sequential", "ModuleList", "ModuleDict"),
                        ("Embedding", "EmbeddingBag"), ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LayerNorm", "GroupNorm"), ("RNN", "LSTM", "GRU"),
                        ("MaxPool1d", "MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d"), ("Dropout", "Dropout2d", "AlphaDropout"), ("Linear", "Bilinear", "Identity")):
        for a in some_layers:
            assert [b for b in some_layers if issubclass(getattr(nn, a), getattr(nn, b))] == [a]
    assert all(issubclass(c, nn.modules.conv._ConvNd) for c in (nn.Conv1d, nn.Conv3d, nn.ConvTranspose2d)) and issubclass(nn.ConvTranspose1d, nn.modules.conv._ConvTransposeNd)
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

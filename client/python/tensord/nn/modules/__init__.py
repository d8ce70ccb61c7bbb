"""Layers by the paths that they have in PyTorch: nn.modules.conv, nn.modules.loss, ..., with the base classes that programs look for there."""

import sys as _sys

from tensord.core import _aliases
from tensord.nn.modules import utils as utils

_nn = _sys.modules["tensord.nn"]  # which imports this when it has all of its own
__all__ = _aliases.put(__name__, _nn, {
    "activation": """ReLU RReLU Hardtanh ReLU6 Sigmoid Hardsigmoid Tanh SiLU Mish Hardswish ELU CELU SELU GLU GELU Hardshrink LeakyReLU LogSigmoid Softplus Softshrink
        MultiheadAttention PReLU Softsign Tanhshrink Softmin Softmax Softmax2d LogSoftmax Threshold""",
    "adaptive": "AdaptiveLogSoftmaxWithLoss",
    "batchnorm": """BatchNorm1d LazyBatchNorm1d BatchNorm2d LazyBatchNorm2d BatchNorm3d LazyBatchNorm3d SyncBatchNorm _BatchNorm=_norms._BatchNorm
        _NormBase=_norms._NormBase _LazyNormBase=_lazy._LazyNorm""",
    "channelshuffle": "ChannelShuffle",
    "container": "Sequential ModuleList ModuleDict ParameterList ParameterDict",
    "conv": """Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d
        LazyConvTranspose3d _ConvNd=_convolutions._Convolution _ConvTransposeNd=_convolutions._Transposed _LazyConvXdMixin=_lazy._LazyConvolution""",
    "distance": "PairwiseDistance CosineSimilarity",
    "dropout": "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout _DropoutNd=_plain_layers._DropoutNd",
    "flatten": "Flatten Unflatten",
    "fold": "Fold Unfold",
    "instancenorm": """InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d
        _InstanceNorm=_norms._InstanceNorm""",
    "lazy": "LazyModuleMixin=_lazy.LazyModuleMixin",
    "linear": "Bilinear Identity LazyLinear Linear NonDynamicallyQuantizableLinear=Linear",
    "loss": """L1Loss NLLLoss NLLLoss2d PoissonNLLLoss GaussianNLLLoss KLDivLoss MSELoss BCELoss BCEWithLogitsLoss HingeEmbeddingLoss MultiLabelMarginLoss
        SmoothL1Loss HuberLoss SoftMarginLoss CrossEntropyLoss MultiLabelSoftMarginLoss CosineEmbeddingLoss MarginRankingLoss MultiMarginLoss
        TripletMarginLoss TripletMarginWithDistanceLoss CTCLoss _Loss=losses._Loss _WeightedLoss=losses._WeightedLoss""",
    "module": "Module _IncompatibleKeys=_state._Keys _EXTRA_STATE_KEY_SUFFIX=_state._EXTRA" + "".join(f" {_name}=_module_hooks.{_name}" for _name in """
        register_module_forward_pre_hook register_module_forward_hook register_module_backward_hook register_module_full_backward_hook
        register_module_full_backward_pre_hook register_module_parameter_registration_hook register_module_buffer_registration_hook
        register_module_module_registration_hook""".split()),
    "normalization": "LocalResponseNorm CrossMapLRN2d LayerNorm GroupNorm RMSNorm",
    "padding": """CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d ReflectionPad2d ReflectionPad3d
        ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d""",
    "pixelshuffle": "PixelShuffle PixelUnshuffle",
    "pooling": """MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d AvgPool1d AvgPool2d AvgPool3d FractionalMaxPool2d FractionalMaxPool3d
        LPPool1d LPPool2d LPPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d
        _MaxPoolNd=_plain_layers._MaxPoolNd _AvgPoolNd=_plain_layers._AvgPoolNd _LPPoolNd=_plain_layers._LPPoolNd
        _AdaptiveAvgPoolNd=_plain_layers._AdaptiveAvgPoolNd _AdaptiveMaxPoolNd=_plain_layers._AdaptiveMaxPoolNd _MaxUnpoolNd=_window_layers._MaxUnpool""",
    "rnn": "RNNBase RNN LSTM GRU RNNCellBase RNNCell LSTMCell GRUCell",
    "sparse": "Embedding EmbeddingBag",
    "transformer": "Transformer TransformerEncoder TransformerDecoder TransformerEncoderLayer TransformerDecoderLayer",
    "upsampling": "Upsample UpsamplingNearest2d UpsamplingBilinear2d",
})
globals().update((_name, getattr(_nn, _name)) for _name in __all__)
__all__.sort()

"""Networks from layers, with PyTorch's names, argument orders and initialisation."""

import typing as _typing

from tensord.core import _absent
from tensord.nn import functional as functional, grad as grad, init as init, parallel as parallel, parameter as parameter, utils as utils
from tensord.nn._convolutions import *  # noqa: F401,F403
from tensord.nn._lazy import *  # noqa: F401,F403
from tensord.nn._norms import *  # noqa: F401,F403
from tensord.nn._plain_layers import *  # noqa: F401,F403
from tensord.nn._window_layers import *  # noqa: F401,F403
from tensord.nn.adaptive import *  # noqa: F401,F403
from tensord.nn.attention import *  # noqa: F401,F403
from tensord.nn.layers import *  # noqa: F401,F403
from tensord.nn.losses import *  # noqa: F401,F403
from tensord.nn.module import (Buffer as Buffer, Identity as Identity, Module as Module, ModuleDict as ModuleDict, ModuleList as ModuleList, Parameter as Parameter,
                               ParameterDict as ParameterDict, ParameterList as ParameterList, Sequential as Sequential)
from tensord.nn.parallel import DataParallel as DataParallel
from tensord.nn.parameter import UninitializedBuffer as UninitializedBuffer, UninitializedParameter as UninitializedParameter, factory_kwargs as factory_kwargs
from tensord.nn.recurrent import *  # noqa: F401,F403
from tensord.nn.transformer import *  # noqa: F401,F403
from tensord.nn import modules as modules  # isort: skip

if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of("tensord.nn")

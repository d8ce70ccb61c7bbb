"""Networks from layers, with PyTorch's names, argument orders and initialisation."""

from tensord.nn import functional, init, utils  # noqa: F401
from tensord.nn.layers import *  # noqa: F401,F403
from tensord.nn.losses import *  # noqa: F401,F403
from tensord.nn.module import Identity, Module, ModuleDict, ModuleList, Parameter, Sequential  # noqa: F401

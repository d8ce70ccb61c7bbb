"""Optimizers, and schedules of their learning rates (tensord.optim.lr_scheduler), means of weights (tensord.optim.swa_utils), with PyTorch's names and numbers."""

import sys as _sys
import typing as _typing

from tensord.core import _absent, _aliases
from tensord.optim import lr_scheduler as lr_scheduler, swa_utils as swa_utils
from tensord.optim._lbfgs import LBFGS as LBFGS
from tensord.optim._matrices import Adafactor as Adafactor, Muon as Muon
from tensord.optim._composed import (ASGD as ASGD, Adadelta as Adadelta, Adamax as Adamax, Lamb as Lamb, Lion as Lion, NAdam as NAdam, RAdam as RAdam,
                                             Rprop as Rprop)
from tensord.optim._optimizers import SGD as SGD, Adagrad as Adagrad, Adam as Adam, AdamW as AdamW, Optimizer as Optimizer, RMSprop as RMSprop

_aliases.put(__name__, _sys.modules[__name__], {"optimizer": "Optimizer ParamsT=_optimizers.ParamsT required=_optimizers.required", **{name.lower(): name for name in """SGD Adam AdamW RMSprop Adagrad Adadelta Adamax NAdam
    RAdam ASGD Rprop LBFGS Adafactor""".split()}})

if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of("tensord.optim")

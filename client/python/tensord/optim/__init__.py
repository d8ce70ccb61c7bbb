"""Optimizers, and schedules of their learning rates (tensord.optim.lr_scheduler), with PyTorch's names and numbers."""

from tensord.optim import lr_scheduler as lr_scheduler
from tensord.optim._optimizers import SGD as SGD, Adagrad as Adagrad, Adam as Adam, AdamW as AdamW, Optimizer as Optimizer, RMSprop as RMSprop

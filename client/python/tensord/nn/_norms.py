"""Norms over the batch and over each picture, with their running statistics."""

import tensord as td
from tensord.nn import functional as F
from tensord.nn.module import Module, Parameter

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "SyncBatchNorm"]


class _NormBase(Module):
    """Weights and running statistics, one a channel."""

    _dims: tuple = ()
    _version = 2

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None, *, bias=True):
        super().__init__()
        self.num_features, self.eps, self.momentum, self.affine = num_features, eps, momentum, affine
        self.track_running_stats = track_running_stats
        self.register_parameter("weight", Parameter(td.ones(num_features, dtype=dtype, device=device)) if affine else None)
        self.register_parameter("bias", Parameter(td.zeros(num_features, dtype=dtype, device=device)) if affine and bias else None)
        self.register_buffer("running_mean", td.zeros(num_features, dtype=dtype, device=device) if track_running_stats else None)
        self.register_buffer("running_var", td.ones(num_features, dtype=dtype, device=device) if track_running_stats else None)
        self.register_buffer("num_batches_tracked", td.tensor(0, device=device) if track_running_stats else None)

    def _before_load(self, state_dict, prefix, local_metadata, *rest):
        """States of before version 2, and dicts that tell none, may lack how many batches there were."""
        super()._before_load(state_dict, prefix, local_metadata, *rest)
        if (local_metadata.get("version") or 0) < 2 and self.num_batches_tracked is not None:
            state_dict.setdefault(prefix + "num_batches_tracked", self.num_batches_tracked)

    @td.no_grad()
    def reset_running_stats(self):
        """Mean 0 and variance 1, of no batches."""
        if self.track_running_stats:
            for statistic, value in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
                statistic.fill_(value)

    @td.no_grad()
    def reset_parameters(self):
        """As they were made, the running statistics too."""
        self.reset_running_stats()
        if self.affine:
            self.weight.fill_(1)
            if self.bias is not None:
                self.bias.fill_(0)

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, bias={self.bias is not None}, track_running_stats={self.track_running_stats}"


class _BatchNorm(_NormBase):
    """Each channel of a batch to mean 0 and variance 1."""

    def forward(self, input):
        if input.ndim not in self._dims:
            raise td.ShapeError(f"{type(self).__name__} takes {' or '.join(map(str, self._dims))} dimensions, got {input.ndim}")
        tracks = self.running_mean is not None
        if self.training and not self.track_running_stats:
            return F.batch_norm(input, None, None, self.weight, self.bias, True, 0.0, self.eps)
        if self.training and tracks:
            self.num_batches_tracked.add_(1)
        momentum = self.momentum
        if momentum is None:  # the mean of all batches so far
            momentum = 1 / int(self.num_batches_tracked) if self.training and tracks else 0.0
        return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, self.training or not tracks, momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    """Each channel of a batch to mean 0 and variance 1."""

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Each channel of a batch of pictures to mean 0 and variance 1."""

    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Each channel of a batch of volumes to mean 0 and variance 1."""

    _dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """What BatchNorm is, for two dimensions or more, under the name that models ask for which are trained by several processes.

    As in PyTorch where no process group was set up, the statistics are those of the batch that this process has. Raises Unsupported for a process_group.
    """

    _dims = tuple(range(2, 9))

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, process_group=None, device=None, dtype=None, *, bias=True):
        if process_group is not None:
            raise td.Unsupported("SyncBatchNorm(): argument 'process_group' is not there: what several processes normalise is not added up between them")
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def forward(self, input):
        if input.ndim < 2:
            raise td.ShapeError(f"expected at least 2D input (got {input.ndim}D input)")
        return super().forward(input)

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """The module with a SyncBatchNorm in the place of each BatchNorm in it, which has the same parameters and buffers; itself one, if it is a BatchNorm."""
        made = module
        if isinstance(module, _BatchNorm):
            made = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats, process_group, bias=module.bias is not None)
            for name in ("weight", "bias"):
                made.register_parameter(name, getattr(module, name))
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                made.register_buffer(name, getattr(module, name))
            made.training = module.training
        for name, child in list(module.named_children()):
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


class _InstanceNorm(_NormBase):
    """Each channel of each example to mean 0 and variance 1; one without a batch, too. The running statistics, if there are any, are used in evaluation."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None, dtype=None, *, bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input):
        if input.ndim not in self._dims:
            raise td.ShapeError(f"{type(self).__name__} takes {' or '.join(map(str, self._dims))} dimensions, got {input.ndim}")
        if input.ndim == self._dims[0]:
            return self.forward(input.unsqueeze(0)).squeeze(0)
        if self.running_mean is None:
            return F.instance_norm(input, weight=self.weight, bias=self.bias, eps=self.eps)
        momentum = 0.0 if self.momentum is None else self.momentum
        return F.instance_norm(input, self.running_mean, self.running_var, self.weight, self.bias, self.training or self.running_mean is None, momentum, self.eps)


class InstanceNorm1d(_InstanceNorm):
    """Each channel of each row to mean 0 and variance 1."""

    _dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Each channel of each picture to mean 0 and variance 1."""

    _dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Each channel of each volume to mean 0 and variance 1."""

    _dims = (4, 5)

"""What programs ask about back ends (backends.mps.is_available()) and set of them (backends.cudnn.benchmark = True): there are none here but the daemon's own.

What is set is kept and says nothing to anybody, as in a PyTorch without them. Each is a module, so `import tensord.backends.cudnn as cudnn` works, too.
"""

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from tensord import _C

__path__: "list[str]" = []  # what is below is made here


class _Set:
    """What is set of a part of one: backends.cuda.matmul.allow_tf32 = True."""

    allow_tf32 = allow_fp16_reduced_precision_reduction = allow_bf16_reduced_precision_reduction = False
    fp32_precision = "none"


class _Absent(ModuleType):
    """A back end that is not there."""

    deterministic = benchmark = enabled = allow_tf32 = False
    benchmark_limit = 10

    def __init__(self, name: str) -> None:
        super().__init__(f"{__name__}.{name}", self.__doc__)
        self.matmul, self.conv, self.rnn = _Set(), _Set(), _Set()

    def is_available(self) -> bool:
        """False."""
        return False

    is_built = is_available

    def version(self) -> None:
        """None: there is none."""

    @contextlib.contextmanager
    def flags(self, **settings: Any) -> Iterator[None]:
        """A block in which these are set."""
        before = {name: getattr(self, name, None) for name in settings}
        vars(self).update(settings)
        try:
            yield
        finally:
            vars(self).update(before)


class _Cpu(ModuleType):
    @staticmethod
    def get_cpu_capability() -> str:
        """What the daemon's kernels use: "DEFAULT", "AVX2" or "AVX512"."""
        kernels = next(row["value"] for row in _C.status() if row["key"] == "kernels")
        return next((name for name in ("AVX512", "AVX2") if name.lower() in kernels.partition("|")[0]), "DEFAULT")


mps, cudnn, mkl, mkldnn, cuda, openmp = _Absent("mps"), _Absent("cudnn"), _Absent("mkl"), _Absent("mkldnn"), _Absent("cuda"), _Absent("openmp")
cpu = _Cpu(__name__ + ".cpu", "The processors' own.")
for _each in (mps, cudnn, mkl, mkldnn, cuda, openmp, cpu):
    sys.modules[_each.__name__] = _each

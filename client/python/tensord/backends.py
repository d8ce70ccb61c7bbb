"""What programs ask about back ends (backends.mps.is_available()) and set of them: there are none here."""


class _Absent:
    """A back end that is not there; what is set of it says nothing to anybody, as in a PyTorch without it."""

    deterministic = benchmark = enabled = False

    def is_available(self) -> bool:
        return False

    def is_built(self) -> bool:
        return False


mps, cudnn, mkl, cuda = _Absent(), _Absent(), _Absent(), _Absent()

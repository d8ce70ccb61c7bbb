"""A model: loaded from an ONNX file, published under a name, opened by that in any process."""

import json
import os
from typing import Any

from tensord import _C

__all__ = ["Model", "load_model", "model"]

_WHILE_OPEN, _KEEP_OLD, _NEW = 1, 2, 4  # of td_model_options


class Model:
    """A model to call: of this program alone (load_model()), or of a name, which all processes ask (publish(), model()).

    Inputs are tensors or arrays of NumPy, by place or by the names that the file gives them; the result is a tensor, or a list of
    tensors in the file's order. An input that does not fit is an error that names it, at once."""

    def __init__(self, handle: Any, name: str | None = None, pinned: int = 0):
        self._handle = handle
        self._name = name
        self._pinned = pinned  # the version that was asked for; 0: whichever the name means
        self._card: dict[str, Any] | None = None

    @property
    def card(self) -> dict[str, Any]:
        """Its inputs and outputs with names, dtypes and shapes (a size is a number, a name, or None: any), and where it comes from; of a published
        one also which sizes of batches its requests are joined to."""
        if self._card is None:
            self._card = json.loads(self._handle.card())
        return self._card

    @property
    def inputs(self) -> list[dict[str, Any]]:
        return self.card["inputs"]

    @property
    def outputs(self) -> list[dict[str, Any]]:
        return self.card["outputs"]

    @property
    def name(self) -> str | None:
        """What it was published or opened under; None: it is this program's alone."""
        return self._name

    @property
    def version(self) -> int:
        """Which version it was when it was published or opened; 0: it is this program's alone."""
        return self._handle.version()

    def publish(self, name: str, replace: bool = True, *, max_batch: int | None = None, delay: float = 0.0, queue: int | None = None,
                version: int | None = None, keep_old: bool = False, while_open: bool = False, instances: int = 1) -> "Model":
        """Put it under a name, for all processes and beyond the end of this one: copied, run until it is warm, then switched to; requests meanwhile
        are the old version's. Afterwards this is a model of that name. replace=False: AlreadyExists when something has the name. max_batch: rows
        that a run may have together (None: as many as paid when it was made warm; 1: requests stay alone). delay: seconds that a request may wait
        for others. queue: requests that may wait. keep_old: older versions stay, for serve(). while_open: it goes when nobody has it open.
        td.drop(name) ends it."""
        flags = (0 if replace else _NEW) | (_KEEP_OLD if keep_old else 0) | (_WHILE_OPEN if while_open else 0)
        self._handle.publish(name, flags, version or 0, max_batch or 0, round(delay * 1e6), queue or 0, instances)
        self._name, self._card, self._pinned = name, None, 0
        return self

    def serve(self, version: int) -> None:
        """Its name means this version from now on: one that was kept."""
        if self._name is None:
            raise _C.InvalidError("the model has no name; publish() it first")
        _C._model_serve(self._name, version)

    def _given(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[_C.Tensor, ...]:
        """The inputs in their order, as tensors."""
        inputs = self.inputs
        if len(args) > len(inputs):
            raise _C.InvalidError(f"the model takes {len(inputs)} input{'s' * (len(inputs) != 1)}, and {len(args)} are given")
        found = list(args)
        for name in named:
            if name not in (x["name"] for x in inputs):
                raise _C.InvalidError(f"the model has no input '{name}'; it takes {_names(inputs)}")
            if name in (x["name"] for x in inputs[: len(args)]):
                raise _C.InvalidError(f"input '{name}' is given twice")
        for x in inputs[len(args) :]:
            if x["name"] not in named:
                raise _C.InvalidError(f"input '{x['name']}' is not given; the model takes {_names(inputs)}")
            found.append(named[x["name"]])
        return tuple(_tensor(x, of) for x, of in zip(found, inputs))

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        try:
            return _result(self._handle.infer(self._given(args, named), None))
        except _C.ConnectionLost as lost:
            self._open_again(lost)
        return _result(self._handle.infer(self._given(args, named), None))

    def _open_again(self, lost: Exception) -> None:
        """Its daemon has ended: the model that has its name in the one that runs now. Requests change nothing, so one may be asked again."""
        if self._name is None:
            raise _C.ConnectionLost(f"{lost}; the model was this program's alone: load its file again, or publish it, and open it by its name") from None
        try:
            self._handle, self._card = _C._model_open(self._name, self._pinned, 0.0), None
        except _C.NotPublished:
            raise _C.ConnectionLost(f"the daemon that had the model '{self._name}' has ended, and the one that runs now has none of that name; "
                                    "publish it there: the next call opens it") from None
        except _C.ConnectionLost as e:
            raise _C.ConnectionLost(f"{e}; once a daemon has the model '{self._name}' again, the next call opens it there") from None

    def close(self) -> None:
        """Let go of it: of a name's the name stays."""
        self._handle = _Closed()

    def __repr__(self) -> str:
        of = f"'{self._name}', version {self.version}" if self._name else repr(self.card.get("file", "a program"))
        return f"<tensord.Model {of}: {_names(self.inputs)} -> {_names(self.outputs)}>"

    def __reduce__(self) -> Any:
        if self._name is None:
            raise TypeError("a model of this program alone is not pickled; publish() it, and open it by its name")
        return model, (self._name,)


class _Closed:
    def __getattr__(self, name):
        raise _C.Closed("the model was closed")


def _names(ends):
    return ", ".join(f"'{x['name']}'" for x in ends)


def _tensor(x, of):
    if isinstance(x, _C.Tensor):
        return x
    return _C.asarray(x) if hasattr(x, "dtype") else _C.asarray(x, dtype=getattr(_C, of["dtype"]))


def _result(made):
    return made[0] if len(made) == 1 else made


def load_model(path: str | os.PathLike[str], name: str | None = None, *, exactly: bool = False) -> Model:
    """The model of an ONNX file: to be called at once, and published with publish(), or here under `name`. An op that is not known is an error that names
    it, its node and its version. exactly: nothing is folded that changes last bits."""
    made = Model(_C._model_load(path, exactly))
    return made if name is None else made.publish(name)


def model(name: str, version: int | None = None, timeout: float = 0.0) -> Model:
    """The model that has this name, in whichever process it was loaded: the version that the name means, now and after each reload; or one version. When its
    daemon has ended, calls raise ConnectionLost until a daemon has a model of that name again.
    timeout: seconds to wait for the name (None: as long as it takes); NotPublished when it is not there then."""
    return Model(_C._model_open(name, version or 0, timeout), name, version or 0)

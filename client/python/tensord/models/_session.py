"""onnxruntime's InferenceSession over models that all processes share."""

import fcntl
import hashlib
import os
import time
from typing import Any, NamedTuple

from tensord import _C
from tensord.models._model import Model, load_model, model

__all__ = ["InferenceSession"]

_TYPES = {"float32": "float", "float64": "double", "bool": "bool", "float16": "float16", "bfloat16": "bfloat16", "complex64": "complex64", "complex128": "complex128",
          "int8": "int8", "uint8": "uint8", "int16": "int16", "uint16": "uint16", "int32": "int32", "uint32": "uint32", "int64": "int64", "uint64": "uint64"}
_LOAD_S = 60.0  # that another process may take to load a file

_NOT_BOUND = "run() takes tensors and arrays as they are; tensord.load_model(path).publish(name) is a model whose outputs are tensors in shared memory, without a copy"
_NO_OPTIONS = "the model runs in the daemon, by the threads that serve all; leave the call out"
_WHY_ABSENT = {  # what onnxruntime's has beside what is here
    "get_modelmeta": "tensord.load_model(path).card has what is known of the file",
    **dict.fromkeys(("io_binding", "run_with_iobinding", "run_with_ort_values", "run_with_ortvaluevector"), _NOT_BOUND),
    **dict.fromkeys(("get_session_options", "get_provider_options", "set_providers", "enable_fallback", "disable_fallback"), _NO_OPTIONS),
    **dict.fromkeys(("end_profiling", "get_profiling_start_time_ns"), "`tensorctl models` shows what each model's requests take"),
    "run_async": "`await tensord.aio.infer(model, x)` waits for a tensord.model() without a thread",
    "get_overridable_initializers": "weights are the file's, and no inputs",
}


class NodeArg(NamedTuple):
    name: str
    type: str
    shape: list[int | str | None] | None


def _digest(path):
    found = hashlib.sha256()
    with open(path, "rb") as f:
        while part := f.read(1 << 20):
            found.update(part)
    return "sha256:" + found.hexdigest()


def _opened(digest):
    try:
        return model("onnx/" + digest)
    except _C.NotPublished:
        return None


def _found(path):
    """A file that has its weights beside it is these, too; to know them it has to be looked into, so it is asked for by its own bytes first."""
    return _opened(_digest(path)) or _opened(_C._model_digest(path))


def _shared(path) -> Model:
    """The model of this file that all processes have: the first one that wants it loads it, and it goes with the last. Workers start together as a
    rule, so one has the file's lock while it loads, and the others wait a minute for that before they load it, too."""
    found = _found(path)
    if found:
        return found
    with open(path, "rb") as file:
        end = time.monotonic() + _LOAD_S
        while not _locked(file) and time.monotonic() < end:
            time.sleep(0.02)
        return _found(path) or _loaded(path)


def _locked(file):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    return True


def _loaded(path):
    loaded = load_model(path)
    digest = loaded.card["digest"]  # of what was read: the file may have changed since
    try:
        return _opened(digest) or loaded.publish("onnx/" + digest, replace=False, while_open=True)
    except _C.AlreadyExists:
        return model("onnx/" + digest, timeout=_LOAD_S)


class InferenceSession:
    """As onnxruntime's: a worker changes its import, and twenty of them share one model instead of holding it twenty times.

    Options and providers are taken and not looked at. run() gives arrays of NumPy, which the caller may write to."""

    def __init__(self, path_or_bytes: str | os.PathLike[str], sess_options: Any = None, providers: Any = None, provider_options: Any = None, **kwargs: Any):
        if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
            raise _C.Unsupported("a model is read from a file; write the bytes to one")
        self._path = path_or_bytes
        self._model = _shared(path_or_bytes)

    def __getattr__(self, name: str) -> Any:
        why = _WHY_ABSENT.get(name)
        raise AttributeError(f"'InferenceSession' object has no attribute '{name}'" + (f": {why}" if why else ""), name=name, obj=self)

    def get_inputs(self) -> list[NodeArg]:
        return [_arg(x) for x in self._model.inputs]

    def get_outputs(self) -> list[NodeArg]:
        return [_arg(x) for x in self._model.outputs]

    def get_providers(self) -> list[str]:
        return ["CPUExecutionProvider"]

    def _asked(self, input_feed):
        return self._model._handle.infer(self._model._given((), dict(input_feed)), None)

    def run(self, output_names: list[str] | None, input_feed: dict[str, Any], run_options: Any = None) -> list[Any]:
        try:
            made = self._asked(input_feed)
        except _C.ConnectionLost:
            self._model = _shared(self._path)  # its daemon has ended
            made = self._asked(input_feed)
        names = [x["name"] for x in self._model.outputs]
        for name in output_names or ():
            if name not in names:
                raise _C.InvalidError(f"the model has no output '{name}'; it has {', '.join(names)}")
        return [_own(made[names.index(name)].numpy()) for name in output_names or names]


def _own(array):
    """Where the daemon wrote it nobody else writes; programs with onnxruntime do."""
    return array if array.flags.writeable else array.copy()


def _arg(x):
    return NodeArg(x["name"], f"tensor({_TYPES.get(x['dtype'], x['dtype'])})", x["shape"])

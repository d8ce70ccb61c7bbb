"""What PyTorch has and this package has not: why, and what does its work. Imported when a name is asked for that nobody has.

It stays an AttributeError, so whoever asks by hasattr() goes on.
"""

import sys

_COMPILED = "ops go to the daemon as they are, many at a time; leave the call out, or make a program of one function by tensord.jit.script"
_THREADS = "the daemon's threads compute: `tensord --workers N` says how many, `tensorctl status` tells"
_CUDA = "there is no CUDA here; tensord.cuda.is_available() tells so beforehand"
_ROWS = "tensors are row-major here and nothing else; leave it out"
_FORWARDS = "derivatives are computed backwards; tensord.autograd.functional.jvp() does it twice"
_SHARE = "processes of one machine share a model by module.share_memory(), tensors by their names and by tensord.Queue"
_WHERE = "the functions are tensord's own: tensord.{}"
_PIPES = "a pipe is an IterableDataset whose __iter__() is a generator of Python's, over another"

_WHY = {
    "tensord": {
        "compile": _COMPILED,
        **dict.fromkeys(("get_num_threads", "set_num_threads", "get_num_interop_threads", "set_num_interop_threads"), _THREADS),
        **dict.fromkeys(("strided", "contiguous_format", "channels_last", "channels_last_3d", "preserve_format"), _ROWS),
        **dict.fromkeys(("set_autocast_enabled", "set_autocast_dtype"), "`with tensord.autocast(...)` says where it begins and ends"),
        "lstsq": _WHERE.format("linalg.lstsq"),
        **dict.fromkeys(("eig", "symeig"), _WHERE.format("linalg.eig, tensord.linalg.eigh")),
        "distributed": _SHARE,
        "multiprocessing": "Python's own multiprocessing carries tensors, as handles; tensord.Queue does without pickle",
        "embedding_bag": _WHERE.format("nn.functional.embedding_bag"),
        "use_deterministic_algorithms": "results are the same in every run, whatever else the machine does; leave it out",
        "set_float32_matmul_precision": "float32 is computed in float32; leave it out",
        "set_default_tensor_type": "tensord.set_default_dtype(dtype) says what dtype tensors are made of",
        **dict.fromkeys(("hub", "onnx"), "there are no files of models; weights come by tensord.load (safetensors) and load_state_dict()"),
        "profiler": "`tensorctl top` and `tensorctl bench` look at a daemon at work",
        "sparse": "tensors are dense here",
    },
    "tensord.autograd": {
        "forward_ad": _FORWARDS,
    },
    "tensord.cuda": dict.fromkeys(("current_device", "device", "get_device_name", "get_device_properties", "get_device_capability", "Event", "Stream", "stream",
                                   "current_stream", "synchronize", "memory_allocated", "max_memory_allocated", "mem_get_info", "set_device"), _CUDA),
    "tensord.nn": {**dict.fromkeys(("DataParallel", "parallel"), _SHARE), "SyncBatchNorm": "what several processes normalise is not added up between them; BatchNorm2d has the statistics of its own batch"},
    "tensord.special": {},
    "tensord.optim": {"SparseAdam": "tensors are dense here; Adam does",
                      "swap_in_optimizer_params_and_state": "a step is not traced; make an optimizer of these parameters, and load_state_dict()"},
    "tensord.func": {"functionalize": "ops are not transformed; tensord.jit.trace() makes a program of a function",
                     "rearrange": "reshape(), permute() and einsum() do", "debug_unwrap": "tensors inside a derivative are tensors"},
    "tensord.utils.data": dict.fromkeys(("IterDataPipe", "MapDataPipe", "DFIterDataPipe", "DataChunk", "functional_datapipe", "guaranteed_datapipes_determinism",
                                         "non_deterministic", "argument_validation", "runtime_validation", "runtime_validation_disabled"), _PIPES),
}


def no_module(name):
    """Raises when `name` is one of those; with no name on the error, or `from tensord import distributed` would swallow it."""
    home, _, last = name.rpartition(".")
    if last in _WHY.get(home, ()):
        raise ModuleNotFoundError(f"No module named '{name}': {_WHY[home][last]}")


def of(module):
    """The __getattr__ of a module."""
    def getattr_(name):
        why = _WHY[module].get(name)
        raise AttributeError(f"module '{module}' has no attribute '{name}'" + (f": {why}" if why else ""), name=name, obj=sys.modules[module])

    return getattr_

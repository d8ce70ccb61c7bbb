"""What PyTorch has and this package has not: why, and what does its work. Imported when a name is asked for that nobody has.

It stays an AttributeError, so whoever asks by hasattr() goes on.
"""

import sys

_STREAMS = "tensors lie where device= says, and the daemon orders what is asked of a GPU; tensord.cuda.synchronize() waits for all of it"
_FORWARDS = "derivatives are computed backwards; tensord.autograd.functional.jvp() does it twice"
_SHARE = "processes of one machine share a model by module.share_memory(), tensors by their names and by tensord.Queue"
_WHERE = "the functions are tensord's own: tensord.{}"
_QUANTA = "tensors of quantized numbers are not there; half types take half of the memory, and int8 beside a scale a quarter"
_STORAGE = "memory is the daemon's; x.untyped_storage() and x.storage() say where a tensor lies, memoryview(x) and x.numpy() show it"
_SESSIONS = "onnxruntime's options have no meaning here: leave them out, the daemon's threads serve all sessions of tensord.InferenceSession(path)"
_BOUND = "tensord.InferenceSession.run() takes tensors and arrays as they are, and what a tensord.model() gives lies in shared memory, without a copy"
_PIPES = "a pipe is an IterableDataset whose __iter__() is a generator of Python's, over another"

_WHY = {
    "tensord": {
        **dict.fromkeys(("complex32", "chalf"), "complex numbers of half types are not there: complex64 holds them, and view_as_real(x).half() takes as little memory"),
        **dict.fromkeys(("set_autocast_enabled", "set_autocast_dtype"), "`with tensord.autocast(...)` says where it begins and ends"),
        "lstsq": _WHERE.format("linalg.lstsq"),
        **dict.fromkeys(("eig", "symeig"), _WHERE.format("linalg.eig, tensord.linalg.eigh")),
        "package": "modules are Python's; tensord.save() has weights, tensord.jit.save() a program with them",
        "export": "tensord.jit.trace() and tensord.jit.script() make programs of functions and modules, tensord.jit.save() files of them",
        "nested": "tensors are full here; nn.utils.rnn packs sequences of several lengths, a mask says where the rest is",
        "library": "ops are the daemon's; tensord.autograd.Function has a backward of one's own",
        **dict.fromkeys(("mps", "xpu", "mtia"), "tensors lie in the memory of this machine's processors; tensord.accelerator tells so"),
        **dict.fromkeys(("sparse", "sparse_coo_tensor", "sparse_csr_tensor", "sparse_csc_tensor", "sparse_bsr_tensor", "sparse_bsc_tensor", "sparse_compressed_tensor", "smm",
                         "spmm", "dsmm", "hsmm", "hspmm", "saddmm", "sspaddmm"), "tensors are dense here"),
        **dict.fromkeys(("quantize_per_tensor", "quantize_per_channel", "quantize_per_tensor_dynamic", "fake_quantize_per_tensor_affine",
                         "fake_quantize_per_channel_affine", "dequantize", "empty_quantized", "qscheme"), _QUANTA),
        **dict.fromkeys(("Storage", "FloatStorage", "ByteStorage"), _STORAGE),
        **dict.fromkeys(("fork", "wait"), "what is asked of the daemon is computed later anyway, and independent ops beside each other; leave the call out"),
        **dict.fromkeys(("Stream", "Event"), _STREAMS),
        "matrix_rank": _WHERE.format("linalg.matrix_rank"), "solve": _WHERE.format("linalg.solve"), "lobpcg": _WHERE.format("linalg.eigh"),
        **dict.fromkeys(("SessionOptions", "RunOptions", "GraphOptimizationLevel", "ExecutionMode", "ExecutionOrder", "get_available_providers", "get_all_providers",
                         "set_default_logger_severity"), _SESSIONS),
        **dict.fromkeys(("OrtValue", "IOBinding", "OrtDevice"), _BOUND),
        "from_file": _WHERE.format("load, tensord.numpy_memory"),
    },
    "tensord.autograd": {
        "forward_ad": _FORWARDS,
    },
    "tensord.cuda": dict.fromkeys(("current_device", "device", "get_device_properties", "get_device_capability", "Event", "Stream", "stream",
                                   "current_stream", "max_memory_allocated", "set_device"), _STREAMS),
    "tensord.nn.functional": dict.fromkeys(("grouped_mm", "scaled_mm", "scaled_grouped_mm"), "they are for types of a GPU; matmul() and bmm() do"),
    "tensord.nn": {"Container": "Module, Sequential and ModuleList do",
                   **dict.fromkeys(("LinearCrossEntropyLoss", "LinearCrossEntropyOptions"), "Linear and CrossEntropyLoss, one behind the other, or functional.linear_cross_entropy() do")},
    "tensord.nn.parallel": dict.fromkeys(("replicate", "scatter", "gather", "parallel_apply", "comm"), "a module runs where it lies; module(*inputs) does"),
    "tensord.special": {},
    "tensord.optim": {"SparseAdam": "tensors are dense here; Adam does",
                      "swap_in_optimizer_params_and_state": "a step is not traced; make an optimizer of these parameters, and load_state_dict()"},
    "tensord.func": {"functionalize": "ops are not transformed; tensord.jit.trace() makes a program of a function",
                     "rearrange": "reshape(), permute() and einsum() do", "debug_unwrap": "tensors inside a derivative are tensors"},
    "tensord.serialization": {**dict.fromkeys(("register_package", "skip_data", "set_crc32_options", "set_default_mmap_options"), "files are written and read by the library in one way"),
                              "get_unsafe_globals_in_checkpoint": "load() makes nothing that could be unsafe"},
    "tensord.utils.checkpoint": {**dict.fromkeys(("create_selective_checkpoint_contexts", "CheckpointPolicy", "SelectiveCheckpointContext", "SAC_IGNORED_OPS"),
                                                 "call what is to be kept outside of checkpoint()"),
                                 "CheckpointFunction": "checkpoint() does; it is no autograd.Function here"},
    "tensord.jit": {**dict.fromkeys(("ONNXTracedModule", "save_jit_module_to_flatbuffer", "jit_module_from_flatbuffer"), "programs live in files that program.save() writes and tensord.jit.load() reads"),
                    "last_executed_optimized_graph": "program.plan(*args) shows what runs for such arguments",
                    "RecursiveScriptClass": "a program gives objects of the class itself",
                    "frontend": "the front end is C (client/script): tensord.jit.script() is its door"},
    "tensord.utils.data": dict.fromkeys(("IterDataPipe", "MapDataPipe", "DFIterDataPipe", "DataChunk", "functional_datapipe", "guaranteed_datapipes_determinism",
                                         "non_deterministic", "argument_validation", "runtime_validation", "runtime_validation_disabled"), _PIPES),
}

# Modules that are there because programs import them before they know whether they need them: all of their names but the few that they have.
_REST = {"tensord.distributed": _SHARE, "tensord.fx": "tensord.jit.trace() and tensord.jit.script() make programs of functions and modules, tensord.jit.save() files of them",
         "tensord.hub": "programs of others are not fetched and run; load_state_dict_from_url() and tensord.load() read weights",
         "tensord.onnx": "ONNX files are not written; tensord.jit.save() writes TorchScript, which torch.onnx reads"}


def no_module(name):
    """Raises when `name` is one of those; with no name on the error, or `from tensord import distributed` would swallow it."""
    home, _, last = name.rpartition(".")
    if last in _WHY.get(home, ()):
        raise ModuleNotFoundError(f"No module named '{name}': {_WHY[home][last]}")


def of(module):
    """The __getattr__ of a module."""
    def getattr_(name):
        why = _WHY.get(module, {}).get(name) or ('' if name.startswith('__') else _REST.get(module))
        raise AttributeError(f"module '{module}' has no attribute '{name}'" + (f": {why}" if why else ""), name=name, obj=sys.modules[module])

    return getattr_

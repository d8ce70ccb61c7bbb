"""Tensors that live in a daemon, in memory that processes share; with PyTorch's manners.

    import tensord as td
    x = td.ones(2, 3, requires_grad=True)     # a daemon is found, or a private one started, by the first tensor
    y = (x * 2).sum()                         # asked of the daemon, computed there, waited for by nobody
    y.backward()
    print(x.grad, y.item())

Importing starts nothing. What is not needed by every program is imported when it is first used.
"""

import os as _os
import sys as _sys

from tensord.core import _forking as _forking  # first: a fork waits for what follows
from tensord import _C
from tensord._C import *  # noqa: F401,F403
from tensord._C import __version__ as __version__, ops as ops

_C._set_package(_os.path.dirname(__file__) + _os.sep)

short, int, long = _C.int16, _C.int32, _C.int64
half, float, double = _C.float16, _C.float32, _C.float64
cfloat, cdouble = _C.complex64, _C.complex128
Size = _C.Size
OutOfMemoryError = _C.OutOfMemory
pi, e, inf, nan, newaxis = 3.141592653589793, 2.718281828459045, 1e400, 1e400 - 1e400, None

TYPE_CHECKING = False
if TYPE_CHECKING:  # what __getattr__ finds: client/gen/emit_python_names.py makes the table of it that _C._home() looks into
    from tensord import (__config__ as __config__, accelerator as accelerator, aio as aio, amp as amp, array_api as array_api, autograd as autograd, backends as backends, compiler as compiler, cuda as cuda, data as data, distributed as distributed, distributions as distributions, fft as fft, func as func, futures as futures, fx as fx,
                         hub as hub, jit as jit, onnx as onnx,
                         linalg as linalg, masked as masked, multiprocessing as multiprocessing, nn as nn, optim as optim, overrides as overrides, profiler as profiler, quasirandom as quasirandom, random as random, serialization as serialization, signal as signal, special as special, storage as storage, testing as testing, torch as torch, utils as utils, version as version)
    from tensord.core._composed import (_assert as _assert, _assert_async as _assert_async, BFloat16Tensor as BFloat16Tensor, CharTensor as CharTensor, HalfTensor as HalfTensor, ShortTensor as ShortTensor,
                                  cond as cond, is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled, is_anomaly_enabled as is_anomaly_enabled, is_storage as is_storage,
                                  set_anomaly_enabled as set_anomaly_enabled, while_loop as while_loop,
                                  sym_float as sym_float, sym_int as sym_int, sym_ite as sym_ite, sym_max as sym_max, sym_min as sym_min, sym_not as sym_not, sym_sum as sym_sum,
                                  BoolTensor as BoolTensor, ByteTensor as ByteTensor, DoubleTensor as DoubleTensor, FloatTensor as FloatTensor,
                                  IntTensor as IntTensor, LongTensor as LongTensor, as_tensor as as_tensor, atleast_1d as atleast_1d,
                                  atleast_2d as atleast_2d,
                                  constant_pad_nd as constant_pad_nd, einsum as einsum, is_nonzero as is_nonzero, isin as isin, native_batch_norm as native_batch_norm,
                                  native_group_norm as native_group_norm, native_layer_norm as native_layer_norm,
                                  tensordot as tensordot)
    from tensord._settings import (are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled, compile as compile,
                                   get_deterministic_debug_mode as get_deterministic_debug_mode, get_float32_matmul_precision as get_float32_matmul_precision,
                                   get_num_interop_threads as get_num_interop_threads, get_num_threads as get_num_threads,
                                   is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
                                   is_inference as is_inference, is_inference_mode_enabled as is_inference_mode_enabled, is_warn_always_enabled as is_warn_always_enabled,
                                   set_warn_always as set_warn_always,
                                   set_default_tensor_type as set_default_tensor_type, set_deterministic_debug_mode as set_deterministic_debug_mode,
                                   set_float32_matmul_precision as set_float32_matmul_precision, set_flush_denormal as set_flush_denormal,
                                   set_num_interop_threads as set_num_interop_threads, set_num_threads as set_num_threads,
                                   use_deterministic_algorithms as use_deterministic_algorithms)
    from tensord._matrix import chain_matmul as chain_matmul, pca_lowrank as pca_lowrank, svd_lowrank as svd_lowrank
    from tensord.core._overloads import (broadcast_shapes as broadcast_shapes, broadcast_tensors as broadcast_tensors, enable_grad as enable_grad,
                               finfo as finfo, from_numpy as from_numpy, iinfo as iinfo,
                               inference_mode as inference_mode, is_complex as is_complex,
                               is_floating_point as is_floating_point, meshgrid as meshgrid, no_grad as no_grad, numel as numel,
                               numpy_memory as numpy_memory, publish as publish, racy as racy, result_type as result_type, service_memory as service_memory,
                               set_grad_enabled as set_grad_enabled, set_printoptions as set_printoptions, std_mean as std_mean,
                               var_mean as var_mean)
    from tensord.core._numeric import (block_diag as block_diag, cartesian_prod as cartesian_prod, combinations as combinations, atleast_3d as atleast_3d,
                               trapezoid as trapezoid, trapz as trapz, cumulative_trapezoid as cumulative_trapezoid, gradient as gradient, histogram as
                               histogram, histogramdd as histogramdd, polygamma as polygamma, fill as fill, searchsorted as searchsorted, bucketize as bucketize, row_stack as
                               row_stack)
    from tensord.core._numeric import (alias_copy as alias_copy, as_strided_copy as as_strided_copy, detach_copy as detach_copy, diagonal_copy as diagonal_copy, expand_copy as expand_copy,
                               permute_copy as permute_copy, select_copy as select_copy, slice_copy as slice_copy, split_copy as split_copy, split_with_sizes_copy as
                               split_with_sizes_copy, squeeze_copy as squeeze_copy, t_copy as t_copy, transpose_copy as transpose_copy, unbind_copy as unbind_copy, unfold_copy as
                               unfold_copy, unsqueeze_copy as unsqueeze_copy, view_copy as view_copy, abs_ as abs_, acos_ as acos_, acosh_ as acosh_, arccos_ as arccos_, arccosh_ as
                               arccosh_, arcsin_ as arcsin_, arcsinh_ as arcsinh_, arctan_ as arctan_, arctanh_ as arctanh_, as_strided_ as as_strided_, asin_ as asin_, asinh_ as
                               asinh_, atan_ as atan_, atanh_ as atanh_, ceil_ as ceil_, clamp_ as clamp_, clamp_max_ as clamp_max_, clamp_min_ as clamp_min_, clip_ as clip_, cos_
                               as cos_, cosh_ as cosh_, deg2rad_ as deg2rad_, detach_ as detach_, erf_ as erf_, erfc_ as erfc_, exp2_ as exp2_, exp_ as exp_, expm1_ as expm1_, fill_
                               as fill_, fix_ as fix_, floor_ as floor_, frac_ as frac_, gcd_ as gcd_, i0_ as i0_, index_put_ as index_put_, lcm_ as lcm_, ldexp_ as ldexp_, log10_
                               as log10_, log1p_ as log1p_, log2_ as log2_, log_ as log_, logit_ as logit_, nan_to_num_ as nan_to_num_, neg_ as neg_, negative_ as negative_,
                               rad2deg_ as rad2deg_, reciprocal_ as reciprocal_, relu_ as relu_, resize_as_ as resize_as_, round_ as round_, rsqrt_ as rsqrt_, sigmoid_ as sigmoid_,
                               sin_ as sin_, sinc_ as sinc_, sinh_ as sinh_, sqrt_ as sqrt_, square_ as square_, tan_ as tan_, tanh_ as tanh_, trunc_ as trunc_, xlogy_ as xlogy_,
                               zero_ as zero_, conj_physical_ as conj_physical_)
    from tensord.func import vmap as vmap
    from tensord.nn._toplevel import (adaptive_avg_pool1d as adaptive_avg_pool1d, adaptive_max_pool1d as adaptive_max_pool1d, addmv_ as addmv_, affine_grid_generator as
                                    affine_grid_generator, alpha_dropout as alpha_dropout, alpha_dropout_ as alpha_dropout_, avg_pool1d as avg_pool1d, batch_norm as batch_norm, bilinear
                                    as bilinear, binary_cross_entropy_with_logits as binary_cross_entropy_with_logits, binomial as binomial, can_cast as can_cast, celu as celu, celu_ as
                                    celu_, channel_shuffle as channel_shuffle, conv1d as conv1d, conv2d as conv2d, conv3d as conv3d, conv_tbc as conv_tbc, conv_transpose1d as
                                    conv_transpose1d, conv_transpose2d as conv_transpose2d, conv_transpose3d as conv_transpose3d, convolution as convolution, cosine_embedding_loss as
                                    cosine_embedding_loss, cosine_similarity as cosine_similarity, ctc_loss as ctc_loss, dropout as dropout, dropout_ as dropout_, embedding as embedding, embedding_bag as embedding_bag, segment_reduce as segment_reduce,
                                    embedding_renorm_ as embedding_renorm_, feature_alpha_dropout as feature_alpha_dropout, feature_alpha_dropout_ as feature_alpha_dropout_,
                                    feature_dropout as feature_dropout, feature_dropout_ as feature_dropout_, frobenius_norm as frobenius_norm, grid_sampler as
                                    grid_sampler, grid_sampler_2d as grid_sampler_2d, grid_sampler_3d as grid_sampler_3d, group_norm as group_norm, gru as gru, gru_cell as gru_cell,
                                    hardshrink as hardshrink, hinge_embedding_loss as hinge_embedding_loss, instance_norm as instance_norm, kl_div as kl_div, layer_norm as layer_norm,
                                    lstm as lstm, lstm_cell as lstm_cell, margin_ranking_loss as margin_ranking_loss, max_pool1d as max_pool1d, max_pool1d_with_indices as
                                    max_pool1d_with_indices, max_pool2d as max_pool2d, max_pool3d as max_pool3d, native_channel_shuffle as native_channel_shuffle, native_dropout as
                                    native_dropout, norm_except_dim as norm_except_dim, nuclear_norm as nuclear_norm, pairwise_distance as pairwise_distance, pdist as pdist,
                                    pixel_shuffle as pixel_shuffle, pixel_unshuffle as pixel_unshuffle, poisson_nll_loss as poisson_nll_loss, prelu as prelu, range as range, rms_norm as
                                    rms_norm, rnn_relu as rnn_relu, rnn_relu_cell as rnn_relu_cell, rnn_tanh as rnn_tanh, rnn_tanh_cell as rnn_tanh_cell, rrelu as rrelu, rrelu_ as
                                    rrelu_, selu as selu, selu_ as selu_, threshold as threshold, threshold_ as threshold_, triplet_margin_loss as triplet_margin_loss, typename as
                                    typename, view_as_complex_copy as view_as_complex_copy, view_as_real_copy as view_as_real_copy)
    from tensord.core._storage import TypedStorage as TypedStorage, UntypedStorage as UntypedStorage
    from tensord.share._group import Group as Group
    from tensord.share._queue import Queue as Queue, QueueEmpty as QueueEmpty, QueueFull as QueueFull
    from tensord.core._creation import (complex as complex, empty_permuted as empty_permuted, empty_strided as empty_strided, frombuffer as frombuffer, logspace as logspace, polar as polar, scalar_tensor as scalar_tensor,
                                  tril_indices as tril_indices, triu_indices as triu_indices)
    from tensord.core._generators import (Generator as Generator, default_generator as default_generator, get_rng_state as get_rng_state, initial_seed as initial_seed,
                                 manual_seed as manual_seed, seed as seed, set_rng_state as set_rng_state)
    from tensord.core._layouts import (channels_last as channels_last, channels_last_3d as channels_last_3d, contiguous_format as contiguous_format, layout as layout,
                                  jagged as jagged, memory_format as memory_format, preserve_format as preserve_format, sparse_bsc as sparse_bsc, sparse_bsr as sparse_bsr,
                                  sparse_coo as sparse_coo, sparse_csc as sparse_csc, sparse_csr as sparse_csr, strided as strided)
    from tensord.core._sampling import normal as normal, randint_like as randint_like
    from tensord.signal.windows import (bartlett_window as bartlett_window, blackman_window as blackman_window, hamming_window as hamming_window,
                                        hann_window as hann_window, kaiser_window as kaiser_window)
    from tensord.files._save import load as load, save as save
    from tensord.utils.checkpoint import checkpoint as checkpoint
    from tensord.utils.dlpack import to_dlpack as to_dlpack
    from tensord.autograd._picture import graph as graph
    from tensord.models._model import Model as Model, load_model as load_model, model as model
    from tensord.models._session import InferenceSession as InferenceSession
    from tensord.amp import (GradScaler as GradScaler, autocast as autocast, clear_autocast_cache as clear_autocast_cache,
                             get_autocast_cpu_dtype as get_autocast_cpu_dtype, get_autocast_dtype as get_autocast_dtype, get_autocast_gpu_dtype as get_autocast_gpu_dtype,
                             is_autocast_available as is_autocast_available, is_autocast_cache_enabled as is_autocast_cache_enabled,
                             is_autocast_cpu_enabled as is_autocast_cpu_enabled, is_autocast_enabled as is_autocast_enabled,
                             set_autocast_cache_enabled as set_autocast_cache_enabled)


if not TYPE_CHECKING:

    def __getattr__(name):
        import importlib

        home = _C._home(name)
        if home == "tensord." + name:
            try:
                value = importlib.import_module(home)
            except ModuleNotFoundError as e:
                if e.name != "torch":
                    raise
                # What looks at modules (hasattr, help, tab completion) goes on after no other error.
                raise AttributeError(str(e), name=name) from None
        elif home:
            value = getattr(importlib.import_module(home), name)
        elif name.startswith("_foreach_"):
            value = getattr(importlib.import_module("tensord.core._foreach"), name)
        elif name.startswith("_"):  # the import system asks for such before it imports them
            raise AttributeError(f"module 'tensord' has no attribute '{name}'")
        else:
            return importlib.import_module("tensord.core._absent").of(__name__)(name)
        globals()[name] = value
        return value


class _Absent:  # asked last for a module: a statement `import tensord.package` says what the name would
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith("tensord.") and "._" in name:
            import importlib

            return importlib.import_module("tensord._former").find(name)
        if name.startswith("tensord."):
            from tensord.core import _absent

            _absent.no_module(name)


_sys.meta_path.append(_Absent)


def __dir__():
    names = {*globals(), *_C._homes()}
    if "torch" not in globals():
        from importlib.util import find_spec

        if find_spec("torch") is None:
            names.discard("torch")
    return sorted(names)

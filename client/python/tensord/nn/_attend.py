"""Several attentions beside each other as one function, with all that PyTorch's takes; and which ways of attention a program allows."""

import contextlib
import enum
from typing import Any

import tensord as td
from tensord import _C
from tensord._C import Tensor, ops

__all__ = ["multi_head_attention_forward"]


def _projected(query, key, value, weight, weights, bias):
    """Queries, keys and values by one weight, or by one each."""
    e = query.shape[-1]
    parts = weights if weight is None else [weight[k * e : (k + 1) * e] for k in range(3)]
    biases = [None] * 3 if bias is None else [bias[k * e : (k + 1) * e] for k in range(3)]
    return [ops.linear(x, w, b) for x, w, b in zip((query, key, value), parts, biases)]


def _addend(mask, dtype):
    """A mask of bools (true: not to be seen) as numbers to add."""
    if mask is None or mask.is_floating_point():
        return mask
    return td.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask.to(_C.bool), -td.inf)


def _longer(mask):
    """One more key that is seen."""
    return None if mask is None else ops.constant_pad(mask, (0, 1), 0)


def _one_mask(attn_mask, key_padding_mask, n, heads):
    if attn_mask is not None and attn_mask.ndim == 3:
        attn_mask = attn_mask.reshape(n, heads, *attn_mask.shape[1:])
    if key_padding_mask is None:
        return attn_mask
    hidden = key_padding_mask.reshape(n, 1, 1, -1)
    return hidden if attn_mask is None else attn_mask + hidden


def multi_head_attention_forward(query: Tensor, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v, add_zero_attn, dropout_p,
                                 out_proj_weight, out_proj_bias, training=True, key_padding_mask: Tensor | None = None, need_weights=True,
                                 attn_mask: Tensor | None = None, use_separate_proj_weight=False, q_proj_weight: Any = None, k_proj_weight: Any = None,
                                 v_proj_weight: Any = None, static_k: Any = None, static_v: Any = None, average_attn_weights=True, is_causal=False) -> Any:
    """query (L, N, E), key and value (S, N, E), or without N: (what they give (L, N, E), the weights (N, L, S) or None).

    >>> one = td.eye(1)
    >>> F.multi_head_attention_forward(one, one, one, 1, 1, td.ones(3, 1), None, None, None, False, 0.0, one, None)[0]
    tensor([[1.]])
    """
    alone = query.ndim == 2
    if alone:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, n, e = query.shape
    if e != embed_dim_to_check or e % num_heads:
        raise _C.ShapeError(f"was expecting embedding dimension of {embed_dim_to_check} that {num_heads} heads divide, but got {e}")
    if is_causal and attn_mask is None:
        raise _C.InvalidError("Need attn_mask if specifying the is_causal hint.")
    weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    q, k, v = _projected(query, key, value, None if use_separate_proj_weight else in_proj_weight, weights, in_proj_bias)
    attn, hidden = _addend(attn_mask, q.dtype), _addend(key_padding_mask, q.dtype)
    if bias_k is not None and bias_v is not None:
        k, v = td.cat([k, bias_k.expand(1, n, e)]), td.cat([v, bias_v.expand(1, n, e)])
        attn, hidden = _longer(attn), _longer(hidden)

    def heads(x):
        return x.reshape(x.shape[0], n, num_heads, e // num_heads).permute(1, 2, 0, 3)

    q, k, v = heads(q), heads(k) if static_k is None else static_k.reshape(n, num_heads, -1, e // num_heads), heads(v) if static_v is None else static_v.reshape(
        n, num_heads, -1, e // num_heads)
    if add_zero_attn:
        k, v = (ops.constant_pad(x, (0, 0, 0, 1), 0) for x in (k, v))
        attn, hidden = _longer(attn), _longer(hidden)
    shares = ops.attention_weights(q, k, _one_mask(attn, hidden, n, num_heads))
    if training and dropout_p > 0:
        shares = ops.dropout(shares, dropout_p)[0]
    out = ops.linear((shares @ v).permute(2, 0, 1, 3).reshape(length, n, e), out_proj_weight, out_proj_bias)
    if alone:
        out = out.squeeze(1)
    if not need_weights:
        return out, None
    shares = shares.mean(1) if average_attn_weights else shares
    return out, shares.squeeze(0) if alone else shares


class SDPBackend(enum.IntEnum):
    """Ways of scaled_dot_product_attention() that PyTorch has."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    __str__ = enum.Enum.__str__


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Says nothing here: attention is computed one way, whichever of those are allowed. A block, or a decorator.

    Raises AssertionError for what is no SDPBackend, InvalidError when none is allowed.
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(f"Backend must be an instance of SDPBackend or a list of SDPBackend instances, got {type(backends).__name__}")
    if backends == []:
        raise _C.InvalidError("sdpa_kernel(): no way of attention is allowed")
    yield {}

"""Attention, and the encoder that is built from it; PyTorch's parameters, names and initialisation."""

import copy
from typing import Any

import tensord as td
from tensord import _C
from tensord.nn import functional as F
from tensord.nn import init
from tensord.nn._attend import SDPBackend as SDPBackend, sdpa_kernel as sdpa_kernel
from tensord.nn._plain_layers import Dropout
from tensord.nn.layers import LayerNorm, Linear
from tensord.nn.module import Module, ModuleList, Parameter, layer_count

__all__ = ["MultiheadAttention", "TransformerEncoderLayer", "TransformerEncoder"]


def _as_addend(mask, dtype):
    """A mask of bools (true: not to be seen) as numbers to add."""
    if mask is None or mask.dtype is not _C.bool:
        return mask
    return td.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, -td.inf)


class MultiheadAttention(Module):
    """Several attentions beside each other: query (L, N, E), key and value (S, N, E), or (N, L, E) with batch_first, or without N."""

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None, vdim=None, batch_first=False,
                 device=None, dtype=None):
        super().__init__()
        if num_heads < 1 or embed_dim % num_heads:
            raise _C.InvalidError(f"embed_dim must be divisible by num_heads, but they are {embed_dim} and {num_heads}")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.head_dim = embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.add_zero_attn, self._qkv_same_embed_dim = add_zero_attn, self.kdim == self.vdim == embed_dim

        def parameter(on, *size):
            return Parameter(td.empty(size, dtype=dtype, device=device)) if on else None

        same = self._qkv_same_embed_dim
        for name, width in (("q_proj_weight", embed_dim), ("k_proj_weight", self.kdim), ("v_proj_weight", self.vdim)):
            self.register_parameter(name, parameter(not same, embed_dim, width))
        self.register_parameter("in_proj_weight", parameter(same, 3 * embed_dim, embed_dim))
        self.register_parameter("in_proj_bias", parameter(bias, 3 * embed_dim))
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype=dtype, device=device)
        self.register_parameter("bias_k", parameter(add_bias_kv, 1, 1, embed_dim))
        self.register_parameter("bias_v", parameter(add_bias_kv, 1, 1, embed_dim))
        self.plain = same and not add_bias_kv and not add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self):
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def _other(self, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal):
        """With keys and values of other widths, or more of them."""
        turned = self.batch_first and query.ndim == 3
        if turned:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
            self.out_proj.weight, self.out_proj.bias, self.training, key_padding_mask, need_weights, attn_mask, not self._qkv_same_embed_dim, self.q_proj_weight,
            self.k_proj_weight, self.v_proj_weight, average_attn_weights=average_attn_weights, is_causal=is_causal)
        return out.transpose(0, 1) if turned else out, weights

    def _heads(self, x, k):
        """The k-th projection of (N, L, E) as (N, heads, L, E / heads)."""
        at = slice(k * self.embed_dim, (k + 1) * self.embed_dim)
        x = F.linear(x, self.in_proj_weight[at], None if self.in_proj_bias is None else self.in_proj_bias[at])
        return x.reshape(x.shape[:2] + (self.num_heads, self.head_dim)).transpose(1, 2)

    def _mask(self, attn_mask, key_padding_mask, n, dtype):
        mask = _as_addend(attn_mask, dtype)
        if mask is not None and mask.ndim == 3:
            mask = mask.reshape((n, self.num_heads) + mask.shape[1:])
        if key_padding_mask is None:
            return mask
        hidden: Any = _as_addend(key_padding_mask, dtype)
        hidden = hidden.reshape(n, 1, 1, -1)
        return hidden if mask is None else hidden + mask

    def forward(self, query, key, value, key_padding_mask: td.Tensor | None = None, need_weights: bool = True, attn_mask: td.Tensor | None = None,
                average_attn_weights: bool = True, is_causal: bool = False):
        if is_causal and attn_mask is None:
            raise _C.InvalidError("Need attn_mask if specifying the is_causal hint.")
        if not self.plain:
            return self._other(query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
        alone = query.ndim == 2
        if alone:
            query, key, value = (x.unsqueeze(0) for x in (query, key, value))
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        n, length = query.shape[:2]
        q, k, v = (self._heads(x, i) for i, x in enumerate((query, key, value)))
        mask = self._mask(attn_mask, key_padding_mask, n, q.dtype)
        if need_weights or self.dropout and self.training:
            weights = F.dropout(_C.ops.attention_weights(q, k, mask), self.dropout, self.training)
            seen = weights @ v
        else:
            seen = F.scaled_dot_product_attention(q, k, v, mask)
        if alone or self.batch_first:
            out = self.out_proj(seen.transpose(1, 2).reshape(n, length, self.embed_dim))
            out = out.squeeze(0) if alone else out
        else:  # the result lies as it is asked for
            out = self.out_proj(seen.permute(2, 0, 1, 3).reshape(length, n, self.embed_dim))
        if not need_weights:
            return out, None
        weights = weights.mean(1) if average_attn_weights else weights
        return out, weights.squeeze(0) if alone else weights


class TransformerEncoderLayer(Module):
    """Attention to itself and two linear layers, each with a residual connection and a norm."""

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5, batch_first=False, norm_first=False,
                 bias=True, device=None, dtype=None):
        super().__init__()
        if isinstance(activation, str):
            if activation not in ("relu", "gelu"):
                raise _C.InvalidError(f"activation should be relu/gelu, not {activation}")
            activation = getattr(F, activation)
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype, device=device)
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype=dtype, device=device)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype=dtype, device=device)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype, device=device)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype, device=device)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        self.activation = activation

    def forward(self, src, src_mask: td.Tensor | None = None, src_key_padding_mask: td.Tensor | None = None, is_causal: bool = False):
        def attend(x):
            return self.dropout1(self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0])

        def feed(x):
            return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))

        if self.norm_first:
            src = src + attend(self.norm1(src))
            return src + feed(self.norm2(src))
        src = self.norm1(src + attend(src))
        return self.norm2(src + feed(src))


class TransformerEncoder(Module):
    """Copies of a layer, one after the other."""

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(layer_count(num_layers))])
        self.num_layers, self.norm = len(self.layers), norm

    def forward(self, src, mask: td.Tensor | None = None, src_key_padding_mask: td.Tensor | None = None, is_causal: bool | None = None):
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal is not None and is_causal)
        return src if self.norm is None else self.norm(src)

"""The decoder, and encoder and decoder as one model; PyTorch's parameters, names and initialisation."""

import copy

import tensord as td
from tensord import _C
from tensord.nn import functional as F
from tensord.nn import init
from tensord.nn._plain_layers import Dropout
from tensord.nn.attention import MultiheadAttention, TransformerEncoder, TransformerEncoderLayer
from tensord.nn.layers import LayerNorm, Linear
from tensord.nn.module import Module, ModuleList, layer_count

__all__ = ["TransformerDecoderLayer", "TransformerDecoder", "Transformer"]


class TransformerDecoderLayer(Module):
    """Attention to itself, attention to what an encoder made, and two linear layers, each with a residual connection and a norm."""

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5, batch_first=False, norm_first=False,
                 bias=True, device=None, dtype=None):
        super().__init__()
        if isinstance(activation, str):
            if activation not in ("relu", "gelu"):
                raise _C.InvalidError(f"activation should be relu/gelu, not {activation}")
            activation = getattr(F, activation)
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype, device=device)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype, device=device)
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype=dtype, device=device)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype=dtype, device=device)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype, device=device)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype, device=device)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype, device=device)
        self.dropout1, self.dropout2, self.dropout3 = Dropout(dropout), Dropout(dropout), Dropout(dropout)
        self.activation = activation

    def forward(self, tgt, memory, tgt_mask: td.Tensor | None = None, memory_mask: td.Tensor | None = None,
                tgt_key_padding_mask: td.Tensor | None = None, memory_key_padding_mask: td.Tensor | None = None, tgt_is_causal: bool = False,
                memory_is_causal: bool = False):
        def attend(x):
            return self.dropout1(self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0])

        def look(x):
            return self.dropout2(self.multihead_attn(x, memory, memory, memory_key_padding_mask, False, memory_mask, is_causal=memory_is_causal)[0])

        def feed(x):
            return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))

        if self.norm_first:
            tgt = tgt + attend(self.norm1(tgt))
            tgt = tgt + look(self.norm2(tgt))
            return tgt + feed(self.norm3(tgt))
        tgt = self.norm1(tgt + attend(tgt))
        tgt = self.norm2(tgt + look(tgt))
        return self.norm3(tgt + feed(tgt))


class TransformerDecoder(Module):
    """Copies of a layer, one after the other."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(decoder_layer) for _ in range(layer_count(num_layers))])
        self.num_layers, self.norm = len(self.layers), norm

    def forward(self, tgt, memory, tgt_mask: td.Tensor | None = None, memory_mask: td.Tensor | None = None,
                tgt_key_padding_mask: td.Tensor | None = None, memory_key_padding_mask: td.Tensor | None = None, tgt_is_causal: bool | None = None,
                memory_is_causal: bool = False):
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal is not None and tgt_is_causal, memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder of what is there, and a decoder of what is to be said."""

    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, dropout=0.1, activation=F.relu,
                 custom_encoder=None, custom_decoder=None, layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()

        def layer(kind):
            return kind(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype)

        def norm():
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder if custom_encoder is not None else TransformerEncoder(layer(TransformerEncoderLayer), num_encoder_layers, norm())
        self.decoder = custom_decoder if custom_decoder is not None else TransformerDecoder(layer(TransformerDecoderLayer), num_decoder_layers, norm())
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(self, src, tgt, src_mask: td.Tensor | None = None, tgt_mask: td.Tensor | None = None, memory_mask: td.Tensor | None = None,
                src_key_padding_mask: td.Tensor | None = None, tgt_key_padding_mask: td.Tensor | None = None,
                memory_key_padding_mask: td.Tensor | None = None, src_is_causal: bool | None = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False):
        if src.ndim == 3 and src.shape[0 if self.batch_first else 1] != tgt.shape[0 if self.batch_first else 1]:
            raise _C.ShapeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise _C.ShapeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal, memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """-inf where a place would see what comes after it."""
        return td.triu(td.full((sz, sz), -td.inf, dtype=dtype, device=device), 1)

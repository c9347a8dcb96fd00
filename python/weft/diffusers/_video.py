"""LTX-Video and Wan: Q/K norms across heads, cross-attention to the text, modulation from a table of the block."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.weak import WeakTensorKeyDictionary

from weft import swap
from weft.diffusers._parts import (
    added,
    attended,
    normed,
    projected,
    table,
    turned,
    why_no_heads,
    why_no_norm,
    why_not_heads,
    why_not_norms,
)
from weft.diffusers._sources import recipe

QKV = ("to_q", "to_k", "to_v")
NORMS = ("norm_q", "norm_k")

_halves: Any = WeakTensorKeyDictionary()


def _half(twice: torch.Tensor, heads: int) -> torch.Tensor:
    """A table [batch, tokens, heads · head_dim] that has each number twice, as [batch, tokens, heads, head_dim / 2].

    All blocks of a model get the same table: outside of a graph the copy is made once.
    """
    traced = torch.compiler.is_compiling()
    half: torch.Tensor | None = None if traced else _halves.get(twice)
    if half is None:
        half = twice[..., ::2].unflatten(2, (heads, -1)).contiguous()
        if not traced:
            _halves[twice] = half
    return half


def _ltx_attention(
    self: Any,
    hidden_states: torch.Tensor,
    encoder_hidden_states: None = None,
    attention_mask: None = None,
    image_rotary_emb: Any = None,
    **_: Any,
) -> torch.Tensor:
    q, k, v = projected(self, hidden_states, QKV, "to_qkv", self.head_dim)
    cos, sin = (_half(part, q.shape[2]) for part in image_rotary_emb)
    q, k = turned((self.norm_q, self.norm_k), q, k, {"head_cos": cos, "head_sin": sin}, "row")
    out: torch.Tensor = self.to_out[1](self.to_out[0](attended(self, q, k, v)))
    return out


def _wan_attention(
    self: Any,
    hidden_states: torch.Tensor,
    encoder_hidden_states: None = None,
    attention_mask: torch.Tensor | None = None,
    rotary_emb: Any = None,
    **_: Any,
) -> torch.Tensor:
    q, k, v = projected(self, hidden_states, QKV, "to_qkv", self.inner_dim // self.heads)
    tables = [part[0, :, 0] for part in rotary_emb]
    q, k = turned((self.norm_q, self.norm_k), q, k, table(tables), "row")
    out: torch.Tensor = self.to_out[1](self.to_out[0](attended(self, q, k, v, attention_mask)))
    return out


def _why_not_attention(self: Any, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> str | None:
    names = ("encoder_hidden_states", "attention_mask", self._weft_rotary)
    given = dict(zip(names, args, strict=False)) | kwargs
    if given.get("encoder_hidden_states") is not None or given.get(self._weft_rotary) is None:
        return "cross-attention: other tokens have the keys, and nothing turns"
    if given.get("attention_mask") is not None:
        return "a mask in self-attention"
    if set(given) - set(names):
        return f"arguments that only some processors take: {', '.join(set(given) - set(names))}"
    return why_not_heads(self, self._weft_processor, NORMS, hidden_states)


def _ltx_block(
    self: Any,
    hidden_states: torch.Tensor,
    encoder_hidden_states: torch.Tensor,
    temb: torch.Tensor,
    image_rotary_emb: Any = None,
    encoder_attention_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    rows = self.scale_shift_table
    mods = rows[None, None].to(temb.device) + temb.reshape(*temb.shape[:2], rows.shape[0], -1)
    shift, scale, gate, shift_mlp, scale_mlp, gate_mlp = mods.unbind(dim=2)
    out = self.attn1(
        hidden_states=normed(self.norm1, hidden_states, scale, shift),
        encoder_hidden_states=None,
        image_rotary_emb=image_rotary_emb,
    )
    hidden_states = added(out, hidden_states, gate)
    out = self.attn2(
        hidden_states,
        encoder_hidden_states=encoder_hidden_states,
        image_rotary_emb=None,
        attention_mask=encoder_attention_mask,
    )
    x, hidden_states = normed(self.norm2, out, scale_mlp, shift_mlp, residual=hidden_states)
    return added(self.ff(x), hidden_states, gate_mlp)


def _wan_block(
    self: Any,
    hidden_states: torch.Tensor,
    encoder_hidden_states: torch.Tensor,
    temb: torch.Tensor,
    rotary_emb: Any,
) -> torch.Tensor:
    rows = self.scale_shift_table  # [1, 6, dim]; temb is [batch, 6, dim], or [batch, tokens, 6, dim]
    mods = (rows[None] if temb.dim() == 4 else rows) + temb.float()
    parts = mods.unbind(2) if temb.dim() == 4 else mods.chunk(6, dim=1)
    shift, scale, gate, shift_mlp, scale_mlp, gate_mlp = parts
    out = self.attn1(normed(self.norm1, hidden_states, scale, shift), None, None, rotary_emb)
    if isinstance(self.norm2, nn.Identity):
        x = hidden_states = added(out, hidden_states, gate)
    else:
        x, hidden_states = normed(self.norm2, out, residual=hidden_states, gate=gate)
    out = self.attn2(x, encoder_hidden_states, None, None)
    x, hidden_states = normed(self.norm3, out, scale_mlp, shift_mlp, residual=hidden_states)
    return added(self.ffn(x), hidden_states, gate_mlp)


def _wan_norms(block: Any) -> tuple[str, ...]:
    return ("norm1", "norm3") if isinstance(block.norm2, nn.Identity) else ("norm1", "norm2", "norm3")


def _why_not_ltx_block(self: Any, *_: Any, **__: Any) -> str | None:
    return why_not_norms(self, ("norm1", "norm2"))


def _why_not_wan_block(self: Any, *_: Any, **__: Any) -> str | None:
    return why_not_norms(self, _wan_norms(self))


def _prepare_ltx_attention(attn: Any) -> swap.Swap | str:
    if attn.norm_q.normalized_shape != attn.norm_k.normalized_shape:
        return "fewer heads of keys than of queries"
    made = swap.subclass(type(attn), _ltx_attention, _why_not_attention)
    values = {"_weft_processor": "LTXVideoAttnProcessor", "_weft_rotary": "image_rotary_emb"}
    return why_no_heads(attn, "LTXVideoAttnProcessor", NORMS) or swap.Swap(made, values)


def _prepare_wan_attention(attn: Any) -> swap.Swap | str:
    if attn.is_cross_attention or attn.add_k_proj is not None:
        return "cross-attention: other tokens have the keys, and nothing turns"
    made = swap.subclass(type(attn), _wan_attention, _why_not_attention)
    values = {"_weft_processor": "WanAttnProcessor", "_weft_rotary": "rotary_emb"}
    return why_no_heads(attn, "WanAttnProcessor", NORMS) or swap.Swap(made, values)


def _prepare_ltx_block(block: nn.Module) -> swap.Swap | str:
    made = swap.subclass(type(block), _ltx_block, _why_not_ltx_block)
    return why_no_norm(block, ("norm1", "norm2"), ["rms"]) or swap.Swap(made)


def _prepare_wan_block(block: nn.Module) -> swap.Swap | str:
    made = swap.subclass(type(block), _wan_block, _why_not_wan_block)
    return why_no_norm(block, _wan_norms(block), ["layer"]) or swap.Swap(made)


_LTX = "diffusers.models.transformers.transformer_ltx."
_WAN = "diffusers.models.transformers.transformer_wan."

RECIPES = (
    recipe("Q/K norm + rotary", _LTX + "LTXAttention", _prepare_ltx_attention),
    recipe("norm + modulation + gated residual", _LTX + "LTXVideoTransformerBlock", _prepare_ltx_block),
    recipe("Q/K norm + rotary", _WAN + "WanAttention", _prepare_wan_attention),
    recipe("norm + modulation + gated residual", _WAN + "WanTransformerBlock", _prepare_wan_block),
)

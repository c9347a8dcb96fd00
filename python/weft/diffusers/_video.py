"""LTX-Video and Wan: Q/K norms across heads, cross-attention to the text, modulation from a table of the block.

What all blocks of LTX-Video have in common is made once a step: the mask of the text's keys by the model, the tables of
the rotation by the module that computes them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from weft import swap
from weft.diffusers import _backend
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
    why_not_processor,
)
from weft.diffusers._sources import recipe

QKV = ("to_q", "to_k", "to_v")
NORMS = ("norm_q", "norm_k")

# Rotation of LTX-Video: tables [batch, tokens, heads · head_dim] that have each number twice. qk_norm_rope takes each
# once, side by side, because it loads vectors of them: a view of every other number is none.

_HALF = "_weft_half"  # of such a table, every other number: an attribute of the tensor, which compiled blocks see too


@functools.cache
def _ltx_tables(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The rotary embedding's forward, which gives its tables their halves: once a step, not in each block."""

    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        tables = plain(self, *args, **kwargs)
        for twice in tables:
            setattr(twice, _HALF, twice[..., ::2].contiguous())
        return tables

    return forward


def _half(twice: torch.Tensor, heads: int) -> torch.Tensor:
    """A table as [batch, tokens, heads, head_dim / 2]; a copy, where the table comes from somewhere else."""
    half: torch.Tensor | None = getattr(twice, _HALF, None)
    if half is None:
        half = twice[..., ::2].contiguous()
        if not torch.compiler.is_compiling():  # the next block gets the same table
            setattr(twice, _HALF, half)
    by_head: torch.Tensor = half.unflatten(2, (heads, -1))
    return by_head


# The mask of LTX-Video's cross-attention. The model makes an additive one of the tokenizer's, and whether such a mask
# only shows and hides keys is in its values, which nobody sees in a graph.


@functools.cache
def _ltx_model(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The model's forward, with a mask [batch, 1, keys] that says of each key whether it is seen.

    Of one with two axes the library makes another that adds -10000 to the scores of hidden keys; one with three axes it
    hands to its blocks as it is. exp(score - 10000) is 0 in fp32 beside any key that is seen, so the weights are the
    same. Where no key is, the sum shifts all scores alike and hides none of them, and neither does this.
    """

    def forward(
        self: nn.Module, hidden_states: Any, encoder_hidden_states: Any, timestep: Any,
        encoder_attention_mask: torch.Tensor, *args: Any, **kwargs: Any,
    ) -> Any:  # fmt: skip
        seen = encoder_attention_mask > 0
        seen = (seen | ~seen.any(1, keepdim=True))[:, None]
        return plain(self, hidden_states, encoder_hidden_states, timestep, seen, *args, **kwargs)

    return forward


def _why_not_ltx_model(
    self: Any,
    hidden_states: Any,
    encoder_hidden_states: Any,
    timestep: Any,
    encoder_attention_mask: torch.Tensor | None = None,
    *_: Any,
    **__: Any,
) -> str | None:
    mask = encoder_attention_mask
    if mask is None:
        return "no mask of the text"
    if mask.dim() != 2 or mask.is_floating_point():
        return f"a mask of {mask.dtype} and {mask.dim()} axes, which may say more than that a key is seen"
    for block in self.transformer_blocks:
        reason = _why_not_seen(block.attn2)
        if reason is not None:
            return f"attn2: {reason}"
    return None


def _why_not_seen(attn: Any) -> str | None:
    """Why a cross-attention is to have the library's additive mask."""
    if not hasattr(attn, "_weft_processor"):
        return "it is none of weft's"
    reason = why_not_processor(attn, attn._weft_processor)
    if reason is not None:
        return reason
    if attn.processor._attention_backend != _backend.NAME:
        return "its attention is not weft's"
    if attn.processor._parallel_config is not None:
        return "context parallelism: each process has the mask of its own keys"
    return None


def _ltx_attention(
    self: Any,
    hidden_states: torch.Tensor,
    encoder_hidden_states: torch.Tensor | None = None,
    attention_mask: torch.Tensor | None = None,
    image_rotary_emb: Any = None,
    **_: Any,
) -> torch.Tensor:
    if encoder_hidden_states is None:
        q, k, v = projected(self, hidden_states, QKV, "to_qkv", self.head_dim)
        cos, sin = (_half(part, q.shape[2]) for part in image_rotary_emb)
        q, k = turned((self.norm_q, self.norm_k), q, k, {"head_cos": cos, "head_sin": sin}, "row")
        mask = None
    else:
        q, k = self.norm_q(self.to_q(hidden_states)), self.norm_k(self.to_k(encoder_hidden_states))
        v = self.to_v(encoder_hidden_states)
        q, k, v = (part.unflatten(2, (-1, self.head_dim)) for part in (q, k, v))
        mask = None if attention_mask is None else attention_mask[:, None]
    out: torch.Tensor = self.to_out[1](self.to_out[0](attended(self, q, k, v, mask)))
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


def _given(self: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What an attention is called with beside its tokens, by name."""
    names = ("encoder_hidden_states", "attention_mask", self._weft_rotary)
    return dict(zip(names, args, strict=False)) | dict(kwargs)


def _why_not_ltx_attention(self: Any, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> str | None:
    given = {name: value for name, value in _given(self, args, kwargs).items() if value is not None}
    if set(given) == {"encoder_hidden_states", "attention_mask"}:
        text, mask = given["encoder_hidden_states"], given["attention_mask"]
        if mask.dtype == torch.bool and mask.shape == (text.shape[0], 1, text.shape[1]):
            return why_not_processor(self, self._weft_processor)
    return _why_not_attention(self, hidden_states, *args, **kwargs)


def _why_not_attention(self: Any, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> str | None:
    names = ("encoder_hidden_states", "attention_mask", self._weft_rotary)
    given = _given(self, args, kwargs)
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


def _prepare_ltx_model(model: nn.Module) -> swap.Swap | str:
    base = type(model)
    made = swap.subclass(base, _ltx_model(base.forward), _why_not_ltx_model)
    # Pipelines write down which module their models' classes are from, to find them there again.
    return swap.Swap(made, {"__module__": base.__module__})


def _prepare_ltx_tables(rope: nn.Module) -> swap.Swap | str:
    base = type(rope)
    return swap.Swap(swap.subclass(base, _ltx_tables(base.forward)))


def _prepare_ltx_attention(attn: Any) -> swap.Swap | str:
    if attn.norm_q.normalized_shape != attn.norm_k.normalized_shape:
        return "fewer heads of keys than of queries"
    made = swap.subclass(type(attn), _ltx_attention, _why_not_ltx_attention)
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
    recipe("mask of keys", _LTX + "LTXVideoTransformer3DModel", _prepare_ltx_model),
    recipe("rotary tables", _LTX + "LTXVideoRotaryPosEmbed", _prepare_ltx_tables),
    recipe("Q/K norm + rotary, mask of keys", _LTX + "LTXAttention", _prepare_ltx_attention),
    recipe("norm + modulation + gated residual", _LTX + "LTXVideoTransformerBlock", _prepare_ltx_block),
    recipe("Q/K norm + rotary", _WAN + "WanAttention", _prepare_wan_attention),
    recipe("norm + modulation + gated residual", _WAN + "WanTransformerBlock", _prepare_wan_block),
)

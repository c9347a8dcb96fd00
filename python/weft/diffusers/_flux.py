"""FLUX.1 and FLUX.2: two streams that attend together, then one."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

import weft
from weft import swap
from weft.diffusers._parts import (
    added,
    after,
    attended,
    clipped,
    joined,
    normed,
    projected,
    second_half,
    table,
    turned,
    why_no_heads,
    why_no_norm,
    why_not_heads,
    why_not_norms,
)
from weft.diffusers._products import activated_behind
from weft.diffusers._sources import recipe

QKV = ("to_q", "to_k", "to_v")
ADDED = ("add_q_proj", "add_k_proj", "add_v_proj")
NORMS = ("norm_q", "norm_k")
ADDED_NORMS = ("norm_added_q", "norm_added_k")
STREAMS = ("norm2", "norm2_context")


def _norms_of(attn: Any) -> tuple[str, ...]:
    return NORMS if attn.added_kv_proj_dim is None else NORMS + ADDED_NORMS


def _attention(
    self: Any,
    hidden_states: torch.Tensor,
    encoder_hidden_states: torch.Tensor | None = None,
    attention_mask: torch.Tensor | None = None,
    image_rotary_emb: Any = None,
    into: torch.Tensor | None = None,
    **_: Any,
) -> Any:
    """`into`: where the heads of one stream are written, which are the result."""
    image = projected(self, hidden_states, QKV, "to_qkv", self.head_dim)
    if encoder_hidden_states is None:
        q, k = turned((self.norm_q, self.norm_k), image[0], image[1], table(image_rotary_emb), "head")
        return attended(self, q, k, image[2], attention_mask, into)
    text = projected(self, encoder_hidden_states, ADDED, "to_added_qkv", self.head_dim)
    tokens = encoder_hidden_states.shape[1]
    q, k, v = joined(
        self,
        [
            (*ADDED_NORMS, text, table(image_rotary_emb)),
            (*NORMS, image, table(image_rotary_emb, start=tokens)),
        ],
    )
    out = attended(self, q, k, v, attention_mask)
    image_out = self.to_out[1](self.to_out[0](out[:, tokens:].contiguous()))
    return image_out, self.to_add_out(out[:, :tokens].contiguous())


def _why_not_call(rotary: Any, others: dict[str, Any]) -> str | None:
    if others:
        return f"arguments that only some processors take: {', '.join(others)}"
    return "no rotary embedding in this call" if rotary is None else None


def _why_not_attention(
    self: Any,
    hidden_states: torch.Tensor,
    encoder_hidden_states: torch.Tensor | None = None,
    attention_mask: torch.Tensor | None = None,
    image_rotary_emb: Any = None,
    into: torch.Tensor | None = None,
    **others: Any,
) -> str | None:
    if why := _why_not_call(image_rotary_emb, others):
        return why
    if (encoder_hidden_states is None) != (self.added_kv_proj_dim is None):
        return "one stream of an attention for two"
    return why_not_heads(self, self._weft_processor, _norms_of(self), hidden_states)


@functools.cache
def _copied_attention(base: Any) -> Any:
    """The attention of the library's own class, whose result is copied where it is asked for."""

    def attention(self: Any, *args: Any, into: torch.Tensor | None = None, **kwargs: Any) -> Any:
        out = base.forward(self, *args, **kwargs)
        return out if into is None else into.copy_(out)

    return attention


def _parallel_attention(
    self: Any,
    hidden_states: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    image_rotary_emb: Any = None,
    **_: Any,
) -> torch.Tensor:
    both = self.to_qkv_mlp_proj(hidden_states)
    # By their ratio, as the library splits it: under tensor parallelism a rank has a part of each.
    qkv_dim, mlp_dim = 3 * self.inner_dim, self.mlp_hidden_dim * self.mlp_mult_factor
    own = both.shape[-1] * qkv_dim // (qkv_dim + mlp_dim)
    q, k, v = (part.unflatten(-1, (-1, self.head_dim)) for part in both[..., :own].chunk(3, dim=-1))
    q, k = turned((self.norm_q, self.norm_k), q, k, table(image_rotary_emb), "head")
    width = own // 3
    whole = both.new_empty(*both.shape[:-1], width + (both.shape[-1] - own) // 2)
    attended(self, q, k, v, attention_mask, into=whole[..., :width])
    weft.gated_activation(both[..., own:], activation="silu", out=whole[..., width:])
    out: torch.Tensor = self.to_out(whole)
    return out


def _why_not_parallel_attention(
    self: Any,
    hidden_states: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    image_rotary_emb: Any = None,
    **others: Any,
) -> str | None:
    return _why_not_call(image_rotary_emb, others) or why_not_heads(
        self, self._weft_processor, NORMS, hidden_states
    )


def _block(
    self: Any,
    hidden_states: torch.Tensor,
    encoder_hidden_states: torch.Tensor,
    temb: torch.Tensor,
    image_rotary_emb: Any = None,
    joint_attention_kwargs: dict[str, Any] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    image, *image_mods = self.norm1(hidden_states, emb=temb)
    text, *text_mods = self.norm1_context(encoder_hidden_states, emb=temb)
    out, text_out, *adapter = self.attn(
        hidden_states=image,
        encoder_hidden_states=text,
        image_rotary_emb=image_rotary_emb,
        **(joint_attention_kwargs or {}),
    )
    gate, shift, scale, gate_mlp = image_mods
    hidden_states = second_half(self.norm2, self.ff, hidden_states, out, gate, shift, scale, gate_mlp)
    if adapter:
        hidden_states = hidden_states + adapter[0]
    gate, shift, scale, gate_mlp = text_mods
    text = second_half(
        self.norm2_context, self.ff_context, encoder_hidden_states, text_out, gate, shift, scale, gate_mlp
    )
    return clipped(text), hidden_states


def _why_not_block(self: Any, *_: Any, **__: Any) -> str | None:
    return why_not_norms(self, STREAMS)


def _single_block(
    self: Any,
    hidden_states: torch.Tensor,
    encoder_hidden_states: torch.Tensor,
    temb: torch.Tensor,
    image_rotary_emb: Any = None,
    joint_attention_kwargs: dict[str, Any] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = encoder_hidden_states.shape[1]
    residual = after(encoder_hidden_states, hidden_states)
    x, gate = self.norm(residual, emb=temb)

    def heads(into: torch.Tensor | None) -> torch.Tensor:
        told = {"into": into} if hasattr(type(self.attn), "_weft_label") else {}
        values = dict(hidden_states=x, image_rotary_emb=image_rotary_emb, **(joint_attention_kwargs or {}))
        out: torch.Tensor = self.attn(**values, **told)
        return out if into is None or told else into.copy_(out)

    both = activated_behind(self, self.proj_mlp, x, "gelu_tanh", heads, self.attn.heads * self.attn.head_dim)
    out = clipped(added(self.proj_out(both), residual, gate))
    return out[:, :tokens], out[:, tokens:]


def _mods(mod: torch.Tensor, sets: int) -> list[tuple[torch.Tensor, ...]]:
    """shift, scale and gate of each set, as Flux2Modulation lays them out."""
    parts = (mod[:, None] if mod.dim() == 2 else mod).chunk(3 * sets, dim=-1)
    return [parts[3 * i : 3 * (i + 1)] for i in range(sets)]


def _block2(
    self: Any,
    hidden_states: torch.Tensor,
    encoder_hidden_states: torch.Tensor,
    temb_mod_img: torch.Tensor,
    temb_mod_txt: torch.Tensor,
    image_rotary_emb: Any = None,
    joint_attention_kwargs: dict[str, Any] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    (shift, scale, gate), (shift_mlp, scale_mlp, gate_mlp) = _mods(temb_mod_img, 2)
    (c_shift, c_scale, c_gate), (c_shift_mlp, c_scale_mlp, c_gate_mlp) = _mods(temb_mod_txt, 2)
    out, text_out = self.attn(
        hidden_states=normed(self.norm1, hidden_states, scale, shift),
        encoder_hidden_states=normed(self.norm1_context, encoder_hidden_states, c_scale, c_shift),
        image_rotary_emb=image_rotary_emb,
        **(joint_attention_kwargs or {}),
    )
    hidden = second_half(self.norm2, self.ff, hidden_states, out, gate, shift_mlp, scale_mlp, gate_mlp)
    text = second_half(
        self.norm2_context,
        self.ff_context,
        encoder_hidden_states,
        text_out,
        c_gate,
        c_shift_mlp,
        c_scale_mlp,
        c_gate_mlp,
    )
    return clipped(text), hidden


def _why_not_block2(self: Any, *_: Any, **__: Any) -> str | None:
    return why_not_norms(self, ("norm1", "norm1_context", *STREAMS))


def _single_block2(
    self: Any,
    hidden_states: torch.Tensor,
    encoder_hidden_states: torch.Tensor | None,
    temb_mod: torch.Tensor,
    image_rotary_emb: Any = None,
    joint_attention_kwargs: dict[str, Any] | None = None,
    split_hidden_states: bool = False,
    text_seq_len: int | None = None,
) -> Any:
    if encoder_hidden_states is not None:
        text_seq_len = encoder_hidden_states.shape[1]
        hidden_states = after(encoder_hidden_states, hidden_states)
    ((shift, scale, gate),) = _mods(temb_mod, 1)
    out = self.attn(
        hidden_states=normed(self.norm, hidden_states, scale, shift),
        image_rotary_emb=image_rotary_emb,
        **(joint_attention_kwargs or {}),
    )
    hidden_states = clipped(added(out, hidden_states, gate))
    if split_hidden_states:
        return hidden_states[:, :text_seq_len], hidden_states[:, text_seq_len:]
    return hidden_states


def _why_not_single_block2(self: Any, *_: Any, **__: Any) -> str | None:
    return why_not_norms(self, ["norm"])


def _prepare_attention(processor: str, forward: Any, passes: Any) -> Any:
    def prepare(attn: Any) -> swap.Swap | str:
        norms = NORMS if passes is _why_not_parallel_attention else _norms_of(attn)
        base: Any = type(attn)
        otherwise = _copied_attention(base) if forward is _attention else None
        made = swap.Swap(swap.subclass(base, forward, passes, otherwise), {"_weft_processor": processor})
        return why_no_heads(attn, processor, norms) or made

    return prepare


def _prepare_block(norms: tuple[str, ...], forward: Any, passes: Any) -> Any:
    def prepare(block: nn.Module) -> swap.Swap | str:
        return why_no_norm(block, norms, ["layer"]) or swap.Swap(swap.subclass(type(block), forward, passes))

    return prepare


def _prepare_single_block(block: Any) -> swap.Swap | str:
    if type(block.act_mlp) is not nn.GELU or block.act_mlp.approximate != "tanh":
        return f"its activation is {block.act_mlp}"
    return swap.Swap(swap.subclass(type(block), _single_block))


_FLUX = "diffusers.models.transformers.transformer_flux."
_FLUX2 = "diffusers.models.transformers.transformer_flux2."
_BLOCK = "norm + modulation + gated residual"
_HEADS = "Q/K norm + rotary"

RECIPES = (
    recipe(
        _HEADS,
        _FLUX + "FluxAttention",
        _prepare_attention("FluxAttnProcessor", _attention, _why_not_attention),
    ),
    recipe(_BLOCK, _FLUX + "FluxTransformerBlock", _prepare_block(STREAMS, _block, _why_not_block)),
    recipe("gated residual + activation", _FLUX + "FluxSingleTransformerBlock", _prepare_single_block),
    recipe(
        _HEADS,
        _FLUX2 + "Flux2Attention",
        _prepare_attention("Flux2AttnProcessor", _attention, _why_not_attention),
    ),
    recipe(
        _HEADS,
        _FLUX2 + "Flux2ParallelSelfAttention",
        _prepare_attention(
            "Flux2ParallelSelfAttnProcessor", _parallel_attention, _why_not_parallel_attention
        ),
    ),
    recipe(
        _BLOCK,
        _FLUX2 + "Flux2TransformerBlock",
        _prepare_block(("norm1", "norm1_context", *STREAMS), _block2, _why_not_block2),
    ),
    recipe(
        _BLOCK,
        _FLUX2 + "Flux2SingleTransformerBlock",
        _prepare_block(("norm",), _single_block2, _why_not_single_block2),
    ),
)

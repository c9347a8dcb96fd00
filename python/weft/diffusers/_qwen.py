"""Qwen-Image: text and image attend together through diffusers' own Attention, with a complex rotation each."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from weft import swap
from weft.diffusers._parts import (
    Rope,
    added,
    attended,
    clipped,
    joined,
    normed,
    projected,
    second_half,
    why_no_heads,
    why_no_norm,
    why_not_heads,
    why_not_norms,
)
from weft.diffusers._sources import recipe

PROCESSOR = "QwenDoubleStreamAttnProcessor2_0"
NORMS = ("norm_q", "norm_k", "norm_added_q", "norm_added_k")
STREAMS = ("img_norm1", "img_norm2", "txt_norm1", "txt_norm2")


def _complex_table(frequencies: torch.Tensor) -> Rope:
    parts = torch.view_as_real(frequencies)
    return {"cos": parts[..., 0], "sin": parts[..., 1]}


def _joint_mask(mask: torch.Tensor | None, image: torch.Tensor) -> torch.Tensor | None:
    """The text's mask, and the image of which all is seen, as [batch, 1, 1, keys]."""
    if mask is None:
        return None
    seen = torch.ones(image.shape[:2], dtype=torch.bool, device=image.device)
    return torch.cat([mask, seen], dim=1)[:, None, None]


def _attention(
    self: Any,
    hidden_states: torch.Tensor,
    encoder_hidden_states: torch.Tensor,
    encoder_hidden_states_mask: torch.Tensor | None = None,
    image_rotary_emb: Any = None,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    head_dim = self.inner_dim // self.heads
    image = projected(self, hidden_states, ("to_q", "to_k", "to_v"), "", head_dim)
    text = projected(self, encoder_hidden_states, ("add_q_proj", "add_k_proj", "add_v_proj"), "", head_dim)
    image_turn, text_turn = (_complex_table(part) for part in image_rotary_emb)
    q, k, v = joined(self, [(*NORMS[2:], text, text_turn), (*NORMS[:2], image, image_turn)])
    out = attended(self, q, k, v, _joint_mask(encoder_hidden_states_mask, hidden_states))
    tokens = encoder_hidden_states.shape[1]
    image_out = out[:, tokens:].contiguous()
    for module in self.to_out:
        image_out = module(image_out)
    return image_out, self.to_add_out(out[:, :tokens].contiguous())


def _why_not_attention(self: Any, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> str | None:
    known = {"encoder_hidden_states", "encoder_hidden_states_mask", "image_rotary_emb"}
    others = {name for name, value in kwargs.items() if name not in known and value is not None}
    if args or others:
        return f"arguments that this model does not pass: {', '.join(others) or 'by position'}"
    for name in ("encoder_hidden_states", "image_rotary_emb"):
        if kwargs.get(name) is None:
            return f"no {name} in this call"
    return why_not_heads(self, PROCESSOR, NORMS, hidden_states)


def _split(
    mods: torch.Tensor, index: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """shift, scale, gate, and each token's row of the first two where an index chooses among halves of the batch."""
    shift, scale, gate = mods.chunk(3, dim=-1)
    if index is None:
        return shift, scale, gate, None
    batch = shift.shape[0] // 2
    rows = torch.arange(batch, device=index.device)[:, None] + batch * (index != 0)
    return shift, scale, gate[rows], rows


def _block(
    self: Any,
    hidden_states: torch.Tensor,
    encoder_hidden_states: torch.Tensor,
    encoder_hidden_states_mask: torch.Tensor | None,
    temb: torch.Tensor,
    image_rotary_emb: Any = None,
    joint_attention_kwargs: dict[str, Any] | None = None,
    modulate_index: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    image1, image2 = self.img_mod(temb).chunk(2, dim=-1)
    text1, text2 = self.txt_mod(temb.chunk(2, dim=0)[0] if self.zero_cond_t else temb).chunk(2, dim=-1)
    shift, scale, image_gate, rows = _split(image1, modulate_index)
    image = normed(self.img_norm1, hidden_states, scale, shift, index=rows)
    shift, scale, text_gate, _ = _split(text1, None)
    image_out, text_out = self.attn(
        hidden_states=image,
        encoder_hidden_states=normed(self.txt_norm1, encoder_hidden_states, scale, shift),
        encoder_hidden_states_mask=encoder_hidden_states_mask,
        image_rotary_emb=image_rotary_emb,
        **(joint_attention_kwargs or {}),
    )
    shift, scale, gate, rows = _split(image2, modulate_index)
    image, hidden_states = normed(
        self.img_norm2, image_out, scale, shift, residual=hidden_states, gate=image_gate, index=rows
    )
    hidden_states = added(self.img_mlp(image), hidden_states, gate)
    shift, scale, gate, _ = _split(text2, None)
    text = second_half(
        self.txt_norm2, self.txt_mlp, encoder_hidden_states, text_out, text_gate, shift, scale, gate
    )
    return clipped(text), clipped(hidden_states)


def _why_not_block(self: Any, *_: Any, **__: Any) -> str | None:
    return why_not_norms(self, STREAMS)


def _prepare_attention(attn: Any) -> swap.Swap | str:
    made = swap.subclass(type(attn), _attention, _why_not_attention)
    return why_no_heads(attn, PROCESSOR, NORMS) or swap.Swap(made)


def _prepare_block(block: nn.Module) -> swap.Swap | str:
    made = swap.subclass(type(block), _block, _why_not_block)
    return why_no_norm(block, STREAMS, ["layer"]) or swap.Swap(made)


RECIPES = (
    recipe("Q/K norm + rotary", "diffusers.models.attention_processor.Attention", _prepare_attention),
    recipe(
        "norm + modulation + gated residual",
        "diffusers.models.transformers.transformer_qwenimage.QwenImageTransformerBlock",
        _prepare_block,
    ),
)

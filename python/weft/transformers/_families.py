"""Which modules of which models get which forward, and the sources that this was written for."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

import weft
from weft import swap
from weft.transformers import _blocks
from weft.transformers._sources import SOURCES

Rounding = Literal["fused", "eager"]
_WINDOW = (("sliding_window", "sliding_window"),)


@dataclass(frozen=True)
class Family:
    """A model's module of transformers: modeling_NAME, classes that begin with PREFIX."""

    name: str
    prefix: str
    extras: tuple[tuple[str, str], ...] = ()  # what its attention hands to the attention function
    sandwich: bool = False

    def named(self, what: str) -> str:
        return f"transformers.models.{self.name}.modeling_{self.name}.{self.prefix}{what}"


FAMILIES = (
    Family("llama", "Llama"),
    Family("mistral", "Mistral", (("sliding_window", "config.sliding_window"),)),
    Family("qwen2", "Qwen2", _WINDOW),
    Family("qwen3", "Qwen3", _WINDOW),
    Family("gemma", "Gemma"),
    Family("gemma2", "Gemma2", (*_WINDOW, ("softcap", "attn_logit_softcapping")), sandwich=True),
    Family("gemma3", "Gemma3", _WINDOW, sandwich=True),
)
ROTATION = ("apply_rotary_pos_emb", "rotate_half")  # what an attention's source calls


def _on_module(module: nn.Module) -> dict[str, Any] | None:
    """Device and dtype of a module's weights; None where they are on none now (offload, meta)."""
    first = next(module.parameters(), None)
    if first is None or first.device.type not in ("cpu", "cuda"):
        return None
    return dict(device=first.device, dtype=first.dtype)


def _norm(rounding: Rounding, module: Any) -> swap.Swap | str:
    found = swap.read_norm(module)
    if isinstance(found, str):
        return found
    if found.kind != "rms" or not found.affine or found.bias:
        return f"a {found.kind} norm, affine={found.affine}, bias={found.bias}"
    if rounding == "eager" and found.rounding == "fused":
        return "none of weft's chains of roundings gives its bits"
    values: dict[str, Any] = dict(weight_offset=found.weight_offset, eps=found.eps)
    values["rounding"] = found.rounding if rounding == "eager" else "fused"
    where = _on_module(module)
    if where is not None:
        rows = torch.zeros(1, module.weight.shape[-1], **where)
        declined = swap.tried(weft.rms_norm, rows, module.weight.detach(), **values)
        if declined is not None:
            return declined
    base: Any = type(module)
    cls = swap.subclass(base, _blocks.norm, _blocks.norm_passes, _blocks.plain_norm(base))
    names = dict(weight_offset="_weft_offset", eps="_weft_eps", rounding="_weft_rounding")
    return swap.Swap(cls, {names[key]: value for key, value in values.items()})


def _mlp(rounding: Rounding, module: Any) -> swap.Swap | str:
    x = torch.linspace(-6, 6, 97)
    try:
        y = module.act_fn(x)
    except Exception as error:  # it is somebody else's code
        return f"its activation cannot be tried: {type(error).__name__}: {error}"
    activation = next(
        (n for n, act in _blocks.ACTIVATIONS.items() if torch.allclose(act(x), y, 1e-6, 1e-7)), None
    )
    if activation is None:
        return f"its activation {type(module.act_fn).__name__} is none of {', '.join(_blocks.ACTIVATIONS)}"
    where = _on_module(module)
    if where is not None:
        rows = torch.zeros(1, 16, **where)
        declined = swap.tried(
            weft.gated_activation, gate=rows, up=rows, activation=activation, rounding=rounding
        )
        if declined is not None:
            return declined
    base: Any = type(module)
    cls = swap.subclass(base, _blocks.mlp, otherwise=_blocks.plain_mlp(base))
    covers = ("gate_proj", "up_proj", "down_proj") if rounding == "fused" else ()
    return swap.Swap(cls, {"_weft_activation": activation, "_weft_rounding": rounding}, covers)


def _attention(family: Family, rounding: Rounding, module: Any) -> swap.Swap | str:
    attributes: dict[str, Any] = {"_weft_rounding": rounding, "_weft_head_norm": hasattr(module, "q_norm")}
    attributes["_weft_joined"] = False
    covers: tuple[str, ...] = (*_blocks.PROJECTIONS, "o_proj") if rounding == "fused" else ()
    if attributes["_weft_head_norm"]:
        found = [swap.read_norm(module.q_norm), swap.read_norm(module.k_norm)]
        for norm in found:
            if isinstance(norm, str):
                return f"the norm of its heads: {norm}"
        if found[0] != found[1] or found[0].kind != "rms":  # type: ignore[union-attr]
            return "the norms of its queries and keys differ, or are no RMS norms"
        attributes |= {"_weft_offset": found[0].weight_offset, "_weft_eps": found[0].eps}  # type: ignore[union-attr]
        covers += ("q_norm", "k_norm") if rounding == "fused" else ()
    where = _on_module(module)
    if where is not None:
        heads, table = (
            torch.zeros(1, 1, module.head_dim, **where),
            torch.zeros(1, module.head_dim // 2, **where),
        )
        declined = swap.tried(weft.qk_norm_rope, heads, heads, cos=table, sin=table, norm="none", k_out=True)
        if declined is not None:
            return declined
    base: Any = type(module)
    forward = _blocks.attention(base, family.extras)
    return swap.Swap(swap.subclass(base, forward, _blocks.attention_passes), attributes, covers)


def _block(family: Family, module: nn.Module) -> swap.Swap | str:
    forward = _blocks.sandwich_block if family.sandwich else _blocks.pre_norm_block
    second = "pre_feedforward_layernorm" if family.sandwich else "post_attention_layernorm"
    cls = swap.subclass(type(module), forward, _blocks.block_passes)
    return swap.Swap(cls, {"_weft_second_norm": second})


def recipes(rounding: Rounding = "fused") -> list[swap.Recipe]:
    """What `accelerate` replaces."""
    found = []
    for family in FAMILIES:
        make = functools.partial
        blocks = (
            ("residual + norm", "DecoderLayer", make(_block, family), ()),
            ("qk_norm_rope, attention", "Attention", make(_attention, family, rounding), ROTATION),
            ("gate · up", "MLP", make(_mlp, rounding), ()),
        )
        for op, what, prepare, also in blocks:
            target = family.named(what)
            found.append(swap.Recipe(op, target, prepare, SOURCES[target], also))
        found.append(swap.Recipe("rms_norm", family.named("RMSNorm"), make(_norm, rounding)))
    return found

"""Modules that many models share: the projections of FeedForward with their activation, AdaLN with its norm."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from weft import swap
from weft.diffusers._parts import normed, why_no_norm, why_not_norms
from weft.diffusers._products import Activation, activated, gated
from weft.diffusers._sources import recipe

GELUS: dict[str, Activation] = {
    "tanh": "gelu_tanh",
    "none": "gelu_erf",
}  # by nn.functional.gelu's approximate


def _gelu(self: Any, hidden_states: torch.Tensor) -> torch.Tensor:
    return activated(self, self.proj, hidden_states, GELUS[self.approximate])


def _geglu(self: Any, hidden_states: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    return gated(self, self.proj, hidden_states, "gelu_erf", gate=1)


def _swiglu(self: Any, hidden_states: torch.Tensor) -> torch.Tensor:
    return gated(self, self.proj, hidden_states, "silu", gate=1)


def _flux2_feed_forward(self: Any, x: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = self.linear_out(gated(self, self.linear_in, x, "silu", gate=0))
    return out


def _ada_zero(
    self: Any,
    x: torch.Tensor,
    timestep: torch.Tensor | None = None,
    class_labels: torch.Tensor | None = None,
    hidden_dtype: torch.dtype | None = None,
    emb: torch.Tensor | None = None,
) -> tuple[torch.Tensor, ...]:
    if self.emb is not None:
        emb = self.emb(timestep, class_labels, hidden_dtype=hidden_dtype)
    shift, scale, *rest = self.linear(self.silu(emb)).chunk(6, dim=1)
    return (normed(self.norm, x, scale, shift), *rest)


def _ada_zero_single(self: Any, x: torch.Tensor, emb: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    shift, scale, gate = self.linear(self.silu(emb)).chunk(3, dim=1)
    return normed(self.norm, x, scale, shift), gate


def _ada_continuous(self: Any, x: torch.Tensor, conditioning_embedding: torch.Tensor) -> torch.Tensor:
    scale, shift = self.linear(self.silu(conditioning_embedding).to(x.dtype)).chunk(2, dim=1)
    out: torch.Tensor = normed(self.norm, x, scale, shift)
    return out


def _why_not_ada(self: Any, *_: Any, **__: Any) -> str | None:
    return why_not_norms(self, ["norm"])


def _plainly(forward: Any, passes: Any = None) -> Any:
    """prepare() of modules whose source says all."""
    return lambda module: swap.Swap(swap.subclass(type(module), forward, passes))


def _prepare_gelu(module: Any) -> swap.Swap | str:
    if module.approximate not in GELUS:
        return f"a gelu that is approximated by {module.approximate!r}"
    return swap.Swap(swap.subclass(type(module), _gelu))


def _prepare_ada(forward: Any) -> Any:
    def prepare(module: nn.Module) -> swap.Swap | str:
        return why_no_norm(module, ["norm"]) or swap.Swap(swap.subclass(type(module), forward, _why_not_ada))

    return prepare


def _recipe(op: str, target: str, prepare: Any) -> swap.Recipe:
    return recipe(op, f"diffusers.models.{target}", prepare)


RECIPES = (
    _recipe("gemm + gelu", "activations.GELU", _prepare_gelu),
    _recipe("gemm + geglu", "activations.GEGLU", _plainly(_geglu)),
    _recipe("gemm + swiglu", "activations.SwiGLU", _plainly(_swiglu)),
    _recipe(
        "gemm + swiglu", "transformers.transformer_flux2.Flux2FeedForward", _plainly(_flux2_feed_forward)
    ),
    _recipe("norm + modulation", "normalization.AdaLayerNormZero", _prepare_ada(_ada_zero)),
    _recipe("norm + modulation", "normalization.AdaLayerNormZeroSingle", _prepare_ada(_ada_zero_single)),
    _recipe("norm + modulation", "normalization.AdaLayerNormContinuous", _prepare_ada(_ada_continuous)),
)

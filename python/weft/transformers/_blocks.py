"""The forwards that the modules of decoder models get, and what decides whether a call is for them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import weft
from weft import swap
from weft.transformers import _cache, _joined

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": nn.functional.silu,
    "gelu_tanh": functools.partial(nn.functional.gelu, approximate="tanh"),
    "gelu_erf": nn.functional.gelu,
}
FEW = 64  # rows of a product that waits for its weights, whatever it is multiplied by


# Products of few tokens.


def few(self: Any, x: torch.Tensor) -> bool:
    """Whether products of x are weft's."""
    return self._weft_rounding == "fused" and x.numel() <= FEW * x.shape[-1]


def product(self: Any, name: str, x: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
    """What the Linear of this name makes of x: of few rows a product of weft's, else a call of the module.

    A decode step waits for weights alone: weft's kernels begin to read them while the kernel before still runs, sum
    their shares of k in the same launch, and add a residual to what they store. Many rows are the module's by design,
    so no report counts them.
    """
    linear = getattr(self, name)
    if few(self, x):
        reason = swap.why_not_eaten(linear)
        if reason is None:
            return weft.gemm(x.contiguous(), linear.weight, bias=linear.bias, residual=residual)  # type: ignore[no-any-return]
        swap.handed_on(self, f"{name} is a call of its own: {reason}")
    out: torch.Tensor = linear(x)
    return out if residual is None else residual + out


# Norms: alone, or after the sum with a residual that the block hands over.


def norm(self: Any, hidden_states: torch.Tensor, residual: torch.Tensor | None = None) -> Any:
    """The normed rows, and with a residual the sum too."""
    options = dict(weight_offset=self._weft_offset, eps=self._weft_eps, rounding=self._weft_rounding)
    if residual is None:
        return weft.rms_norm(hidden_states, self.weight, **options)
    out = weft.rms_norm(hidden_states, self.weight, residual=residual, residual_out=True, **options)
    return out.out, out.residual_out


def norm_passes(self: Any, hidden_states: torch.Tensor, residual: torch.Tensor | None = None) -> str | None:
    if hidden_states.dtype != self.weight.dtype:
        return f"rows of {hidden_states.dtype}, a weight of {self.weight.dtype}"
    if residual is not None and (residual.dtype, residual.shape) != (
        hidden_states.dtype,
        hidden_states.shape,
    ):
        return "a residual of another dtype or shape"
    return None


@functools.cache
def plain_norm(base: Any) -> Callable[..., Any]:
    """The base's forward, for a residual too."""

    def forward(self: nn.Module, hidden_states: torch.Tensor, residual: torch.Tensor | None = None) -> Any:
        if residual is None:
            return base.forward(self, hidden_states)
        total = residual + hidden_states
        return base.forward(self, total), total

    return forward


def takes_residual(module: nn.Module) -> bool:
    return getattr(type(module), "forward", None) is not None and hasattr(type(module), "_weft_label")


# Blocks.


def block_passes(self: Any, hidden_states: torch.Tensor, *args: Any, **_: Any) -> str | None:
    if args:
        return "arguments by position"
    if not takes_residual(getattr(self, self._weft_second_norm)):
        return f"{self._weft_second_norm} is none of weft's, which would take the residual"
    return None


def pre_norm_block(self: Any, hidden_states: torch.Tensor, **rest: Any) -> torch.Tensor:
    """Llama's order: a norm before each half."""
    mixed = self.self_attn(hidden_states=self.input_layernorm(hidden_states), **rest)[0]
    normed, total = self.post_attention_layernorm(mixed, residual=hidden_states)
    if takes_residual(self.mlp):
        return self.mlp(normed, residual=total)  # type: ignore[no-any-return]
    return total + self.mlp(normed)  # type: ignore[no-any-return]


def sandwich_block(self: Any, hidden_states: torch.Tensor, **rest: Any) -> torch.Tensor:
    """Gemma 2's order: a norm before each half and after it."""
    mixed = self.self_attn(hidden_states=self.input_layernorm(hidden_states), **rest)[0]
    normed, total = self.pre_feedforward_layernorm(
        self.post_attention_layernorm(mixed), residual=hidden_states
    )
    return total + self.post_feedforward_layernorm(self.mlp(normed))  # type: ignore[no-any-return]


# Feed-forward.


def mlp(self: Any, x: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
    gate, up = self.gate_proj, self.up_proj
    if self._weft_rounding == "fused":
        reason = swap.why_not_eaten(gate) or swap.why_not_eaten(up)
        if reason is None:
            options = dict(bias=gate.bias, up_bias=up.bias, activation=self._weft_activation)
            return product(self, "down_proj", weft.gemm(x, gate.weight, up=up.weight, **options), residual)
        swap.handed_on(self, f"gate and up are two products: {reason}")
    options = dict(activation=self._weft_activation, rounding=self._weft_rounding)
    return product(self, "down_proj", weft.gated_activation(gate=gate(x), up=up(x), **options), residual)


@functools.cache
def plain_mlp(base: Any) -> Callable[..., Any]:
    """The base's forward, for a residual too."""

    def forward(self: nn.Module, x: torch.Tensor, residual: torch.Tensor | None = None) -> Any:
        out = base.forward(self, x)
        return out if residual is None else residual + out

    return forward


# Attention: the norm of queries and keys, their rotation and the way into a static cache are one call.


Heads = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # queries, keys, values: [batch, tokens, heads, dim]
PROJECTIONS = ("q_proj", "k_proj", "v_proj")


def projections(self: Any) -> list[nn.Module]:
    return [getattr(self, name) for name in PROJECTIONS]


def _projected(self: Any, x: torch.Tensor) -> Heads:
    heads = (*x.shape[:-1], -1, self.head_dim)
    linears = projections(self)
    if self._weft_joined and few(self, x) and all(swap.why_not_eaten(linear) is None for linear in linears):
        parts = _joined.product(x.contiguous(), linears)
    else:
        parts = tuple(product(self, name, x) for name in PROJECTIONS)
    q, k, v = (part.view(heads) for part in parts)
    return q, k, v


def _head_norms(self: Any, q: torch.Tensor) -> tuple[dict[str, Any], str | None]:
    """The options of norms that are part of the rotation's call, and why they are not."""
    if self._weft_rounding == "eager":
        return {}, "rounding=eager"
    if not self._weft_head_norm:
        return dict(norm="none"), None
    reason = swap.why_not_read(self.q_norm) or swap.why_not_read(self.k_norm)
    if reason is None and self.q_norm.weight.dtype != q.dtype:
        reason = f"heads of {q.dtype}, a weight of {self.q_norm.weight.dtype}"
    options = dict(
        norm="head", q_weight=self.q_norm.weight, k_weight=self.k_norm.weight,
        weight_offset=self._weft_offset, eps=self._weft_eps,
    )  # fmt: skip
    return options, reason


def _turned(self: Any, heads: Heads, cos: torch.Tensor, sin: torch.Tensor, cache: Any) -> Heads:
    """The queries, and the keys and values of all tokens that the cache has then: [batch, heads, tokens, dim]."""
    half = self.head_dim // 2
    q, k, v = heads
    own_positions = cos.shape[0] == q.shape[0]  # a row of the table for each token of the batch

    def rows(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.flatten(0, 1) if own_positions else tensor

    cos, sin = (rows(cos), rows(sin)) if own_positions else (cos[0], sin[0])
    table: dict[str, Any] = dict(cos=cos[:, :half], sin=sin[:, :half])
    norms, reason = _head_norms(self, q)
    if reason is None and (layer := _cache.static_layer(cache, self.layer_idx, k, v)) is not None:
        places = _cache.places(layer, *q.shape[:2])
        slots = rows(places.pop("slots"))
        out: Any = weft.qk_norm_rope(rows(q), rows(k), rows(v), slots=slots, **norms, **table, **places)
        layer.cumulative_length.add_(q.shape[1])
        return out.q_out.view(q.shape).transpose(1, 2), layer.keys, layer.values
    if reason is None:
        out = weft.qk_norm_rope(rows(q), rows(k), **norms, **table, k_out=True)
        q, k = out.q_out.view(q.shape), out.k_out.view(k.shape)
    else:
        if self._weft_rounding != "eager":
            swap.handed_on(self, f"norms and rotation apart: {reason}")
        if self._weft_head_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        table["rounding"] = self._weft_rounding
        q, k = (weft.rope(rows(x).contiguous(), **table).view(x.shape) for x in (q, k))
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    if cache is not None:
        k, v = cache.update(k, v, self.layer_idx)
    return q, k, v


def attention_passes(
    self: Any,
    hidden_states: torch.Tensor,
    position_embeddings: tuple[torch.Tensor, torch.Tensor] | None = None,
    attention_mask: torch.Tensor | None = None,
    past_key_values: Any = None,
    **_: Any,
) -> str | None:
    if position_embeddings is None:
        return "no position embeddings"
    cos = position_embeddings[0]
    if cos.shape[-1] != self.head_dim or cos.shape[0] not in (1, hidden_states.shape[0]):
        return f"cosines of shape {tuple(cos.shape)}"
    if cos.dtype != hidden_states.dtype:
        return f"cosines of {cos.dtype}"
    return None


@functools.cache
def attention(base: Any, extras: tuple[tuple[str, str], ...]) -> Callable[..., Any]:
    """The forward of a family's attention; extras: what its attention function gets, from which attribute."""
    eager = vars(sys.modules[base.__module__])["eager_attention_forward"]

    def forward(
        self: Any,
        hidden_states: torch.Tensor,
        position_embeddings: tuple[torch.Tensor, torch.Tensor],
        attention_mask: torch.Tensor | None = None,
        past_key_values: Any = None,
        **rest: Any,
    ) -> tuple[torch.Tensor, Any]:
        heads = _projected(self, hidden_states)
        q, k, v = _turned(self, heads, *position_embeddings, past_key_values)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager)
        for name, attribute in extras:
            rest[name] = _attribute(self, attribute)
        dropout = self.attention_dropout if self.training else 0.0
        out, weights = attend(self, q, k, v, attention_mask, dropout=dropout, scaling=self.scaling, **rest)
        return product(self, "o_proj", out.reshape(*hidden_states.shape[:-1], -1).contiguous()), weights

    return forward


def _attribute(self: Any, path: str) -> Any:
    for name in path.split("."):
        self = getattr(self, name, None)
    return self

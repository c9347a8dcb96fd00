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

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": nn.functional.silu,
    "gelu_tanh": functools.partial(nn.functional.gelu, approximate="tanh"),
    "gelu_erf": nn.functional.gelu,
}
FEW = 64  # rows of a product that waits for its weights, whatever it is multiplied by


# Products of few tokens.


def product(self: Any, name: str, x: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
    """What the Linear of this name makes of x: of few rows a product of weft's, else a call of the module.

    A decode step waits for weights alone: weft's kernels begin to read them while the kernel before still runs, sum
    their shares of k in the same launch, and add a residual to what they store. Many rows are the module's by design,
    so no report counts them.
    """
    linear = getattr(self, name)
    if self._weft_rounding == "fused" and x.numel() <= FEW * x.shape[-1]:
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


# Attention: the norm of queries and keys and their rotation are one call.


def _turned(
    self: Any, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[Any, Any]:
    half = self.head_dim // 2
    shapes = q.shape, k.shape
    if (
        cos.shape[0] == q.shape[0]
    ):  # positions of each sequence: one row of the table for each token of the batch
        q, k, cos, sin = (tensor.flatten(0, 1) for tensor in (q, k, cos, sin))
    else:
        cos, sin = cos[0], sin[0]
    table: dict[str, Any] = dict(cos=cos[:, :half], sin=sin[:, :half])
    reason = "rounding=eager" if self._weft_rounding == "eager" else None
    weights: dict[str, Any] = {}
    if self._weft_head_norm:
        reason = reason or swap.why_not_read(self.q_norm) or swap.why_not_read(self.k_norm)
        if reason is None and self.q_norm.weight.dtype != q.dtype:
            reason = f"heads of {q.dtype}, a weight of {self.q_norm.weight.dtype}"
        weights = dict(
            q_weight=self.q_norm.weight, k_weight=self.k_norm.weight,
            weight_offset=self._weft_offset, eps=self._weft_eps,
        )  # fmt: skip
    if reason is None:
        weights["norm"] = "head" if self._weft_head_norm else "none"
        out = weft.qk_norm_rope(q, k, **weights, **table, k_out=True)
        return out.q_out.view(shapes[0]), out.k_out.view(shapes[1])
    if self._weft_rounding != "eager":
        swap.handed_on(self, f"norms and rotation apart: {reason}")
    if self._weft_head_norm:
        q, k = self.q_norm(q), self.k_norm(k)
    return tuple(
        weft.rope(x.contiguous(), **table, rounding=self._weft_rounding).view(shape)
        for x, shape in zip((q, k), shapes, strict=True)
    )


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
        heads = (*hidden_states.shape[:-1], -1, self.head_dim)
        q, k, v = (product(self, name, hidden_states).view(heads) for name in ("q_proj", "k_proj", "v_proj"))
        q, k = _turned(self, q, k, *position_embeddings)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager)
        for name, attribute in extras:
            rest[name] = _attribute(self, attribute)
        dropout = self.attention_dropout if self.training else 0.0
        out, weights = attend(self, q, k, v, attention_mask, dropout=dropout, scaling=self.scaling, **rest)
        return product(self, "o_proj", out.reshape(*heads[:-2], -1).contiguous()), weights

    return forward


def _attribute(self: Any, path: str) -> Any:
    for name in path.split("."):
        self = getattr(self, name, None)
    return self

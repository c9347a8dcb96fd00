"""Products with what stands before and after them: each one call where weft may read the Linear's weight.

Otherwise (LoRA, quantisers, hooks, autocast) the Linear is called, and weft's op has the rest.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import nn

import weft
from weft import swap
from weft.diffusers._parts import added, beside_rows, normed
from weft.diffusers._sources import why_unknown

Activation = Literal["gelu_tanh", "gelu_erf", "silu"]


def why_no_product(linear: nn.Module, x: torch.Tensor) -> str | None:
    """Why this call's product with a Linear is the Linear's own, without weft's epilogue."""
    reason = swap.why_not_eaten(linear)
    if reason is None and linear.weight.dtype != x.dtype:
        reason = f"its weight is {linear.weight.dtype} beside {x.dtype}"
    return reason


def _taken(module: nn.Module, linear: nn.Module, x: torch.Tensor) -> bool:
    """Whether weft has the product; counted for `module` where it has not."""
    reason = why_no_product(linear, x)
    if reason is not None:
        swap.handed_on(module, f"its product: {reason}")
    return reason is None


def activated(
    module: nn.Module,
    linear: Any,
    x: torch.Tensor,
    activation: Activation,
    front: torch.Tensor | None = None,
) -> torch.Tensor:
    """act(linear(x)), behind `front` in each row where there is one."""
    if not _taken(module, linear, x):
        out: torch.Tensor = weft.activation(linear(x), front=front, activation=activation)
        return out
    values: dict[str, Any] = {"bias": linear.bias, "activation": activation}
    if front is None:
        product: torch.Tensor = weft.gemm(x, linear.weight, **values)
        return product
    width = front.shape[-1]
    whole = front.new_empty(*front.shape[:-1], width + linear.weight.shape[0])
    whole[..., :width] = front
    weft.gemm(x, linear.weight, out=whole[..., width:], **values)
    return whole


def gated(
    module: nn.Module, linear: nn.Linear, x: torch.Tensor, activation: Activation, gate: int
) -> torch.Tensor:
    """act(gate) · up of the halves of linear(x), of which half `gate` is the gate."""
    if not _taken(module, linear, x):
        halves: tuple[torch.Tensor, ...] = linear(x).chunk(2, dim=-1)
        out: torch.Tensor = weft.gated_activation(
            gate=halves[gate], up=halves[1 - gate], activation=activation
        )
        return out
    weights = linear.weight.chunk(2)
    biases = (None, None) if linear.bias is None else linear.bias.chunk(2)
    return weft.gemm(
        x,
        weights[gate],
        bias=biases[gate],
        up=weights[1 - gate],
        up_bias=biases[1 - gate],
        activation=activation,
    )


def product_added(
    module: nn.Module, linear: Any, x: torch.Tensor, residual: torch.Tensor, gate: torch.Tensor
) -> torch.Tensor:
    """residual + gate · linear(x)."""
    if not _taken(module, linear, x):
        return added(linear(x), residual, gate)
    out: torch.Tensor = weft.gemm(
        x,
        linear.weight,
        bias=linear.bias,
        gate=beside_rows(gate, x),
        residual=residual,
        out_dtype=residual.dtype,
    )
    return out


def feed_forward_added(
    module: nn.Module, feed_forward: Any, x: torch.Tensor, residual: torch.Tensor, gate: torch.Tensor
) -> torch.Tensor:
    """residual + gate · feed_forward(x), whose last product takes the sum in where it is diffusers' FeedForward."""
    if why_unknown(type(feed_forward)) or swap.why_not_read(feed_forward):
        return added(feed_forward(x), residual, gate)
    *before, last = feed_forward.net
    if isinstance(last, nn.Dropout):
        return added(feed_forward(x), residual, gate)
    for layer in before:
        x = layer(x)
    return product_added(module, last, x, residual, gate)


def second_half(
    module: nn.Module,
    norm: nn.Module,
    feed_forward: nn.Module,
    hidden: torch.Tensor,
    update: torch.Tensor,
    gate: torch.Tensor,
    shift: torch.Tensor,
    scale: torch.Tensor,
    gate_mlp: torch.Tensor,
) -> torch.Tensor:
    """What a block with AdaLN zero does to a stream after attention, whose result is `update`."""
    x, hidden = normed(norm, update, scale, shift, residual=hidden, gate=gate)
    return feed_forward_added(module, feed_forward, x, hidden, gate_mlp)

"""Products with the activation behind them: one call where weft may read the Linear's weight.

Otherwise (LoRA, quantisers, hooks, autocast) the Linear is called, and weft's op has the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import nn

import weft
from weft import swap

Activation = Literal["gelu_tanh", "gelu_erf", "silu"]
Front = Callable[[torch.Tensor | None], torch.Tensor]  # writes where it is told, or gives a tensor of its own


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


def activated(module: nn.Module, linear: Any, x: torch.Tensor, activation: Activation) -> torch.Tensor:
    """act(linear(x))."""
    if not _taken(module, linear, x):
        out: torch.Tensor = weft.activation(linear(x), activation=activation)
        return out
    product: torch.Tensor = weft.gemm(x, linear.weight, bias=linear.bias, activation=activation)
    return product


def activated_behind(
    module: nn.Module, linear: Any, x: torch.Tensor, activation: Activation, front: Front, width: int
) -> torch.Tensor:
    """act(linear(x)), in each row behind the `width` columns that `front` computes."""
    if not _taken(module, linear, x):
        out: torch.Tensor = weft.activation(linear(x), front=front(None), activation=activation)
        return out
    whole = x.new_empty(*x.shape[:-1], width + linear.weight.shape[0])
    front(whole[..., :width])
    weft.gemm(x, linear.weight, bias=linear.bias, activation=activation, out=whole[..., width:])
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

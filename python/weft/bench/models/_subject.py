"""What is measured: a model with the inputs of one step, and copies of it that share its weights."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from weft.bench.models._sides import Side


def nothing() -> None:
    """Of subjects whose step leaves nothing behind."""


@dataclass
class Subject:
    """A model and one step of it.

    `step(model)` computes; `rewind()` undoes what a step left behind, and is not timed.
    """

    model: nn.Module
    step: Callable[[Any], torch.Tensor]
    exact: Callable[[Any], torch.Tensor]  # the same step of a model in fp32
    rewind: Callable[[], None] = nothing
    state_bytes: int = 0  # that a step reads beside the weights
    lookup: tuple[str, ...] = ()  # names of tables of which a step reads single rows


@dataclass(frozen=True)
class Case:
    """A step that has a name. `open(layers, device)` makes its subject."""

    name: str
    layers: int  # that are measured where nothing else is asked for
    of: int  # that the model has
    library: str
    open: Callable[[int, str], Subject]
    captured: bool  # a step goes into a CUDA Graph, as those who run it do
    details: str
    sides: tuple[Side, ...]

    def line(self, layers: int) -> str:
        """What a row says that was measured."""
        return " ".join(filter(None, (self.name, self.details, f"layers={layers}/{self.of}")))


def twin(model: nn.Module) -> Any:
    """A model of its own classes and settings, on the same memory; weights that move there stay here what they were."""
    shared: dict[int, torch.Tensor] = {id(buffer): buffer for buffer in model.buffers()}
    shared |= {id(p): nn.Parameter(p.detach(), p.requires_grad) for p in model.parameters()}
    return copy.deepcopy(model, shared)


def wide(model: nn.Module) -> Any:
    """A copy in fp32."""
    return copy.deepcopy(model).float()


@torch.no_grad()
def randomized(model: nn.Module) -> Any:
    """Vectors (weights of norms, biases) away from the ones and zeros that they begin with."""
    generator = torch.Generator(next(model.parameters()).device).manual_seed(1)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            noise = torch.randn(parameter.shape, generator=generator, device=parameter.device)
            parameter.add_(0.1 * noise.to(parameter.dtype))
    return model.eval().requires_grad_(False)


def weight_bytes(subject: Subject) -> int:
    """What a step reads of the weights, each once."""

    named = subject.model.named_parameters()
    return sum(p.numel() * p.element_size() for name, p in named if not name.startswith(subject.lookup))

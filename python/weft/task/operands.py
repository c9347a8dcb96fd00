"""Operands of a row in memory that shows what a call did besides its outputs: poison, guards, inputs' copies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from weft.task.spec import FLOATING, Field, Row, Task, evaluate
from weft.torch import DTYPES

GUARD = 256  # bytes of poison on either side of every operand
POISONS = (0xFF, 0x5A)  # of floats the first is NaN, the second a number
_SPECIAL = (float("nan"), float("inf"), float("-inf"), -0.0)


def _fill(f: Field, task: Task, row: Row, generator: torch.Generator, special: bool) -> torch.Tensor:
    shape, dtype, device = task.shape(f, row), task.dtype(f, row), str(generator.device)
    low, high = (float(evaluate(text, row.values)) for text in (f.low, f.high))
    if dtype not in FLOATING:
        return torch.randint(
            int(low), int(high), shape, generator=generator, device=device, dtype=torch.int64
        ).to(DTYPES[dtype])
    draw = torch.randn if f.fill == "normal" else torch.rand
    values = draw(shape, generator=generator, device=device)
    values.mul_(high if f.fill == "normal" else high - low).add_(low)
    if special and values.numel():  # one in 400 elements, and in every operand at least one
        count = max(1, values.numel() // 400)
        at = torch.randint(0, values.numel(), (count,), generator=generator, device=device)
        which = torch.randint(0, len(_SPECIAL), (count,), generator=generator, device=device)
        which[0] = 0  # NaN
        values.view(-1)[at] = torch.tensor(_SPECIAL, device=device)[which]
    return values.to(DTYPES[dtype])


class Contents:
    """What the inputs of a row hold; every set of operands begins with it."""

    def __init__(self, task: Task, row: Row, device: str, seed: int, special: bool = False) -> None:
        generator = torch.Generator(device).manual_seed(seed)
        self.task, self.row, self.device = task, row, device
        self.inputs = {f.name: _fill(f, task, row, generator, special) for f in task.inputs}


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)


class Operands:
    """One set."""

    def __init__(self, contents: Contents, poison: int = POISONS[0]) -> None:
        self.contents, self.poison = contents, poison
        self._whole: dict[str, torch.Tensor] = {}
        self.tensors: dict[str, torch.Tensor] = {}
        task, row = contents.task, contents.row
        for f in [*task.inputs, *task.outputs]:
            shape, dtype = task.shape(f, row), DTYPES[task.dtype(f, row)]
            size = dtype.itemsize
            for n in shape:
                size *= n
            whole = torch.empty(size + 2 * GUARD, dtype=torch.uint8, device=contents.device)
            self._whole[f.name] = whole
            self.tensors[f.name] = whole[GUARD : GUARD + size].view(dtype).view(shape)
            if f in task.inputs:
                self.tensors[f.name].copy_(contents.inputs[f.name])
        self.reset()

    @property
    def footprint(self) -> int:
        return sum(whole.numel() for whole in self._whole.values())

    @property
    def written(self) -> dict[str, torch.Tensor]:
        return {f.name: self.tensors[f.name] for f in self.contents.task.written}

    def reset(self) -> None:
        """Outputs and guards are poison, inputs that a call updates are as before it."""
        task = self.contents.task
        for name, whole in self._whole.items():
            whole[:GUARD] = whole[-GUARD:] = self.poison
            if any(f.name == name for f in task.outputs):
                whole.fill_(self.poison)
        for f in task.inputs:
            if f.updated:
                self.tensors[f.name].copy_(self.contents.inputs[f.name])

    def damage(self) -> str:
        """What a call changed that is not its own; empty where nothing."""
        for name, whole in self._whole.items():
            for end, guard in (("before", whole[:GUARD]), ("after", whole[-GUARD:])):
                if not bool((guard == self.poison).all()):
                    return f"it wrote {end} {name}: the guard there is overwritten"
        for f in self.contents.task.inputs:
            kept = _bytes(self.contents.inputs[f.name])
            if not f.updated and not torch.equal(_bytes(self.tensors[f.name]), kept):
                return f"the input {f.name} is changed"
        return ""


def arguments(task: Task, row: Row, tensors: Mapping[str, torch.Tensor]) -> list[Any]:
    """As both sides are called: inputs, options, outputs."""
    return [
        *(tensors[f.name] for f in task.inputs),
        *task.option_values(row).values(),
        *(tensors[f.name] for f in task.outputs),
    ]

"""Both sides as one kind of call: inputs, options, outputs, on the current stream, nothing returned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from weft.task.module import load_function
from weft.task.outcome import Absent, Refusal
from weft.task.spec import Side, Task

Entry = Callable[..., None]


def load_entry(task: Task, side: Side, emulated: bool = False) -> Entry:
    """A side as a function of tensors and options. Raises Absent where this machine can't run it."""
    if not side.path.exists():
        raise Refusal(f"{side.name}: there is no {side.path.relative_to(task.folder)}")
    if side.language in ("cuda", "kit"):
        return _compiled(task, side, emulated)
    if task.device == "cpu" and side.language in ("triton", "cute"):
        raise Absent(f"{side.name} is written in {side.language}, which has no CPU")
    function = load_function(side.path, side.function, side.name)
    return _into_outputs(task, side, function) if side.language == "torch" else function


def _compiled(task: Task, side: Side, emulated: bool) -> Entry:
    from weft.task import builder  # noqa: PLC0415 - the other languages need no compiler

    if emulated:
        return _entered(builder.function_of(builder.compile_emulated(task, side), side))
    if task.device != "cuda" or not torch.cuda.is_available():
        raise Absent(f"{side.name} is a CUDA kernel, and there is no GPU here")
    return _entered(builder.function_of(builder.compile_cuda(task, side), side))


def _entered(function: Any) -> Entry:
    """tvm-ffi takes tensors and numbers as they are, and sets its current stream from PyTorch's."""

    def call(*args: Any) -> None:
        function(*args)

    return call


def _into_outputs(task: Task, side: Side, function: Callable[..., Any]) -> Entry:
    """A PyTorch function that returns its results, as one that writes given outputs."""
    options, outputs = list(task.options), len(task.outputs)

    def into(*args: Any) -> None:
        given = args[: len(args) - outputs]
        inputs = given[: len(given) - len(options)]
        named = dict(zip(options, given[len(inputs) :], strict=True))
        result = function(*inputs, **named)
        results: Sequence[torch.Tensor] = result if isinstance(result, (tuple, list)) else (result,)
        for into, value in zip(args[len(given) :], results, strict=True):
            into.copy_(value)

    return compiled(into, mode="max-autotune-no-cudagraphs") if side.compiled else into


def compiled(function: Callable[..., Any], **how: Any) -> Callable[..., Any]:
    """Through torch.compile, for each shape by itself."""
    # Each row is compiled for its own shape; past its limit PyTorch would fall back to eager calls and not say so.
    config: Any = torch._dynamo.config
    config.recompile_limit, config.fail_on_recompile_limit_hit = 1000, True
    return torch.compile(function, dynamic=False, **how)

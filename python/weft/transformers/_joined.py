"""Linears of one input whose weights lie one behind the other in memory, so that few rows take one product with all.

A decode step waits for weights, and each launch for its first ones: the three products of an attention, of which two
are narrow, take longer than one with all rows. `join` moves the weights of Linears into one tensor, of which each has a
part. The parameters stay what they are: names, shapes, values, `state_dict`. Whoever moves a weight later (`.to`,
`.data`, another parameter) parts them. Whether they lie together is asked at each run, of a compiled graph too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

import weft
from weft import swap

_LIBRARY = torch.library.Library("weft_transformers", "DEF")
_LIBRARY.define(
    "joined_product(Tensor x, Tensor[] weights, Tensor[] biases) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def _whole(parts: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """Tensors that lie one behind the other as one; None where they do not."""
    first = parts[0]
    storage, place = first.untyped_storage().data_ptr(), first.storage_offset()
    for part in parts:
        here = part.untyped_storage().data_ptr() == storage and part.storage_offset() == place
        if not here or not part.is_contiguous():
            return None
        place += part.numel()
    return first.as_strided((sum(part.shape[0] for part in parts), *first.shape[1:]), first.stride())


def _product(x: torch.Tensor, weights: list[torch.Tensor], biases: list[torch.Tensor]) -> torch.Tensor:
    weight, bias = _whole(weights), _whole(biases) if biases else None
    if weight is not None and (bias is not None or not biases):
        return weft.gemm(x, weight, bias=bias)
    out = _fake(x, weights, biases)
    parts = out.split([len(weight) for weight in weights], -1)
    for number, (part, w) in enumerate(zip(parts, weights, strict=True)):
        weft.gemm(x, w, bias=biases[number] if biases else None, out=part)
    return out


def _fake(x: torch.Tensor, weights: list[torch.Tensor], biases: list[torch.Tensor]) -> torch.Tensor:
    return x.new_empty(*x.shape[:-1], sum(len(weight) for weight in weights))


for _device in ("CPU", "CUDA"):
    _LIBRARY.impl("joined_product", _product, _device)
torch.library.register_fake("weft_transformers::joined_product", _fake, lib=_LIBRARY)


def product(x: torch.Tensor, linears: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    """What each Linear makes of x, as parts of one tensor; biases belong to all of them or to none."""
    weights = [linear.weight for linear in linears]
    biases = [] if linears[0].bias is None else [linear.bias for linear in linears]
    out = torch.ops.weft_transformers.joined_product.default(x, weights, biases)
    return out.split([weight.shape[0] for weight in weights], -1)  # type: ignore[no-any-return]


def _movable(tensor: torch.Tensor | None) -> bool:
    """Whether memory is a parameter's own, so that nobody else's tensor is left behind when it moves."""
    if tensor is None or tensor.device.type not in ("cpu", "cuda") or not tensor.is_contiguous():
        return False
    if tensor.is_inference():
        return False  # it may not be written outside of inference mode
    if tensor.device.type == "cpu" and tensor.is_shared():
        return False  # with other processes
    return tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()


@torch.inference_mode(False)  # what is allocated in inference mode never has a gradient again
def _move(parameters: Sequence[nn.Parameter]) -> None:
    whole = torch.cat([parameter.detach() for parameter in parameters])
    for parameter, part in zip(parameters, whole.split([len(p) for p in parameters]), strict=True):
        parameter.data = part


def join(linears: Sequence[Any]) -> bool:
    """Puts the weights of Linears behind one another; False, and nothing changes, where some are not plain ones."""
    if any(type(linear) is not nn.Linear or swap.why_not_read(linear) is not None for linear in linears):
        return False
    kinds = [[linear.weight for linear in linears]]
    if any(linear.bias is not None for linear in linears):
        kinds.append([linear.bias for linear in linears])
    for parts in kinds:
        if not all(map(_movable, parts)) or len({id(part) for part in parts}) < len(parts):
            return False
        if len({(part.dtype, part.device, part.shape[1:]) for part in parts}) > 1:
            return False
    for parts in kinds:
        _move(parts)
    return True


@torch.inference_mode(False)
def part(linears: Sequence[Any]) -> None:
    """Gives weights that still lie together memory of their own again."""
    for name in ("weight", "bias"):
        parts: list[Any] = [getattr(linear, name, None) for linear in linears]
        if all(type(p) is nn.Parameter for p in parts) and _whole(parts) is not None:
            for parameter in parts:
                parameter.data = parameter.data.clone()

"""What a module is, read from it: a norm by what it computes, a Linear by its type on each call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from weft.swap._hooks import has_hooks
from weft.swap._recipe import swapped

_EPS = ("eps", "variance_epsilon", "epsilon", "norm_eps")


@dataclass(frozen=True)
class Norm:
    """A norm over the last axis, as weft's ops take it."""

    kind: Literal["rms", "layer"]
    eps: float
    weight_offset: float  # 1 where the weight is stored less 1
    affine: bool
    bias: bool
    rounding: Literal["fused", "eager", "eager_cast"]  # whose chain has the module's bits, in 16 bits


def why_not_read(module: nn.Module) -> str | None:
    """Why another module's forward may not read this one's weights instead of calling it; asked on each call.

    Hooks bring weights (offload), shard them or change what is computed; a weight of a subclass of Tensor is
    quantised or distributed.
    """
    if has_hooks(module):
        return "hooks run around it"
    for parameter in module._parameters.values():
        if parameter is not None and type(parameter) is not nn.Parameter:
            return f"its weight is a {type(parameter).__name__}"
    return None


def why_not_eaten(linear: nn.Module) -> str | None:
    """Why a fused product may not use a Linear's weight instead of calling it; asked on each call.

    LoRA and quantisers put another class, another weight or hooks in its place, at any time.
    """
    if type(linear) is not nn.Linear:
        return f"it is a {type(linear).__name__}, not nn.Linear"
    reason = why_not_read(linear)
    if reason is None and torch.is_autocast_enabled(linear.weight.device.type):
        return "autocast chooses the dtype of its product"
    return reason


def why_no_attention(q: torch.Tensor) -> str | None:
    """Why weft's attention takes no queries of this dtype where they are.

    To be asked before a call that is traced: the dispatcher declines when the graph runs, and nobody hands it on then.
    """
    if q.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"dtype {q.dtype}"
    if q.is_cuda and q.dtype == torch.float32:
        return "dtype torch.float32 on a GPU: weft's attention there takes bf16 and fp16"
    return None


def tried(call: Callable[..., Any], *tensors: Any, **values: Any) -> str | None:
    """The reason why weft declines a call like this one, in its dispatcher's words; None where it runs."""
    try:
        call(*tensors, **values)
    except (NotImplementedError, TypeError, ValueError) as error:
        return str(error)
    return None


def _candidates(module: nn.Module) -> Iterator[tuple[float | None, float]]:
    """An eps, None for the dtype's, and an offset of the weight."""
    own = vars(module)
    found = [own[name] for name in _EPS if name in own and isinstance(own[name], float | int | None)]
    for eps in found or [None]:
        for offset in (0.0, 1.0) if "weight" in module._parameters else (0.0,):
            yield eps, offset


def _normed(x: torch.Tensor, kind: str, eps: float) -> torch.Tensor:
    if kind == "layer":
        x = x - x.mean(-1, keepdim=True)
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


def _twin(module: nn.Module, base: type[nn.Module], dtype: torch.dtype, seed: int) -> nn.Module:
    """The module with weights of our own, so that it can be tried where its own are on no device."""
    generator = torch.Generator().manual_seed(seed)
    twin = copy.copy(module)
    twin.__class__ = base
    own = vars(twin)
    for name in ("forward", "_old_forward", "_hf_hook", "_diffusers_hook"):
        own.pop(name, None)
    own["_parameters"] = {
        name: None if p is None else nn.Parameter(torch.randn(p.shape, generator=generator).to(dtype), False)
        for name, p in module._parameters.items()
    }
    return twin


def _width(module: nn.Module) -> int | None:
    weight = module._parameters.get("weight")
    shape = weight.shape if weight is not None else getattr(module, "normalized_shape", None) or (64,)
    return int(shape[0]) if len(shape) == 1 else None


@torch.no_grad()
def read_norm(module: nn.Module) -> Norm | str:
    """What a norm computes, found by trying it on small numbers; or why it is none of weft's.

    Names give candidates only (eps, variance_epsilon): what counts is that the module's own class computes the same,
    on rows so small that eps shows.
    """
    width = _width(module)
    if width is None:
        return "it normalises over more than one axis"
    record = swapped(module)
    base = record.base if record else type(module)
    twin = _twin(module, base, torch.float32, 1)
    weight, bias = twin._parameters.get("weight"), twin._parameters.get("bias")
    x = torch.randn(6, width, generator=torch.Generator().manual_seed(2)) + 0.25
    x *= torch.tensor([1.0, 30.0, 1e-2, 1e-3, 1e-4, 3e-6])[:, None]
    try:
        got = base.forward(twin, x)
    except Exception as error:  # it is somebody else's code
        return f"it cannot be tried on a row: {type(error).__name__}: {error}"
    if not isinstance(got, torch.Tensor) or got.shape != x.shape:
        return "it does not return one tensor of its input's shape"
    for kind in ("rms", "layer"):
        for eps, offset in _candidates(twin):
            number = torch.finfo(torch.float32).eps if eps is None else float(eps)
            expected = _normed(x.double(), kind, number)
            expected = expected if weight is None else expected * (weight.double() + offset)
            expected = expected if bias is None else expected + bias.double()
            if torch.allclose(got.double(), expected, rtol=1e-4, atol=1e-6):
                rounding = "fused" if kind == "layer" else _rounding(module, base, x, number, offset)
                return Norm(kind, number, offset, weight is not None, bias is not None, rounding)  # type: ignore[arg-type]
    return "it computes neither an RMS norm nor a layer norm of its eps and weight"


def _rounding(module: nn.Module, base: type[nn.Module], x: torch.Tensor, eps: float, offset: float) -> str:
    """Whose chain of roundings gives the module's bits in bf16."""
    twin = _twin(module, base, torch.bfloat16, 3)
    weight = twin._parameters.get("weight")
    x = x.bfloat16()
    got = base.forward(twin, x)
    normed = _normed(x.float(), "rms", eps)
    if weight is None:
        chains = {"eager": normed.to(x.dtype)}
    else:
        chains = {
            "eager_cast": weight * normed.to(x.dtype) if offset == 0 else (weight + 1.0) * normed.to(x.dtype),
            "eager": (normed * (weight.float() + offset)).to(x.dtype),
        }
    return next((name for name, y in chains.items() if got.dtype == y.dtype and torch.equal(got, y)), "fused")

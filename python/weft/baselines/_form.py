"""In which form a formula is written, and how it stores what it found."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from weft.baselines import Case, Tensors
from weft.torch import DTYPES

Outputs = dict[str, Tensor]


@dataclass(frozen=True)
class Form:
    """Where a formula rounds between its steps."""

    as_written: bool

    def read(self, x: Tensor) -> Tensor:
        """An operand, in the dtype to compute in."""
        return x if self.as_written else x.float()

    def keep(self, y: Tensor, dtype: torch.dtype) -> Tensor:
        """A step's result, in the dtype to go on with."""
        return y.to(dtype) if self.as_written else y


ONCE, AS_WRITTEN = Form(False), Form(True)


def to_fp8(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Saturated: PyTorch's conversion alone gives NaN beyond the range."""
    limit = torch.finfo(dtype).max
    return x.clamp(-limit, limit).to(dtype)


def token_scale(y: Tensor, dtype: torch.dtype) -> Tensor:
    amax = y.abs().amax(-1)
    return torch.where(amax == 0, torch.ones_like(amax), amax / torch.finfo(dtype).max)


def store(case: Case, y: Tensor, t: Tensors) -> Outputs:
    """fp32 values as `out`, scaled where it is fp8."""
    dtype = DTYPES[case.dtype("out")]
    if not case.dtype("out").startswith("fp8"):
        return {"out": y.to(dtype)}
    y = y.float()
    if case.has("token_scale"):
        scale = token_scale(y, dtype)
        return {"out": to_fp8(y * (1 / scale)[..., None], dtype), "token_scale": scale}
    return {"out": to_fp8(y * (1 / t["scale"]) if case.has("scale") else y, dtype)}


def activate(name: str, x: Tensor) -> Tensor:
    if name == "none":
        return x
    return F.silu(x) if name == "silu" else F.gelu(x, approximate="tanh" if name == "gelu_tanh" else "none")


def gelu_tanh(x: Tensor) -> Tensor:
    """Through the sigmoid: PyTorch's 1 + tanh loses its digits where x is far below 0."""
    return x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))


def spread(scale: Tensor, count: int) -> Tensor:
    """So many scales, of which `scale` has all, or one for all."""
    return scale if scale.numel() == count else scale.expand(count).contiguous()

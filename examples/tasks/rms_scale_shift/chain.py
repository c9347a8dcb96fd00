"""Where LingBot and LTX-2 have the op: after a residual addition, before a projection."""

from functools import cache

import torch
from torch.nn import functional


@cache
def _projection(dim, dtype, device):
    generator = torch.Generator(device).manual_seed(1)
    return torch.randn(dim, dim, generator=generator, dtype=torch.float32, device=device).div_(dim**0.5).to(dtype)


def chain(op, x, weight, scale, shift):
    hidden = op(x + shift, weight, scale, shift)
    return functional.linear(hidden, _projection(x.shape[-1], x.dtype, str(x.device)))

"""Layers for `kernelize`: forwards that take the place of a module's own and read all that they need from it.

What a module computes is tried, not guessed from its name: a norm's offset and rounding and a rotary function's pairs
are found by running the module's own class on a few numbers, once. One that computes something else is refused when it
is called, with what was found. There are no gradients: map these layers for `Mode.INFERENCE`, with torch.compile or
without.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

import weft
from weft.swap import Norm, read_norm

_NORMS: WeakKeyDictionary[nn.Module, Norm] = WeakKeyDictionary()
_PAIRS: WeakKeyDictionary[nn.Module, tuple[str, str]] = WeakKeyDictionary()


class _Layer(nn.Module):
    has_backward = False
    can_torch_compile = True


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _norm(module: nn.Module) -> tuple[float, float, str]:
    """A norm's eps, the offset of its weight and where it rounds."""
    found = _NORMS.get(module)
    if found is None:
        read = read_norm(module)
        if isinstance(read, Norm) and read.kind == "layer":
            read = "it is a layer norm"
        if isinstance(read, str):
            raise NotImplementedError(f"weft's RMSNorm can't stand in for {type(module).__name__}: {read}")
        found = _NORMS[module] = read
    return found.eps, found.weight_offset, found.rounding


def _in_order(on_gpu: bool, rows: int, dim: int) -> bool:
    """Whether rms_norm sums so many rows in PyTorch's order, without which a module's bits can't be had.

    To be known before a call that is traced: the dispatcher, which knows it too, declines when the graph runs.
    """
    return not on_gpu or (dim % 4 == 0 and 128 <= dim <= 130560 and rows * dim <= 1 << 29)


class RMSNorm(_Layer):
    """RMS norms of any name: with and without a weight, a bias and an offset of the weight.

    Rounded as the module rounds, where weft has PyTorch's order of sums for rows of this length; else once.
    """

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        eps, offset, rounding = _norm(self)
        weight, bias = getattr(self, "weight", None), getattr(self, "bias", None)
        out_dtype = hidden_states.dtype
        dim = hidden_states.shape[-1]
        if not _in_order(hidden_states.is_cuda, hidden_states.numel() // max(dim, 1), dim):
            if rounding == "eager_cast" and weight is not None:
                # What the module multiplies last has both factors' dtype.
                out_dtype = torch.promote_types(weight.dtype, out_dtype)
            rounding = "fused"
        if (
            rounding == "eager_cast"
            and weight is not None
            and (offset or weight.dtype != hidden_states.dtype)
        ):
            # Its last step is weight * row, which the op has without an offset and for one dtype alone.
            row: torch.Tensor = weft.rms_norm(hidden_states, eps=eps, rounding="eager")
            scale: torch.Tensor = weight + offset if offset else weight
            return row * scale
        result: torch.Tensor = weft.rms_norm(
            hidden_states,
            weight,
            bias,
            eps=eps,
            weight_offset=offset,
            rounding=rounding,
            out_dtype=out_dtype,
        )
        return result


def _tables(cos: torch.Tensor, layout: str) -> torch.Tensor:
    """One number a pair, of a table that repeats them in halves or side by side."""
    if layout == "halves":
        return cos[..., : cos.shape[-1] // 2]
    return cos[..., ::2] if layout == "repeated" else cos


def _turned(x: torch.Tensor, pairs: str, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """A head of four elements, turned."""
    a, b = (x[:2], x[2:]) if pairs == "half" else (x[::2], x[1::2])
    turned = a * cos - b * sin, b * cos + a * sin
    return torch.cat(turned) if pairs == "half" else torch.stack(turned, -1).flatten()


def _forms(cos: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """The layouts in which models hand over a table of one number a pair."""
    yield "halves", torch.cat((cos, cos))
    yield "repeated", cos.repeat_interleave(2)
    yield "single", cos


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
@torch.no_grad()
def _pairs(module: nn.Module) -> tuple[str, str]:
    """Which elements the function that is replaced pairs, and its tables' layout: tried on a head of four."""
    if module in _PAIRS:
        return _PAIRS[module]
    own: Any = type(module).forward
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], device="cpu")
    cos, sin = torch.tensor([[0.6, 0.28], [0.8, 0.96]], device="cpu")
    for pairs, ((layout, cosines), (_, sines)) in itertools.product(
        ("half", "interleaved"), zip(_forms(cos), _forms(sin), strict=True)
    ):
        head = x.view(1, 1, 1, 4)
        try:
            q, k = own(module, head, -head, cosines.view(1, 1, -1), sines.view(1, 1, -1))
        except RuntimeError:  # tables of another width than it takes
            continue
        expected = _turned(x, pairs, cos, sin)
        if q.shape == head.shape and torch.allclose(q.flatten(), expected) and torch.allclose(k, -q):
            _PAIRS[module] = pairs, layout
            return pairs, layout
    raise NotImplementedError(
        "weft's rotary_pos_emb can't stand in for this model's: it turns neither halves nor neighbours of a head"
    )


class rotary_pos_emb(_Layer):
    """q and k of all heads turned by one kernel; pairs of halves or of neighbours, as the model's function has them.

    The tables are taken to repeat each pair's number, as rotary embeddings make them.
    """

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if unsqueeze_dim not in (1, 2):
            raise NotImplementedError(f"rotary_pos_emb: heads lie along axis 1 or 2, not {unsqueeze_dim}")
        pairs, layout = _pairs(self)
        cos, sin = _tables(cos, layout), _tables(sin, layout)
        positions = None
        if cos.shape[0] > 1:  # a table for each sequence: rows of one
            count = cos.shape[0] * cos.shape[1]
            positions = torch.arange(count, device=cos.device).view(cos.shape[0], cos.shape[1])
        turned = weft.qk_norm_rope(
            q if unsqueeze_dim == 2 else q.transpose(1, 2),
            k if unsqueeze_dim == 2 else k.transpose(1, 2),
            cos=cos.flatten(0, 1),
            sin=sin.flatten(0, 1),
            positions=positions,
            norm="none",
            pairs=pairs,
            k_out=True,
        )
        if unsqueeze_dim == 2:
            return turned.q_out, turned.k_out
        return turned.q_out.transpose(1, 2), turned.k_out.transpose(1, 2)


class SiLU(_Layer):
    """x · σ(x)."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return weft.activation(input, activation="silu")


class GeLU(_Layer):
    """GELU by the error function, or by tanh where the module says so (`nn.GELU(approximate="tanh")`)."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        tanh = getattr(self, "approximate", "none") == "tanh"
        return weft.activation(input, activation="gelu_tanh" if tanh else "gelu_erf")


class GeluTanh(_Layer):
    """GELU by tanh."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return weft.activation(input, activation="gelu_tanh")


class NewGELU(GeluTanh):
    """The same by another name."""


class FastGELU(GeluTanh):
    """The same by another name."""


class QuickGELU(_Layer):
    """x · σ(1.702 · x)."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return weft.activation(input, activation="gelu_quick")


class SiluAndMul(_Layer):
    """silu(gate) · up of rows that hold gate, then up."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return weft.gated_activation(x=x, activation="silu")


class GeluAndMul(_Layer):
    """gelu(gate) · up, by the error function."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return weft.gated_activation(x=x, activation="gelu_erf")


class GeluTanhAndMul(_Layer):
    """gelu(gate) · up, by tanh."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return weft.gated_activation(x=x, activation="gelu_tanh")

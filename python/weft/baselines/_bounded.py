"""Running error analysis: a formula over these values says how far any order of its roundings may lead.

A `Bounded` stands for a tensor that a framework computes: what it would be without any rounding, in fp64, and how far
off it may be where each step is stored in its dtype, as PyTorch stores it, or is not. Passing `Bounded`s to a formula
in place of tensors gives bounds on its outputs. Every step adds half an ulp of its dtype; what comes in passes on by
the step's derivative, or by its ends where it is monotone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Real = float  # in a class that has a method `float`
EPS32 = 2.0**-24
# Significant bits, and the exponent of the smallest normal number.
_PRECISION = {
    torch.float32: (24, -126),
    torch.bfloat16: (8, -126),
    torch.float16: (11, -14),
    torch.float64: (53, -1022),
}
_PRECISION |= {torch.float8_e4m3fn: (4, -6), torch.float8_e5m2: (3, -14)}


def half_ulp(magnitude: Tensor, dtype: torch.dtype) -> Tensor:
    """What rounding a number of this magnitude to a dtype may change."""
    bits, least = _PRECISION[dtype]
    _, exponent = torch.frexp(magnitude)
    exponent = torch.where(magnitude == 0, least, exponent - 1)
    return torch.ldexp(torch.ones_like(magnitude), exponent.clamp(min=least) - bits)


def _holds(wide: torch.dtype, narrow: torch.dtype) -> bool:
    """Is every number of the one dtype one of the other?"""
    (bits, least), (fewer, higher) = _PRECISION[wide], _PRECISION[narrow]
    return bits >= fewer and least <= higher


class Bounded:
    """A value, and how far off it may be: `error` with the rounding of its last step, `inner` without."""

    def __init__(self, value: Tensor, inner: Tensor, error: Tensor, dtype: torch.dtype) -> None:
        self.value, self.inner, self.error, self.dtype = value, inner, error, dtype

    @staticmethod
    def exact(t: Tensor) -> Bounded:
        """A tensor that is read."""
        value = t.double()
        return Bounded(value, torch.zeros_like(value), torch.zeros_like(value), t.dtype)

    @staticmethod
    def step(value: Tensor, inner: Tensor, dtype: torch.dtype) -> Bounded:
        """What a step gives that is off by `inner`, and stored in a dtype."""
        return Bounded(value, inner, inner + half_ulp(value.abs() + inner, dtype), dtype)

    def ends(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The least and the largest result as stored."""
        assert dtype == self.dtype, f"the formula gives {self.dtype}, the case has {dtype}"
        low, high = self.value - self.inner, self.value + self.inner
        if dtype.itemsize == 1:  # saturates
            most = torch.finfo(dtype).max
            low, high = low.clamp(-most, most), high.clamp(-most, most)
        return low.to(dtype), high.to(dtype)

    # Attributes of tensors that formulas use.
    @property
    def shape(self) -> torch.Size:
        return self.value.shape

    @property
    def device(self) -> torch.device:
        return self.value.device

    def dim(self) -> int:
        return self.value.dim()

    def _moved(self, move: Callable[[Tensor], Tensor]) -> Bounded:
        return Bounded(move(self.value), move(self.inner), move(self.error), self.dtype)

    def __getitem__(self, index: Any) -> Bounded:
        return self._moved(lambda t: t[index])

    def __setitem__(self, index: Any, value: Bounded) -> None:
        self.value[index], self.inner[index], self.error[index] = value.value, value.inner, value.error

    def reshape(self, *shape: Any) -> Bounded:
        return self._moved(lambda t: t.reshape(*shape))

    def expand(self, *shape: int) -> Bounded:
        return self._moved(lambda t: t.expand(*shape))

    def flatten(self, *dims: int) -> Bounded:
        return self._moved(lambda t: t.flatten(*dims))

    def chunk(self, count: int, dim: int) -> list[Bounded]:
        return self.split([self.shape[dim] // count] * count, dim)

    def split(self, sizes: Sequence[int], dim: int) -> list[Bounded]:
        values, inners, errors = (t.split(list(sizes), dim) for t in (self.value, self.inner, self.error))
        return [Bounded(v, i, e, self.dtype) for v, i, e in zip(values, inners, errors, strict=True)]

    # Conversions: to a wider dtype nothing is lost.
    def to(self, dtype: torch.dtype) -> Bounded:
        if dtype == self.dtype:
            return self
        if _holds(dtype, self.dtype):
            return Bounded(self.value, self.error, self.error, dtype)
        return Bounded.step(self.value, self.error, dtype)

    def float(self) -> Bounded:
        return self.to(torch.float32)

    def __eq__(self, other: object) -> Any:  # of values, as tensors do
        return self.value == other

    __hash__ = None  # type: ignore[assignment]

    # Arithmetic.
    def _with(self, other: Any) -> tuple[Bounded, torch.dtype]:
        if isinstance(other, Bounded):
            return other, torch.promote_types(self.dtype, other.dtype)
        if isinstance(other, Tensor):
            return Bounded.exact(other), torch.promote_types(self.dtype, other.dtype)
        value = torch.full_like(self.value, Real(other))
        return Bounded(value, torch.zeros_like(value), EPS32 * value.abs(), self.dtype), self.dtype

    def __add__(self, other: Any) -> Bounded:
        b, dtype = self._with(other)
        return Bounded.step(self.value + b.value, self.error + b.error, dtype)

    def __mul__(self, other: Any) -> Bounded:
        b, dtype = self._with(other)
        error = self.value.abs() * b.error + b.value.abs() * self.error + self.error * b.error
        return Bounded.step(self.value * b.value, error, dtype)

    def __neg__(self) -> Bounded:
        return Bounded(-self.value, self.inner, self.error, self.dtype)

    def __sub__(self, other: Any) -> Bounded:
        difference: Bounded = self + (-other)
        return difference

    def __rtruediv__(self, other: Real) -> Bounded:
        return self.monotone(lambda t: other / t)

    def __truediv__(self, other: Any) -> Bounded:
        quotient: Bounded = self * (1 / other)
        return quotient

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Any) -> Bounded:
        difference: Bounded = (-self) + other
        return difference

    def monotone(self, f: Callable[[Tensor], Tensor], error: Real = 4 * EPS32) -> Bounded:
        """A function that rises or falls throughout, computed to a relative error."""
        value = f(self.value)
        ends = torch.maximum(
            (f(self.value - self.error) - value).abs(), (f(self.value + self.error) - value).abs()
        )
        return Bounded.step(value, ends + error * value.abs(), self.dtype)

    def lipschitz(
        self, f: Callable[[Tensor], Tensor], slope: Real, error: Callable[[Tensor], Tensor]
    ) -> Bounded:
        """A function that is nowhere steeper than `slope`, computed to an absolute error."""
        return Bounded.step(f(self.value), slope * self.error + EPS32 * error(self.value), self.dtype)

    def square(self) -> Bounded:
        return self * self

    def abs(self) -> Bounded:
        return Bounded(self.value.abs(), self.inner, self.error, self.dtype)

    def cos(self) -> Bounded:
        return self.lipschitz(torch.cos, 1, lambda t: torch.full_like(t, 4))

    def sin(self) -> Bounded:
        return self.lipschitz(torch.sin, 1, lambda t: torch.full_like(t, 4))

    def clamp(self, low: Real, high: Real) -> Bounded:
        return Bounded(self.value.clamp(low, high), self.inner, self.error, self.dtype)

    # Reductions, in fp32 in any order.
    def sum(self, dim: int, keepdim: bool = False) -> Bounded:
        order = EPS32 * (8 + self.shape[dim] / 64)
        error = (self.error + order * self.value.abs()).sum(dim, keepdim)
        return Bounded.step(self.value.sum(dim, keepdim), error, self.dtype)

    def mean(self, dim: int, keepdim: bool = False) -> Bounded:
        return self.sum(dim, keepdim) * (1 / self.shape[dim])

    def amax(self, dim: int | None = None) -> Bounded:
        largest = (lambda t: t.amax()) if dim is None else (lambda t: t.amax(dim))
        error = largest(self.error)
        return Bounded(largest(self.value), error, error, self.dtype)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _FUNCTIONS[func](*args, **(kwargs or {}))


def rsqrt(x: Bounded) -> Bounded:
    return x.monotone(lambda t: t.clamp(min=0).rsqrt())


def _sloped(f: Callable[..., Tensor], slope: float) -> Callable[..., Bounded]:
    """An activation: its fp32 error is relative to its argument, as 1 + tanh leaves it."""

    def bounded(x: Bounded, **how: Any) -> Bounded:
        return x.lipschitz(lambda t: f(t, **how), slope, lambda t: 16 * t.abs())

    return bounded


def linear(
    a: Bounded, b: Bounded, bias: Bounded | None = None, dtype: torch.dtype | None = None, extra: float = 0
) -> Bounded:
    """a @ b.T; `extra` is what an accumulator shorter than fp32 may err, relative to the sum of magnitudes."""
    value, magnitudes = a.value @ b.value.T, a.value.abs() @ b.value.abs().T
    total = Bounded(value, magnitudes * 0, magnitudes * ((a.shape[-1] + 16) * EPS32 + extra), torch.float32)
    total = total + bias.float() if bias is not None else total
    return total.to(dtype or a.dtype)


def softmax(x: Bounded, dim: int) -> Bounded:
    """In fp32, from the largest down."""
    largest = x.value.amax(dim, keepdim=True)
    y = torch.softmax(x.value, dim)
    # A score that is off by d changes its own weight by e^d, and the sum by as much on average.
    off = x.error + EPS32 * (8 + 2 * (x.value - largest).abs())
    shift = torch.log1p((y * torch.expm1(off)).sum(dim, keepdim=True))
    error = y * (torch.expm1(off + shift) + EPS32 * (8 + x.shape[dim] / 64))
    return Bounded.step(y, error + 2.0**-126, x.dtype)


def layer_norm(
    x: Bounded,
    shape: Sequence[int],
    weight: Bounded | None = None,
    bias: Bounded | None = None,
    eps: float = 1e-5,
) -> Bounded:
    """In fp32, with one rounding to x's dtype."""
    wide = x.float()
    centred = wide - wide.mean(-1, keepdim=True)
    y = centred * rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    y = y * weight.float() if weight is not None else y
    y = y + bias.float() if bias is not None else y
    return y.to(x.dtype)


def _joined(join: Callable[..., Tensor]) -> Callable[..., Bounded]:
    def bounded(parts: Sequence[Bounded], dim: int) -> Bounded:
        value = join([part.value for part in parts], dim)
        inner, error = join([part.inner for part in parts], dim), join([part.error for part in parts], dim)
        return Bounded(value, inner, error, parts[0].dtype)

    return bounded


def _where(condition: Tensor, a: Tensor, b: Bounded) -> Bounded:
    return Bounded(torch.where(condition, a.double(), b.value), b.inner, b.error, b.dtype)


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    torch.rsqrt: rsqrt,
    torch.sigmoid: lambda x: x.lipschitz(torch.sigmoid, 0.25, lambda t: torch.full_like(t, 4)),
    torch.tanh: lambda x: x.lipschitz(torch.tanh, 1, lambda t: torch.full_like(t, 4)),
    torch.softmax: softmax,
    torch.cat: _joined(torch.cat),
    torch.stack: _joined(torch.stack),
    torch.where: _where,
    torch.Tensor.mul: lambda a, b: b * a,
    torch.Tensor.add: lambda a, b: b + a,
    torch.ones_like: lambda x: torch.ones_like(x.value),
    F.silu: _sloped(F.silu, 1.1),
    F.gelu: _sloped(F.gelu, 1.13),
    F.linear: linear,
    F.layer_norm: layer_norm,
}


def outside(name: str, result: Tensor, low: Tensor, high: Tensor) -> str:
    """Why a result is none that lies between `low` and `high`; empty where it is one.

    Roundings go either way. So each element must lie inside, and all together not to one side: a result that is a
    little too large everywhere would pass element by element.
    """
    got, least, most = result.float(), low.float(), high.float()
    inside = ((got >= least) & (got <= most)) | (got.isnan() & least.isnan())
    if not bool(inside.all()):
        at = tuple(int(i) for i in (~inside).nonzero()[0])
        place = f"{name}[{','.join(map(str, at))}]"
        return f"{place}: got {float(got[at]):.9g}, expected {float(least[at]):.9g} to {float(most[at]):.9g}"
    middle, room = (least + most) / 2, (most - least) / 2
    there = (room > 0) & room.isfinite()
    if not bool(there.any()):
        return ""
    lean = float(((got - middle) * middle.sign() / room)[there].mean())
    # What a row or a column has in common (a norm's factor, a weight) is rounded once for all of it.
    independent = int(there.sum()) / max(result.shape)
    allowed = 0.1 + 4 / max(1.0, independent) ** 0.5
    return f"{name}: all of it leans by {lean:+.2f} of what rounding allows" if abs(lean) > allowed else ""

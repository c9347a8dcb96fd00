"""The spec's reference, and whether a result agrees with it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from weft.task.module import load_function
from weft.task.operands import Contents, Operands
from weft.task.outcome import Usage
from weft.task.spec import Field, Task, Tolerance

_CHUNK = 1 << 26  # elements that are compared at once
_MOST = {"cuda": 1 << 28, "cpu": 1 << 24}  # elements that are evaluated whole
_PIECES = 6

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Part:
    """A range of the independent axis; all of it where there is none."""

    axis: str = ""
    begin: int = 0
    end: int = 0

    def of(self, f: Field, tensor: torch.Tensor) -> torch.Tensor:
        if self.axis in f.shape:
            return tensor.narrow(f.shape.index(self.axis), self.begin, self.end - self.begin)
        return tensor


def reference_of(task: Task) -> Callable[..., Any]:
    """The function that task.toml names."""
    path, _, function = str(task.spec.get("reference", "")).partition(":")
    if not path or not function:
        raise Usage("task.toml: spec.reference is FILE:FUNCTION")
    return load_function(task.folder / path, function, "the reference")


def _parts(contents: Contents, seed: int) -> tuple[list[Part], str]:
    """What is evaluated: everything, or the first, the last and random ranges of the independent axis."""
    task, row = contents.task, contents.row
    axis = str(task.spec.get("independent", ""))
    elements = sum(t.numel() for t in contents.inputs.values())
    most = _MOST[contents.device]
    if not axis or elements <= most:
        return [Part()], ""
    size = int(row.values[axis])
    each = max(1, int(size * most / elements) // _PIECES)
    draw = random.Random(seed)
    starts = {0, size - each} | {draw.randrange(size - each + 1) for _ in range(_PIECES - 2)}
    parts = [Part(axis, start, start + each) for start in sorted(starts)]
    ranges = ", ".join(f"{p.begin}-{p.end - 1}" for p in parts)
    return parts, f"{axis} {ranges} of {size}"


class Judge:
    """Knows the right result of a row, and how far from it another may lie."""

    def __init__(
        self, contents: Contents, seed: int = 0, reference: Callable[..., Any] | None = None
    ) -> None:
        self.task, self.contents = contents.task, contents
        self.reference = reference or reference_of(self.task)
        self.tolerances = {f.name: self.task.tolerance(f.name) for f in self.task.written}
        # Where sums of infinities are legal in another order, NaN and infinity are one.
        self.loose = self.task.raw.get("verify", {}).get("special", True) == "nonfinite"
        self.parts, self.checked_on = _parts(contents, seed)
        self.right = [self._evaluate(part) for part in self.parts]
        self.worst = 0.0  # of the last comparison: the largest distance in units of what is allowed

    def _evaluate(self, part: Part) -> dict[str, torch.Tensor]:
        task = self.task
        double = task.spec.get("precision", "double") == "double"
        inputs = []
        for f in task.inputs:
            tensor = part.of(f, self.contents.inputs[f.name])
            inputs.append(tensor.double() if double and tensor.is_floating_point() else tensor.clone())
        try:
            with torch.no_grad():
                result = self.reference(*inputs, **task.option_values(self.contents.row))
        except Exception as error:
            raise Usage(
                f"the reference failed on row '{self.contents.row.name}': {type(error).__name__}: {error}"
            ) from error
        results = result if isinstance(result, (tuple, list)) else (result,)
        if len(results) != len(task.written):
            raise Usage(
                f"the reference returned {len(results)} results; the spec writes "
                f"{', '.join(f.name for f in task.written)}"
            )
        named = dict(zip((f.name for f in task.written), results, strict=True))
        for f in task.written:
            expected = part.of(f, torch.empty(task.shape(f, self.contents.row), device="meta")).shape
            if named[f.name].shape != expected:
                raise Usage(
                    f"the reference's {f.name} has the shape {list(named[f.name].shape)}, "
                    f"the spec's {list(expected)}"
                )
        return {name: tensor.to(self.contents.device) for name, tensor in named.items()}

    def _pairs(self, written: Tensors) -> Iterator[tuple[Field, Part, torch.Tensor, torch.Tensor]]:
        for part, right in zip(self.parts, self.right, strict=True):
            for f in self.task.written:
                yield f, part, part.of(f, written[f.name]), right[f.name]

    def compare(self, written: Tensors) -> str:
        """What is wrong with a result: the first element beyond its tolerance; empty where it is right."""
        self.worst = 0.0
        for f, part, got, right in self._pairs(written):
            kept = got
            if self.loose and got.dtype.is_floating_point:
                kept = torch.where(right.isfinite() | got.isfinite(), got, right.to(got.dtype))
            wrong, worst = differs(kept, right, self.tolerances[f.name], f, part)
            self.worst = max(self.worst, worst)
            if wrong:
                return wrong
        return ""

    def insensitive(self, written: Tensors) -> str:
        """Does a result of one element off by twice the tolerance pass, or one of zeros? Empty where both fail."""
        for f, _, got, right in self._pairs(written):
            tolerance = self.tolerances[f.name]
            off = got.clone()
            spot = _spot(right)
            if spot is None:
                continue
            off.view(-1)[spot] = _moved(right.reshape(-1)[spot], got.dtype, tolerance)
            if not differs(off, right, tolerance, f, Part())[0]:
                return (
                    f"{f.name} with one element off by twice the tolerance passes: "
                    f"{tolerance.text()} refuses nothing here"
                )
            zeros = torch.zeros_like(got)
            if bool((right != 0).any()) and not differs(zeros, right, tolerance, f, Part())[0]:
                return f"{f.name} of zeros passes: {tolerance.text()} is wider than the values"
        return ""


def _spot(right: torch.Tensor) -> int | None:
    """A finite element of the reference, not too near to zero; None where there is none."""
    flat = right.reshape(-1)[: 1 << 16].double()
    usable = torch.nonzero(torch.isfinite(flat) & (flat != 0))
    return int(usable[len(usable) // 2]) if len(usable) else None


def _moved(value: torch.Tensor, dtype: torch.dtype, tolerance: Tolerance) -> torch.Tensor:
    """A value off by twice the tolerance, as the output's dtype has it: rounded away from the reference."""
    if not dtype.is_floating_point:
        return (value + 1 + 2 * int(tolerance.atol)).to(dtype)
    exact = value.double()
    allowed = 0.0 if tolerance.exact else tolerance.atol + tolerance.rtol * abs(float(exact))
    direction = -1.0 if float(exact) > 0 else 1.0  # toward zero: it stays within the dtype's range
    off = (exact + direction * 2 * allowed).to(dtype)
    step = max(allowed, abs(float(exact)) * torch.finfo(dtype).eps)
    while abs(float(off) - float(exact)) <= allowed and step < 1e30:
        off = (exact + direction * (2 * allowed + step)).to(dtype)
        step *= 2
    return off


def differs(
    got: torch.Tensor, right: torch.Tensor, tolerance: Tolerance, f: Field, part: Part
) -> tuple[str, float]:
    """The first element that is too far from the reference, in words, and the largest distance in tolerances."""
    flat, expected, worst = got.reshape(-1), right.reshape(-1), 0.0
    for begin in range(0, flat.numel(), _CHUNK):
        a, b = flat[begin : begin + _CHUNK], expected[begin : begin + _CHUNK]
        bad, distance = _exactly(a, b) if tolerance.exact else _nearly(a, b, tolerance)
        worst = max(worst, distance)
        if bool(bad.any()):
            at = int(torch.nonzero(bad)[0])
            index = [int(i) for i in torch.unravel_index(torch.tensor(begin + at), got.shape)]
            if part.axis in f.shape:
                index[f.shape.index(part.axis)] += part.begin
            place = f"{f.name}[{','.join(map(str, index))}]"
            count = f" ({int(bad.sum())} elements here)" if int(bad.sum()) > 1 else ""
            return (
                f"{place}: got {float(a[at]):.9g}, expected {float(b[at]):.9g} ({tolerance.text()}){count}",
                worst,
            )
    return "", worst


def _exactly(got: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Bits, so that -0 is not 0; one NaN is as good as another."""
    right = right.to(got.dtype)
    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[got.dtype.itemsize]
    bad = got.view(words) != right.view(words)
    if got.dtype.is_floating_point:
        bad &= ~(got.float().isnan() & right.float().isnan())
    return bad, float(bad.any())


def _nearly(got: torch.Tensor, right: torch.Tensor, tolerance: Tolerance) -> tuple[torch.Tensor, float]:
    a, b = got.double(), right.double()
    if got.dtype.is_floating_point:  # what the dtype can't hold becomes infinite
        b = torch.where(b.abs() > torch.finfo(got.dtype).max * (1 + 1e-12), b.sign() * torch.inf, b)
    distance = (a - b).abs()
    allowed = tolerance.atol + tolerance.rtol * b.abs()
    good = torch.where(b.isfinite(), distance <= allowed, (a == b) | (a.isnan() & b.isnan()))
    shares = torch.where(b.isfinite() & (allowed > 0), distance / allowed, torch.zeros_like(distance))
    return ~good, float(shares.nan_to_num(nan=float("inf")).max()) if shares.numel() else 0.0


def judged(judge: Judge, operands: Operands) -> str:
    """What is wrong after a call: its results, or memory that is not its own."""
    return judge.compare(operands.written) or operands.damage()

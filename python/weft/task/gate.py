"""A gate of first sight: a candidate proves itself on the first real inputs of each signature, or is never used there.

Where its result is not the fallback's (bit for bit, or within a tolerance), the fallback is used for good. Nothing is
compared while a graph is captured or a model compiled: a signature that was not seen before gets the fallback then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

Op = Callable[..., Any]


def _results(value: Any) -> tuple[torch.Tensor, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def signature(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """What decides which kernel runs: shapes, dtypes, strides, alignment, options."""
    return tuple(
        (t.dtype, tuple(t.shape), t.stride(), t.device.type, t.data_ptr() % 16)
        if isinstance(t, torch.Tensor)
        else t
        for t in inputs
    )


class Gate:
    """Calls the candidate where it has proved itself, else the fallback."""

    def __init__(self, candidate: Op, fallback: Op, atol: float = 0, rtol: float = 0) -> None:
        self.candidate, self.fallback = candidate, fallback
        self.atol, self.rtol = atol, rtol
        self.seen: dict[tuple[Any, ...], str] = {}  # why a signature is refused; empty: it is open

    def __call__(self, *inputs: Any) -> Any:
        key = signature(inputs)
        if key not in self.seen:
            capturing = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
            if torch.compiler.is_compiling() or capturing:
                return self.fallback(*inputs)
            expected = self.fallback(*inputs)
            self.seen[key] = self._differs(expected, self._tried(inputs))
            return expected
        return self.fallback(*inputs) if self.seen[key] else self.candidate(*inputs)

    def _tried(self, inputs: tuple[Any, ...]) -> Any:
        try:
            return self.candidate(*inputs)
        except Exception as error:  # whatever a kernel does, the model goes on
            return f"it failed: {type(error).__name__}: {error}"

    def _differs(self, expected: Any, got: Any) -> str:
        if isinstance(got, str):
            return got
        for i, (right, found) in enumerate(zip(_results(expected), _results(got), strict=True)):
            if self.atol == 0 and self.rtol == 0:
                if not torch.equal(
                    right.contiguous().view(torch.uint8), found.contiguous().view(torch.uint8)
                ):
                    return f"result {i} has other bits"
                continue
            distance = (right.double() - found.double()).abs()
            if not bool((distance <= self.atol + self.rtol * right.double().abs()).all()):
                return f"result {i} differs by up to {float(distance.max()):.3g}"
        return ""

    def report(self) -> Mapping[str, str]:
        """Each signature that was seen, and why it was refused; empty where it is open."""
        return {
            " ".join(
                f"{str(p[0]).removeprefix('torch.')}{list(p[1])}" for p in key if isinstance(p, tuple)
            ): why
            for key, why in self.seen.items()
        }

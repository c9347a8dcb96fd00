"""The ways in which a step is run: as the library has it, compiled, and both with weft in it.

A side turns a model, which is its own, into what the step calls. weft's adapters are imported where they are wanted: a
side of the library alone is then the library's alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

Prepare = Callable[[Any, str], Any]  # a model and the compiler's backend


@dataclass(frozen=True)
class Side:
    """One way. `kind` is that of its rows."""

    kind: str  # weft or baseline
    words: str
    prepare: Prepare
    around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext

    @property
    def compiled(self) -> bool:
        return "torch.compile" in self.words

    def name(self, library: str) -> str:
        """What its rows are called."""
        parts = [f"weft in {library}" if self.kind == "weft" else library, version(library)]
        words = self.words.replace("torch.compile", f"torch.compile {torch.__version__}")
        return f"{' '.join(parts)}: {words}"


def cudnn_first() -> contextlib.AbstractContextManager[Any]:
    """PyTorch's attention by cuDNN where that takes the call, which is the fastest that PyTorch has on Hopper."""
    order = [
        SDPBackend.CUDNN_ATTENTION,
        SDPBackend.FLASH_ATTENTION,
        SDPBackend.EFFICIENT_ATTENTION,
        SDPBackend.MATH,
    ]
    return sdpa_kernel(order, set_priority=True)


def _as_it_is(model: Any, _: str) -> Any:
    return model


def _whole(model: Any, backend: str) -> Any:
    return torch.compile(model, fullgraph=True, dynamic=False, backend=backend)


def _each_layer(model: Any, backend: str) -> Any:
    for layer in model.layers:
        layer.compile(fullgraph=True, dynamic=False, backend=backend)
    return model


def _each_block(model: Any, backend: str) -> Any:
    model.compile_repeated_blocks(fullgraph=True, backend=backend)
    return model


def _in_transformers(then: Prepare) -> Prepare:
    def prepare(model: Any, backend: str) -> Any:
        import weft.transformers  # noqa: PLC0415

        weft.transformers.accelerate(model)
        return then(model, backend)

    return prepare


def _in_diffusers(then: Prepare, attention: bool = True) -> Prepare:
    def prepare(model: Any, backend: str) -> Any:
        import weft.diffusers  # noqa: PLC0415

        weft.diffusers.accelerate(model, attention=attention)
        return then(model, backend)

    return prepare


COMPILED = "torch.compile"
TRANSFORMERS = {
    "decode": (
        Side("baseline", "eager", _as_it_is),
        Side("baseline", COMPILED, _whole),
        Side("weft", "eager", _in_transformers(_as_it_is)),
        Side("weft", COMPILED, _in_transformers(_whole)),
    ),
    "prefill": (
        Side("baseline", "eager, cuDNN attention", _as_it_is, cudnn_first),
        Side("baseline", f"{COMPILED} of each block, cuDNN attention", _each_layer, cudnn_first),
        Side("weft", "eager", _in_transformers(_as_it_is)),
        Side("weft", f"{COMPILED} of each block", _in_transformers(_each_layer)),
    ),
}
DIFFUSERS = (
    Side("baseline", "eager", _as_it_is),
    Side("baseline", f"{COMPILED} of each block, cuDNN attention", _each_block, cudnn_first),
    Side("weft", "eager", _in_diffusers(_as_it_is)),
    Side("weft", f"{COMPILED} of each block", _in_diffusers(_each_block)),
    Side(
        "weft",
        f"{COMPILED} of each block, cuDNN attention",
        _in_diffusers(_each_block, attention=False),
        cudnn_first,
    ),
)

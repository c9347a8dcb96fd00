"""What a user would run instead of weft, one file each.

A file of this package holds `BASELINES`: objects that say what they are, which version is here, for which cases they
apply, and how they compute one. To add a peer, add a file.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

# By field: what a call reads, and where it writes.
Tensors = Mapping[str, torch.Tensor]
# Computes a case once. What it returns, by field, is copied to the case's outputs where they are checked; an output
# that it wrote in place is left out.
Compute = Callable[[Tensors], Mapping[str, torch.Tensor] | None]


class Absent(Exception):
    """The baseline can't run here; the message says what is missing."""


@dataclass(frozen=True)
class Tensor:
    """A field of a case."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...] = ()  # in elements; empty: dense
    offset: int = 0  # of the first element from where a vector may begin, in elements

    def rows_at(self, elements: int) -> bool:
        """Does every row begin at a multiple of so many elements?"""
        apart = self.stride or tuple(math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))
        steps = [step for size, step in zip(self.shape[:-1], apart, strict=False) if size > 1]
        return all(step % elements == 0 for step in [self.offset, *steps])


@dataclass(frozen=True)
class Case:
    """What is to be computed."""

    op: str
    line: str
    tensors: Mapping[str, Tensor]
    options: Mapping[str, Any]

    def dtype(self, field: str) -> str:
        """Of a field; empty where it is absent."""
        return self.tensors[field].dtype if field in self.tensors else ""

    def has(self, *fields: str) -> bool:
        """Is any of them present?"""
        return any(field in self.tensors for field in fields)

    def only(self, *fields: str) -> bool:
        """Is no other field present?"""
        return set(self.tensors) <= set(fields)


class Baseline(ABC):
    """One peer in one setting."""

    name: str  # as `--against` and the rows have it, without the version
    about: str
    own_stream = False  # works on a stream of its own, which no graph of ours captures
    needs_gpu = False

    @abstractmethod
    def version(self) -> str:
        """Of the library that is here. Raises Absent."""

    @abstractmethod
    def prepare(self, case: Case) -> Compute | None:
        """How it computes the case; None where it does not apply. May compile, when called first."""

    def missing(self, on_gpu: bool) -> str:
        """What else it lacks where a version is here; empty where nothing."""
        return "it needs a GPU" if self.needs_gpu and not on_gpu else ""

    def title(self) -> str:
        """The name in a row."""
        words = self.name.split(" ", 1)
        return " ".join([words[0], self.version(), *words[1:]])


def installed(package: str) -> str:
    """A package's version. Raises Absent."""
    try:
        return version(package)
    except PackageNotFoundError:
        raise Absent(f"{package} is not installed") from None


def imported(module: str) -> Any:
    """A module of a peer. Raises Absent with what its import said."""
    try:
        return importlib.import_module(module)
    except Exception as error:  # a peer's import may fail in any way
        raise Absent(f"{module} can't be imported: {type(error).__name__}: {error}") from error


def every() -> Iterator[Baseline]:
    """All baselines, in the order of their files' names."""
    for module in sorted(entry.name for entry in pkgutil.iter_modules(__path__)):
        if not module.startswith("_"):
            yield from importlib.import_module(f"{__name__}.{module}").BASELINES


def state(baseline: Baseline, on_gpu: bool) -> str:
    """Why a baseline can't run here; empty where it can."""
    try:
        baseline.version()
    except Absent as absent:
        return str(absent)
    return baseline.missing(on_gpu)

"""Recipes, the subclasses that they swap to, and what is counted of their calls."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

RECORD = "_weft_swap"  # in the __dict__ of a module that was swapped
GRADIENT = "a gradient is wanted, and weft has none: call under torch.no_grad() or torch.inference_mode()"

Forward = Callable[..., Any]
Passes = Callable[..., "str | None"]


@dataclass(frozen=True)
class Swap:
    """The class that a module gets, and plain values that it needs as attributes.

    `covers` names submodules whose weights the class uses instead of calling them, wherever it may.
    """

    cls: type[nn.Module]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    covers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, value in self.attributes.items():
            if isinstance(value, torch.Tensor | nn.Module):
                # It would stay behind in `.to()`, or show up in `state_dict()`.
                raise TypeError(
                    f"attribute {name!r} of a swap is a {type(value).__name__}: plain values only"
                )


@dataclass(frozen=True)
class Recipe:
    """What becomes of the modules of one class, exactly: a subclass of it may do something else.

    `target` is the class, or its qualified name ("package.module.Class"), or several of these. `sources` are what
    `source_hash(class, *also)` may be; empty for leaf modules, whose values `prepare` reads and tries.
    """

    op: str
    target: type[nn.Module] | str | tuple[type[nn.Module] | str, ...]
    prepare: Callable[[Any], Swap | str]
    sources: frozenset[str] = frozenset()
    also: tuple[str, ...] = ()  # functions of the class's module that are part of its source

    def __post_init__(self) -> None:
        for target in self.targets:
            if isinstance(target, str) and "." not in target:
                raise ValueError(f"{target!r} is a bare name; a recipe needs module and name")

    @property
    def targets(self) -> tuple[type[nn.Module] | str, ...]:
        return self.target if isinstance(self.target, tuple) else (self.target,)

    def matches(self, cls: type[nn.Module]) -> bool:
        name = qualified_name(cls)
        return any(target == name if isinstance(target, str) else target is cls for target in self.targets)

    def unknown_source(self, cls: type[nn.Module]) -> str | None:
        """Why a block of this class cannot be replaced: its source is not one that the recipe was written for."""
        if not self.sources:
            return None
        found = source_hash(cls, *self.also)
        if found is None:
            return "its source cannot be read, so that nobody can tell whether the recipe fits it"
        if found in self.sources:
            return None
        return f"unknown source (sha256 {found}): the recipe was written for another version"


def qualified_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


@functools.cache
def _definitions(module: str) -> dict[str, str]:
    """The source of each class and function of a module, by name and without decorators, which may wrap it."""
    try:
        text = inspect.getsource(sys.modules[module])
    except (OSError, TypeError, KeyError):
        return {}
    nodes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return {node.name: ast.get_source_segment(text, node) or "" for node in nodes}


def source_hash(cls: type, *also: str) -> str | None:
    """The sha256 of a class's source, and of functions of its module; None where there is no source."""
    found = _definitions(cls.__module__)
    names = (cls.__qualname__, *also)
    if any(name not in found for name in names):
        return None
    return hashlib.sha256("\0".join(found[name] for name in names).encode()).hexdigest()


@dataclass
class Swapped:
    """What undo needs, and what was counted; lies in the module's __dict__."""

    base: type[nn.Module]
    cls: type[nn.Module]
    op: str
    attributes: dict[str, Any]  # as they were: (value,), or () where there was none
    traces_before: int
    covers: tuple[str, ...]
    calls: int = 0
    passed: Counter[str] = field(default_factory=Counter)


def swapped(module: nn.Module) -> Swapped | None:
    """The record of a module that was swapped."""
    found: Swapped | None = vars(module).get(RECORD)
    return found


# Calls that torch.compile traced: of the class with this label, and why it handed them on. A label is a string, because
# the compiler makes a variable of a number that is another one in the next class.
TRACES: Counter[str] = Counter()
TRACED_PASSES: dict[str, Counter[str]] = {}
_NUMBERS = itertools.count()
_MADE: dict[tuple[Any, ...], type[nn.Module]] = {}


# Run by Dynamo while it traces, with constants, and not part of the graph: nothing is guarded but the class.
@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _traced(label: str) -> int:
    TRACES[label] += 1
    return 0


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _traced_pass(label: str, reason: str) -> int:
    TRACED_PASSES.setdefault(label, Counter())[reason] += 1
    return 0


def label_of(cls: type[nn.Module]) -> str:
    """The label of a class that `subclass` made."""
    return str(vars(cls)["_weft_label"])


def ran(module: nn.Module, label: str) -> None:
    """Counts a call that weft takes."""
    if torch.compiler.is_compiling():
        _traced(label)
    else:
        vars(module)[RECORD].calls += 1


def passed(module: nn.Module, label: str, reason: str) -> None:
    """Counts a call that the module's own class takes."""
    if torch.compiler.is_compiling():
        _traced_pass(label, reason)
    else:
        vars(module)[RECORD].passed[reason] += 1


def handed_on(module: nn.Module, reason: str) -> None:
    """For a forward that weft takes: counts that it left a part of the call to others, and why."""
    passed(module, type(module)._weft_label, reason)  # type: ignore[attr-defined]


def wants_gradient(module: nn.Module, values: Iterable[Any]) -> bool:
    if not torch.is_grad_enabled():
        return False
    tensors = (value for value in values if isinstance(value, torch.Tensor))
    return any(tensor.requires_grad for tensor in itertools.chain(tensors, module.parameters()))


def subclass(
    base: type[nn.Module], forward: Forward, passes: Passes | None = None, otherwise: Forward | None = None
) -> type[nn.Module]:
    """A subclass of `base` with this forward, under the name of `base`; the same one for the same arguments.

    `passes(module, *args, **kwargs)` returns the reason why a call is not for weft, or None; such calls are the base's,
    or those of `otherwise`, where `forward` takes more than the base does. The functions should be those of a module,
    not made for each instance: torch.compile shares compiled code among modules of one class.
    """
    key = (base, forward, passes, otherwise)
    if key in _MADE:
        return _MADE[key]
    label = f"{base.__qualname__} {next(_NUMBERS)}"
    base_forward: Forward = base.forward
    plain = otherwise or base_forward

    def call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        reason = GRADIENT if wants_gradient(self, (*args, *kwargs.values())) else None
        if reason is None and passes is not None:
            reason = passes(self, *args, **kwargs)
        if reason is not None:
            passed(self, label, reason)
            return plain(self, *args, **kwargs)
        ran(self, label)
        return forward(self, *args, **kwargs)

    # The compiler keeps what it compiled, and what it saw change, by code: each class has code of its own.
    call.__code__ = call.__code__.replace(co_name=f"forward of {label}")
    members = {
        "forward": functools.wraps(base_forward)(call),
        "__module__": forward.__module__,
        "__doc__": base.__doc__,
        "_weft_label": label,
    }
    made = type(base.__name__, (base,), members)
    made.__qualname__ = base.__qualname__
    return _MADE.setdefault(key, made)

"""plan, apply and undo, and the tables that they print."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from torch import nn

from weft.swap import _hooks
from weft.swap._recipe import RECORD, TRACED_PASSES, TRACES, Recipe, Swap, Swapped, label_of, swapped

ON_UNDO = "_weft_on_undo"  # in the __dict__ of a model


@dataclass(frozen=True)
class Row:
    """One module and one recipe: what became of it, or will."""

    path: str
    op: str
    replaced: bool
    reason: str = ""  # why not
    hooks: bool = False  # it was declined because a swap would not be reached
    swap: Swap | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Plan:
    """What apply would do."""

    rows: tuple[Row, ...]

    @property
    def replaced(self) -> list[Row]:
        return [row for row in self.rows if row.replaced]

    @property
    def declined(self) -> list[Row]:
        return [row for row in self.rows if not row.replaced]

    def __str__(self) -> str:
        lines = [
            (row.path, row.op, "replaced" if row.replaced else "declined", row.reason) for row in self.rows
        ]
        return table(("module", "op", "", "reason"), lines)


@dataclass(frozen=True)
class Report(Plan):
    """What apply did, and what was called since."""

    model: nn.Module = field(repr=False)

    def _records(self) -> Iterator[tuple[str, Swapped]]:
        for row in self.replaced:
            record = swapped(self.model.get_submodule(row.path))
            if record is not None:  # else it was undone
                yield row.path, record

    def calls(self) -> dict[str, int]:
        """Calls that weft took, by module path, without those in compiled graphs."""
        return {path: record.calls for path, record in self._records()}

    def passed(self) -> dict[str, Counter[str]]:
        """Calls that were handed to the module's own class, by module path: how often, for each reason.

        A reason that torch.compile met while it traced counts once a graph, for all modules that share the class.
        """
        found = {}
        for path, record in self._records():
            counted = record.passed + TRACED_PASSES.get(label_of(record.cls), Counter())
            if counted:
                found[path] = counted
        return found

    def traces(self) -> dict[str, int]:
        """How often torch.compile traced the module, or another that shares its class, into a graph."""
        return {path: TRACES[label_of(record.cls)] - record.traces_before for path, record in self._records()}

    def silent(self) -> list[str]:
        """The replaced modules of which weft took no call, eager or compiled: paths.

        Those are left out that another module covers: it uses their weights in a call of its own.
        """
        idle, covered = self._idle()
        return [path for path in idle if path not in covered]

    def _idle(self) -> tuple[list[str], set[str]]:
        """Modules of which weft took no call, and all that are covered by one that it took calls of."""
        traces = self.traces()
        idle = [path for path, calls in self.calls().items() if not calls and not traces[path]]
        busy = [(path, record) for path, record in self._records() if path not in idle]
        return idle, {f"{path}.{name}".removeprefix(".") for path, record in busy for name in record.covers}

    def __str__(self) -> str:
        calls, passed, traces = self.calls(), self.passed(), self.traces()
        idle, covered = self._idle()
        lines = []
        for row in self.rows:
            state = ("replaced" if row.path in calls else "undone") if row.replaced else "declined"
            ours = str(calls[row.path]) if state == "replaced" else ""
            traced = str(traces[row.path] or "") if state == "replaced" else ""
            handed = passed.get(row.path, Counter()) if state == "replaced" else Counter()
            used = "the module around it uses its weights" if row.path in covered and row.path in idle else ""
            reasons = row.reason or "; ".join(handed) or used
            lines.append((row.path, row.op, state, ours, traced, str(handed.total() or ""), reasons))
        return table(("module", "op", "", "calls", "traced", "passed on", "reason"), lines)


def table(head: tuple[str, ...], lines: Sequence[tuple[str, ...]]) -> str:
    """Columns; modules that differ by numbers in their path alone share a line."""
    shared: Counter[tuple[str, ...]] = Counter()
    for path, *rest in lines:
        shared[(re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", path), *rest)] += 1
    body = [(f"{line[0]} ({count})" if count > 1 else line[0], *line[1:]) for line, count in shared.items()]
    widths = [max(len(row[column]) for row in (head, *body)) for column in range(len(head))]
    ruled = (head, tuple("-" * width for width in widths), *body)
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in ruled)


def _rows_of(path: str, module: nn.Module, recipes: Sequence[Recipe]) -> Iterator[Row]:
    """A row for each recipe of the module's class, up to the first that takes it."""
    record = swapped(module)
    if record is not None:
        if type(module) is record.cls:
            yield Row(path, record.op, replaced=True)
        else:
            yield Row(
                path,
                record.op,
                False,
                f"its class became {type(module).__qualname__} after weft's swap",
                True,
            )
        return
    base = type(module)
    for recipe in recipes:
        if not recipe.matches(base):
            continue
        made: Swap | str | None = recipe.unknown_source(base)
        unreached = None if made else _hooks.why_not_reached(module, base)
        made = made or unreached or recipe.prepare(module)
        if isinstance(made, Swap):
            if not issubclass(made.cls, base) or made.cls.__qualname__ != base.__qualname__:
                raise TypeError(
                    f"the recipe {recipe.op} swaps {base.__qualname__} to {made.cls}: not by subclass()"
                )
            yield Row(path, recipe.op, replaced=True, swap=made)
            return
        yield Row(path, recipe.op, replaced=False, reason=made, hooks=unreached is not None)


def plan(model: nn.Module, recipes: Sequence[Recipe]) -> Plan:
    """What apply would do to the modules of a model, and why not; changes nothing."""
    return Plan(
        tuple(row for path, module in model.named_modules() for row in _rows_of(path, module, recipes))
    )


def _swap(module: nn.Module, op: str, made: Swap) -> None:
    own = vars(module)
    before = {name: (own[name],) if name in own else () for name in made.attributes}
    traces = TRACES[label_of(made.cls)]
    base = type(module)
    own[RECORD] = Swapped(base, made.cls, op, before, traces, made.covers)
    own.update(made.attributes)
    module.__class__ = made.cls
    _hooks.rebind(module, base, made.cls)


def apply(model: nn.Module, recipes: Sequence[Recipe]) -> Report:
    """Swaps the modules that a recipe takes. A second call leaves what is swapped, and goes on counting."""
    planned = plan(model, recipes)
    for row in planned.rows:
        if row.swap is not None:
            _swap(model.get_submodule(row.path), row.op, row.swap)
        elif row.hooks:
            warnings.warn(f"weft.swap leaves {row.path or 'the model'} alone: {row.reason}", stacklevel=2)
    return Report(planned.rows, model)


def report(model: nn.Module) -> Report:
    """What is swapped in a model now, by whomever."""
    return Report(plan(model, ()).rows, model)


def on_undo(model: nn.Module, function: Callable[[], None]) -> None:
    """Has undo call a function: for what an adapter changed beside the classes of modules.

    A functools.partial, not a closure, is that of the copy in a copy of the model.
    """
    vars(model).setdefault(ON_UNDO, []).append(function)


def undo(model: nn.Module) -> int:
    """Gives modules their class and attributes back; returns how many.

    Raises RuntimeError, before it changes anything, where something else changed the class of a module since.
    """
    found = [(path, module, record) for path, module in model.named_modules() if (record := swapped(module))]
    for path, module, record in found:
        if type(module) is not record.cls:
            raise RuntimeError(
                f"{path}: its class became {type(module).__qualname__} after weft's swap; undo that first"
            )
    for _, module, record in found:
        own = vars(module)
        _hooks.rebind(module, record.cls, record.base)
        module.__class__ = record.base
        for name, before in record.attributes.items():
            if before:
                own[name] = before[0]
            else:
                own.pop(name, None)
        del own[RECORD]
    for module in model.modules():
        for function in reversed(vars(module).pop(ON_UNDO, [])):
            function()
    return len(found)

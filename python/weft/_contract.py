"""An op's contract in Python: its fields and options, and what its outputs are for given inputs."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import cached_property
from typing import Any

Shape = tuple[int, ...]


LEADING = "_rows"  # the number of rows that "..." stands for, among the sizes of axes


def ceil(size: int, of: int) -> int:
    """How many groups hold a size, as axis expressions say it."""
    return -(-size // of) if of else 0


def pad(size: int, to: int) -> int:
    """A size rounded up to a multiple, as axis expressions say it."""
    return ceil(size, to) * to


class Axis:
    """One axis of a pattern, such as `(q_heads+2*kv_heads)*dim`, `ceil(dim/16)` or `pad(...,128)`."""

    def __init__(self, text: str) -> None:
        text = text.replace("/", ",").replace("...", LEADING)  # now it is Python
        self.names = tuple(dict.fromkeys(re.findall(r"[a-zA-Z_]\w*(?![\w(])", text)))
        self.rounds = "ceil(" in text or "pad(" in text
        # It works on PyTorch's symbolic sizes too.
        self.text = text
        self.value = eval(f"lambda {', '.join(self.names)}: {text}")

    @property
    def is_name(self) -> bool:
        """Is it one axis alone?"""
        return self.text.isidentifier() and self.text != LEADING

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """Raises KeyError where a size is unknown."""
        size: int = self.value(*[sizes[name] for name in self.names])
        return size

    def solve(self, size: int, sizes: dict[str, int]) -> None:
        """Adds the one name that is unknown, if the size determines it: the text is linear in it."""
        unknown = [name for name in self.names if name not in sizes]
        if len(unknown) != 1 or self.rounds or unknown[0] == LEADING:
            return
        at0, at1 = (self.evaluate({**sizes, unknown[0]: value}) for value in (0, 1))
        if at1 > at0:
            sizes[unknown[0]] = (size - at0) // (at1 - at0)


@dataclass(frozen=True)
class Field:
    """A tensor of an op."""

    name: str
    role: str  # in, out, in-out
    optional: bool
    axes: str
    dtypes: tuple[str, ...]
    layout: str
    in_place_of: tuple[str, ...]
    rules: tuple[str, ...]  # what it and its elements must be, in words: "only beside gate"
    meaning: str
    picked_by: str = ""  # where that field is there, this one has the axes picked_axes
    picked_axes: str = ""
    partial: bool = False  # a call may leave elements as they are: what is allocated begins as zeros
    sized_axis: str = ""  # an axis whose size this field's dtype says
    sizes_by_dtype: Mapping[str, int] = dataclass_field(default_factory=dict)
    # By another field and its dtype: the default first.
    dtype_beside: Mapping[str, Mapping[str, tuple[str, ...]]] = dataclass_field(default_factory=dict)
    like: tuple[str, ...] = ()  # fields whose dtype it has

    @property
    def reads(self) -> bool:
        return self.role != "out"

    @property
    def writes(self) -> bool:
        return self.role != "in"

    def beside(self, there: Container[str]) -> Field:
        """This field as it is beside fields of these names: its axes are others where it is picked."""
        return self._picked if self.picked_by in there else self

    @cached_property
    def _picked(self) -> Field:
        return replace(self, axes=self.picked_axes, picked_by="")

    @property
    def broadcasts(self) -> bool:
        """Does it broadcast to the leading axes of the fields before it."""
        return self.axes.startswith("~")

    @cached_property
    def pattern(self) -> tuple[int | None, tuple[Axis, ...]]:
        """How many axes stand before the "..." (None: there is none), and all axes but that."""
        words = self.axes.split()
        before = 0 if self.broadcasts else words.index("...") if "..." in words else None
        return before, tuple(Axis(word) for word in words if word not in ("...", "~..."))


@dataclass(frozen=True)
class Option:
    """A number or a choice of an op."""

    name: str
    kind: str  # real, integer, boolean, choice
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()
    range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Contract:
    """What an op takes and gives."""

    name: str
    formula: str
    fields: tuple[Field, ...]
    options: tuple[Option, ...]
    tolerance: str
    replaces: str

    @staticmethod
    def of(described: Mapping[str, Any]) -> Contract:
        """From the library's JSON."""

        def tuples(entry: Mapping[str, Any]) -> dict[str, Any]:
            return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}

        return Contract(
            name=described["op"],
            formula=described["formula"],
            fields=tuple(Field(**tuples(entry)) for entry in described["fields"]),
            options=tuple(Option(**tuples(entry)) for entry in described["options"]),
            tolerance=described["tolerance"],
            replaces=described["replaces"],
        )

    @cached_property
    def inputs(self) -> tuple[Field, ...]:
        """What a call reads, required fields first."""
        return _required_first(field for field in self.fields if field.reads)

    @cached_property
    def outputs(self) -> tuple[Field, ...]:
        """What a call writes only, required fields first."""
        return _required_first(field for field in self.fields if field.role == "out")

    @cached_property
    def results(self) -> tuple[Field, ...]:
        """What a call returns: required outputs, what it updates in place, optional outputs."""
        updated = [field for field in self.fields if field.role == "in-out"]
        required = [field for field in self.outputs if not field.optional]
        return (*required, *updated, *(field for field in self.outputs if field.optional))

    @cached_property
    def typed_outputs(self) -> tuple[Field, ...]:
        """Outputs of which the caller chooses the dtype: all but those of one dtype or with that of another field."""
        return tuple(
            field for field in self.outputs if len(field.dtypes) > 1 and not (field.optional and field.like)
        )

    def _known_sizes(self, options: Mapping[str, Any], dtypes: Mapping[str, str]) -> dict[str, int]:
        """The axes that options and dtypes fix."""
        sizes = {option.name: options[option.name] for option in self.options if option.kind == "integer"}
        for field in self.fields:
            if field.sized_axis and dtypes.get(field.name) in field.sizes_by_dtype:
                sizes[field.sized_axis] = field.sizes_by_dtype[dtypes[field.name]]
        return sizes

    def shapes(
        self,
        wanted: Iterable[Field],
        given: Mapping[str, Sequence[int]],
        options: Mapping[str, Any],
        dtypes: Mapping[str, str],
    ) -> list[Shape]:
        """The shapes of outputs, from those of the given fields and the dtypes of both, in elements.

        Raises ValueError where one doesn't follow.
        """
        sizes = self._known_sizes(options, dtypes)
        there = {name for name, shape in given.items() if shape is not None}
        leading: Shape | None = None
        misfit = ""
        for _ in range(2):  # the second round knows the axes that later fields bound
            for each in self.fields:
                field, shape = each.beside(there), given.get(each.name)
                if shape is None or field.broadcasts:
                    continue
                before, axes = field.pattern
                rank = len(shape) - len(axes)
                if rank < 0 or (rank > 0 and before is None):
                    if shape:  # a scalar may stand for one element
                        misfit = misfit or self._misfit(field, shape)
                    continue  # for the library's check to report
                named = list(shape)
                if before is not None:
                    between = tuple(named[before : before + rank])
                    del named[before : before + rank]
                    if leading is None:
                        leading = between
                        sizes[LEADING] = math.prod(leading)
                for axis, size in zip(axes, named, strict=True):
                    axis.solve(size, sizes)
        for field in self.inputs:  # an axis that only absent inputs name is empty
            if given.get(field.name) is None:
                for axis in field.beside(there).pattern[1]:
                    if axis.is_name:
                        sizes.setdefault(axis.text, 0)
        return [self._shape(field.beside(there), leading, sizes, misfit) for field in wanted]

    def _misfit(self, field: Field, shape: Sequence[int]) -> str:
        expected = ", ".join(field.axes.split())
        return f"{self.name}.{field.name}: expected [{expected}], got {list(shape)}"

    def _shape(self, field: Field, leading: Shape | None, sizes: Mapping[str, int], misfit: str) -> Shape:
        before, axes = field.pattern
        try:
            named = [axis.evaluate(sizes) for axis in axes]
        except KeyError:
            named = None
        if named is None or (before is not None and leading is None):
            # An input of another rank is to blame, where there is one.
            raise ValueError(
                misfit
                or f"{self.name}.{field.name}: its shape [{field.axes}] doesn't follow from the other fields"
            )
        if before is not None and leading is not None:
            named[before:before] = leading
        return tuple(named)

    def default_dtype(self, field: Field, given: Mapping[str, str]) -> str:
        """An output's dtype where the caller leaves it open.

        What another field's dtype says; else that of the first tensor that it may take the place of, else of the first
        input, whose dtype it may have; else the first of its own. What a scale of its own belongs to (gemm's a, with
        a_scale) does not pass fewer bits on: codes without a scale are for the caller to ask for, so that is bf16.
        """
        for other, choices in field.dtype_beside.items():
            if given.get(other) in choices:
                return choices[given[other]][0]
        scales = {other.name for other in self.fields}
        for source in (*field.in_place_of, *(source.name for source in self.inputs)):
            dtype = given.get(source, "")
            scaled = f"{source}_scale" in scales and dtype.startswith(("fp8", "fp4", "int8"))
            if scaled and "bf16" in field.dtypes:
                return "bf16"
            if dtype in field.dtypes:
                return dtype
        return field.dtypes[0]


def _required_first(fields: Iterable[Field]) -> tuple[Field, ...]:
    return tuple(sorted(fields, key=lambda field: field.optional))

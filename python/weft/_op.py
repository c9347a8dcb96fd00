"""Ops as Python sees them: a contract, its function in the library, and what follows from the contract for a call."""

from __future__ import annotations

import inspect
import itertools
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from weft import _library
from weft._contract import Contract, Field

MISSING = inspect.Parameter.empty
Values = dict[str, Any]  # a call's arguments by parameter
PACKED = {"fp4_e2m1": 2, "int4": 2}  # elements that are one of a framework's, along the last axis


def _repacked(shape: Sequence[int], times: float) -> tuple[int, ...]:
    """A shape in other elements, so many for one of its own."""
    if times == 1 or not shape:
        return tuple(shape)
    last = shape[-1] * int(times) if times > 1 else shape[-1] // round(1 / times)
    return (*shape[:-1], last)


class Op:
    """A contract with its function in the library."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.name = contract.name
        self.function: Callable[..., Any] = _library.function(f"op.{contract.name}")
        # torch.compile traces through calls, and can't trace the lock of a cached property: all are worked out here.
        for described in (contract, *contract.fields):
            for name, member in vars(type(described)).items():
                if isinstance(member, cached_property):
                    getattr(described, name)
        self.positional = tuple(field.name for field in contract.inputs)
        # Every parameter in the signature's order: inputs, then by keyword options, outputs and their dtypes.
        self.defaults: Values = {field.name: None if field.optional else MISSING for field in contract.inputs}
        self.defaults |= {option.name: option.default for option in contract.options}
        self.defaults |= {field.name: None for field in contract.outputs}
        self.defaults |= {f"{field.name}_dtype": None for field in contract.typed_outputs}
        # The library function's arguments: fields, then options, as the contract lists them.
        self.order = (
            *(field.name for field in contract.fields),
            *(option.name for option in contract.options),
        )

        self.asked_for = frozenset(field.name for field in contract.outputs if field.optional)

        # A named tuple for each choice of results, made once so that pytrees of equal outputs have equal types.
        names = [field.name for field in contract.results]
        optional = [field.name for field in contract.results if field.optional]
        left_out = itertools.chain.from_iterable(
            itertools.combinations(optional, count) for count in range(len(optional) + 1)
        )
        chosen = [tuple(name for name in names if name not in out) for out in left_out]
        self.result_types = {results: namedtuple(contract.name, results) for results in chosen}

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Values:
        """The arguments by parameter. Raises TypeError as a Python function would."""
        if len(args) > len(self.positional):
            raise TypeError(
                f"{self.name}() takes {len(self.positional)} positional arguments, got {len(args)}"
            )
        values = dict(self.defaults)
        for name, value in zip(self.positional, args, strict=False):
            values[name] = value
        for name, value in kwargs.items():
            if name not in values:
                raise TypeError(f"{self.name}() has no parameter {name!r}; it has {', '.join(values)}")
            if name in self.positional[: len(args)]:
                raise TypeError(f"{self.name}() got {name!r} twice")
            values[name] = value
        for name in self.positional:
            if values[name] is MISSING:
                raise TypeError(f"{self.name}() needs {name!r}")
        return values

    def arguments(self, values: Mapping[str, Any]) -> list[Any]:
        """What the library function takes; fields that `values` lacks, or that False declines, are absent."""
        given = map(values.get, self.order)
        return [
            None if value is False and name in self.asked_for else value
            for name, value in zip(self.order, given, strict=True)
        ]

    def missing(self, values: Mapping[str, Any]) -> list[Field]:
        """The outputs to allocate: those not given that are required, or asked for with True or a dtype."""

        def asked(field: Field) -> bool:
            return not field.optional or values.get(f"{field.name}_dtype") is not None

        return [
            field
            for field in self.contract.outputs
            if values[field.name] is True or (values[field.name] is None and asked(field))
        ]

    def allocation(
        self, wanted: Sequence[Field], values: Mapping[str, Any], name_of: Callable[[Any], str | None]
    ) -> list[tuple[tuple[int, ...], str]]:
        """The shape, in a framework's elements, and the dtype of outputs; `name_of` names a framework's dtype."""
        arrays = {
            field.name: values[field.name]
            for field in self.contract.fields
            if hasattr(values[field.name], "shape")
        }
        names = {key: name_of(array.dtype) for key, array in arrays.items()}
        dtypes = {key: name for key, name in names.items() if name is not None}
        for field in wanted:
            dtypes[field.name] = self.dtype(field, values, dtypes, name_of)
        given = {
            key: _repacked(array.shape, PACKED.get(dtypes.get(key, ""), 1)) for key, array in arrays.items()
        }
        shapes = self.contract.shapes(wanted, given, values, dtypes) if wanted else []
        return [
            (_repacked(shape, 1 / PACKED.get(dtypes[field.name], 1)), dtypes[field.name])
            for field, shape in zip(wanted, shapes, strict=True)
        ]

    def dtype(
        self,
        field: Field,
        values: Mapping[str, Any],
        dtypes: Mapping[str, str],
        name_of: Callable[[Any], str | None],
    ) -> str:
        """The name of an output's dtype; `dtypes` are those of other fields."""
        chosen = values.get(f"{field.name}_dtype")
        if chosen is not None:
            name = chosen if isinstance(chosen, str) else name_of(chosen)
            if name not in field.dtypes:
                expected = ", ".join(field.dtypes)
                raise TypeError(f"{self.name}.{field.name}: expected dtype {expected}, got {chosen}")
            return name
        return self.contract.default_dtype(field, dtypes)

    def result(self, values: Mapping[str, Any]) -> Any:
        """What a call returns: its one result, or a named tuple of all that it wrote."""
        written = {
            field.name: values[field.name]
            for field in self.contract.results
            if values[field.name] is not None and values[field.name] is not False
        }
        if len(written) == 1:
            return next(iter(written.values()))
        return self.result_types[tuple(written)](*written.values())


OPS = {described["op"]: Op(Contract.of(described)) for described in _library.contracts()}

"""Ops as Python sees them: a contract, its function in the library, and what follows from the contract for a call."""

from __future__ import annotations

import inspect
import itertools
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import tvm_ffi

from weft import _library
from weft._contract import Contract, Field

MISSING = inspect.Parameter.empty
Values = dict[str, Any]  # a call's arguments by parameter


class Op:
    """A contract with its function in the library."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.name = contract.name
        self.function: tvm_ffi.Function = _library.function(f"op.{contract.name}")

        # A named tuple for each choice of results, made once so that pytrees of equal outputs have equal types.
        optional = [field.name for field in contract.outputs if field.optional]
        always = [field.name for field in contract.results if field.name not in optional]
        self.result_types = {
            (*always, *chosen): namedtuple(contract.name, (*always, *chosen))
            for count in range(len(optional) + 1)
            for chosen in itertools.combinations(optional, count)
        }

    @cached_property
    def positional(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.contract.inputs)

    @cached_property
    def defaults(self) -> Values:
        """Every parameter in the signature's order: inputs, then by keyword options, outputs and their dtypes."""
        defaults: Values = {field.name: None if field.optional else MISSING for field in self.contract.inputs}
        defaults |= {option.name: option.default for option in self.contract.options}
        defaults |= {field.name: None for field in self.contract.outputs}
        return defaults | {f"{field.name}_dtype": None for field in self.contract.typed_outputs}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The library function's arguments: fields, then options, as the contract lists them."""
        fields, options = self.contract.fields, self.contract.options
        return (*(field.name for field in fields), *(option.name for option in options))

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
        """What the library function takes; fields that `values` lacks are absent."""
        return [values.get(name) for name in self.order]

    def missing(self, values: Mapping[str, Any]) -> list[Field]:
        """The outputs to allocate: those not given that are required, or asked for with True."""
        return [
            field
            for field in self.contract.outputs
            if values[field.name] is True or (values[field.name] is None and not field.optional)
        ]

    def shapes(self, wanted: Sequence[Field], values: Mapping[str, Any]) -> list[tuple[int, ...]]:
        """The shapes of outputs to allocate, from the arrays of a call."""
        given = {
            field.name: values[field.name].shape
            for field in self.contract.fields
            if hasattr(values[field.name], "shape")
        }
        return self.contract.shapes(wanted, given, values)

    def dtype(self, field: Field, values: Mapping[str, Any], name_of: Callable[[Any], str | None]) -> str:
        """The name of an output's dtype; `name_of` gives that of a framework's dtype."""
        chosen = values.get(f"{field.name}_dtype")
        if chosen is not None:
            name = chosen if isinstance(chosen, str) else name_of(chosen)
            if name not in field.dtypes:
                expected = ", ".join(field.dtypes)
                raise TypeError(f"{self.name}.{field.name}: expected dtype {expected}, got {chosen}")
            return name
        given = {
            f.name: name_of(values[f.name].dtype) for f in self.contract.inputs if values[f.name] is not None
        }
        return self.contract.default_dtype(
            field, {key: name for key, name in given.items() if name is not None}
        )

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

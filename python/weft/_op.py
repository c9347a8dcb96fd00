"""Python functions made from contracts: signatures, docstrings, and calls handed to the caller's framework."""

from __future__ import annotations

import inspect
import itertools
import textwrap
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import tvm_ffi

from weft import _library
from weft._contract import Contract, Field

MISSING = inspect.Parameter.empty
Values = dict[str, Any]  # a call's arguments by parameter


class Framework(Protocol):
    """What weft asks of an array framework: a module of this package."""

    def run(self, op: Op, values: Values) -> Any:
        """Runs a call on the framework's arrays and returns what it wrote (see Op.result)."""


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


def framework_of(array: Any) -> Framework:
    """The module that handles an array; raises TypeError where there is none. Nothing is imported before."""
    for base in type(array).__mro__:
        root = base.__module__.partition(".")[0]
        # Import statements, because torch.compile traces through them.
        if root == "torch":
            import weft.torch  # noqa: PLC0415

            return weft.torch
        if root in ("jax", "jaxlib"):
            import weft.jax  # noqa: PLC0415

            return weft.jax
        if root == "numpy":
            import weft.numpy  # noqa: PLC0415

            return weft.numpy
    if hasattr(array, "__dlpack__"):
        import weft.dlpack  # noqa: PLC0415

        return weft.dlpack
    raise TypeError(f"expected an array of PyTorch, JAX or NumPy, got {type(array).__name__}")


def run(op: Op, values: Values) -> Any:
    """A call, by the framework of its first array."""
    for name in op.positional:
        if values[name] is not None:
            return framework_of(values[name]).run(op, values)
    raise TypeError(f"{op.name}() needs an array for one of {', '.join(op.positional)}")


def docstring(contract: Contract) -> str:
    """The function's documentation, from the contract."""

    def wrap(text: str, indent: str) -> str:
        return textwrap.fill(
            text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )

    def describe(name: str, what: str) -> str:
        return textwrap.indent(wrap(f"{name}: {what}", "    "), "    ")

    def field_text(field: Field) -> str:
        note = f" May be the memory of {' or '.join(field.in_place_of)}." if field.in_place_of else ""
        ask = " True asks for it." if field.optional and field.role == "out" else ""
        update = " Updated in place (JAX: returned)." if field.role == "in-out" else ""
        dtypes = ", ".join(field.dtypes)
        return describe(field.name, f"[{field.axes}] {dtypes}. {_sentence(field.meaning)}{update}{ask}{note}")

    lines = [wrap(contract.formula, "    "), "", "Args:"]
    lines += [field_text(field) for field in contract.inputs]
    for option in contract.options:
        values = f" One of {', '.join(option.choices)}." if option.choices else ""
        lines.append(describe(option.name, _sentence(option.meaning) + values))
    lines += [field_text(field) for field in contract.outputs]
    for field in contract.typed_outputs:
        lines.append(describe(f"{field.name}_dtype", f"dtype of {field.name} where it is allocated."))
    names = ", ".join(field.name + (" if asked for" if field.optional else "") for field in contract.results)
    many = len(contract.results) > 1
    lines += [
        "",
        "Returns:",
        describe("a named tuple, or the one result" if many else "the result", f"{names}."),
    ]
    lines += ["", "Raises:", "    ValueError, TypeError: what the contract forbids, with the field at fault."]
    lines += [
        "",
        wrap(f"Numerics: {contract.tolerance}.", "    "),
        wrap(f"Replaces: {contract.replaces}.", "    "),
    ]
    return "\n".join(lines)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def signature(op: Op) -> inspect.Signature:
    """The function's parameters, from the contract."""
    return inspect.Signature(
        [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD
                if name in op.positional
                else inspect.Parameter.KEYWORD_ONLY,
                default=default,
            )
            for name, default in op.defaults.items()
        ]
    )


def function(op: Op) -> Callable[..., Any]:
    """The public function of an op."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return run(op, op.bind(args, kwargs))

    call.__name__ = call.__qualname__ = op.name
    call.__module__ = "weft"
    call.__doc__ = docstring(op.contract)
    call.__signature__ = signature(op)  # type: ignore[attr-defined]
    return call


OPS = {described["op"]: Op(Contract.of(described)) for described in _library.contracts()}

"""The public functions: signatures and docstrings from the contracts, calls handed to the framework of their arrays."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any, Protocol

from weft._contract import Contract, Field
from weft._op import Op, Values


class Framework(Protocol):
    """What weft asks of an array framework: a module of this package."""

    def run(self, op: Op, values: Values) -> Any:
        """Runs a call on the framework's arrays and returns what it wrote (see Op.result)."""


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
    for name in (*op.positional, *(field.name for field in op.contract.outputs)):
        if values[name] is not None and not isinstance(values[name], bool):
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
        rules = "".join(f" {_sentence(rule)}" for rule in field.rules)
        text = f"[{field.axes}] {dtypes}. {_sentence(field.meaning)}{rules}{update}{ask}{note}"
        return describe(field.name, text)

    lines = [wrap(contract.formula, "    "), "", "Args:"]
    lines += [field_text(field) for field in contract.inputs]
    for option in contract.options:
        values = f" One of {', '.join(option.choices)}." if option.choices else ""
        lines.append(describe(option.name, _sentence(option.meaning) + values))
    lines += [field_text(field) for field in contract.outputs]
    for field in contract.typed_outputs:
        ask = " It asks for it." if field.optional else ""
        lines.append(describe(f"{field.name}_dtype", f"dtype of {field.name} where it is allocated.{ask}"))
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

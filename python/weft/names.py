"""Names of other kernel libraries for calls that weft's ops cover: `weft.names.gate_geglu_merged_fp8_fp16(x, scale)`.

The table `names.csv` binds each to an op: `fields` are its tensors in the order in which that library's entry takes
its inputs (with the dtypes that it takes; weft's op takes more), `fixed` what the name stands for, in the words of a
case line: an option's value, an output's dtype, `true` for an optional output, `@field` for one that is the memory of
an input (JAX: returned instead), for one of its own tensors the view of it that the op gets (`x=flat`, `x=turned`).
`differs` says where results or demands are not those of the source. Any keyword of
the op can be given beside.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft._contract import Option
from weft._function import framework_of, run
from weft._op import OPS


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    op: str
    fields: dict[str, str]  # dtypes by field
    fixed: dict[str, str]
    source: str
    differs: str


def _pairs(text: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in text.split())


def _read() -> dict[str, Row]:
    with (Path(__file__).parent / "names.csv").open(newline="", encoding="utf-8") as table:
        rows = list(csv.DictReader(table))
    return {
        row["name"]: Row(**row | {"fields": _pairs(row["fields"]), "fixed": _pairs(row["fixed"])})  # type: ignore[arg-type]
        for row in rows
    }


ROWS = _read()


# Views by word; frameworks that have none make copies.
_VIEWS: dict[str, Callable[[Any], Any]] = {
    "flat": lambda array: array.reshape(-1),
    "turned": lambda array: array.swapaxes(-1, -2),
}


def viewed(row: Row, tensors: dict[str, Any]) -> dict[str, Any]:
    """The tensors as the op gets them."""
    return {
        name: _VIEWS[row.fixed[name]](tensor) if row.fixed.get(name) in _VIEWS else tensor
        for name, tensor in tensors.items()
    }


def _value(option: Option, word: str) -> Any:
    if option.kind == "choice":
        return word
    return word == "true" if option.kind == "boolean" else type(option.default)(word)


def _preset(row: Row, tensors: dict[str, Any]) -> dict[str, Any]:
    """The keywords that the name stands for, with these tensors."""
    options = {option.name: option for option in OPS[row.op].contract.options}
    optional = {field.name for field in OPS[row.op].contract.outputs if field.optional}
    preset: dict[str, Any] = {}
    for name, word in row.fixed.items():
        if word in _VIEWS:
            continue
        if name in options:
            preset[name] = _value(options[name], word)
        elif word.startswith("@"):
            owner = tensors[word[1:]]
            if getattr(framework_of(owner), "WRITES", True):
                preset[name] = owner
            elif name in optional:
                preset[name] = True
        elif word == "true":
            preset[name] = True
        else:
            preset[f"{name}_dtype"] = word
    return preset


def _function(row: Row) -> Callable[..., Any]:
    op = OPS[row.op]

    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(row.fields):
            raise TypeError(f"{row.name}() takes {len(row.fields)} positional arguments, got {len(args)}")
        tensors = dict(zip(row.fields, args, strict=False))
        tensors |= {name: kwargs.pop(name) for name in row.fields if name in kwargs}
        missing = [name for name in row.fields if tensors.get(name) is None]
        if missing:
            raise TypeError(f"{row.name}() needs {', '.join(missing)}")
        return run(op, op.bind((), _preset(row, tensors) | viewed(row, tensors) | kwargs))

    fixed = ", ".join(f"{name}={word}" for name, word in row.fixed.items()) or "nothing"
    differs = f" What differs: {row.differs}." if row.differs else ""
    call.__name__ = call.__qualname__ = row.name
    call.__doc__ = (
        f"weft.{row.op} of {', '.join(row.fields)}, with {fixed} fixed. Source: {row.source}.{differs}"
    )
    return call


def __getattr__(name: str) -> Callable[..., Any]:
    if name not in ROWS:
        raise AttributeError(f"weft.names has no {name!r}: names.csv lists what it has")
    function = globals()[name] = _function(ROWS[name])
    return function


def __dir__() -> list[str]:
    return [*globals(), *ROWS]

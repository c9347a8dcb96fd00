"""Renders the package's type stubs from the contracts: python -m weft.stubs > python/weft/__init__.pyi"""

from __future__ import annotations

import json
import textwrap
from typing import Any

from weft._contract import Contract, Field
from weft._function import docstring
from weft._op import OPS, Op

_HEAD = '''\
"""weft: fused kernels for transformer inference, each with an executable specification."""

# Rendered from the contracts by `python -m weft.stubs`.

from typing import Any, Literal, TypeVar, overload

from weft import names as names

_Array = TypeVar("_Array")
_DType = Any  # the framework's, or weft's name of it ("fp8_e4m3")

__version__: str
__all__: list[str]
'''


def render() -> str:
    """The text of the stub file."""
    return "\n".join([_HEAD, *(_op(op) for op in OPS.values())])


def _op(op: Op) -> str:
    """One function; where optional outputs may be asked for, an overload without and one with them."""
    contract = op.contract
    if not any(field.optional for field in contract.outputs):
        returns = "_Array" if len(contract.results) == 1 else _result_name(contract)
        text = _function(op, returns, None)
    else:
        text = "@overload\n" + _function(op, "_Array", "None")
        text += "@overload\n" + _function(op, _result_name(contract), "_Array | bool | None", short=True)
    return (_result(contract) if len(contract.results) > 1 else "") + text


def _result_name(contract: Contract) -> str:
    return "_" + "".join(word.capitalize() for word in contract.name.split("_")) + "Result"


def _result(contract: Contract) -> str:
    lines = [f"class {_result_name(contract)}(tuple[Any, ...]):"]
    for field in contract.results:
        note = "  # where it was asked for" if field.optional else ""
        lines += ["    @property", f"    def {field.name}(self) -> Any: ...{note}"]
    return "\n".join(lines) + "\n\n"


def _function(op: Op, returns: str, optional: str | None, short: bool = False) -> str:
    lines = [f"def {op.name}("]
    lines += [_input(field) for field in op.contract.inputs]
    lines += ["    *,"] if len(op.defaults) > len(op.positional) else []
    lines += [
        f"    {o.name}: {_option_type(o.kind, o.choices)} = {_literal(o.default)},"
        for o in op.contract.options
    ]
    lines += [
        f"    {f.name}: {optional if f.optional and optional else '_Array | None'} = None,"
        for f in op.contract.outputs
    ]
    lines += [f"    {field.name}_dtype: _DType | None = None," for field in op.contract.typed_outputs]
    if short:
        return "\n".join([*lines, f") -> {returns}: ...\n"])
    quoted = docstring(op.contract).replace("\\", "\\\\")
    return "\n".join([*lines, f") -> {returns}:", textwrap.indent(f'"""{quoted}\n"""', "    "), ""])


def _input(field: Field) -> str:
    return f"    {field.name}: _Array | None = None," if field.optional else f"    {field.name}: _Array,"


def _literal(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _option_type(kind: str, choices: tuple[str, ...]) -> str:
    if kind == "choice":
        return f"Literal[{', '.join(_literal(choice) for choice in choices)}]"
    return {"real": "float", "integer": "int", "boolean": "bool"}[kind]


def main() -> Any:
    """Prints the stubs."""
    print(render(), end="")


if __name__ == "__main__":
    main()

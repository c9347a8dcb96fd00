"""PyTorch: every op as torch.ops.weft.NAME (allocates) and torch.ops.weft.NAME_out (into given tensors).

Both have fakes and declare what they write, so that torch.compile, torch.export and CUDA Graphs work with them.
Calls run on PyTorch's current stream. There are no gradients: this is a library for inference.

A CUDA Graph must not need memory while it is captured: run the same calls once before, on the stream on which the
graph is captured (`torch.cuda.graph(graph, stream=s)`); a call that still lacks scratch memory says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from weft._op import OPS, Op, Values

DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
    "int8": torch.int8,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
    "fp4_e2m1": torch.float4_e2m1fn_x2,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()} | {torch.bool: "uint8"}

_TYPES = {"real": "float", "integer": "int", "boolean": "bool", "choice": "str"}
_LIBRARY = torch.library.Library("weft", "DEF")


def run(op: Op, values: Values) -> Any:
    """A call of a weft function on PyTorch tensors."""
    if not any(isinstance(values[field.name], torch.Tensor) for field in op.contract.outputs):
        arguments = [_argument(values[name]) for name in _functional_parameters(op)]
        written = getattr(torch.ops.weft, op.name)(*arguments)
        fields = op.missing(values)
        tensors = written if _returns_list(op) else [written]
        values.update((field.name, tensor) for field, tensor in zip(fields, tensors, strict=False))
    else:
        values.update(_allocate(op, values))
        getattr(torch.ops.weft, f"{op.name}_out")(*op.arguments(values))
    return op.result(values)


def _argument(value: Any) -> Any:
    return DTYPES[value] if isinstance(value, str) and value in DTYPES else value


def _functional_parameters(op: Op) -> list[str]:
    """Inputs, options, a flag for each optional output, dtypes."""
    required = {field.name for field in op.contract.outputs if not field.optional}
    return [name for name in op.defaults if name not in required]


def _returns_list(op: Op) -> bool:
    return len(op.contract.outputs) > 1


def _allocate(op: Op, values: Values) -> dict[str, torch.Tensor]:
    """Tensors for the outputs that are wanted and not given, on the device of the first input."""
    fields = op.missing(values)
    if not fields:
        return {}
    like = next(values[name] for name in op.positional if values[name] is not None)
    return {
        field.name: like.new_empty(shape, dtype=DTYPES[op.dtype(field, values, NAMES.get)])
        for field, shape in zip(fields, op.shapes(fields, values), strict=True)
    }


def _functional(op: Op, launch: bool) -> Callable[..., Any]:
    """The kernel of NAME, or its fake, which only allocates."""
    names = _functional_parameters(op)
    defaults = op.defaults

    def kernel(*args: Any) -> torch.Tensor | list[torch.Tensor] | None:
        values = dict(defaults)
        values.update(zip(names, args, strict=False))
        for field in op.contract.outputs:
            values[field.name] = True if not field.optional or values[field.name] else None
        written = _allocate(op, values)
        if launch:
            op.function(*op.arguments(values | written))
        tensors = [written[field.name] for field in op.contract.outputs if field.name in written]
        return tensors if _returns_list(op) else tensors[0] if tensors else None

    return kernel


def _tensor_type(optional: bool, written: int | None) -> str:
    letter = "" if written is None else f"({chr(ord('a') + written)}!)"
    return f"Tensor{letter}{'?' if optional else ''}"


def functional_schema(op: Op) -> str:
    """NAME(inputs, options, optional outputs as flags, dtypes) -> outputs."""
    updated = [field.name for field in op.contract.inputs if field.writes]
    parameters = [
        f"{_tensor_type(f.optional, updated.index(f.name) if f.writes else None)} {f.name}"
        + ("=None" if f.optional else "")
        for f in op.contract.inputs
    ]
    parameters += _option_parameters(op)
    parameters += [f"bool? {field.name}=None" for field in op.contract.outputs if field.optional]
    parameters += [f"ScalarType? {field.name}_dtype=None" for field in op.contract.typed_outputs]
    results = "Tensor[]" if _returns_list(op) else "Tensor" if op.contract.outputs else "()"
    return f"{op.name}({', '.join(parameters)}) -> {results}"


def destination_schema(op: Op) -> str:
    """NAME_out(fields, options) -> (), in the order of the library's own function."""
    written = [field.name for field in op.contract.fields if field.writes]
    parameters = [
        f"{_tensor_type(f.optional, written.index(f.name) if f.writes else None)} {f.name}"
        for f in op.contract.fields
    ]
    return f"{op.name}_out({', '.join(parameters + _option_parameters(op))}) -> ()"


def _option_parameters(op: Op) -> list[str]:
    def default(value: Any) -> str:
        return f'"{value}"' if isinstance(value, str) else repr(value)

    return [f"{_TYPES[o.kind]} {o.name}={default(o.default)}" for o in op.contract.options]


def _define(op: Op) -> None:
    def nothing(*_: Any) -> None:
        """The fake of a destination form: there is nothing to allocate."""

    def implement(name: str, schema: str, kernel: Callable[..., Any], fake: Callable[..., Any]) -> None:
        _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
        for device in ("CPU", "CUDA"):
            _LIBRARY.impl(name, kernel, device)
        torch.library.register_fake(f"weft::{name}", fake, lib=_LIBRARY)

    implement(op.name, functional_schema(op), _functional(op, launch=True), _functional(op, launch=False))
    implement(f"{op.name}_out", destination_schema(op), op.function, nothing)


def operators() -> Sequence[str]:
    """The names in torch.ops.weft."""
    return [name for op in OPS for name in (op, f"{op}_out")]


for _op in OPS.values():
    _define(_op)

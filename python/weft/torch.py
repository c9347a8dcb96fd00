"""PyTorch: every op as torch.ops.weft.NAME (allocates) and torch.ops.weft.NAME_out (into given tensors).

Both have fakes and declare what they write, so that torch.compile, torch.export and CUDA Graphs work with them.
Calls run on PyTorch's current stream. There are no gradients: this is a library for inference.

A CUDA Graph must not need memory while it is captured: run the same calls once before, on the stream on which the
graph is captured (`torch.cuda.graph(graph, stream=s)`); a call that still lacks scratch memory says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch

from weft._contract import Field
from weft._op import MISSING, OPS, Op, Values

DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
    "int8": torch.int8,
    "int32": torch.int32,
    "int64": torch.int64,
    "int4": torch.uint8,  # two a byte: PyTorch has no int4 that holds numbers
    "uint8": torch.uint8,
    "fp4_e2m1": torch.float4_e2m1fn_x2,
    "ue8m0": torch.float8_e8m0fnu,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()} | {torch.bool: "uint8"}

_TYPES = {"real": "float", "integer": "int", "boolean": "bool", "choice": "str"}
_LIBRARY = torch.library.Library("weft", "DEF")
_MOST_PLANS = 4096  # of an op; then it forgets them all


class Operator:
    """An op's operators in torch.ops.weft, mostly two: their schemas, kernels and fakes."""

    def __init__(self, op: Op) -> None:
        self.op = op
        contract = op.contract
        required = {field.name for field in contract.outputs if not field.optional}
        # NAME's parameters: inputs, options, a flag for each optional output, dtypes.
        self.parameters = [name for name in op.defaults if name not in required]
        self.returns_list = len(contract.outputs) > 1
        # Where the library's function has the inputs and the options.
        passed = {name for name in op.order if name not in {field.name for field in contract.outputs}}
        self.places = [op.order.index(name) if name in passed else None for name in self.parameters]
        self.rest = [None if op.defaults[name] is MISSING else op.defaults[name] for name in op.order]
        self.plans: dict[Any, list[tuple[int, torch.Size, torch.dtype, Callable[..., torch.Tensor]]]] = {}
        self.functional: Any = None
        # torch.compile takes no operator that writes to its arguments and returns a list: there is none then.
        if not (self.returns_list and any(field.writes for field in contract.inputs)):
            self._define(op.name, self.schema(), self._kernel, self._fake)
            self.functional = getattr(torch.ops.weft, op.name).default
        self._define(f"{op.name}_out", self.destination_schema(), op.function, lambda *_: None)
        self.destination = getattr(torch.ops.weft, f"{op.name}_out").default

    def _define(self, name: str, schema: str, kernel: Callable[..., Any], fake: Callable[..., Any]) -> None:
        _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
        for device in ("CPU", "CUDA"):
            _LIBRARY.impl(name, kernel, device)
        torch.library.register_fake(f"weft::{name}", fake, lib=_LIBRARY)

    def schema(self) -> str:
        """NAME(inputs, options, optional outputs as flags, dtypes) -> outputs."""
        contract = self.op.contract
        updated = [field.name for field in contract.inputs if field.writes]
        parameters = [
            _tensor(field, updated) + ("=None" if field.optional else "") for field in contract.inputs
        ]
        parameters += _options(self.op)
        parameters += [f"bool? {field.name}=None" for field in contract.outputs if field.optional]
        parameters += [f"ScalarType? {field.name}_dtype=None" for field in contract.typed_outputs]
        results = "Tensor[]" if self.returns_list else "Tensor" if contract.outputs else "()"
        return f"{self.op.name}({', '.join(parameters)}) -> {results}"

    def destination_schema(self) -> str:
        """NAME_out(fields, options) -> (), in the order of the library's own function."""
        fields = self.op.contract.fields
        written = [field.name for field in fields if field.writes]
        parameters = [_tensor(field, written) for field in fields] + _options(self.op)
        return f"{self.op.name}_out({', '.join(parameters)}) -> ()"

    def _kernel(self, *args: Any) -> torch.Tensor | list[torch.Tensor] | None:
        # What is allocated depends on shapes, dtypes and options: worked out once for each combination.
        key = tuple([(a.shape, a.dtype) if isinstance(a, torch.Tensor) else a for a in args])
        plan = self.plans.get(key)
        if plan is None:
            if len(self.plans) >= _MOST_PLANS:
                self.plans.clear()
            plan = self.plans[key] = self._plan(args)
        call = self.rest.copy()
        for place, value in zip(self.places, args, strict=False):
            if place is not None:
                call[place] = value
        device = next(a for a in args if a is not None).device
        written = [new(shape, dtype=dtype, device=device) for _, shape, dtype, new in plan]
        for (place, _, _, _), tensor in zip(plan, written, strict=True):
            call[place] = tensor
        self.op.function(*call)
        return written if self.returns_list else written[0] if written else None

    def _fake(self, *args: Any) -> torch.Tensor | list[torch.Tensor] | None:
        like = next(a for a in args if a is not None)
        written = [like.new_empty(shape, dtype=dtype) for _, shape, dtype, _ in self._plan(args)]
        return written if self.returns_list else written[0] if written else None

    def _plan(self, args: Sequence[Any]) -> list[tuple[int, Any, torch.dtype, Callable[..., torch.Tensor]]]:
        """The place, shape and dtype of each output to allocate, and what does."""
        op = self.op
        values = {**op.defaults, **dict(zip(self.parameters, args, strict=False))}
        fields = op.missing(values)
        return [
            (op.order.index(field.name), shape, DTYPES[name], torch.zeros if field.partial else torch.empty)
            for field, (shape, name) in zip(fields, op.allocation(fields, values, NAMES.get), strict=True)
        ]

    def run(self, values: Values) -> Any:
        """A call of a weft function: into the tensors that it is given, or with new ones."""
        op = self.op
        missing = op.missing(values)
        given = len(missing) < len(op.contract.outputs) and self._gives_a_tensor(values)
        if given or self.functional is None:
            if missing:
                self._allocate(missing, values)
            self.destination(*op.arguments(values))
            return op.result(values)
        written = self.functional(*[as_argument(values[name]) for name in self.parameters])
        for field, tensor in zip(missing, written if self.returns_list else [written], strict=False):
            values[field.name] = tensor
        return op.result(values)

    def _gives_a_tensor(self, values: Values) -> bool:
        return any(isinstance(values[field.name], torch.Tensor) for field in self.op.contract.outputs)

    def _allocate(self, fields: Sequence[Field], values: Values) -> None:
        op = self.op
        like = next(values[name] for name in op.positional if values[name] is not None)
        for field, (shape, name) in zip(fields, op.allocation(fields, values, NAMES.get), strict=True):
            new = like.new_zeros if field.partial else like.new_empty
            values[field.name] = new(shape, dtype=DTYPES[name])


def as_argument(value: Any) -> Any:
    """A value as torch.ops takes it: dtypes by weft's names become PyTorch's."""
    return DTYPES[value] if isinstance(value, str) and value in DTYPES else value


def _tensor(field: Field, written: Sequence[str]) -> str:
    letter = f"({chr(ord('a') + written.index(field.name))}!)" if field.writes else ""
    return f"Tensor{letter}{'?' if field.optional else ''} {field.name}"


def _options(op: Op) -> list[str]:
    def default(value: Any) -> str:
        return f'"{value}"' if isinstance(value, str) else repr(value)

    return [f"{_TYPES[o.kind]} {o.name}={default(o.default)}" for o in op.contract.options]


OPERATORS = {name: Operator(op) for name, op in OPS.items()}


def empty_like(tensor: torch.Tensor) -> torch.Tensor:
    """New memory of a tensor's dtype, shape and memory format."""
    return torch.empty_like(tensor)


def empty(shape: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    """New memory of a tensor's dtype, beside it."""
    return like.new_empty(shape)


_CONSTANTS: dict[Any, torch.Tensor] = {}  # for good: a CUDA Graph may read them at any time


def constant(make: Callable[..., Any], numbers: tuple[Any, ...], like: torch.Tensor) -> torch.Tensor:
    """What a function makes of numbers, beside a tensor: once, or as a part of what torch.compile compiles."""
    if torch.compiler.is_compiling():
        made: torch.Tensor = make(torch, {"device": like.device}, *numbers)
        return made
    key = (make, numbers, like.device)
    found = _CONSTANTS.get(key)
    if found is None:
        if like.is_cuda and torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                "the first call with these sizes can't be captured in a graph: run it once before"
            )
        found = torch.from_numpy(make(numpy, {}, *numbers)).to(like.device)
        if type(found) is torch.Tensor:  # none of a tracer
            _CONSTANTS[key] = found
    return found


def spread(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """A view that repeats a tensor."""
    return tensor.expand(*shape)


def rows_anywhere(tables: Sequence[Sequence[torch.Tensor]], columns: int) -> Sequence[torch.Tensor]:
    """Of each list of tables, the rows of so many columns that begin at each element of all of them in turn."""
    elements = torch.cat([table.reshape(-1) for parts in tables for table in parts])
    return [part.unfold(0, columns, 1) for part in elements.chunk(len(tables))]


def run(op: Op, values: Values) -> Any:
    """A call of a weft function on PyTorch tensors."""
    if op.name not in OPERATORS:  # a rung of weft.ladder
        OPERATORS[op.name] = Operator(op)
    return OPERATORS[op.name].run(values)

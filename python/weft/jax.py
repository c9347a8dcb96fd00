"""JAX: every op as an FFI call, eager or under jit, on the CPU and on GPUs.

JAX arrays are values: there is no `out=`, and a field that other frameworks see updated in place is returned. What
the contract forbids is found while the call is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

import jax
import jax_tvm_ffi
import numpy as np

from weft import _library
from weft._op import OPS, Op, Values
from weft.numpy import dtype_of, name_of

WRITES = False  # into arrays that a caller gives

_check = _library.function("check")


def _register(op: Op) -> None:
    """The call's numbers come first: which fields are there, then the options."""
    numbers = [f"attrs.{name}" for name in ("present", *(option.name for option in op.contract.options))]
    for platform in ("cpu", "gpu"):
        jax_tvm_ffi.register_ffi_target(
            f"weft.{op.name}",
            _library.function(f"buffers.{op.name}"),
            [*numbers, "args", "rets"],
            platform=platform,
        )


for _op in OPS.values():
    _register(_op)


def run(op: Op, values: Values) -> Any:
    """A call of a weft function on JAX arrays."""
    for field in op.contract.outputs:
        if not isinstance(values[field.name], bool | None):
            raise TypeError(f"{op.name}.{field.name}: JAX arrays can't be written to; use the returned ones")
    inputs = {
        f.name: jax.numpy.asarray(values[f.name])
        for f in op.contract.fields
        if f.reads and values[f.name] is not None
    }
    values = values | inputs
    missing = op.missing(values)
    results = {
        field.name: jax.ShapeDtypeStruct(shape, dtype_of(name))
        for field, (shape, name) in zip(missing, op.allocation(missing, values, name_of), strict=True)
    }
    updated = [field.name for field in op.contract.inputs if field.writes and field.name in inputs]
    results |= {name: jax.ShapeDtypeStruct(inputs[name].shape, inputs[name].dtype) for name in updated}
    # In the contract's order, as the library takes them.
    results = {field.name: results[field.name] for field in op.contract.fields if field.name in results}
    _check(
        " ".join([op.name, *(_word(*field) for field in (inputs | results).items()), *_options(op, values)])
    )
    call = jax.ffi.ffi_call(
        f"weft.{op.name}",
        tuple(results.values()),
        vmap_method="sequential",
        input_output_aliases={
            i: list(results).index(name) for i, name in enumerate(inputs) if name in results
        },
    )
    written = call(*inputs.values(), **_numbers(op, values, inputs.keys() | results.keys()))
    return op.result(values | dict(zip(results, written, strict=True)))


def joined(parts: Sequence[jax.Array]) -> jax.Array:
    """One array of parts along its last axis."""
    return jax.numpy.concatenate(parts, -1)


def constant(make: Callable[..., Any], numbers: tuple[Any, ...], like: Any) -> jax.Array:
    """What a function makes of numbers."""
    return jax.numpy.asarray(make(np, {}, *numbers))


def spread(array: jax.Array, shape: Sequence[int]) -> jax.Array:
    """An array, repeated."""
    return jax.numpy.broadcast_to(array, shape)


def rows_anywhere(tables: Sequence[Sequence[jax.Array]], columns: int) -> Sequence[jax.Array]:
    """Of each list of tables, the rows of so many columns that begin at each element of all of them in turn."""
    elements = [jax.numpy.concatenate([table.reshape(-1) for table in parts]) for parts in tables]
    begins = [np.arange(len(part) - columns + 1)[:, None] for part in elements]
    return [part[begin + np.arange(columns)] for part, begin in zip(elements, begins, strict=True)]


def _numbers(op: Op, values: Values, there: Set[str]) -> dict[str, np.generic]:
    """A call's attributes."""
    present = sum(1 << i for i, field in enumerate(op.contract.fields) if field.name in there)
    numbers: dict[str, np.generic] = {"present": np.int64(present)}
    for option in op.contract.options:
        value = values[option.name]
        number = option.choices.index(value) if option.kind == "choice" else value
        numbers[option.name] = np.float64(number) if option.kind == "real" else np.int64(number)
    return numbers


def _options(op: Op, values: Values) -> list[str]:
    """The options that differ from their defaults, as a case line writes them."""
    different = [option for option in op.contract.options if values[option.name] != option.default]
    return [
        f"{option.name}={str(values[option.name]).lower() if option.kind == 'boolean' else values[option.name]}"
        for option in different
    ]


def _word(name: str, array: Any) -> str:
    dtype = name_of(array.dtype)
    if dtype is None:
        raise TypeError(f"{name}: weft has no dtype {array.dtype}")
    return f"{name}={dtype}[{','.join(map(str, array.shape))}]"

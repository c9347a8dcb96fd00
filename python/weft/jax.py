"""JAX: every op as an FFI call, eager or under jit, on the CPU and on GPUs.

JAX arrays are values: there is no `out=`, and a field that other frameworks see updated in place is returned. What
the contract forbids is found while the call is traced.
"""

from __future__ import annotations

from typing import Any

import jax
import jax_tvm_ffi

from weft import _library
from weft._op import Op, Values
from weft.numpy import dtype_of, name_of

WRITES = False  # into arrays that a caller gives

_TARGET = "weft"
_check = _library.function("check")
for _platform in ("cpu", "gpu"):
    jax_tvm_ffi.register_ffi_target(
        _TARGET, _library.function("call"), ["attrs.words", "args", "rets"], platform=_platform
    )


def run(op: Op, values: Values) -> Any:
    """A call of a weft function on JAX arrays."""
    for field in op.contract.outputs:
        if not isinstance(values[field.name], bool | None):
            raise TypeError(f"{op.name}.{field.name}: JAX arrays can't be written to; use the returned ones")
    inputs = {
        f.name: jax.numpy.asarray(values[f.name]) for f in op.contract.inputs if values[f.name] is not None
    }
    values = values | inputs
    fields = op.missing(values)
    results = {
        field.name: jax.ShapeDtypeStruct(shape, dtype_of(op.dtype(field, values, name_of)))
        for field, shape in zip(fields, op.shapes(fields, values) if fields else [], strict=True)
    }
    updated = [f.name for f in op.contract.inputs if f.writes and f.name in inputs]
    aliases = {list(inputs).index(name): len(results) + i for i, name in enumerate(updated)}
    results |= {name: jax.ShapeDtypeStruct(inputs[name].shape, inputs[name].dtype) for name in updated}
    options = _options(op, values)
    _check(" ".join([op.name, *(_word(name, array) for name, array in (inputs | results).items()), *options]))
    call = jax.ffi.ffi_call(
        _TARGET, tuple(results.values()), vmap_method="sequential", input_output_aliases=aliases
    )
    written = call(*inputs.values(), words=" ".join([op.name, *inputs, *results, *options]))
    return op.result(values | dict(zip(results, written, strict=True)))


def _options(op: Op, values: Values) -> list[str]:
    """The options that differ from their defaults, as a case line writes them."""
    words = []
    for option in op.contract.options:
        value = values[option.name]
        if option.kind != "choice":
            value = {"real": float, "integer": int, "boolean": bool}[option.kind](value)
        if value != option.default:
            words.append(f"{option.name}={str(value).lower() if option.kind == 'boolean' else value}")
    return words


def _word(name: str, array: Any) -> str:
    dtype = name_of(array.dtype)
    if dtype is None:
        raise TypeError(f"{name}: weft has no dtype {array.dtype}")
    return f"{name}={dtype}[{','.join(map(str, array.shape))}]"

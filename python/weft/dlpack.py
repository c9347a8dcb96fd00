"""Any other array with DLPack (CuPy, tvm-ffi): the destination form, because only its owner can make one."""

from __future__ import annotations

from typing import Any

from weft._op import Op, Values


def run(op: Op, values: Values) -> Any:
    """A call of a weft function into arrays that are given."""
    missing = op.missing(values)
    if missing:
        names = ", ".join(f"{field.name}=" for field in missing)
        raise TypeError(
            f"{op.name}() allocates for PyTorch, JAX and NumPy; give {names} an array to write to"
        )
    op.function(*op.arguments(values))
    return op.result(values)

"""NumPy: arrays as CPU tensors, without a copy. bf16 and fp8 are those of ml_dtypes, where that is installed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm_ffi

from weft import _library
from weft._op import Op, Values

NAMES = {
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
    "float8_e8m0fnu": "ue8m0",
    "int8": "int8",
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
    "bool": "uint8",
}
_BY_WEFT = {name: numpy_name for numpy_name, name in NAMES.items() if numpy_name != "bool"}
_array: Callable[..., tvm_ffi.Tensor] = _library.function("array")


def name_of(dtype: Any) -> str | None:
    """weft's name of a dtype; None where it has none."""
    found = np.dtype(dtype)
    return NAMES.get(found.name) if found.isnative else None


def dtype_of(name: str) -> np.dtype[Any]:
    """The dtype that weft calls so. Raises TypeError where only ml_dtypes has it and that is not installed."""
    if name not in _BY_WEFT:
        raise TypeError(f"NumPy has no {name}")
    found = getattr(np, _BY_WEFT[name], None)
    if found is None:
        try:
            import ml_dtypes  # noqa: PLC0415
        except ImportError:
            raise TypeError(f"NumPy has {name} through ml_dtypes, which is not installed") from None
        found = getattr(ml_dtypes, _BY_WEFT[name])
    dtype: np.dtype[Any] = np.dtype(found)
    return dtype


def empty_like(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """New memory of an array's dtype, shape and order of axes."""
    return np.empty_like(array)


def empty(shape: Sequence[int], like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """New memory of an array's dtype."""
    return np.empty(shape, like.dtype)


def constant(
    make: Callable[..., np.ndarray[Any, Any]], numbers: tuple[Any, ...], like: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """What a function makes of numbers."""
    return make(np, {}, *numbers)


def spread(array: np.ndarray[Any, Any], shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """A view that repeats an array."""
    return np.broadcast_to(array, shape)


def rows_anywhere(
    tables: Sequence[Sequence[np.ndarray[Any, Any]]], columns: int
) -> Sequence[np.ndarray[Any, Any]]:
    """Of each list of tables, the rows of so many columns that begin at each element of all of them in turn."""
    elements = [np.concatenate([table.reshape(-1) for table in parts]) for parts in tables]
    return [np.lib.stride_tricks.sliding_window_view(part, columns) for part in elements]


def run(op: Op, values: Values) -> Any:
    """A call of a weft function on NumPy arrays."""
    fields = op.missing(values)
    for field, (shape, name) in zip(fields, op.allocation(fields, values, name_of), strict=True):
        new = np.zeros if field.partial else np.empty
        values[field.name] = new(shape, dtype_of(name))
    views = {
        field.name: _view(op, field.name, values[field.name], field.writes)
        for field in op.contract.fields
        if isinstance(values[field.name], np.ndarray | np.generic)
    }
    op.function(*op.arguments(values | views))
    return op.result(values)


def _view(op: Op, field: str, array: Any, writes: bool) -> tvm_ffi.Tensor:
    where = f"{op.name}.{field}"
    name = name_of(array.dtype)
    if name is None:
        raise TypeError(f"{where}: weft has no dtype {array.dtype}")
    if writes and not array.flags.writeable:
        raise ValueError(f"{where}: the array is read-only")
    if any(stride % array.itemsize for stride in array.strides):
        raise ValueError(
            f"{where}: strides {array.strides} are no multiples of the element's {array.itemsize} bytes"
        )
    strides = tuple(stride // array.itemsize for stride in array.strides)
    if array.size == 0:  # NumPy has zeros there
        strides = tuple(math.prod(array.shape[axis + 1 :]) for axis in range(array.ndim))
    address = array.__array_interface__["data"][0]
    return _array(address, name, tvm_ffi.Shape(array.shape), tvm_ffi.Shape(strides))

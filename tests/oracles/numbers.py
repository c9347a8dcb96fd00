"""What the oracles of several ops need: roundings of sums, and fp8 outputs with their scales, in NumPy alone."""

from __future__ import annotations

from typing import Any

import numpy as np

Arrays = dict[str, Any]
LARGEST = {"fp8_e4m3": 448.0, "fp8_e5m2": 57344.0}


def rounded(x: np.ndarray, dtype: str) -> np.ndarray:
    """The fp32 numbers of x rounded to nearest even in fp32, fp16 or bf16."""
    single = x.astype(np.float32)
    if dtype == "fp32":
        return single.astype(np.float64)
    if dtype == "fp16":
        return single.astype(np.float16).astype(np.float64)
    bits = single.view(np.uint32).astype(np.uint64)
    even = (bits >> np.uint64(16)) & np.uint64(1)
    kept = ((bits + np.uint64(0x7FFF) + even) >> np.uint64(16) << np.uint64(16)).astype(np.uint32)
    return np.where(np.isnan(single), np.nan, kept.view(np.float32)).astype(np.float64)


def row_sum(inputs: Arrays, options: Arrays) -> tuple[np.ndarray, Arrays]:
    """x, or x + residual rounded to the residual's dtype; and what residual_out is then."""
    if "residual" not in inputs:
        return inputs["x"], {}
    single = inputs["x"].astype(np.float32) + inputs["residual"].astype(np.float32)
    r = rounded(single, options["dtypes"]["residual"])
    return r, {"residual_out": inputs["x"] + inputs["residual"]}


def scaled(y: np.ndarray, inputs: Arrays, options: Arrays) -> Arrays:
    """`out` and the scale that the case asks for, by the fields that it has."""
    dtypes = options["dtypes"]
    if "scale" in inputs:
        return {"out": y / inputs["scale"].item()}
    for name, axis in (("token_scale", -1), ("tensor_scale", None)):
        if name in dtypes:
            magnitude = np.where(np.isnan(y), 0.0, np.abs(y))
            amax = np.max(magnitude, axis=axis, keepdims=True, initial=0.0)
            scale = np.where(amax > 0, np.maximum(amax / LARGEST[dtypes["out"]], 2.0**-126), 1.0)
            shape = y.shape[:-1] if axis == -1 else (1,)
            # The codes are divided by the scale as it is stored.
            return {"out": y / scale.astype(np.float32), name: scale.reshape(shape or (1,))}
    return {"out": y}

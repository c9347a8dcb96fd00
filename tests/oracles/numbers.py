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


def beside(operand: np.ndarray, x: np.ndarray, index: np.ndarray | None = None) -> np.ndarray:
    """An operand that broadcasts to x, "~... dim", in x's shape; with an index, its rows by that."""
    shape = x.shape
    if index is not None:
        return np.broadcast_to(operand[index.astype(np.int64).reshape(shape[:-1])], shape)
    if operand.ndim == x.ndim + 1 and operand.shape[-2] == 1 and operand.shape[-3] > 1:
        frames = operand.shape[-3]
        cut = x.reshape(*shape[:-2], frames, shape[-2] // frames, shape[-1])
        return np.broadcast_to(operand, cut.shape).reshape(shape)
    while operand.ndim > x.ndim:
        operand = operand.squeeze(-2)
    leading = (*operand.shape[:-1], *(1,) * (x.ndim - operand.ndim), operand.shape[-1] if operand.ndim else 1)
    return np.broadcast_to(operand.reshape(leading), shape)


def modulated(n: np.ndarray, inputs: Arrays, options: Arrays, which: str = "") -> np.ndarray:
    """n · (mod_offset + mod_scale) + mod_shift."""
    index = inputs.get("mod_index")
    if f"mod_scale{which}" in inputs:
        scale = beside(inputs[f"mod_scale{which}"], n, index)
        n = n * ((np.tanh(scale) if options["mod_tanh"] else scale) + options["mod_offset"])
    if f"mod_shift{which}" in inputs:
        n = n + beside(inputs[f"mod_shift{which}"], n, index)
    return n


def norm_outputs(n: np.ndarray, inputs: Arrays, options: Arrays) -> Arrays:
    """What a norm of rows writes once the rows are normalised."""
    second = {"out2": modulated(n, inputs, options, "2")} if "out2" in options["dtypes"] else {}
    return second | scaled(modulated(n, inputs, options), inputs, options)


def row_sum(inputs: Arrays, options: Arrays) -> tuple[np.ndarray, Arrays]:
    """x, or residual + gate · x rounded to the residual's dtype; and what residual_out is then."""
    if "residual" not in inputs:
        return inputs["x"], {}
    x = inputs["x"] * beside(inputs["gate"], inputs["x"]) if "gate" in inputs else inputs["x"]
    exact = x + inputs["residual"]
    # A product of 16-bit numbers is exact in fp32, and fp64 is wide enough for any other before it is rounded.
    r = rounded(exact.astype(np.float32), options["dtypes"]["residual"])
    return r, {"residual_out": exact}


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

"""What the oracles of several ops need: roundings of sums, and outputs in fewer bits, in NumPy alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Arrays = dict[str, Any]
LARGEST = {"fp8_e4m3": 448.0, "fp8_e5m2": 57344.0, "fp4_e2m1": 6.0, "int8": 127.0}


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


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * np.vectorize(math.erfc, otypes=[np.float64])(-x / math.sqrt(2))


def activate(name: str, x: np.ndarray) -> np.ndarray:
    """What products go through on their way out."""
    if name == "none":
        return x
    if name == "silu":
        return x / (1 + np.exp(-x))
    return gelu_tanh(x) if name == "gelu_tanh" else gelu_erf(x)


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


def _fp8_values(exponent_bits: int, mantissa_bits: int, largest: float) -> np.ndarray:
    """The values of an fp8 format that are not negative, by the definition of its codes."""
    bias, steps = 2 ** (exponent_bits - 1) - 1, 2**mantissa_bits
    codes = range(2 ** (exponent_bits + mantissa_bits))
    values = [
        (code % steps) / steps * 2.0 ** (1 - bias)
        if code < steps
        else (1 + code % steps / steps) * 2.0 ** (code // steps - bias)
        for code in codes
    ]
    return np.array([value for value in values if value <= largest])


E4M3 = _fp8_values(4, 3, LARGEST["fp8_e4m3"])
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
GROUPS = {"fp32": 128, "fp8_e4m3": 16, "ue8m0": 32}  # columns of a group, by the dtype of its scale


def nearest(x: np.ndarray, table: np.ndarray) -> np.ndarray:
    """The number of a table nearest to each x that is not negative, ties to the even place; NaN stays."""
    high = np.clip(np.searchsorted(table, x), 1, len(table) - 1)
    low = high - 1
    down, up = x - table[low], table[high] - x
    found = np.where((down < up) | ((down == up) & (low % 2 == 0)), table[low], table[high])
    return np.where(np.isnan(x), np.nan, np.where(x >= table[-1], table[-1], found))


def swizzled(scales: np.ndarray) -> np.ndarray:
    """Scales [rows, groups] in tiles of 128 rows by 4 groups, zeros where a tile has more."""
    rows, groups = scales.shape
    padded = np.zeros((-(-rows // 128) * 128, -(-groups // 4) * 4))
    padded[:rows, :groups] = scales
    tiles = padded.reshape(padded.shape[0] // 128, 4, 32, padded.shape[1] // 4, 4)
    return tiles.transpose(0, 3, 2, 1, 4).reshape(padded.shape)


def linear(scales: np.ndarray, rows: int, groups: int) -> np.ndarray:
    """What `swizzled` was made of."""
    tiles = scales.reshape(scales.shape[0] // 128, scales.shape[1] // 4, 32, 4, 4)
    return tiles.transpose(0, 3, 2, 1, 4).reshape(scales.shape)[:rows, :groups]


def by_group(
    scales: np.ndarray, dtype: str, tiles: bool, rows: int, columns: int, *, count: int = 0
) -> np.ndarray:
    """What multiplies each number of a matrix whose groups of columns have scales; `tiles`: as `swizzled` has them.

    `count`: the columns of a group, where its scale's dtype does not say.
    """
    count = count or GROUPS[dtype]
    groups = decoded(scales, dtype)
    if tiles:
        groups = linear(groups, rows, -(-columns // count))
    return groups.reshape(rows, -(-columns // count)).repeat(count, 1)[:, :columns]


class _Narrow:
    """Values in fewer bits. Where they are exact fp32 numbers, so is all arithmetic that follows."""

    def __init__(self, dtypes: Arrays, exact: bool) -> None:
        self.codes: str = dtypes["out"]
        self.has_nan = self.codes in ("fp8_e4m3", "fp8_e5m2")
        self.largest = LARGEST[self.codes]
        self.type = np.float32 if exact else np.float64

    def amax(self, y: np.ndarray, axis: int | None, keeps_nan: bool) -> np.ndarray:
        magnitude = np.abs(y) if keeps_nan else np.where(np.isnan(y), 0.0, np.abs(y))
        return np.max(magnitude, axis=axis, keepdims=True, initial=0.0)

    def scale(self, amax: np.ndarray, levels: float) -> np.ndarray:
        """In fp32 where values are exact."""
        quotient = np.maximum(amax.astype(self.type) / self.type(levels), self.type(2.0**-126))  # type: ignore[operator]
        return np.where(amax == 0, 1.0, quotient).astype(np.float64)

    def out(self, y: np.ndarray, inverse: np.ndarray) -> np.ndarray:
        value = (y.astype(self.type) * inverse.astype(self.type)).astype(np.float64)
        return value if self.has_nan else np.where(np.isnan(value), 0.0, value)

    def over(self, y: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """The codes over a scale in fp32, as it is stored."""
        return self.out(y, np.float32(1) / scale.astype(np.float32))

    def groups(self, y: np.ndarray, scales: str, tensor: np.float32) -> tuple[np.ndarray, np.ndarray]:
        """The codes of rows [rows, dim], and their groups' scales before they are rounded."""
        rows, dim = y.shape
        count = -(-dim // GROUPS[scales])
        padded = np.zeros((rows, count * GROUPS[scales]))
        padded[:, :dim] = y
        values = padded.reshape(rows, count, GROUPS[scales])
        amax = self.amax(values, -1, keeps_nan=not self.has_nan)
        if scales == "fp32":
            found = self.scale(amax, self.largest)
            inverse = np.float32(1) / found.astype(np.float32)
        elif scales == "ue8m0":
            fraction, exponent = np.frexp(np.clip(amax / self.largest, 2.0**-127, 2.0**127))
            found = np.ldexp(1.0, np.where(fraction == 0.5, exponent - 1, exponent))
            found = np.where(np.isnan(amax), np.nan, found)
            inverse = 1 / found
        else:
            level = amax.astype(self.type) * self.type(np.float32(1) / tensor)  # type: ignore[operator]
            found = (level / self.type(self.largest)).astype(np.float64)
            stored = nearest(found, E4M3).astype(np.float32)
            limits = np.finfo(np.float32)
            inverse = np.clip(np.float32(1) / (stored * tensor), limits.tiny, limits.max)
            inverse = np.where(stored == 0, np.float32(0), inverse)
        out = np.where(np.isnan(found), 0.0, self.out(values, inverse))
        return out.reshape(rows, -1)[:, :dim], found.reshape(rows, count)


def scaled(y: np.ndarray, inputs: Arrays, options: Arrays, exact: bool = False) -> Arrays:
    """`out` and the scales that the case asks for, by the fields that it has. `exact`: y are fp32 numbers."""
    dtypes = options["dtypes"]
    if dtypes["out"] not in LARGEST:
        return {"out": y}
    narrow = _Narrow(dtypes, exact)
    tensor = np.float32(inputs["scale"].item() if "scale" in inputs else 1)
    outputs: Arrays = {}
    field = next((name for name in ("group_scale", "swizzled_scale") if name in dtypes), None)
    if "tensor_scale" in dtypes:
        levels = narrow.largest * (LARGEST["fp8_e4m3"] if field else 1)
        keeps_nan = not narrow.has_nan and field is None
        outputs["tensor_scale"] = narrow.scale(narrow.amax(y, None, keeps_nan), levels).reshape(1)
        tensor = np.float32(outputs["tensor_scale"].item())
    if field is not None:
        rows = y.reshape(-1, y.shape[-1])
        out, scales = narrow.groups(rows, dtypes[field], tensor)
        placed = swizzled(scales) if field == "swizzled_scale" else scales.reshape(*y.shape[:-1], -1)
        return outputs | {"out": out.reshape(y.shape), field: placed}
    if "token_scale" in dtypes:
        scale = narrow.scale(narrow.amax(y, -1, keeps_nan=not narrow.has_nan), narrow.largest)
        return {"out": narrow.over(y, scale), "token_scale": scale.reshape(y.shape[:-1] or (1,))}
    return outputs | {"out": narrow.over(y, np.asarray(tensor))}


def block_scaled(y: np.ndarray, options: Arrays) -> Arrays:
    """fp8 codes of fp32 numbers with a scale for each 128 rows by 128 columns."""
    narrow = _Narrow(options["dtypes"], exact=True)
    rows = y.reshape(-1, y.shape[-1])
    out = np.zeros(rows.shape)
    scales = np.zeros((-(-rows.shape[0] // 128), -(-rows.shape[1] // 128)))
    for i, j in np.ndindex(*scales.shape):
        part = np.s_[i * 128 : (i + 1) * 128, j * 128 : (j + 1) * 128]
        scale = narrow.scale(narrow.amax(rows[part], None, keeps_nan=False), narrow.largest)
        out[part], scales[i, j] = narrow.over(rows[part], scale), scale.item()
    return {"out": out.reshape(y.shape), "block_scale": scales}


def decoded(codes: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers; the dtypes that a file of tensors lacks come as their codes."""
    if dtype == "fp4_e2m1":
        return np.where(codes >= 8, -1.0, 1.0) * E2M1[codes % 8]
    if dtype == "int4":
        return np.where(codes >= 8, codes - 16.0, codes)
    if dtype == "ue8m0":
        return np.where(codes == 255, np.nan, 2.0 ** (codes - 127.0))
    return codes

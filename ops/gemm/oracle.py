"""gemm in float64."""

import math

import numpy as np

from tests.oracles.numbers import activate, beside, by_group, decoded


def oracle(inputs: dict, options: dict) -> dict:
    def scale(name: str) -> float:
        return inputs.get(name, np.ones(1)).item()

    dtypes = options["dtypes"]

    def operand(name: str) -> np.ndarray:
        """Its numbers, times the scales of its groups or blocks."""
        numbers = decoded(inputs[name], dtypes[name])
        rows = numbers.reshape(math.prod(numbers.shape[:-1]), numbers.shape[-1])  # k may be 0
        if (blocks := inputs.get(f"{name}_block_scale")) is not None:
            rows = rows * blocks.repeat(128, 0)[: rows.shape[0]].repeat(128, 1)[:, : rows.shape[1]]
        count = options["group"] if dtypes[name] == "int4" else 0
        if (zeros := inputs.get(f"{name}_group_zero")) is not None:
            rows = rows - by_group(zeros, "int8", False, *rows.shape, count=count)
        for field in (f"{name}_group_scale", f"{name}_swizzled_scale"):
            if field in inputs:
                tiles = field == f"{name}_swizzled_scale"
                rows = rows * by_group(inputs[field], dtypes[field], tiles, *rows.shape, count=count)
        return rows.reshape(numbers.shape)

    a = operand("a") * scale("a_scale")
    if "a_token_scale" in inputs:
        a = a * inputs["a_token_scale"].reshape(*a.shape[:-1], 1)
    b_scale, up_scale = (
        scale(f"{name}_scale") * inputs.get(f"{name}_channel_scale", 1.0) for name in ("b", "up")
    )
    out = a @ operand("b").T * b_scale + inputs.get("bias", 0.0)
    out = activate(options["activation"], out)
    if "up" in inputs:
        out = out * (a @ operand("up").T * up_scale + inputs.get("up_bias", 0.0))
    for name, combine in (("gate", np.multiply), ("residual", np.add)):
        if name in inputs:
            out = combine(out, beside(inputs[name], out))
    return {"out": out / scale("out_scale")}

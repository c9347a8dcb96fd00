"""dequantize in float64."""

import numpy as np

from tests.oracles.numbers import by_group, decoded


def oracle(inputs: dict, options: dict) -> dict:
    dtypes = options["dtypes"]
    x = decoded(inputs["x"], dtypes["x"])
    rows = x.reshape(int(np.prod(x.shape[:-1])), x.shape[-1])
    scale = inputs.get("scale", 1.0)
    if "token_scale" in inputs:
        scale = inputs["token_scale"].reshape(-1, 1)
    if "block_scale" in inputs:
        blocks = inputs["block_scale"]
        scale = blocks.repeat(128, 0).repeat(128, 1)[: rows.shape[0], : rows.shape[1]]
    for field in ("group_scale", "swizzled_scale"):
        if field in inputs:
            groups = by_group(inputs[field], dtypes[field], field == "swizzled_scale", *rows.shape)
            scale = (groups.astype(np.float32) * np.float32(scale)).astype(np.float64)
    return {"out": (rows * scale).reshape(x.shape)}

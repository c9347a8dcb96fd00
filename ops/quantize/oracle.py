"""quantize in NumPy: fp32, as the op."""

import numpy as np

from tests.oracles.numbers import block_scaled, scaled


def oracle(inputs: dict, options: dict) -> dict:
    x = inputs["x"]
    if "channel_multiplier" in inputs:
        x = (x.astype(np.float32) * inputs["channel_multiplier"].astype(np.float32)).astype(np.float64)
    if "block_scale" in options["dtypes"]:
        return block_scaled(x, options)
    return scaled(x, inputs, options, exact=True)

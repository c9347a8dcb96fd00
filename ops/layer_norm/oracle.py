"""layer_norm in float64."""

import numpy as np

from tests.oracles.numbers import norm_outputs, row_sum


def oracle(inputs: dict, options: dict) -> dict:
    if options.get("rounding", "fused") != "fused":  # not a matter of float64
        return {}
    r, residual = row_sum(inputs, options)
    centred = r - np.mean(r, axis=-1, keepdims=True)
    scale = 1 / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + options["eps"])
    y = centred * scale * (inputs.get("weight", 1.0) + options["weight_offset"]) + inputs.get("bias", 0.0)
    return residual | norm_outputs(y, inputs, options)

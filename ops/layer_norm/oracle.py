"""layer_norm in float64."""

import numpy as np


def oracle(inputs: dict, options: dict) -> dict:
    if "residual" in inputs:  # the norm reads the sum rounded to the residual's dtype, which float64 does not know
        return {"residual_out": inputs["x"] + inputs["residual"]}
    r = inputs["x"]
    centred = r - np.mean(r, axis=-1, keepdims=True)
    scale = 1 / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + options["eps"])
    y = centred * scale * (inputs.get("weight", 1.0) + options["weight_offset"]) + inputs.get("bias", 0.0)
    return {"out": y / inputs.get("scale", 1.0)}

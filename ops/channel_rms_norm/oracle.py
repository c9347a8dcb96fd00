"""channel_rms_norm in float64."""

import numpy as np


def oracle(inputs: dict, options: dict) -> dict:
    if options.get("rounding", "fused") != "fused":  # not a matter of float64
        return {}
    x = inputs["x"]
    channels = x.shape[1]
    length = np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.float64(np.float32(options["eps"])))
    y = x / inputs.get("length", length) * np.sqrt(channels)
    y = y * inputs.get("weight", np.ones(channels))[:, None] + inputs.get("bias", np.zeros(channels))[:, None]
    return {"out": y / (1 + np.exp(-y)) if options["activation"] == "silu" else y}

"""group_norm in float64."""

import numpy as np


def oracle(inputs: dict, options: dict) -> dict:
    x, groups = inputs["x"], int(options["groups"])
    batch, channels, spatial = x.shape
    parts = x.reshape(batch, groups, channels // groups * spatial)
    mean, variance = parts.mean(-1, keepdims=True), parts.var(-1, keepdims=True)
    y = ((parts - mean) / np.sqrt(variance + np.float64(np.float32(options["eps"])))).reshape(x.shape)
    y = y * inputs.get("weight", np.ones(channels))[:, None] + inputs.get("bias", np.zeros(channels))[:, None]
    return {"out": y / (1 + np.exp(-y)) if options["activation"] == "silu" else y}

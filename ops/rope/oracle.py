"""rope in float64; the angle alone is fp32 by definition."""

import numpy as np


def angles(position: np.ndarray, base: float, dim: int) -> np.ndarray:
    frequency = (float(base) ** (-2.0 * np.arange(dim // 2) / dim)).astype(np.float32)
    return (position.astype(np.float32)[..., None] * frequency).astype(np.float64)


def oracle(inputs: dict, options: dict) -> dict:
    if options.get("rounding", "fused") != "fused":  # not a matter of float64
        return {}
    x = inputs["x"]
    *batch, tokens, _, head_dim = x.shape
    dim = options["rotary_dim"] or head_dim
    position = inputs.get("positions")
    if position is None:
        position = np.broadcast_to(options["start"] + np.arange(tokens), (*batch, tokens))
    position = position.astype(np.int64)
    if "cos" in inputs:
        cos, sin = inputs["cos"][position], inputs["sin"][position]
    else:
        angle = angles(position, options["base"], dim)
        cos, sin = np.cos(angle), np.sin(angle)
    cos, sin = cos[..., None, :], sin[..., None, :]  # the same for every head
    out = x.copy()
    if options["pairs"] == "half":
        a, b = x[..., : dim // 2], x[..., dim // 2 : dim]
        out[..., : dim // 2], out[..., dim // 2 : dim] = a * cos - b * sin, b * cos + a * sin
    else:
        a, b = x[..., 0:dim:2], x[..., 1:dim:2]
        out[..., 0:dim:2], out[..., 1:dim:2] = a * cos - b * sin, b * cos + a * sin
    return {"out": out}

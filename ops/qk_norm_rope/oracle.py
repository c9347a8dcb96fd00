"""qk_norm_rope in float64; the angle alone is fp32 by definition."""

import numpy as np


def norm(x: np.ndarray, weight: np.ndarray | None, options: dict) -> np.ndarray:
    if options["norm"] == "none":
        return x
    axes = (-2, -1) if options["norm"] == "row" else (-1,)
    y = x / np.sqrt(np.mean(x * x, axis=axes, keepdims=True) + options["eps"])
    if weight is None:
        return y
    heads = weight.reshape(-1, x.shape[-1])  # one row for all heads, or each head's
    return y * (heads + options["weight_offset"])


def part_of(options: dict, pairs: int) -> np.ndarray:
    """Which of three positions turns each pair."""
    second, third = options["section2"], options["section3"]
    part = np.zeros(pairs, int)
    if options["sections"] == "alternate":
        part[1 : 3 * second : 3] = 1
        part[2 : 3 * third : 3] = 2
    else:
        part[pairs - third - second : pairs - third] = 1
        part[pairs - third :] = 2
    return part


def turns(inputs: dict, options: dict, head_dim: int) -> tuple[np.ndarray, np.ndarray]:
    *batch, tokens = inputs["q"].shape[:-2]
    dim = options["rotary_dim"] or head_dim
    if "head_cos" in inputs:
        return inputs["head_cos"], inputs["head_sin"]
    default = np.broadcast_to(options["start"] + np.arange(tokens) - options["prefix"], (*batch, tokens))
    positions = [
        inputs.get(name, default).astype(np.int64) for name in ("positions", "positions2", "positions3")
    ]
    part, pair = part_of(options, dim // 2), np.arange(dim // 2)
    position = np.stack(positions, axis=-1)[..., part]  # of each pair
    if "cos" in inputs:
        inside = np.clip(position, 0, len(inputs["cos"]) - 1)
        return inputs["cos"][inside, pair][..., None, :], inputs["sin"][inside, pair][..., None, :]
    if "frequencies" in inputs:
        frequency = inputs["frequencies"].astype(np.float32)
    else:
        frequency = (float(options["base"]) ** (-2.0 * pair / dim)).astype(np.float32)
    angle = (position.astype(np.float32) * frequency).astype(np.float64)[..., None, :]  # of every head
    return np.cos(angle), np.sin(angle)


def rotate(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, options: dict) -> np.ndarray:
    dim, out = 2 * cos.shape[-1], x.copy()
    first, second = (
        (slice(0, dim // 2), slice(dim // 2, dim))
        if options["pairs"] == "half"
        else (slice(0, dim, 2), slice(1, dim, 2))
    )
    a, b = x[..., first], x[..., second]
    out[..., first], out[..., second] = a * cos - b * sin, b * cos + a * sin
    prefix = options["prefix"]
    out[..., :prefix, :, :] = x[..., :prefix, :, :]
    return out


def oracle(inputs: dict, options: dict) -> dict:
    if options.get("rounding", "fused") != "fused":  # not a matter of float64
        return {}
    head_dim = inputs["q"].shape[-1]
    if head_dim == 0:
        return {}
    cos, sin = turns(inputs, options, head_dim)
    out = {}
    for name in ("q", "k", "v"):
        if name not in inputs:
            continue
        heads = inputs[name]
        if name != "v":
            heads = rotate(norm(heads, inputs.get(f"{name}_weight"), options), cos, sin, options)
        out[f"{name}_out"] = heads
        if f"{name}_cache" not in inputs:
            continue
        cache = inputs[f"{name}_cache"].copy()
        slots = inputs["slots"].astype(np.int64).ravel()
        scale = inputs.get(f"{name}_scale", np.ones(1))
        kept = (slots >= 0) & (slots < cache.shape[0] * cache.shape[1])
        rows = heads.reshape(-1, *heads.shape[-2:])[kept] / scale[:, None]
        cache[slots[kept] // cache.shape[1], slots[kept] % cache.shape[1]] = rows
        out[f"{name}_cache"] = cache
    return out

"""qkv_split_rope in float64; the angle alone is fp32 by definition."""

import numpy as np


def turn(heads: np.ndarray, cos: np.ndarray, sin: np.ndarray, dim: int, pairs: str) -> np.ndarray:
    cos, sin = cos[:, None, :], sin[:, None, :]  # the same for every head
    out = heads.copy()
    first, second = (
        (slice(0, dim // 2), slice(dim // 2, dim))
        if pairs == "half"
        else (slice(0, dim, 2), slice(1, dim, 2))
    )
    a, b = heads[..., first], heads[..., second]
    out[..., first], out[..., second] = a * cos - b * sin, b * cos + a * sin
    return out


def oracle(inputs: dict, options: dict) -> dict:
    qkv, k_cache, v_cache = inputs["qkv"], inputs["k_cache"].copy(), inputs["v_cache"].copy()
    tokens, (rows, kv_heads, head_dim) = qkv.shape[0], k_cache.shape
    if head_dim == 0:
        return {}
    heads = qkv.reshape(tokens, qkv.shape[1] // head_dim, head_dim)
    q, k, v = np.split(heads, [heads.shape[1] - 2 * kv_heads, heads.shape[1] - kv_heads], axis=1)
    dim = (options["rotary_dim"] or head_dim) if options.get("rotate", True) else 0
    row = options["cache_offset"] + int(np.ravel(inputs.get("cache_offset_add", 0))[0]) + np.arange(tokens)
    position = inputs.get("positions", row).astype(np.int64)
    if "cos" in inputs:
        cos, sin = inputs["cos"][position], inputs["sin"][position]
    else:
        frequency = (float(options["base"]) ** (-2.0 * np.arange(dim // 2) / dim)).astype(np.float32)
        angle = (position.astype(np.float32)[:, None] * frequency).astype(np.float64)
        cos, sin = np.cos(angle), np.sin(angle)
    inside = (row >= 0) & (row < rows)
    k_cache[row[inside]] = turn(k, cos, sin, dim, options["pairs"])[inside]
    v_cache[row[inside]] = v[inside]
    return {"q": turn(q, cos, sin, dim, options["pairs"]), "k_cache": k_cache, "v_cache": v_cache}

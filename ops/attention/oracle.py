"""attention in float64."""

import numpy as np


def oracle(inputs: dict, options: dict) -> dict:
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    batch, queries, heads, dim = q.shape
    keys = k.shape[1]
    scale = np.float64(np.float32(options.get("scale") or 1 / np.sqrt(dim)))
    group = heads // k.shape[2] if k.shape[2] else 1
    k, v = np.repeat(k, group, axis=2), np.repeat(v, group, axis=2)

    lengths = np.clip(inputs.get("kv_lengths", np.full(batch, keys)), 0, keys).reshape(batch, 1, 1, 1)
    key, query = np.arange(keys), np.arange(queries).reshape(1, 1, queries, 1)
    seen = np.broadcast_to(key < lengths, (batch, heads, queries, keys))
    if "key_mask" in inputs:
        seen = seen & (inputs["key_mask"] != 0).reshape(batch, 1, 1, keys)
    if "key_limits" in inputs:
        seen = seen & (key < inputs["key_limits"].reshape(batch, 1, queries, 1))
    left, right = options.get("window_left", -1), options.get("window_right", -1)
    position = query + lengths - queries
    if left >= 0:
        seen = seen & (key >= position - left)
    if right >= 0:
        seen = seen & (key <= position + right)
    if options.get("causal"):
        seen = seen & (key <= position)

    scores = np.einsum("bihd,bjhd->bhij", q, k) * scale
    cap = np.float64(np.float32(options.get("softcap") or 0))
    if cap:
        scores = cap * np.tanh(scores / cap)
    scores = np.where(seen, scores, -np.inf)
    sinks = inputs.get("sinks", np.full(heads, -np.inf)).reshape(1, heads, 1, 1)
    top = np.maximum(scores.max(axis=-1, keepdims=True, initial=-np.inf), sinks)
    base = np.where(np.isneginf(top), 0, top)
    weights = np.exp(scores - base)
    total = weights.sum(axis=-1, keepdims=True) + np.exp(sinks - base)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + base)[..., 0]
    out = np.einsum("bhij,bjhd->bihd", weights / np.where(total == 0, 1, total), v)
    return {"out": out, "lse": lse}

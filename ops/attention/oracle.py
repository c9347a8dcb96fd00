"""attention in float64."""

import numpy as np

SCALES = ("q_scale", "k_scale", "v_scale")


def oracle(inputs: dict, options: dict) -> dict:
    q = inputs["q"]
    if "cu_seqlens_q" not in inputs:
        return attend(of_pages(inputs), options)
    offsets = inputs["cu_seqlens_q"].astype(int)
    out, lse = np.zeros((*q.shape[:3], inputs["v"].shape[3])), np.zeros((1, q.shape[2], q.shape[1]))
    for s in range(len(offsets) - 1):
        rows = slice(offsets[s], offsets[s + 1])
        written = attend(of_pages(of_sequence(inputs, s, rows)), options)
        out[:, rows], lse[..., rows] = written["out"], written["lse"]
    return {"out": out, "lse": lse}


def of_sequence(inputs: dict, s: int, rows: slice) -> dict:
    """The call of one packed sequence: a batch of one."""
    one = {name: inputs[name] for name in ("k", "v", "sinks", *SCALES) if name in inputs}
    one["q"] = inputs["q"][:, rows]
    if "key_limits" in inputs:
        one["key_limits"] = inputs["key_limits"][:, rows]
    for name in ("kv_lengths", "block_table"):
        if name in inputs:
            one[name] = inputs[name][s : s + 1]
    if "cu_seqlens_k" in inputs:
        first, end = inputs["cu_seqlens_k"].astype(int)[s : s + 2]
        one["k"], one["v"] = one["k"][:, first:end], one["v"][:, first:end]
    return one


def of_pages(inputs: dict) -> dict:
    """The same with each batch's keys in one piece."""
    if "block_table" not in inputs:
        return inputs
    table = inputs["block_table"].astype(int)
    pages = inputs["k"].shape[0]
    there = ((table >= 0) & (table < pages)).reshape(*table.shape, 1, 1, 1)
    whole = dict(inputs)
    for name in ("k", "v"):
        cache = np.concatenate([inputs[name], np.zeros((1, *inputs[name].shape[1:]))])
        rows = np.where(there, cache[np.clip(table, 0, pages)], 0)
        whole[name] = rows.reshape(len(table), table.shape[1] * cache.shape[1], *cache.shape[2:])
    return whole


def attend(inputs: dict, options: dict) -> dict:
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    batch, queries, heads, dim = q.shape
    keys = k.shape[1]
    scale = np.float64(np.float32(options.get("scale") or 1 / np.sqrt(dim)))
    group = heads // k.shape[2] if k.shape[2] else 1
    factors = {name: np.broadcast_to(inputs.get(name, np.ones(1)), k.shape[2]) for name in SCALES}
    k = k * (factors["q_scale"] * factors["k_scale"])[:, None]
    v = v * factors["v_scale"][:, None]
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

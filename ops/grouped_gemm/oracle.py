"""grouped_gemm in float64: a product for each group."""

import numpy as np

from tests.oracles.numbers import activate, decoded


def oracle(inputs: dict, options: dict) -> dict:
    dtypes = options["dtypes"]
    b = inputs["b"]
    ends, counts = inputs.get("group_ends"), inputs.get("counts")
    out = np.zeros((*inputs["a"].shape[:-1], b.shape[1]))

    a = decoded(inputs["a"], dtypes["a"]) * inputs.get("a_scale", np.ones(1)).item()
    if "a_group_scale" in inputs:
        a = a * inputs["a_group_scale"].repeat(128, -1)[..., : a.shape[-1]]

    def product(rows: np.ndarray, name: str, bias: str, group: int) -> np.ndarray:
        weights = decoded(inputs[name], dtypes[name])[group]
        if f"{name}_scale" in inputs:
            weights = weights * inputs[f"{name}_scale"][group]
        if (blocks := inputs.get(f"{name}_block_scale")) is not None:
            scales = blocks[group].repeat(128, 0).repeat(128, 1)
            weights = weights * scales[: weights.shape[0], : weights.shape[1]]
        return rows @ weights.T + (inputs[bias][group] if bias in inputs else 0.0)

    begin = 0
    for group in range(b.shape[0]):
        if ends is None:
            # A slice ends where rows do.
            rows = np.s_[group, :] if counts is None else np.s_[group, : max(0, counts[group])]
        else:
            end = max(begin, min(ends[group], len(out)))
            rows, begin = np.s_[begin:end], end
        made = activate(options["activation"], product(a[rows], "b", "bias", group))
        out[rows] = made * product(a[rows], "up", "up_bias", group) if "up" in inputs else made
    return {"out": out}

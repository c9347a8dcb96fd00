"""merge_attention_states in float64."""

import numpy as np


def oracle(inputs: dict, options: dict) -> dict:
    a, b = (np.where(inputs[name] == np.inf, -np.inf, inputs[name]) for name in ("lse_a", "lse_b"))
    most = np.maximum(a, b)
    empty = most == -np.inf
    by_a, by_b = (np.where(empty, 0.0, np.exp(lse - np.where(empty, 0.0, most))) for lse in (a, b))
    total = np.where(empty, 1.0, by_a + by_b)

    def part(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        share = np.swapaxes(weight / total, 1, 2)[..., None]
        return np.where(share == 0, 0.0, share * x)

    lse = np.where(empty, -np.inf, most + np.log(total))
    return {"out": part(inputs["a"], by_a) + part(inputs["b"], by_b), "lse": lse}

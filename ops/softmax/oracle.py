"""softmax in float64."""

import numpy as np


def oracle(inputs: dict, options: dict) -> dict:
    with np.errstate(invalid="ignore"):
        logits = inputs["x"] * options["scale"]
        top = np.max(logits, axis=-1, keepdims=True, initial=-np.inf)
        e = np.exp(logits - np.where(np.isneginf(top), 0.0, top))
        total = np.sum(e, axis=-1, keepdims=True)
        return {"out": np.where(total == 0, 0.0, e / np.where(total == 0, 1.0, total))}

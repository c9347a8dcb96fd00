"""reduce in float64."""

import numpy as np


def oracle(inputs: dict, options: dict) -> dict:
    terms = np.asarray(inputs["x"], np.float64) * np.asarray(inputs.get("factor", 1.0), np.float64)
    found = {
        "sum": np.sum,
        "mean": lambda t, axis: np.sum(t, axis=axis) / np.float64(t.shape[axis]),
        "max": lambda t, axis: np.max(t, axis=axis, initial=-np.inf),
        "amax": lambda t, axis: np.max(np.abs(t), axis=axis, initial=0.0),
    }[options["kind"]]
    return {"out": np.reshape(found(terms, axis=-1), terms.shape[:-1] or (1,))}

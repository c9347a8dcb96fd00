"""copy: the very values."""

import numpy as np


def oracle(inputs: dict, options: dict) -> dict:
    if "x" in inputs:
        return {"out": inputs["x"]}
    value, dtype = np.float64(np.float32(options["value"])), options["dtypes"]["out"]
    if dtype.startswith(("int", "uint")):
        limits = np.iinfo(dtype)
        return {"out": np.clip(value, float(limits.min), float(limits.max))}
    return {"out": value}

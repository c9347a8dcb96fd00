"""copy: the very values."""

import numpy as np


def oracle(inputs: dict, options: dict) -> dict:
    if "x" in inputs:
        return {"out": inputs["x"]}
    value, dtype = np.float64(np.float32(options["value"])), options["dtypes"]["out"]
    if dtype.startswith("fp8"):
        largest = 448.0 if dtype == "fp8_e4m3" else 57344.0
        return {"out": np.clip(value, -largest, largest)}
    if dtype.startswith(("int", "uint")):
        limits = np.iinfo(dtype)
        return {"out": np.clip(value, float(limits.min), float(limits.max))}
    return {"out": value}

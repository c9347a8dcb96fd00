"""euler_step in float64; eager with NumPy's roundings."""

import numpy as np

from tests.oracles.numbers import rounded


def oracle(inputs: dict, options: dict) -> dict:
    eager, dtype = options["rounding"] == "eager", options["dtypes"]["velocity"]

    def after(x: np.ndarray, to: str = dtype) -> np.ndarray:
        return rounded(x, to) if eager else x

    v = inputs["velocity"]
    if "conditional" in inputs:
        change = after(inputs["conditional"] - v)
        v = after(v + after(np.float64(np.float32(options["guidance"])) * change))
    y = after(np.float64(np.float32(options["step"])) * v)
    if "sample" in inputs:
        y = after(inputs["sample"] + y, "fp32")
    return {"out": y}

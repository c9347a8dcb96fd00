"""amax in float64."""

import numpy as np


def oracle(inputs: dict, options: dict) -> dict:
    x, amax = inputs["x"], np.maximum(inputs["amax"], 0)
    return {"amax": np.maximum(amax, np.max(np.abs(x), initial=0))}

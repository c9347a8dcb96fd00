"""histogram with NumPy's own count."""

import numpy as np


def oracle(inputs: dict, options: dict) -> dict:
    return {"counts": np.bincount(np.asarray(inputs["x"], np.int64).ravel(), minlength=int(options["bins"]))}

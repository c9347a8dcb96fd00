"""timestep_embedding in float64."""

import numpy as np


def oracle(inputs: dict, options: dict) -> dict:
    t, dim = np.asarray(inputs["t"], np.float64), int(options["dim"])
    half = dim // 2
    number = {name: float(np.float32(options[name])) for name in ("scale", "max_period", "downscale")}
    if half == 0:
        return {"out": np.zeros((t.shape[0], dim))}
    frequency = number["max_period"] ** (-np.arange(half) / (half - number["downscale"]))
    angle = number["scale"] * t[:, None] * frequency
    parts = [np.cos(angle), np.sin(angle)] if options["cos_first"] else [np.sin(angle), np.cos(angle)]
    return {"out": np.concatenate([*parts, np.zeros((t.shape[0], dim % 2))], axis=1)}

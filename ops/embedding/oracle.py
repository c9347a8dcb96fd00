"""embedding in float64."""

import numpy as np


def oracle(inputs: dict, options: dict) -> dict:
    ids = inputs["ids"].astype(int)
    rows = inputs["table"][ids] * options["scale"]
    return {"out": np.where(ids[..., None] == -1, 0, rows)}

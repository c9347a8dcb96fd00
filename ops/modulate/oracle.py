"""modulate in float64."""

from tests.oracles.numbers import beside


def oracle(inputs: dict, options: dict) -> dict:
    if options.get("rounding", "fused") != "fused":  # not a matter of float64
        return {}
    y, index = inputs["x"], inputs.get("index")
    if "scale" in inputs:
        y = y * (options["offset"] + beside(inputs["scale"], y, index))
    if "shift" in inputs:
        y = y + beside(inputs["shift"], y, index)
    return {"out": y}

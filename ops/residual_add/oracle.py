"""residual_add in float64."""

from tests.oracles.numbers import beside


def oracle(inputs: dict, options: dict) -> dict:
    if options.get("rounding", "fused") != "fused":  # not a matter of float64
        return {}
    y = inputs["x"] + inputs.get("bias", 0.0)
    if "gate" in inputs:
        y = y * beside(inputs["gate"], y, inputs.get("index"))
    return {"out": y + inputs["residual"]}

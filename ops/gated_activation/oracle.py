"""gated_activation in float64."""

import math

import numpy as np

from tests.oracles.numbers import decoded, linear, scaled

ERF = np.vectorize(math.erf, otypes=[float])
ERFC = np.vectorize(math.erfc, otypes=[float])


def activate(name: str, x: np.ndarray) -> np.ndarray:
    if name in ("silu", "gelu_quick"):
        return x / (1 + np.exp(-x if name == "silu" else -1.702 * x))
    if name == "sigmoid":
        return 1 / (1 + np.exp(-x))
    if name == "relu":
        return np.where(x < 0, 0, x)
    if name == "gelu_tanh":
        # 1 + tanh z loses its digits where z is far below 0; there it is 2·exp(2z) / (1 + exp(2z)).
        z = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return np.where(z > -1, 0.5 * x * (1 + np.tanh(z)), x * np.exp(2 * z) / (1 + np.exp(2 * z)))
    return np.where(x > -1, 0.5 * x * (1 + ERF(x / math.sqrt(2))), 0.5 * x * ERFC(-x / math.sqrt(2)))


def half(inputs: dict, name: str, dtypes: dict) -> np.ndarray:
    x = decoded(inputs[name], dtypes[name])
    if f"{name}_scale" not in inputs:
        return x
    rows = x.reshape(-1, x.shape[-1])
    scales = linear(inputs[f"{name}_scale"], rows.shape[0], -(-rows.shape[1] // 16))
    return (rows * scales.repeat(16, 1)[:, : rows.shape[1]]).reshape(x.shape)


def oracle(inputs: dict, options: dict) -> dict:
    if options.get("rounding", "fused") != "fused":  # not a matter of float64
        return {}
    if "x" in inputs:
        gate, up = np.split(inputs["x"], 2, axis=-1)
    else:
        gate, up = (half(inputs, name, options["dtypes"]) for name in ("gate", "up"))
    gate, up = gate + inputs.get("gate_bias", 0.0), up + inputs.get("up_bias", 0.0)
    product = activate(options["activation"], gate) * up * inputs.get("channel_multiplier", 1.0)
    return scaled(product, inputs, options)

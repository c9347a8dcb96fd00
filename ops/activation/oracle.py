"""activation in float64."""

from math import erfc

import numpy as np

from tests.oracles.numbers import rounded, scaled


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(lambda v: erfc(-v / np.sqrt(2)) / 2, otypes=[float])(x)


def _piecewise(name: str, x: np.ndarray, alpha: float, eager: bool) -> np.ndarray:
    below = {
        "relu": np.zeros_like(x),
        "relu2": np.zeros_like(x),
        "leaky_relu": alpha * x,
        "elu": alpha * np.expm1(np.minimum(x, 0)),
    }
    if name in below:
        return np.where(x < 0, below[name], x * x if name == "relu2" else x)
    if name == "hardswish":
        inside = x * np.clip(x + 3, 0, 6) / 6
        return inside if eager else np.where(x <= -3, 0.0, inside)
    return np.where(np.abs(x) <= alpha, 0.0, x) if name == "hardshrink" else x


def _activated(name: str, x: np.ndarray, alpha: float, eager: bool) -> np.ndarray:
    arguments = {
        "silu": x,
        "gelu_quick": 1.702 * x,
        "gelu_tanh": 2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3),
        "sigmoid": x,
    }
    if name in arguments:
        return (1.0 if name == "sigmoid" else x) / (1 + np.exp(-arguments[name]))
    if name == "gelu_erf":
        return x * _erf(x)
    return np.tanh(x) if name == "tanh" else _piecewise(name, x, alpha, eager)


def oracle(inputs: dict, options: dict) -> dict:
    x, eager = inputs["x"], options["rounding"] == "eager"
    for term in ("add", "bias"):
        if term in inputs:
            x = x + inputs[term]
            x = rounded(x, options["dtypes"]["x"]) if eager else x
    y = _activated(options["activation"], x, float(np.float32(options["alpha"])), eager)
    if "front" in inputs:
        y = np.concatenate([inputs["front"], y], axis=-1)
    return scaled(y, inputs, options)

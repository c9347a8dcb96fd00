"""gemm in float64."""

import math

import numpy as np

from tests.oracles.numbers import beside


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * np.vectorize(math.erfc, otypes=[np.float64])(-x / math.sqrt(2))


def activate(name: str, x: np.ndarray) -> np.ndarray:
    if name == "none":
        return x
    if name == "silu":
        return x / (1 + np.exp(-x))
    return gelu_tanh(x) if name == "gelu_tanh" else gelu_erf(x)


def oracle(inputs: dict, options: dict) -> dict:
    def scale(name: str) -> float:
        return inputs.get(name, np.ones(1)).item()

    def weights(name: str) -> np.ndarray:
        blocks = inputs.get(f"{name}_block_scale")
        if blocks is None:
            return inputs[name]
        n, k = inputs[name].shape
        return inputs[name] * blocks.repeat(128, 0)[:n].repeat(128, 1)[:, :k]

    a = inputs["a"] * scale("a_scale")
    if "a_group_scale" in inputs:
        a = a * inputs["a_group_scale"].repeat(128, -1)[..., : a.shape[-1]]
    if "a_token_scale" in inputs:
        a = a * inputs["a_token_scale"].reshape(*a.shape[:-1], 1)
    b_scale, up_scale = (
        scale(f"{name}_scale") * inputs.get(f"{name}_channel_scale", 1.0) for name in ("b", "up")
    )
    out = a @ weights("b").T * b_scale + inputs.get("bias", 0.0)
    out = activate(options["activation"], out)
    if "up" in inputs:
        out = out * (a @ weights("up").T * up_scale + inputs.get("up_bias", 0.0))
    for name, combine in (("gate", np.multiply), ("residual", np.add)):
        if name in inputs:
            out = combine(out, beside(inputs[name], out))
    return {"out": out / scale("out_scale")}

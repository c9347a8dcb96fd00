"""JAX: the formula under jit. XLA works on a stream of its own, so that there is an eager time alone."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from weft.baselines import Baseline, Case, Compute, Tensors, imported, installed

# The card's memory is the other sides' as well. Read when JAX is first imported.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# Casts to 16 bits inside of a fused kernel round, as the formula says.
os.environ.setdefault("XLA_FLAGS", "--xla_allow_excess_precision=false")


class JaxJit(Baseline):
    name = "jax jit"
    about = "the formula in JAX, compiled by XLA"
    own_stream = True

    def version(self) -> str:
        found = installed("jax")
        imported("jax")
        return found

    def missing(self, on_gpu: bool) -> str:
        jax = imported("jax")
        return "this JAX has no CUDA" if on_gpu and jax.default_backend() != "gpu" else ""

    def prepare(self, case: Case) -> Compute | None:
        compute = _formula(case)
        if compute is None:
            return None
        jax = imported("jax")
        jitted = jax.jit(compute)
        names = [name for name in case.tensors if name not in ("out", "residual_out")]

        def call(t: Tensors) -> dict[str, torch.Tensor]:
            results = jitted({name: jax.dlpack.from_dlpack(t[name].detach()) for name in names})
            jax.block_until_ready(results)
            return {name: from_dlpack(array) for name, array in results.items()}

        return call


# What the formulas know of each op.
_FIELDS = {
    "rms_norm": ("x", "weight", "bias", "residual", "residual_out", "out"),
    "softmax": ("x", "out"),
    "gated_activation": ("x", "gate", "up", "out"),
    "residual_add": ("x", "residual", "bias", "out"),
}


def _formula(case: Case) -> Any:
    """Norms, softmax and gated activations in 16 or 32 bits."""
    if not case.only(*_FIELDS.get(case.op, ())):
        return None
    floats = all(t.dtype in ("bf16", "fp16", "fp32") for t in case.tensors.values())
    if not floats or case.options.get("rounding", "fused") != "fused":
        return None
    jax = imported("jax")
    jnp, lax, o = jax.numpy, jax.lax, case.options
    dtype = {"bf16": jnp.bfloat16, "fp16": jnp.float16, "fp32": jnp.float32}[case.dtype("out")]

    def rms_norm(t: dict[str, Any]) -> dict[str, Any]:
        total = t["x"]
        if "residual" in t:
            total = (t["x"].astype(jnp.float32) + t["residual"].astype(jnp.float32)).astype(
                t["residual"].dtype
            )
        x = total.astype(jnp.float32)
        y = x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + o["eps"])
        if "weight" in t:
            y = y * (t["weight"].astype(jnp.float32) + o["weight_offset"])
        if "bias" in t:
            y = y + t["bias"].astype(jnp.float32)
        return {"out": y.astype(dtype)} | ({"residual_out": total} if case.has("residual_out") else {})

    def softmax(t: dict[str, Any]) -> dict[str, Any]:
        return {"out": jax.nn.softmax(t["x"].astype(jnp.float32) * o["scale"], -1).astype(dtype)}

    def gated_activation(t: dict[str, Any]) -> dict[str, Any]:
        gate, up = jnp.split(t["x"], 2, -1) if "x" in t else (t["gate"], t["up"])
        gate = gate.astype(jnp.float32)
        name = o["activation"]
        act = jax.nn.silu(gate) if name == "silu" else jax.nn.gelu(gate, approximate=name == "gelu_tanh")
        return {"out": (act * up.astype(jnp.float32)).astype(dtype)}

    def residual_add(t: dict[str, Any]) -> dict[str, Any]:
        x = t["x"].astype(jnp.float32)
        x = x + t["bias"].astype(jnp.float32) if "bias" in t else x
        return {"out": (x + t["residual"].astype(jnp.float32)).astype(dtype)}

    return {"rms_norm": rms_norm, "softmax": softmax, "gated_activation": gated_activation}.get(
        case.op, residual_add
    )


BASELINES = [JaxJit()]

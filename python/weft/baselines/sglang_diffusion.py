"""SGLang's fused kernels of diffusion transformers: in CuTe, in Triton, and those of its kda_kernels.

Of several that compute a case the one that SGLang's own models call for it. Kernels of its that round between two
steps, as PyTorch does unfused, are taken as well; the harness says where that is not what the op computes.
"""

from __future__ import annotations

from typing import Any

import torch

from weft.baselines import Baseline, Case, Compute, Tensors, imported, installed

_DIFFUSION = "sglang.kernels.ops.diffusion"


class SglangDiffusion(Baseline):
    name = "sglang diffusion"
    about = "SGLang's kernels of diffusion models: norms, norm(x) * (1 + scale) + shift, SwiGLU, fp8 rows"
    needs_gpu = True

    def version(self) -> str:
        found = installed("sglang")
        imported(_DIFFUSION)
        return found

    def prepare(self, case: Case) -> Compute | None:
        found = {
            "layer_norm": _layer_norm,
            "rms_norm": _rms_norm,
            "gated_activation": _gated_activation,
            "quantize": _quantize,
        }.get(case.op)
        return found(case) if found else None


def _kernel(module: str, name: str) -> Any:
    return getattr(imported(f"{_DIFFUSION}.{module}"), name)


def _rows(x: torch.Tensor) -> torch.Tensor:
    """As [1, rows, dim]."""
    return x.reshape(1, -1, x.shape[-1])


def _layer_norm(case: Case) -> Compute | None:
    plain = case.options["rounding"] == "fused" and case.dtype("x") == case.dtype("out") == "bf16"
    if not plain or not case.only("x", "weight", "bias", "residual", "residual_out", "out"):
        return None
    return _modulated_norm(case) or _affine_norm(case) or _stored_norm(case)


def _affine(case: Case, dtype: str, of: int, most: int) -> bool:
    """Are weight and bias rows of `dtype`, their length a multiple of `of` and at most `most`?"""
    dim = case.tensors["x"].shape[-1]
    return case.dtype("weight") == case.dtype("bias") == dtype and dim % of == 0 and dim <= most


def _modulated_norm(case: Case) -> Compute | None:
    """Weight and bias are a row of scale and shift: `weight_offset=1`."""
    if case.options["weight_offset"] != 1 or not _affine(case, "bf16", 256, 8192):
        return None
    module, eps = imported(f"{_DIFFUSION}.norm.scale_residual_norm_cutedsl"), case.options["eps"]

    def call(t: Tensors) -> dict[str, torch.Tensor]:
        scale, shift, x = t["weight"], t["bias"], _rows(t["x"])
        if "residual" not in t:
            y = module.fused_norm_scale_shift(x, None, None, scale, shift, "layer", eps)
            return {"out": y.reshape(t["out"].shape)}
        y, total = module.fused_scale_residual_norm_scale_shift(
            _rows(t["residual"]), x, None, None, None, scale, shift, "layer", eps
        )
        kept = {"residual_out": total.reshape(t["out"].shape)} if "residual_out" in t else {}
        return {"out": y.reshape(t["out"].shape)} | kept

    return call


def _affine_norm(case: Case) -> Compute | None:
    """Weight and bias in fp32, or scale and shift."""
    offset, eps = case.options["weight_offset"], case.options["eps"]
    if offset not in (0, 1) or case.has("residual") or not _affine(case, "fp32", 4, 8192):
        return None
    norm = imported("sglang.kernels.kda_kernels.layernorm_modulate_triton").try_fused_fp32_layernorm_bf16

    def call(t: Tensors) -> dict[str, torch.Tensor]:
        y = norm(_rows(t["x"]), t["weight"][None], t["bias"][None], eps, affine=offset == 0)
        return {"out": y.reshape(t["out"].shape)}

    return call


def _stored_norm(case: Case) -> Compute | None:
    """Weight and bias as a model stores them, either or both."""
    if case.options["weight_offset"] != 0 or case.has("residual") or case.tensors["x"].shape[-1] > 32768:
        return None
    norm = _kernel("norm.norm_triton", "norm_infer")

    def call(t: Tensors) -> dict[str, torch.Tensor]:
        y = norm(_rows(t["x"])[0], t.get("weight"), t.get("bias"), case.options["eps"])
        return {"out": y.reshape(t["out"].shape)}

    return call


def _rms_norm(case: Case) -> Compute | None:
    plain = case.options["rounding"] == "fused" and case.options["weight_offset"] == 0
    dim, alike = case.tensors["x"].shape[-1], len({t.dtype for t in case.tensors.values()}) == 1
    # A program of it holds up to 16 rows: longer ones are beyond what Triton takes.
    if not plain or not alike or dim > 16384 or set(case.tensors) != {"x", "weight", "out"}:
        return None
    norm = _kernel("norm.rmsnorm_onepass_triton", "triton_one_pass_rms_norm")
    return lambda t: {"out": norm(t["x"], t["weight"], case.options["eps"])}


def _gated_activation(case: Case) -> Compute | None:
    silu = case.options["activation"] == "silu" and case.only("x", "out")
    if not silu or case.dtype("x") != "bf16" or case.dtype("out") != "bf16":
        return None
    gate = _kernel("activation.silu_mul_bitexact", "fused_packed_silu_mul_bitexact")
    return lambda t: {"out": gate(_rows(t["x"])).reshape(t["out"].shape)}


def _quantize(case: Case) -> Compute | None:
    dims = case.tensors["x"].shape
    rows = len(dims) == 2 and dims[1] <= 16384 and case.has("token_scale") and not case.has("scale")
    if not rows or case.dtype("out") != "fp8_e4m3" or not case.only("x", "token_scale", "out"):
        return None
    quantize = _kernel("quantization.fp8_rowwise_triton", "fp8_rowwise")

    def call(t: Tensors) -> dict[str, torch.Tensor]:
        codes, scale = quantize(t["x"])
        return {"out": codes, "token_scale": scale}

    return call


BASELINES = [SglangDiffusion()]

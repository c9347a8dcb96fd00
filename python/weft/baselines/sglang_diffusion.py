"""SGLang's fused kernels of diffusion transformers (CuTe and, inside it, the kernels of its kda_kernels)."""

from __future__ import annotations

import torch

from weft.baselines import Baseline, Case, Compute, Tensors, imported, installed

_MODULE = "sglang.kernels.ops.diffusion.norm.scale_residual_norm_cutedsl"


class SglangDiffusion(Baseline):
    name = "sglang diffusion"
    about = "norm(x) * (1 + scale) + shift of SGLang's diffusion engine"
    needs_gpu = True

    def version(self) -> str:
        found = installed("sglang")
        imported(_MODULE)
        return found

    def prepare(self, case: Case) -> Compute | None:
        """LayerNorm whose weight and bias are a row of scale and shift: `weight_offset=1`."""
        fields = ("x", "weight", "bias", "residual", "residual_out", "out")
        modulated = case.op == "layer_norm" and case.options["weight_offset"] == 1 and case.has("weight")
        if not modulated or not case.has("bias") or not case.only(*fields):
            return None
        dim, eps = case.tensors["x"].shape[-1], case.options["eps"]
        if dim % 256 != 0 or dim > 8192 or case.dtype("out") != case.dtype("x"):
            return None
        module = imported(_MODULE)

        def rows(x: torch.Tensor) -> torch.Tensor:
            return x.reshape(1, -1, dim)

        def call(t: Tensors) -> dict[str, torch.Tensor]:
            scale, shift, x = t["weight"], t["bias"], rows(t["x"])
            if "residual" not in t:
                y = module.fused_norm_scale_shift(x, None, None, scale, shift, "layer", eps)
                return {"out": y.reshape(t["out"].shape)}
            y, total = module.fused_scale_residual_norm_scale_shift(
                rows(t["residual"]), x, None, None, None, scale, shift, "layer", eps
            )
            kept = {"residual_out": total.reshape(t["out"].shape)} if "residual_out" in t else {}
            return {"out": y.reshape(t["out"].shape)} | kept

        return call


BASELINES = [SglangDiffusion()]

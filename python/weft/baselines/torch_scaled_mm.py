"""torch._scaled_mm: cuBLASLt's fp8 product with one scale a tensor."""

from __future__ import annotations

import torch

from weft.baselines import Baseline, Case, Compute, Tensors
from weft.torch import DTYPES


class TorchScaledMm(Baseline):
    name = "torch._scaled_mm"
    about = "cuBLASLt through PyTorch, fp8 with one scale a tensor"
    needs_gpu = True

    def version(self) -> str:
        return str(torch.__version__)

    def prepare(self, case: Case) -> Compute | None:
        plain = case.op == "gemm" and case.options["activation"] == "none" and case.has("a_scale", "b_scale")
        if not plain or not case.only("a", "b", "a_scale", "b_scale", "bias", "out"):
            return None
        if not case.dtype("a").startswith("fp8") or case.dtype("out").startswith("fp8"):
            return None
        dtype, fast = DTYPES[case.dtype("out")], bool(case.options["fast_accumulation"])

        def call(t: Tensors) -> dict[str, torch.Tensor]:
            a = t["a"].reshape(-1, t["a"].shape[-1])
            one = torch.ones(1, device=a.device)
            y = torch._scaled_mm(
                a,
                t["b"].t(),
                t.get("a_scale", one),
                t.get("b_scale", one),
                bias=t.get("bias"),
                out_dtype=dtype,
                use_fast_accum=fast,
            )
            return {"out": y.reshape(t["out"].shape)}

        return call


BASELINES = [TorchScaledMm()]
